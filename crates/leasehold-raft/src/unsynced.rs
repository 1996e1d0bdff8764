//! What planted mistakes do to the log and to reads, where nothing above can hide it.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_core::planted::Bug;
use openraft::EntryPayload;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use tokio::time::Instant;

use crate::contrast::contrast;
use crate::files::FileLimits;
use crate::group_commit::Fatal;
use crate::store::LogStore;
use crate::suite::Nothing;
use crate::types::{Candidate, Entry, LogId, Types, Vote};
use crate::{Node, Options};

const LEADER: LeaderId = LeaderId { term: 1, node: 1 };

fn run<T>(scenario: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(scenario)
}

/// A log whose next flush fails.
fn failing(dir: &tempfile::TempDir) -> LogStore {
    let (store, _) = LogStore::open(dir.path(), FileLimits::default(), Fatal::new(), None).unwrap();
    store.flushes().fail_next.store(true, std::sync::atomic::Ordering::Relaxed);
    store
}

#[test]
fn fsync_skipped() {
    // Whether an entry is reported durable although it never becomes so.
    let scenario = async {
        let dir = tempfile::tempdir().unwrap();
        let (done, durable) = Types::oneshot();
        let entry = Entry { log_id: LogId { leader_id: LEADER, index: 0 }, payload: EntryPayload::Blank };
        let mut store = failing(&dir);
        store.append([entry], IOFlushed::signal(done)).await.unwrap();
        durable.await.unwrap().is_ok()
    };
    contrast(Bug::FsyncSkipped, || run(scenario), false, true);
}

#[test]
fn vote_not_durable() {
    // Whether a vote is given although it never becomes durable.
    let scenario = async {
        let dir = tempfile::tempdir().unwrap();
        let vote = Vote { leader_id: Candidate(LEADER), committed: false };
        let mut store = failing(&dir);
        store.save_vote(&vote).await.is_ok()
    };
    contrast(Bug::VoteNotDurable, || run(scenario), false, true);
}

#[test]
fn read_before_caught_up() {
    // Whether a read passes on a node that has not applied what it needs.
    let scenario = async {
        let dir = tempfile::tempdir().unwrap();
        let (node, _) = Node::open(Options::new(dir.path()), Arc::new(Nothing)).await.unwrap();
        let passes = node.group.reader.catch_up(1_000, Instant::now() + Duration::from_millis(1)).await.is_ok();
        node.shutdown().await;
        passes
    };
    contrast(Bug::ReadBeforeCaughtUp, || run(scenario), false, true);
}
