//! The leader killed in the middle: what clients of etcd hold, wait for and watch goes on; and the time that a lease has left
//! survives that and a restart, which it does not with etcd.

use std::time::Duration;

use serde_json::{Value, json};

use super::clients::{Answers, found};
use super::compare::differences;
use super::ours::{One, Three, speaks_etcd};
use super::played::client;
use super::real::Etcd;
use crate::http::Client;
use crate::runs::soon;
use crate::server::heavy;

/// Plays the scenes of a fail-over; `kill` kills the leader and returns when another one leads.
fn play(endpoints: &[String], kill: impl FnOnce()) -> Answers {
    let mut playing = client("rust").start(&["--fail-over", &endpoints.join(",")]);
    playing.until("ready");
    kill();
    playing.go_on();
    playing.end();
    playing.answers()
}

/// What each scene must answer: nothing is lost.
fn nothing_is_lost() -> Answers {
    let answers = [
        ("a stream keeps a lease alive", json!({ "renewed each time, in full": true, "lives": true })),
        (
            "a lock stays with its holder, then goes to who waited",
            json!({ "still held": true, "not yet handed over": true, "then handed over": { "Ok": true } }),
        ),
        (
            "who waited at the killed one finds its place again",
            json!({ "told": true, "served before who came later": true }),
        ),
        (
            "an incumbent leads on, and observers hear of it",
            json!({ "heard": ["before", "after"], "the same incumbent": true }),
        ),
        ("a watch sees everything once", json!({ "every event once, in order": true, "some": true })),
        ("a watch at the killed one goes on elsewhere", json!({ "told": true, "every event once, in order": true })),
        ("the time left is not given again", json!({ "not more than before": true, "not lost": true })),
    ];
    answers.into_iter().map(|(scene, answer)| (format!("fail-over: {scene}"), answer)).collect()
}

#[test]
fn the_scenes_of_a_fail_over_show_what_a_real_etcd_forgets() {
    if !client("rust").is_there() || found("LEASEHOLD_ETCD").is_none() {
        return;
    }
    let _alone = heavy();
    let mut etcd = Etcd::of(3).expect("it is there");
    let (leader, endpoints) = etcd.leader_first();
    let answers = play(&endpoints, || etcd.kill(leader));
    let lost = differences(&nothing_is_lost(), &answers);
    println!("a real etcd: {lost:#?}");
    // Whether streams break there depends on the moment; that the time left is forgotten does not.
    assert!(lost.iter().any(|one| one.at == ["not more than before"]), "{answers:#?}");
}

#[test]
fn when_the_leader_is_killed_clients_of_etcd_lose_nothing() {
    if !client("rust").is_there() || !speaks_etcd() {
        return;
    }
    let _alone = heavy();
    let mut three = Three::start();
    let (leader, endpoints) = three.leader_first();
    let answers = play(&endpoints, || {
        three.cluster.kill(leader);
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        three.cluster.leader_among(&others);
    });
    assert_eq!(differences(&nothing_is_lost(), &answers), Vec::new(), "{answers:#?}");
}

#[test]
fn the_time_left_survives_a_restart() {
    if !speaks_etcd() {
        return;
    }
    let mut one = One::start();
    let ask = |path: &str, body: Value| -> Value {
        let mut client = Client::new(one.endpoint.trim_start_matches("http://").parse().unwrap());
        client.post(path, &body).expect(200).json
    };
    let lease = ask("/v3/lease/grant", json!({ "TTL": 60 }))["ID"].clone();
    let left =
        || -> i64 { ask("/v3/lease/timetolive", json!({ "ID": lease }))["TTL"].as_str().unwrap().parse().unwrap() };
    let before = soon("some seconds", || Some(left()).filter(|left| *left < 57));
    one.server.kill();
    one.server.restart();
    let after = soon("an answer", || {
        let mut client = Client::new(one.endpoint.trim_start_matches("http://").parse().unwrap());
        client.patience = Duration::from_secs(2);
        let answer = client.try_post("/v3/lease/timetolive", &json!({ "ID": lease })).ok()?;
        answer.json["TTL"].as_str()?.parse::<i64>().ok()
    });
    println!("{before} s left before the restart, {after} s after");
    assert!(after <= before && after > 0, "{before} s left before the restart, {after} s after");
}
