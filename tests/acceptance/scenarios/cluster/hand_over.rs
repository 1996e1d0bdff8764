//! Planned ends: the leader hands over, and a rolling restart of all nodes is felt by nobody.

use std::thread;
use std::time::{Duration, Instant};

use leasehold_client::{Client, Guard, LeaseEvent};

use crate::clients::{ENTRIES, LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::load::{Load, seed};
use crate::server::heavy;

#[test]
fn a_transfer_under_load_is_short_and_loses_nothing() {
    let _alone = heavy();
    let mut cluster = Cluster::of_three();
    let load = Load::start(cluster.addresses(), seed(), 6);
    let mut took = Vec::new();
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(300));
        let next = (cluster.leader() + 1) % 3;
        took.push(cluster.transfer(next));
    }
    println!("transfers, until the new leader says so: {took:?} (promised: 100 ms)");
    load.end();
}

#[test]
fn told_to_stop_the_leader_hands_over_first() {
    let _alone = heavy();
    // Were it not handed over, nobody would lead for five seconds.
    let config = "[raft]\nelection_min = \"5s\"\nelection_max = \"6s\"\n".to_owned();
    let mut cluster = Cluster::with(3, Plan { config, ..Plan::default() });
    let mut gaps = Vec::new();
    for round in 0..3 {
        let leader = cluster.leader();
        let other = (leader + 1) % 3;
        let held =
            id_of(&cluster.client(leader).post(LEASES, &grant("ann", 60_000, &format!("r/{round}"))).expect(201));
        let address = cluster.nodes[other].server.address;
        let writer = thread::spawn(move || longest_gap(address, Duration::from_secs(2)));
        thread::sleep(Duration::from_millis(300));
        let (status, took) = cluster.terminate(leader);
        assert!(status.success(), "{status}: {}", cluster.nodes[leader].server.stderr());
        gaps.push(writer.join().unwrap());
        println!("round {round}: it ended after {took:?}");
        assert_eq!(cluster.client(other).get(&lease(&held)).expect(200).json["holder"], "ann");
        cluster.restart(leader);
    }
    println!("longest time between two acknowledged writes over a hand-over: {gaps:?} (promised: 100 ms)");
    assert!(gaps.iter().all(|gap| *gap < Duration::from_secs(3)), "{gaps:?}");
}

/// Writes one after the other at one node; the longest time between two acknowledgements. None may be refused.
fn longest_gap(address: std::net::SocketAddr, time: Duration) -> Duration {
    let mut client = crate::http::Client::new(address);
    let (began, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
    while began.elapsed() < time {
        client.put(&format!("{ENTRIES}/gap"), "x").expect(200);
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}

#[test]
fn a_rolling_restart_of_all_nodes_is_not_felt_by_holders() {
    let _alone = heavy();
    let mut cluster = Cluster::of_three();
    let addresses: Vec<String> = cluster.addresses().iter().map(ToString::to_string).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let holders: Vec<_> = (0..6).map(|number| runtime.block_on(hold(addresses.clone(), number))).collect();
    for number in 0..3 {
        let (status, took) = cluster.terminate(number);
        assert!(status.success(), "{status}: {}", cluster.nodes[number].server.stderr());
        println!("n{} ended after {took:?}", number + 1);
        cluster.restart(number);
        let leader = cluster.leader();
        cluster.caught_up(number, leader);
        // Longer than a third of the ttl, when the next renewal comes.
        thread::sleep(Duration::from_millis(2000));
    }
    for (number, (token, watched)) in holders.into_iter().enumerate() {
        let path = format!("/v1/ns/default/resources/r/{number}");
        let seen = cluster.client(number % 3).get(&path).expect(200);
        assert_eq!(seen.json["holders"][0]["token"], token, "{}", seen.text);
        assert!(!watched.is_finished(), "holder {number}: {:?}", runtime.block_on(watched));
    }
}

/// Holds a lock through a client that begins at another node for each number; its end is the first trouble.
async fn hold(mut addresses: Vec<String>, number: usize) -> (u64, tokio::task::JoinHandle<String>) {
    addresses.rotate_left(number % 3);
    let client = Client::connect(&addresses.join(",")).unwrap();
    let guard = client.lock(format!("r/{number}")).ttl(Duration::from_secs(5)).acquire().await.unwrap();
    (guard.token().unwrap(), tokio::spawn(first_trouble(guard)))
}

/// Keeps a guard; returns only if it does not stay safe.
async fn first_trouble(guard: Guard) -> String {
    let mut events = guard.events();
    while let Some(event) = events.next().await {
        match event {
            LeaseEvent::Safe { .. } => {}
            LeaseEvent::Jeopardy | LeaseEvent::Lost(_) => return format!("{event:?}"),
        }
    }
    "its events ended".to_owned()
}
