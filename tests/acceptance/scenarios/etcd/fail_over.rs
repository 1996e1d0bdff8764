//! The leader killed in the middle: what clients of etcd hold, wait for and watch goes on; and the time that a lease has left
//! survives that and a restart, which it does not with etcd. Without a quorum clients are told so in etcd's words.

use std::time::Duration;

use serde_json::{Value, json};

use super::clients::Answers;
use super::compare::{differences, insist};
use super::ours::{One, Three};
use super::played::client;
use super::real::Etcd;
use crate::http::Client;
use crate::runs::soon;
use crate::server::heavy;

/// Plays the scenes of a fault: `strike` strikes when everything is under way.
fn play(id: &str, words: [&str; 2], strike: impl FnOnce()) -> Answers {
    let mut playing = client(id).start(&words);
    playing.until("ready");
    strike();
    playing.go_on();
    playing.end();
    playing.answers()
}

/// Plays a fail-over with a real etcd of three.
fn with_etcd(id: &str) -> Option<Answers> {
    let mut etcd = Etcd::of(3)?;
    let (leader, endpoints) = etcd.leader_first();
    Some(play(id, ["--fail-over", &endpoints.join(",")], || etcd.kill_leader(leader)))
}

/// Plays a fail-over with three nodes of ours.
fn with_ours(id: &str) -> Answers {
    let mut three = Three::start();
    let (leader, endpoints) = three.leader_first();
    play(id, ["--fail-over", &endpoints.join(",")], || {
        three.cluster.kill(leader);
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        three.cluster.leader_among(&others);
    })
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

/// What `etcdctl` must show, whatever is killed.
fn processes_go_on() -> Answers {
    let answer = json!({
        "lease kept alive": true,
        "watch goes on": [true, ["PUT", "ctl/over/a", "1", "PUT", "ctl/over/b", "2"]],
        "lock held": [true, true, []],
        "incumbent leads": [true, 2],
        "lock handed over": true,
        "nothing was seen twice": 2,
    });
    vec![("fail-over: processes go on".to_owned(), answer)]
}

#[test]
fn the_scenes_of_a_fail_over_show_what_a_real_etcd_forgets() {
    if !client("rust").is_there() {
        return;
    }
    let _alone = heavy();
    let Some(answers) = with_etcd("rust") else { return };
    let lost = differences(&nothing_is_lost(), &answers);
    println!("a real etcd: {lost:#?}");
    // Whether streams break there depends on the moment; that the time left is forgotten does not.
    assert!(lost.iter().any(|one| one.at == ["not more than before"]), "{answers:#?}");
}

#[test]
fn the_scenes_of_etcdctl_are_played_right_with_a_real_etcd() {
    if !client("etcdctl").is_there() {
        return;
    }
    let _alone = heavy();
    let Some(answers) = with_etcd("etcdctl") else { return };
    assert_eq!(differences(&processes_go_on(), &answers), Vec::new());
}

#[test]
fn when_the_leader_is_killed_clients_of_etcd_lose_nothing() {
    if !client("rust").is_there() {
        return;
    }
    let _alone = heavy();
    let answers = with_ours("rust");
    assert_eq!(differences(&nothing_is_lost(), &answers), Vec::new(), "{answers:#?}");
}

#[test]
fn when_the_leader_is_killed_processes_of_etcdctl_go_on() {
    if !client("etcdctl").is_there() {
        return;
    }
    let _alone = heavy();
    assert_eq!(differences(&processes_go_on(), &with_ours("etcdctl")), Vec::new());
}

#[test]
fn without_a_quorum_clients_are_told_what_etcd_tells_them() {
    if !client("rust").is_there() {
        return;
    }
    let _alone = heavy();
    let Some(mut etcd) = Etcd::of(3) else { return };
    let (_, endpoints) = etcd.leader_first();
    let theirs = play("rust", ["--without-quorum", &endpoints[1]], || etcd.kill_all_but(&endpoints[1]));
    println!("a real etcd: {theirs:#?}");
    assert_eq!(theirs.len(), 1);
    let mut three = Three::start();
    let (leader, endpoints) = three.leader_first();
    let stays = (0..3).find(|number| three.endpoints[*number] == endpoints[1]).unwrap();
    let ours = play("rust", ["--without-quorum", &endpoints[1]], || {
        three.cluster.kill(leader);
        three.cluster.kill(3 - leader - stays);
    });
    insist(client("rust"), &theirs, &ours);
}

#[test]
fn the_time_left_survives_a_restart() {
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
