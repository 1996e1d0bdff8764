//! A declared cluster forms whatever the order, and every node takes every request.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::{ENTRIES, EVERYTHING, LEASES, RESOURCES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::http::{Client, Events};
use crate::runs::soon;

/// The name of the node that a request was handed to.
const FORWARDED: &str = "lease-forwarded-to";

#[test]
fn three_declared_nodes_form_a_cluster_in_any_order_of_start() {
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let mut cluster = Cluster::begin(3, Plan::default(), &order[..1]);
        thread::sleep(Duration::from_millis(700));
        let mut alone = cluster.client(0);
        alone.get("/healthz").expect(200);
        alone.get("/readyz").expect(503);
        let refused = alone.post(LEASES, &grant("early", 5000, "a")).refused(503, "no_quorum");
        assert_eq!(refused.json["may_have_happened"], false, "{}", refused.text);
        cluster.begin_rest(&order[1..]);
        cluster.until_ready();
        let leader = cluster.leader();
        cluster.client(leader).post(LEASES, &grant("ann", 5000, "a")).expect(201);
    }
}

#[test]
fn two_of_three_are_enough_and_the_third_may_come_later() {
    let mut cluster = Cluster::begin(3, Plan::default(), &[0, 1]);
    cluster.until_ready();
    let granted = cluster.client(0).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    cluster.begin_rest(&[2]);
    cluster.until_ready();
    let seen = cluster.client(2).get(&lease(&id_of(&granted))).expect(200);
    assert_eq!(seen.token(), granted.token());
}

#[test]
fn any_node_takes_any_request_and_says_whom_it_asked() {
    let mut cluster = Cluster::of_three();
    let leader = cluster.leader();
    let name = cluster.nodes[leader].name.clone();
    for number in 0..3 {
        let mut client = cluster.client(number);
        let resource = format!("r/{number}");
        let answers = [
            client.post(LEASES, &grant("ann", 60_000, &resource)).expect(201),
            client.put(&format!("{ENTRIES}/k/{number}"), "x").expect(200),
        ];
        let id = id_of(&answers[0]);
        let renewed = client.post(&format!("{}/renew", lease(&id)), &json!({})).expect(200);
        for answer in answers.iter().chain([&renewed]) {
            let asked = (number != leader).then_some(name.as_str());
            assert_eq!(answer.header(FORWARDED), asked, "node {number}: {:?}", answer.headers);
        }
        // A refusal of the domain comes from the same place.
        let held = client.post(LEASES, &grant("bob", 60_000, &resource)).refused(409, "held");
        assert_eq!(held.json["holders"][0]["holder"], "ann");
        assert_eq!(held.header(FORWARDED), (number != leader).then_some(name.as_str()), "{:?}", held.headers);
        // What one node acknowledged, every other one knows at once.
        for other in 0..3 {
            let read = cluster.client(other).get(&lease(&id)).expect(200);
            assert_eq!(read.token(), answers[0].token(), "written at {number}, read at {other}");
            assert_eq!(read.header(FORWARDED), None, "a node answers reads from its own state");
        }
        client.delete(&lease(&id)).expect(204);
        for other in 0..3 {
            cluster.client(other).get(&lease(&id)).refused(410, "lease_ended");
        }
    }
}

#[test]
fn a_wait_and_a_watch_on_a_follower_hear_of_what_happens_on_others() {
    let mut cluster = Cluster::of_three();
    let followers = cluster.followers();
    let (one, other) = (cluster.nodes[followers[0]].server.address, followers[1]);
    let events = Events::open(one, EVERYTHING, None).unwrap().expect("a watch");
    let held = id_of(&cluster.client(other).post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    let body = grant("bob", 60_000, "a");
    let waiting = thread::spawn(move || Client::new(one).post(&format!("{LEASES}?wait=30s"), &body));
    let mut client = cluster.client(other);
    soon("bob in the queue", || {
        let queue = client.get(&format!("{RESOURCES}/a/queue")).expect(200);
        (queue.json["length"] == 1).then_some(())
    });
    client.delete(&lease(&held)).expect(204);
    let granted = waiting.join().unwrap().expect(201);
    let told = soon("the grant in the watch", || {
        let change = events.change_within(Duration::from_secs(10)).expect("the watch goes on");
        (change.id == granted.token()).then_some(change)
    });
    assert!(told.data.to_string().contains("claim_granted"), "{}", told.data);
}

#[test]
fn without_a_leader_a_node_answers_stale_reads_and_says_how_old_they_are() {
    let mut cluster = Cluster::of_three();
    let leader = cluster.leader();
    let id = id_of(&cluster.client(leader).post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    let left = (leader + 1) % 3;
    let last = cluster.client(left).get(&lease(&id)).expect(200);
    cluster.kill(leader);
    cluster.kill((leader + 2) % 3);
    let killed = Instant::now();
    let mut client = cluster.client(left);
    let stale = client.get(&format!("{}?consistency=stale", lease(&id))).expect(200);
    assert_eq!(stale.token(), last.token());
    thread::sleep(Duration::from_millis(1500));
    let lone = killed.elapsed();
    let stale = client.get(&format!("{}?consistency=stale", lease(&id))).expect(200);
    let age: u64 = stale.header("lease-age-ms").expect("a stale answer tells its age").parse().unwrap();
    assert!(u128::from(age) + 200 >= lone.as_millis(), "{age} ms old after {lone:?} alone");
    let refused = client.get(&lease(&id)).refused(503, "no_quorum");
    assert!(refused.header("retry-after").is_some());
    let refused = client.post(LEASES, &grant("eve", 60_000, "b")).refused(503, "no_quorum");
    println!("alone: {}", refused.text);
    client.get("/readyz").expect(503);
}
