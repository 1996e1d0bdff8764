//! A leader that is stopped and wakes: what was renewed through the others meanwhile is not lost.

use std::thread;
use std::time::{Duration, Instant};

use leasehold_sim::checkers::assert_kept;
use leasehold_sim::history::History;
use serde_json::json;

use crate::clients::{EVERYTHING, LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, LAN, Plan};
use crate::history;
use crate::http::{Client, Events};
use crate::runs::soon;
use crate::server::heavy;

const TTL: Duration = Duration::from_secs(2);
const LEASES_HELD: usize = 40;

#[test]
fn a_leader_stopped_for_two_and_a_half_ttls_takes_no_lease_that_was_renewed_through_the_others() {
    for config in ["", LAN] {
        let _alone = heavy();
        let mut cluster = Cluster::with(3, Plan { config: config.to_owned(), ..Plan::default() });
        let leader = cluster.leader();
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        let events = Events::open(cluster.nodes[others[0]].server.address, EVERYTHING, None).unwrap().expect("a watch");
        let mut client = cluster.client(leader);
        let mut held = Vec::new();
        let mut history = History::default();
        for number in 0..LEASES_HELD {
            let holder = format!("holder-{number}");
            let answer = client.post(LEASES, &grant(&holder, TTL.as_millis() as u64, &format!("r/{number}")));
            let answer = answer.expect(201);
            history.acks.push(history::ack(&holder, &answer));
            held.push((id_of(&answer), answer.token()));
        }
        cluster.pause(leader);
        let stopped = Instant::now();
        let ids: Vec<&str> = held.iter().map(|(id, _)| id.as_str()).collect();
        let mut renewals = 0;
        while stopped.elapsed() < TTL * 5 / 2 {
            renewals += renew(&mut cluster, &others, &ids, &mut history);
            thread::sleep(Duration::from_millis(200));
        }
        let next = cluster.leader_among(&others);
        cluster.resume(leader);
        let woken = Instant::now();
        // It believes to lead for a moment; everything it does then must come to nothing.
        while woken.elapsed() < Duration::from_secs(2) {
            renewals += renew(&mut cluster, &[0, 1, 2], &ids, &mut history);
            thread::sleep(Duration::from_millis(100));
        }
        for number in 0..3 {
            for (id, token) in &held {
                let read = soon("a read", || {
                    let answer = quick(&cluster, number).send("GET", &lease(id), &[], b"").ok()?;
                    (answer.status != 503).then_some(answer)
                });
                assert_eq!(read.expect(200).token(), *token, "seen on node {number}");
            }
        }
        let mut changes = Vec::new();
        while let Some(message) = events.change_within(Duration::from_millis(300)) {
            let change = history::change(&message);
            let ended = change.events.iter().find(|event| event.kind == "lease_ended");
            assert!(ended.is_none(), "a renewed lease ended: {ended:?}");
            changes.push(change);
        }
        println!("n{} was stopped, n{} led on, {renewals} rounds of renewals", leader + 1, next + 1);
        history.watched.push(history::watched("all", changes));
        assert_kept(&history);
    }
}

/// Renews all leases through the first of these nodes that answers; every one must live.
fn renew(cluster: &mut Cluster, numbers: &[usize], ids: &[&str], history: &mut History) -> usize {
    for number in numbers {
        let body = json!({ "leases": ids });
        let Ok(answer) = quick(cluster, *number).try_post(&format!("{LEASES}/renew"), &body) else { continue };
        if answer.status == 503 {
            continue;
        }
        let answer = answer.expect(200);
        for (number, result) in answer.json["results"].as_array().unwrap().iter().enumerate() {
            assert!(result["renewed"].is_object(), "lease {number}: {result}");
            history.acks.push(history::acked(&format!("holder-{number}"), &answer, &result["renewed"]));
        }
        return 1;
    }
    0
}

fn quick(cluster: &Cluster, number: usize) -> Client {
    let mut client = cluster.client(number);
    client.patience = Duration::from_secs(1);
    client
}
