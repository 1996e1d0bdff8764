//! How long a cluster is without a leader, and that leases still end however often the leader changes.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::{LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, LAN, Plan};
use crate::runs::soon;
use crate::server::heavy;

/// What a busy machine in debug may take; the promised time is printed beside what was measured.
const GENEROUS: Duration = Duration::from_secs(5);
const ROUNDS: usize = 4;
const GRACE: Duration = Duration::from_millis(500);

#[test]
fn after_a_kill_of_the_leader_another_node_acknowledges_soon() {
    let _alone = heavy();
    for (name, config, promised) in [("default", "", 1500), ("LAN", LAN, 600)] {
        let mut cluster = Cluster::with(3, Plan { config: config.to_owned(), ..Plan::default() });
        let mut took = Vec::new();
        for round in 0..ROUNDS {
            let leader = cluster.leader();
            let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
            cluster.client(others[0]).post(LEASES, &grant("before", 60_000, &format!("{name}/b/{round}"))).expect(201);
            let killed = Instant::now();
            cluster.kill(leader);
            first_acknowledged(&cluster, &others, &format!("{name}/a/{round}"));
            took.push(killed.elapsed());
            cluster.restart(leader);
            // A node refuses votes for a moment after its start.
            thread::sleep(Duration::from_millis(800));
        }
        took.sort();
        println!("fail-over with {name} timeouts: {took:?} (promised: {promised} ms)");
        assert!(took.iter().all(|span| *span < GENEROUS), "{took:?}");
    }
}

/// Asks the nodes by turns until one grants.
fn first_acknowledged(cluster: &Cluster, numbers: &[usize], resource: &str) {
    let body = json!({ "id": format!("{:016x}", rand::random::<u64>() >> 1), "holder": "after", "ttl": "60s",
        "resource": resource });
    let mut turn = 0;
    soon("a grant", || {
        let mut client = cluster.client(numbers[turn % numbers.len()]);
        turn += 1;
        client.patience = Duration::from_secs(2);
        let answer = client.try_post(LEASES, &body).ok()?;
        (answer.status != 503).then(|| answer.expect(201))
    });
}

#[test]
fn a_lease_that_nobody_renews_ends_although_the_leader_changes_twenty_times() {
    let _alone = heavy();
    let mut cluster = Cluster::of_three();
    // Long enough for all changes on a slow machine; what is over earlier is not waited for.
    let ttl = Duration::from_secs(12);
    let granted = cluster.client(0).post(LEASES, &grant("dead", ttl.as_millis() as u64, "a")).expect(201);
    let mut outage = Duration::ZERO;
    for change in 0..20 {
        // One in five is a kill, the others are handed over.
        let leader = cluster.leader();
        let gone = Instant::now();
        if change % 5 == 4 {
            cluster.kill(leader);
            let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
            cluster.leader_among(&others);
            outage += gone.elapsed();
            cluster.restart(leader);
        } else {
            outage += cluster.transfer((leader + 1) % 3);
        }
    }
    let all = granted.sent.elapsed();
    println!("20 leader changes within {all:?}, {outage:?} of it perhaps without a leader");
    assert!(all < ttl, "the machine is too slow for this test: {all:?}");
    let id = id_of(&granted);
    let mut turn = 0;
    let ended = soon("its end", || {
        let mut client = cluster.client(turn % 3);
        turn += 1;
        client.patience = Duration::from_secs(2);
        let answer = client.send("GET", &lease(&id), &[], b"").ok()?;
        (answer.status == 410).then_some(answer)
    });
    let lived = ended.answered - granted.sent;
    println!("a lease of {ttl:?} ended after {lived:?}");
    assert_eq!(ended.json["ended"]["cause"], "expired");
    assert!(lived >= ttl, "it ended early");
    // Promise 5, and a moment for the look at it.
    let most = ttl * 2 + GRACE + outage + Duration::from_secs(2);
    assert!(lived <= most, "it may live for {most:?}");
}
