//! A leader without its majority, and a follower without room on its disk.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::cluster::{Cluster, patient, until};
use common::{payload, payloads};
use leasehold_service::log::{Leadership, Log, Unavailable};

/// What a busy machine may add to any time.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_majority_is_cut_off_and_leads_again_with_one() {
    let mut cluster = Cluster::of_three(patient).await;
    cluster.propose(0..5).await;
    let at = cluster.leader().await;
    let leader = cluster.node(at).leader();
    let others: Vec<_> = (0..3).filter(|other| *other != at).collect();
    let election_max = cluster.options[at].election_max;
    assert_eq!(cluster.node(at).node.staleness(), Duration::ZERO);
    for other in &others {
        cluster.stop(*other).await;
    }
    let stopped = Instant::now();
    let alone = cluster.node(at);
    let told = || *alone.node.leadership().borrow();

    // Before it is told that it is cut off, and after.
    for _ in 0..2 {
        let asked = Instant::now();
        let refused = alone.node.read_barrier().await.unwrap_err();
        assert!(asked.elapsed() < election_max + SLACK, "{:?}", asked.elapsed());
        assert!(matches!(refused, Unavailable::Unreachable(_)), "{refused:?}");
        assert!(refused.to_string().contains("no majority answered it"), "{refused}");
        until("it is cut off", || told() == Leadership::CutOff(leader)).await;
    }
    assert!(stopped.elapsed() < election_max + 2 * SLACK, "{:?}", stopped.elapsed());
    let refused = alone.propose_as(leader, payload(5)).await.unwrap_err();
    assert!(matches!(refused, Unavailable::NotLeader { .. }), "nothing is appended: {refused:?}");
    assert!(alone.node.staleness() >= election_max);

    // A leader that is cut off is silent for a while, and one that returns meanwhile would be elected: this one is patient.
    let returning = &mut cluster.options[others[0]];
    (returning.election_min, returning.election_max) = (Duration::from_secs(100), Duration::from_secs(200));
    cluster.start(others[0]).await;
    let alone = cluster.node(at);
    let told = || *alone.node.leadership().borrow();
    let returned = Instant::now();
    until("it is not cut off any more", || told() != Leadership::CutOff(leader)).await;
    println!("leads again after {:?}", returned.elapsed());
    assert_eq!(told(), Leadership::Leads(leader));
    alone.node.read_barrier().await.unwrap();
    alone.propose_as(leader, payload(5)).await.unwrap();
    cluster.all_have(&payloads(6)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_hears_nobody_follows_nobody_also_after_a_restart() {
    let mut cluster = Cluster::of_three(patient).await;
    cluster.propose(0..5).await;
    let at = cluster.leader().await;
    let left = cluster.follower().await;
    for other in (0..3).filter(|other| *other != left) {
        cluster.stop(other).await;
    }
    let told = |cluster: &Cluster| *cluster.node(left).node.leadership().borrow();
    assert!(matches!(told(&cluster), Leadership::Follows(_)), "it may only be late");
    until("it follows nobody", || told(&cluster) == Leadership::Unknown).await;
    cluster.stop(left).await;
    cluster.start(left).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(told(&cluster), Leadership::Unknown, "its vote tells of a leader that is gone");
    cluster.start(at).await;
    cluster.leader().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_leader_on_a_busy_machine_is_not_cut_off() {
    let mut cluster = Cluster::of_three(patient).await;
    let at = cluster.leader().await;
    let mut leadership = cluster.node(at).node.leadership();
    let leads = *leadership.borrow_and_update();
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            })
        })
        .collect();
    let changed = tokio::time::timeout(2 * cluster.options[at].election_max, leadership.changed()).await;
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(changed.is_err(), "{leads:?} became {:?}", *leadership.borrow());
    for running in cluster.running() {
        assert!(running.node.staleness() < Duration::from_secs(2), "{:?}", running.node.staleness());
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_without_room_refuses_entries_and_catches_up_later() {
    let mut cluster = Cluster::of_three(patient).await;
    cluster.propose(0..5).await;
    cluster.all_have(&payloads(5)).await;
    let at = cluster.leader().await;
    let leader = cluster.node(at).leader();
    let full = cluster.follower().await;
    cluster.node(full).node.set_entry_floor(u64::MAX);
    for number in 5..25 {
        cluster.node(at).propose(payload(number)).await.unwrap();
    }
    // Longer than it would stay without a heartbeat.
    tokio::time::sleep(2 * cluster.options[full].election_max).await;
    let refusing = cluster.node(full);
    assert_eq!(refusing.ledger.payloads(), payloads(5));
    assert_eq!(*refusing.node.leadership().borrow(), Leadership::Follows(leader), "it hears its leader");
    assert!(refusing.node.staleness() >= cluster.options[full].election_max, "and knows that it lags behind");
    let late = refusing.node.read_barrier().await.unwrap_err();
    assert!(late.to_string().contains("this node has applied entries before"), "{late}");
    assert_eq!(cluster.node(at).leader(), leader, "the others go on under the same leader");
    refusing.node.set_entry_floor(0);
    cluster.all_have(&payloads(25)).await;
    cluster.node(full).node.read_barrier().await.unwrap();
    cluster.stop_all().await;
}
