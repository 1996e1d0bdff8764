//! Remaining times over fail-over, a restart of everything, and times in which nothing can be committed.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::{LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::http::{Answer, Client};
use crate::runs::soon;
use crate::wires::Net;

const TTL: Duration = Duration::from_secs(20);
/// Lease time that may be forgotten or added around a fault: a tick is half a second, a busy machine adds to it.
const SLACK: Duration = Duration::from_millis(1500);
const GRACE: Duration = Duration::from_millis(500);

/// Reads a lease, linearizably, at whichever node answers.
fn read(cluster: &Cluster, numbers: &[usize], id: &str) -> Answer {
    let mut turn = 0;
    soon("a linearizable read", || {
        let mut client = cluster.client(numbers[turn % numbers.len()]);
        turn += 1;
        client.patience = Duration::from_secs(2);
        let answer = client.send("GET", &lease(id), &[], b"").ok()?;
        (answer.status != 503).then_some(answer)
    })
}

#[test]
fn a_fail_over_neither_shortens_nor_renews_the_remaining_time() {
    let mut cluster = Cluster::of_three();
    let leader = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
    let granted = cluster.client(others[0]).post(LEASES, &grant("ann", TTL.as_millis() as u64, "a")).expect(201);
    thread::sleep(Duration::from_secs(2));
    let before = read(&cluster, &others, &id_of(&granted));
    let killed = Instant::now();
    cluster.kill(leader);
    let after = read(&cluster, &others, &id_of(&granted)).expect(200);
    let gap = killed.elapsed();
    let (was, is) = (before.remaining(), after.remaining());
    println!("{was:?} remained before, {is:?} after a gap of {gap:?}");
    assert_eq!(after.token(), granted.token());
    assert!(is <= was, "a fail-over gave time: {was:?} became {is:?}");
    assert!(is + (after.answered - before.sent) >= was, "a fail-over took time: {was:?} became {is:?} after {gap:?}");
    assert_eq!(in_lease_time(&before), in_lease_time(&after), "its deadline is the same");
}

/// The deadline, in lease time.
fn in_lease_time(answer: &Answer) -> u64 {
    answer.time() + answer.remaining().as_millis() as u64
}

#[test]
fn all_killed_at_once_the_remaining_time_goes_on_where_it_was() {
    let mut cluster = Cluster::of_three();
    let all = [0, 1, 2];
    let granted = cluster.client(0).post(LEASES, &grant("ann", TTL.as_millis() as u64, "a")).expect(201);
    let id = id_of(&granted);
    thread::sleep(Duration::from_secs(2));
    let lived_at_least = granted.answered.elapsed();
    for number in all {
        cluster.kill(number);
    }
    let lived_at_most = granted.sent.elapsed();
    thread::sleep(Duration::from_secs(3));
    let again = Instant::now();
    cluster.restart_all();
    let after = read(&cluster, &all, &id).expect(200);
    let remaining = after.remaining();
    let (floor, ceiling) = (TTL - lived_at_most - again.elapsed(), TTL - lived_at_least + SLACK);
    println!("2 s up, 3 s down: {remaining:?} remain, between {floor:?} and {ceiling:?}");
    assert_eq!(after.token(), granted.token());
    assert!(floor <= remaining && remaining <= ceiling, "{remaining:?} is not between {floor:?} and {ceiling:?}");
}

/// Grants leases that end soon, lets nothing commit for longer than they last, and renews them all afterwards.
fn outlive(cluster: &mut Cluster, what: &str, stall: impl FnOnce(&mut Cluster)) {
    let short = 3000;
    let mut client = cluster.client(0);
    let ids: Vec<String> = (0..30)
        .map(|n| id_of(&client.post(LEASES, &grant(&format!("{what}-{n}"), short, &format!("{what}/{n}"))).expect(201)))
        .collect();
    let before = client.get(&lease(&ids[0])).expect(200);
    stall(cluster);
    let renewed = renew_all(cluster, &ids);
    let gone = Duration::from_millis(renewed.time() - before.time());
    println!("{what}: {gone:?} of lease time in {:?}", renewed.answered - before.sent);
    for result in renewed.json["results"].as_array().unwrap() {
        assert!(result["renewed"].is_object(), "{what}: {result}");
    }
}

fn renew_all(cluster: &Cluster, ids: &[String]) -> Answer {
    let mut turn = 0;
    let body = json!({ "leases": ids });
    soon("a renewal", || {
        let mut client: Client = cluster.client(turn % 3);
        turn += 1;
        client.patience = Duration::from_secs(1);
        let answer = client.try_post(&format!("{LEASES}/renew"), &body).ok()?;
        (answer.status != 503).then(|| answer.expect(200))
    })
}

#[test]
fn lease_time_stands_still_while_nothing_can_be_committed() {
    let mut cluster = Cluster::with(3, Plan { wired: true, ..Plan::default() });
    let pause = Duration::from_secs(4);
    outlive(&mut cluster, "all links cut", |cluster| {
        let wires = cluster.wires.as_ref().unwrap();
        for node in 0..3 {
            wires.isolate(node);
        }
        thread::sleep(pause);
        wires.heal();
    });
    outlive(&mut cluster, "all stopped", |cluster| {
        for number in 0..3 {
            cluster.pause(number);
        }
        thread::sleep(pause);
        for number in 0..3 {
            cluster.resume(number);
        }
    });
    outlive(&mut cluster, "all but the leader stopped", |cluster| {
        let followers = cluster.followers();
        for number in &followers {
            cluster.pause(*number);
        }
        thread::sleep(pause);
        for number in followers {
            cluster.resume(number);
        }
    });
    outlive(&mut cluster, "all but one follower stopped", |cluster| {
        let left = cluster.followers()[0];
        for number in (0..3).filter(|number| *number != left) {
            cluster.pause(number);
        }
        thread::sleep(pause);
        for number in (0..3).filter(|number| *number != left) {
            cluster.resume(number);
        }
    });
}

#[test]
fn leases_that_nobody_renews_end_after_an_outage_and_not_before() {
    let mut cluster = Cluster::of_three();
    let ttl = Duration::from_secs(3);
    let granted = cluster.client(0).post(LEASES, &grant("ann", ttl.as_millis() as u64, "a")).expect(201);
    let followers = cluster.followers();
    let stopped = Instant::now();
    for number in &followers {
        cluster.pause(*number);
    }
    thread::sleep(Duration::from_secs(3));
    for number in &followers {
        cluster.resume(*number);
    }
    let outage = stopped.elapsed();
    let ended = soon("its end", || {
        let answer = read(&cluster, &[0, 1, 2], &id_of(&granted));
        (answer.status == 410).then_some(answer)
    });
    let lived = ended.answered - granted.sent;
    println!("a lease of {ttl:?} over an outage of {outage:?} lived for {lived:?}");
    assert!(lived >= ttl, "it ended early");
    assert!(lived <= ttl + outage + GRACE + Duration::from_secs(5), "it lived for {lived:?}");
}
