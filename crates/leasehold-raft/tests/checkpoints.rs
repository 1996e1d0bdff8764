//! Checkpoints: nodes compare their states, and one whose state is not that of the majority stops and says so.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::time::Duration;

use common::cluster::{Cluster, joining, patient, until};
use common::{Running, open_with, payload};
use leasehold_raft::{Compared, OpenError, Options};
use leasehold_service::log::{Leadership, Log};

/// Nothing here takes so long unless it never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// One leader that stays, and a checkpoint every 20 entries or so.
fn often(options: &mut Options) {
    patient(options);
    options.snapshot_bytes = 2000;
    options.log_file_records = 50;
    options.retained_entries = 10;
}

fn compared(running: &Running) -> Option<Compared> {
    running.node.metrics().compared
}

/// Proposes through a node that leads until another has stopped, and gives its reason.
async fn drive(through: &Running, until_stopped: &Running) -> String {
    let leader = through.leader();
    let drive = async {
        for number in 0.. {
            tokio::select! {
                biased;
                reason = until_stopped.node.stopped() => return reason,
                answer = through.propose_as(leader, payload(number)) => if answer.is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                },
            }
        }
        unreachable!("numbers do not end")
    };
    tokio::time::timeout(PATIENCE, drive).await.expect("the node stops")
}

