//! A node from outside: it starts, takes proposals, survives restarts, and stops when it must.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use common::{answer, log_files, open, open_with, payload, payloads};
use leasehold_core::LeaderId;
use leasehold_raft::{OpenError, Options, PAYLOAD_MAX};
use leasehold_service::log::{Leadership, Log, Unavailable};

#[tokio::test]
async fn an_empty_directory_becomes_a_cluster_of_one_that_leads() {
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let running = open(dir.path()).await;
    println!("fresh start: {:?}", started.elapsed());
    assert!(running.opened.fresh);
    assert_eq!(running.opened.cut, None);
    assert_eq!(running.leader().node, running.opened.identity.node);
    running.propose("first").await.unwrap();
    assert_eq!(running.ledger.payloads(), [b"first"]);
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_restart_keeps_what_was_acknowledged_and_leads_in_a_new_term() {
    let dir = tempfile::tempdir().unwrap();
    let mut term = 0;
    let mut identity = None;
    for round in 0..4 {
        let started = Instant::now();
        let running = open(dir.path()).await;
        println!("start {round}: {:?}", started.elapsed());
        assert_eq!(running.opened.fresh, round == 0);
        assert_eq!(*identity.get_or_insert(running.opened.identity), running.opened.identity);
        assert!(running.leader().term > term, "every start is a new term");
        term = running.leader().term;
        assert_eq!(running.ledger.payloads(), payloads(round * 10));
        for number in round * 10..round * 10 + 10 {
            running.propose(payload(number)).await.unwrap();
        }
        if round % 2 == 0 {
            running.node.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_proposals_are_all_applied_once() {
    let dir = tempfile::tempdir().unwrap();
    let running = std::sync::Arc::new(open(dir.path()).await);
    let mut tasks = Vec::new();
    for number in 0..500 {
        let running = running.clone();
        tasks.push(tokio::spawn(async move { running.propose(payload(number)).await.unwrap() }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut applied = running.ledger.payloads();
    applied.sort();
    let mut expected = payloads(500);
    expected.sort();
    assert_eq!(applied, expected);
    let flushes = running.node.metrics().flushes;
    assert!(flushes.count < 500, "flushes are shared: {flushes:?}");
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_proposal_under_another_leader_is_refused_and_appends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    let leader = running.leader();
    let before = running.node.metrics().last_log;
    for other in [LeaderId { term: leader.term + 1, ..leader }, LeaderId { node: leader.node + 1, ..leader }] {
        let refused = running.propose_as(other, "late").await.unwrap_err();
        assert!(matches!(refused, Unavailable::NotLeader { .. }), "{refused}");
    }
    assert_eq!(running.node.metrics().last_log, before);
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_payload_above_the_cap_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    running.propose(vec![7; PAYLOAD_MAX]).await.unwrap();
    running.propose(vec![7; PAYLOAD_MAX + 1]).await.unwrap_err();
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_read_barrier_sees_everything_acknowledged_before() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    for number in 0..50 {
        running.propose(payload(number)).await.unwrap();
        running.node.read_barrier().await.unwrap();
        assert_eq!(running.ledger.payloads().len(), number + 1);
    }
    running.node.shutdown().await;
    running.node.read_barrier().await.unwrap_err();
}

#[tokio::test]
async fn after_shutdown_every_proposal_is_answered_and_the_directory_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    let leader = running.leader();
    running.node.shutdown().await;
    running.propose_as(leader, "too late").await.unwrap_err();
    assert_eq!(*running.node.leadership().borrow(), Leadership::Unknown);
    open(dir.path()).await.node.shutdown().await;
}

#[tokio::test]
async fn proposals_in_flight_at_a_shutdown_are_answered_once() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    let mut answers = Vec::new();
    for number in 0..200 {
        let (done, waiting) = answer();
        running.node.propose(running.leader(), payload(number).into(), done).await;
        answers.push(waiting);
    }
    running.node.shutdown().await;
    let mut acknowledged = Vec::new();
    for (number, waiting) in answers.into_iter().enumerate() {
        if waiting.await.expect("every proposal is answered").is_ok() {
            acknowledged.push(payload(number));
        }
    }
    drop(running);
    let running = open(dir.path()).await;
    let kept = running.ledger.payloads();
    assert!(acknowledged.iter().all(|payload| kept.contains(payload)));
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_failed_flush_stops_the_node_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    running.propose("kept").await.unwrap();
    running.node.fail_next_flush();
    running.propose("lost").await.unwrap_err();
    let reason = running.node.stopped().await;
    assert!(reason.contains("writing the log in"), "{reason}");
    let refused = running.propose_as(LeaderId::default(), "never").await.unwrap_err();
    assert!(matches!(refused, Unavailable::Stopped(_)), "{refused}");
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_machine_that_panics_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    running.propose("panic").await.unwrap_err();
    let reason = running.node.stopped().await;
    assert!(reason.contains("the machine was told to panic"), "{reason}");
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_second_node_in_the_same_directory_is_refused_and_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    let error = open_with(Options::new(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()), "{error}");
    assert!(
        error.to_string().ends_with(&format!(
            "is in use by process {}; stop it or use another --data directory",
            std::process::id()
        ))
    );
    running.node.shutdown().await;
}

#[tokio::test]
async fn only_the_owner_can_read_what_a_node_writes() {
    fn check(path: &Path) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
        if path.is_dir() {
            std::fs::read_dir(path).unwrap().for_each(|entry| check(&entry.unwrap().path()));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("made/here");
    let options = Options { log_file_records: 20, ..Options::new(&data) };
    let running = open_with(options).await.unwrap();
    for number in 0..100 {
        running.propose(payload(number)).await.unwrap();
    }
    running.node.snapshot_now().await.unwrap();
    assert!(log_files(&data).len() > 3);
    check(&dir.path().join("made"));
    running.node.shutdown().await;
}

#[tokio::test]
async fn an_identity_that_was_changed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).await.node.shutdown().await;
    let file = dir.path().join("identity");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("node 1", "node 2")).unwrap();
    let error = open_with(Options::new(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Identity { line: 4, .. }), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = open_with(Options::new(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Identity { line: 1, .. }), "{error}");
}
