//! Snapshots: written when the log has grown, restored at start, and the log behind them freed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::path::Path;

use common::{log_files, open_with, payload, payloads};
use leasehold_raft::{OpenError, Options};
use leasehold_service::log::Log;

fn small(dir: &Path) -> Options {
    Options { log_file_records: 50, retained_entries: 10, ..Options::new(dir) }
}

fn snapshot_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(dir.join("groups/0/snapshots")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn state_from_snapshot_and_log_equals_state_from_log() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    for number in 0..300 {
        running.propose(payload(number)).await.unwrap();
    }
    let covered = running.node.snapshot_now().await.unwrap();
    for number in 300..320 {
        running.propose(payload(number)).await.unwrap();
    }
    let entries = running.ledger.entries();
    running.node.shutdown().await;
    assert_eq!(snapshot_files(dir.path()).len(), 1);

    let running = open_with(small(dir.path())).await.unwrap();
    assert_eq!(running.opened.restored, Some(covered));
    assert_eq!(running.ledger.entries(), entries);
    running.node.read_barrier().await.unwrap();
    running.propose(payload(320)).await.unwrap();
    assert_eq!(running.ledger.payloads(), payloads(321));
    running.node.shutdown().await;
}

#[tokio::test]
async fn the_log_grows_into_snapshots_by_itself_and_disk_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { snapshot_bytes: 50_000, ..small(dir.path()) };
    let running = open_with(options.clone()).await.unwrap();
    let mut most_files = 0;
    for number in 0..3000 {
        running.propose(payload(number)).await.unwrap();
        most_files = most_files.max(log_files(dir.path()).len());
    }
    let metrics = running.node.metrics();
    assert!(metrics.last_snapshot.is_some());
    // 3000 entries make 60 files of 50; 50 kB of entries of about 92 bytes are 11 of them.
    assert!(most_files < 30, "{most_files} log files");
    assert_eq!(snapshot_files(dir.path()).iter().filter(|file| file.extension().unwrap() == "snap").count(), 1);
    running.node.shutdown().await;
    let running = open_with(options).await.unwrap();
    assert_eq!(running.ledger.payloads(), payloads(3000));
    running.node.shutdown().await;
}

#[tokio::test]
async fn two_requests_for_a_snapshot_at_once_are_both_served() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    running.propose("a").await.unwrap();
    let (one, two) = tokio::join!(running.node.snapshot_now(), running.node.snapshot_now());
    let one = one.unwrap();
    assert_eq!(one, two.unwrap());
    running.propose("b").await.unwrap();
    assert!(running.node.snapshot_now().await.unwrap() > one);
    running.node.shutdown().await;
}

#[tokio::test]
async fn equal_states_give_equal_snapshot_files() {
    let mut files = Vec::new();
    for _ in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let running = open_with(small(dir.path())).await.unwrap();
        for number in 0..40 {
            running.propose(payload(number)).await.unwrap();
        }
        running.node.snapshot_now().await.unwrap();
        files.push(std::fs::read(&snapshot_files(dir.path())[0]).unwrap());
        running.node.shutdown().await;
    }
    assert!(files[0] == files[1]);
}

#[tokio::test]
async fn leftovers_of_an_interrupted_snapshot_go_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    running.propose("a").await.unwrap();
    running.node.snapshot_now().await.unwrap();
    running.node.shutdown().await;
    let snapshots = dir.path().join("groups/0/snapshots");
    std::fs::write(snapshots.join("writing.tmp"), b"half").unwrap();
    std::fs::write(snapshots.join("00000000000000000001-1.snap"), b"older, never read").unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    assert_eq!(snapshot_files(dir.path()).len(), 1);
    assert_eq!(running.ledger.payloads(), [b"a"]);
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_damaged_or_missing_snapshot_refuses_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    for number in 0..100 {
        running.propose(payload(number)).await.unwrap();
    }
    let oldest = log_files(dir.path())[0].clone();
    running.node.snapshot_now().await.unwrap();
    // The log behind it is freed while other things go on; once a file of it is gone, the snapshot is needed.
    for _ in 0..1000 {
        running.propose("after").await.unwrap();
        if !oldest.exists() {
            break;
        }
    }
    assert!(!oldest.exists());
    running.node.shutdown().await;
    let file = snapshot_files(dir.path()).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 4;
    std::fs::write(&file, damaged).unwrap();
    let error = open_with(small(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(&error, OpenError::DamagedSnapshot { file: named, .. } if *named == file), "{error}");
    assert!(error.to_string().contains("offset"), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = open_with(small(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Gap { snapshot: None, .. }), "{error}");
}