/// Proposes until every running node knows of a checkpoint after `index` at which so many of so many voters agree with
/// it; returns the index of the latest.
async fn agree_after(cluster: &Cluster, index: u64, (agreed, voters): (usize, usize)) -> u64 {
    let agree = |running: &Running| {
        compared(running).is_some_and(|at| (at.index > index, at.agreed, at.voters) == (true, agreed, voters))
    };
    let all = async {
        // A burst reaches a checkpoint, and the pause lets all hash and tell.
        while !cluster.running().all(agree) {
            cluster.propose(0..25).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, all).await;
    assert!(done.is_ok(), "{:?}", cluster.running().map(compared).collect::<Vec<_>>());
    cluster.running().filter_map(compared).map(|at| at.index).max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_states_agree_at_every_checkpoint_and_every_node_writes_snapshots() {
    let mut cluster = Cluster::of_three(often).await;
    assert!(cluster.running().all(|running| compared(running).is_none()));
    let first = agree_after(&cluster, 0, (3, 3)).await;
    let second = agree_after(&cluster, first, (3, 3)).await;
    assert!(second > first);
    let saved = |running: &Running| running.node.metrics().last_snapshot.is_some();
    until("every node has a snapshot", || cluster.running().all(saved)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_diverges_stops_with_words_and_the_others_go_on() {
    let mut cluster = Cluster::of_three(often).await;
    let start = agree_after(&cluster, 0, (3, 3)).await;
    let (leader, bad) = (cluster.leader().await, cluster.follower().await);
    cluster.node(bad).ledger.spoil();
    let reason = drive(cluster.node(leader), cluster.node(bad)).await;
    for words in ["the state of this node has diverged", "2 of 3 voters agree", "keep its files", "join anew"] {
        assert!(reason.contains(words), "{reason}");
    }
    assert!(matches!(*cluster.node(bad).node.leadership().borrow(), Leadership::Unknown), "it takes no part any more");
    cluster.stop(bad).await;
    // Whatever starts it again, it does not come back by itself.
    let refused = open_with(cluster.options[bad].clone()).await.map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Diverged { .. }), "{refused}");
    assert!(refused.to_string().contains("join anew"), "{refused}");
    agree_after(&cluster, start, (2, 3)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_diverges_stops_and_the_others_elect() {
    let mut cluster = Cluster::of_three(often).await;
    agree_after(&cluster, 0, (3, 3)).await;
    let bad = cluster.leader().await;
    cluster.node(bad).ledger.spoil();
    let reason = drive(cluster.node(bad), cluster.node(bad)).await;
    assert!(reason.contains("2 of 3 voters agree"), "{reason}");
    // Although its process still runs.
    let leads = |running: &Running| matches!(*running.node.leadership().borrow(), Leadership::Leads(_));
    until("another leads", || cluster.running().any(leads)).await;
    assert!(!leads(cluster.node(bad)));
    cluster.stop(bad).await;
    cluster.propose(2_000_000..2_000_020).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_differ_both_stop() {
    let mut cluster = Cluster::of(2, often).await;
    agree_after(&cluster, 0, (2, 2)).await;
    let (leader, bad) = (cluster.leader().await, cluster.follower().await);
    cluster.node(bad).ledger.spoil();
    for reason in [
        drive(cluster.node(leader), cluster.node(leader)).await,
        tokio::time::timeout(PATIENCE, cluster.node(bad).node.stopped()).await.expect("the other stops too"),
    ] {
        for words in ["no majority agrees", "1 of 2 voters", "every node stops", "backup"] {
            assert!(reason.contains(words), "{reason}");
        }
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_restarts_after_a_checkpoint_and_one_that_gets_a_snapshot_agree_with_the_others() {
    let mut cluster = Cluster::of_three(often).await;
    let first = agree_after(&cluster, 0, (3, 3)).await;
    let again = cluster.follower().await;
    cluster.stop(again).await;
    cluster.start(again).await;
    let second = agree_after(&cluster, first, (3, 3)).await;
    // Away for so long that the log behind is gone.
    cluster.stop(again).await;
    let covered = cluster.running().filter_map(|running| running.node.metrics().last_snapshot).max();
    let third = agree_after(&cluster, second, (2, 3)).await;
    cluster.propose(0..200).await;
    cluster.start(again).await;
    agree_after(&cluster, third, (3, 3)).await;
    assert!(cluster.node(again).node.metrics().last_snapshot > covered);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_is_compared_at_the_checkpoint_it_missed() {
    let mut cluster = Cluster::of_three(|options| {
        patient(options);
        options.snapshot_bytes = 2000;
    })
    .await;
    let first = agree_after(&cluster, 0, (3, 3)).await;
    let away = cluster.follower().await;
    cluster.stop(away).await;
    agree_after(&cluster, first, (2, 3)).await;
    cluster.start(away).await;
    // No other checkpoint comes: what the others have kept is compared, and they hear of it too.
    let agree = |running: &Running| compared(running).is_some_and(|at| at.index > first && at.agreed == 3);
    until("all three agree on what one of them missed", || cluster.running().all(agree)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_joins_late_is_compared_and_stops_alone_if_it_differs() {
    let mut cluster = Cluster::of_three(often).await;
    let start = agree_after(&cluster, 0, (3, 3)).await;
    let leader = cluster.leader().await;
    let dir = tempfile::tempdir().unwrap();
    let late = joining("n4", &cluster.address(leader), dir.path(), often).await;
    cluster.nodes.push(Some(late));
    cluster.has_voters(&["n1", "n2", "n3", "n4"]).await;
    let joined = agree_after(&cluster, start, (4, 4)).await;
    // One of four stops nobody but itself.
    cluster.node(3).ledger.spoil();
    let reason = drive(cluster.node(leader), cluster.node(3)).await;
    assert!(reason.contains("diverged") && reason.contains("of 4 voters"), "{reason}");
    cluster.stop(3).await;
    agree_after(&cluster, joined, (3, 4)).await;
    cluster.stop_all().await;
}

#[tokio::test]
async fn a_node_alone_has_checkpoints_and_compares_with_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(Options { snapshot_bytes: 2000, ..Options::new(dir.path()) }).await.unwrap();
    for number in 0..100 {
        running.propose(payload(number)).await.unwrap();
    }
    until("a snapshot is written", || running.node.metrics().last_snapshot.is_some()).await;
    assert_eq!(compared(&running), None);
    // Each took a place in the log, beside the payloads and what every start brings.
    assert!(running.node.metrics().last_log.unwrap() > 102);
    running.node.shutdown().await;
}
