//! The state machine as openraft sees it: hands committed entries to the machine in order and answers proposals.
//!
//! Every responder is answered, of blank and membership entries too, inside apply and after the machine has taken the
//! entry. Counts the bytes applied since the last snapshot and asks for the next one; notes when this node's own first
//! entry as leader is applied, which is what makes it ready to lead.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{Stream, StreamExt};
use leasehold_core::{Applied, LeaderId};
use leasehold_service::log::{Committed, Machine, Position};
use openraft::EntryPayload;
use openraft::alias::SnapshotOf;
use openraft::storage::{EntryResponder, RaftStateMachine};
use tokio::sync::{Notify, watch};

use crate::group_commit::Fatal;
use crate::snapshot::{Builder, SnapshotFile, Snapshots};
use crate::types::{Entry, LogId, Payload, SnapshotMeta, StoredMembership, Types};

/// What an entry takes in the log beside its payload, roughly.
const ENTRY_OVERHEAD: u64 = 80;
/// After so many entries in a row the worker lets others run: heartbeats, above all.
const YIELD_EVERY: u32 = 128;

/// How far this node has applied the log; shared with the node.
#[derive(Debug)]
pub(crate) struct Progress {
    node: u64,
    /// The index after the last entry applied.
    applied: watch::Sender<u64>,
    /// The last leadership of this node whose first entry is applied.
    ready: watch::Sender<Option<LeaderId>>,
    unsaved_bytes: AtomicU64,
    snapshot_bytes: u64,
    snapshot_due: Notify,
}

impl Progress {
    pub(crate) fn new(node: u64, snapshot_bytes: u64) -> Progress {
        Progress {
            node,
            applied: watch::Sender::new(0),
            ready: watch::Sender::new(None),
            unsaved_bytes: AtomicU64::new(0),
            snapshot_bytes: snapshot_bytes.max(1),
            snapshot_due: Notify::new(),
        }
    }

    /// Returns the index after the last entry applied.
    pub(crate) fn next(&self) -> u64 {
        *self.applied.borrow()
    }

    /// Waits until the entry at `index` is applied.
    pub(crate) async fn wait_applied(&self, index: u64) {
        let mut applied = self.applied.subscribe();
        applied.wait_for(|next| *next > index).await.expect("the sender is held by self");
    }

    pub(crate) fn ready(&self) -> watch::Receiver<Option<LeaderId>> {
        self.ready.subscribe()
    }

    /// Waits until the log has grown by so much that a snapshot is due.
    pub(crate) async fn snapshot_due(&self) {
        self.snapshot_due.notified().await;
    }

    fn note(&self, at: Position, take_over: bool, bytes: u64) {
        self.applied.send_replace(at.index + 1);
        if take_over && at.leader.node == self.node {
            self.ready.send_replace(Some(at.leader));
        }
        let before = self.unsaved_bytes.fetch_add(bytes, Ordering::Relaxed);
        // At every multiple: the request is lost if the snapshot before is still being written.
        if before / self.snapshot_bytes != (before + bytes) / self.snapshot_bytes {
            self.snapshot_due.notify_one();
        }
    }
}

/// Drives a [`Machine`] with committed entries.
pub(crate) struct Applier<M: Machine> {
    machine: Arc<M>,
    snapshots: Arc<Snapshots>,
    progress: Arc<Progress>,
    fatal: Fatal,
    applied: Option<LogId>,
    membership: StoredMembership,
}

impl<M: Machine> Applier<M> {
    /// Goes on from the newest snapshot, which is already in the machine.
    pub(crate) fn new(machine: Arc<M>, snapshots: Arc<Snapshots>, progress: Arc<Progress>, fatal: Fatal) -> Applier<M> {
        let mut applier =
            Applier { machine, snapshots, progress, fatal, applied: None, membership: StoredMembership::default() };
        let current = applier.snapshots.current().borrow().as_ref().map(|current| current.meta.clone());
        if let Some(meta) = current {
            applier.go_on_from(meta);
        }
        applier
    }

    fn go_on_from(&mut self, meta: SnapshotMeta) {
        self.progress.applied.send_replace(meta.last_log_id.map_or(0, |last| last.index + 1));
        self.progress.unsaved_bytes.store(0, Ordering::Relaxed);
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership;
    }

    fn apply_one(&mut self, entry: Entry) -> Applied {
        let at = Position { index: entry.log_id.index, leader: entry.log_id.leader_id };
        let (committed, bytes) = match &entry.payload {
            EntryPayload::Blank => (Committed::TakeOver, 0),
            EntryPayload::Normal(Payload::Bytes(bytes)) => (Committed::Payload(bytes), bytes.len() as u64),
            EntryPayload::Normal(Payload::Checkpoint) | EntryPayload::Membership(_) => (Committed::Internal, 0),
        };
        // A panic is a bug or damage. It ends this task; the reason must reach those who would otherwise wait for ever.
        let applied = catch_unwind(AssertUnwindSafe(|| self.machine.apply(at, committed))).unwrap_or_else(|panic| {
            self.fatal.set(|| format!("applying entry {} panicked: {}", at.index, panic_text(&*panic)));
            resume_unwind(panic)
        });
        self.applied = Some(entry.log_id);
        let take_over = matches!(entry.payload, EntryPayload::Blank);
        if let EntryPayload::Membership(members) = entry.payload {
            self.membership = StoredMembership::new(Some(entry.log_id), members);
        }
        self.progress.note(at, take_over, bytes + ENTRY_OVERHEAD);
        applied
    }
}

impl<M: Machine> RaftStateMachine<Types> for Applier<M> {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder<M::View>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + Send,
    {
        let mut in_a_row = 0;
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let applied = self.apply_one(entry);
            if let Some(responder) = responder {
                responder.send(applied);
            }
            in_a_row += 1;
            if in_a_row % YIELD_EVERY == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<Builder<M::View>> {
        let writing = self.snapshots.begin()?;
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() };
        self.progress.unsaved_bytes.store(0, Ordering::Relaxed);
        Some(Builder::new(self.machine.view(), meta, writing))
    }

    async fn get_snapshot_builder(&mut self) -> Builder<M::View> {
        loop {
            if let Some(builder) = self.try_create_snapshot_builder(true).await {
                return builder;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotFile) -> io::Result<()> {
        let (snapshots, machine, covers) = (self.snapshots.clone(), self.machine.clone(), meta.clone());
        let install = move || snapshots.install(covers, &snapshot.path, &*machine);
        tokio::task::spawn_blocking(install).await.map_err(io::Error::other)??;
        self.go_on_from(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, SnapshotFile>>> {
        Ok(self.snapshots.to_raft())
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
