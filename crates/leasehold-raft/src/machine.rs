//! The state machine as openraft sees it: hands committed entries to the machine in order and answers proposals.
//!
//! Every responder is answered, of blank and membership entries too, inside apply and after the machine has taken the
//! entry. Freezes the state at every checkpoint and asks for a snapshot there; counts the bytes applied since, which says
//! when the next checkpoint is due, and since the last snapshot, which is asked for without one if none comes. Notes when
//! this node's own first entry as leader is applied, which is what makes it ready to lead.

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

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::convert;
use crate::group_commit::Fatal;
use crate::roster::Roster;
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
    /// Applied since the last snapshot was begun.
    unsaved_bytes: AtomicU64,
    /// Applied since the last checkpoint.
    unchecked_bytes: AtomicU64,
    snapshot_bytes: u64,
    snapshot_due: Notify,
    checkpoint_due: Notify,
}

impl Progress {
    pub(crate) fn new(node: u64, snapshot_bytes: u64) -> Progress {
        Progress {
            node,
            applied: watch::Sender::new(0),
            ready: watch::Sender::new(None),
            unsaved_bytes: AtomicU64::new(0),
            unchecked_bytes: AtomicU64::new(0),
            snapshot_bytes: snapshot_bytes.max(1),
            snapshot_due: Notify::new(),
            checkpoint_due: Notify::new(),
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

    /// Waits until a checkpoint is applied, or the log has grown so much without one that a snapshot is due; for one caller.
    pub(crate) async fn snapshot_due(&self) {
        self.snapshot_due.notified().await;
    }

    /// Waits until the log has grown enough for a checkpoint; for one caller.
    pub(crate) async fn checkpoint_due(&self) {
        self.checkpoint_due.notified().await;
    }

    /// Says whether the log has grown enough for a checkpoint.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.unchecked_bytes.load(Ordering::Relaxed) >= self.snapshot_bytes
    }

    fn note(&self, at: Position, take_over: bool, bytes: u64) {
        self.applied.send_replace(at.index + 1);
        if take_over && at.leader.node == self.node {
            self.ready.send_replace(Some(at.leader));
        }
        // At every multiple: a checkpoint is lost with its leader, a snapshot if the one before is still being written.
        if self.reaches_multiple(&self.unchecked_bytes, bytes) > 0 {
            self.checkpoint_due.notify_one();
        }
        if self.reaches_multiple(&self.unsaved_bytes, bytes) > 1 {
            self.snapshot_due.notify_one();
        }
    }

    /// Adds to a count; returns which multiple of the bytes between snapshots it has now reached, or 0.
    fn reaches_multiple(&self, count: &AtomicU64, bytes: u64) -> u64 {
        let before = count.fetch_add(bytes, Ordering::Relaxed);
        let after = (before + bytes) / self.snapshot_bytes;
        if before / self.snapshot_bytes == after { 0 } else { after }
    }

    fn note_checkpoint(&self) {
        self.unchecked_bytes.store(0, Ordering::Relaxed);
        self.snapshot_due.notify_one();
    }
}

/// Those who hear of what is committed beside the machine.
pub(crate) struct Told<M: Machine> {
    pub(crate) roster: Arc<Roster>,
    pub(crate) checkpoints: Arc<Checkpoints<M::View>>,
}

/// Drives a [`Machine`] with committed entries.
pub(crate) struct Applier<M: Machine> {
    machine: Arc<M>,
    snapshots: Arc<Snapshots>,
    progress: Arc<Progress>,
    fatal: Fatal,
    checkpoints: Arc<Checkpoints<M::View>>,
    roster: Arc<Roster>,
    applied: Option<LogId>,
    membership: StoredMembership,
}

impl<M: Machine> Applier<M> {
    /// Goes on from the newest snapshot, which is already in the machine.
    pub(crate) fn new(
        machine: Arc<M>,
        snapshots: Arc<Snapshots>,
        progress: Arc<Progress>,
        fatal: Fatal,
        told: Told<M>,
    ) -> Applier<M> {
        let (applied, membership) = (None, StoredMembership::default());
        let Told { roster, checkpoints } = told;
        let mut applier = Applier { machine, snapshots, progress, fatal, checkpoints, roster, applied, membership };
        let current = applier.snapshots.current().borrow().as_ref().map(|current| current.meta.clone());
        if let Some(meta) = current {
            applier.go_on_from(meta);
        }
        applier
    }

    fn go_on_from(&mut self, meta: SnapshotMeta) {
        self.progress.applied.send_replace(meta.last_log_id.map_or(0, |last| last.index + 1));
        self.progress.unsaved_bytes.store(0, Ordering::Relaxed);
        self.progress.unchecked_bytes.store(0, Ordering::Relaxed);
        self.applied = meta.last_log_id;
        self.roster.applied(&meta.last_membership);
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
        let checkpoint = matches!(entry.payload, EntryPayload::Normal(Payload::Checkpoint));
        if let EntryPayload::Membership(members) = entry.payload {
            self.membership = StoredMembership::new(Some(entry.log_id), members);
            self.roster.applied(&self.membership);
        }
        self.progress.note(at, take_over, bytes + ENTRY_OVERHEAD);
        if checkpoint {
            self.take_checkpoint(entry.log_id);
        }
        applied
    }

    /// Freezes the state exactly here, if there is anybody to compare it with.
    fn take_checkpoint(&self, at: LogId) {
        let members = self.membership.membership();
        if members.nodes().nth(1).is_some() {
            let (at, voters) = (convert::position(&at), members.voter_ids().collect());
            self.checkpoints.put(Checkpoint { at, voters, view: self.machine.view() });
        }
        self.progress.note_checkpoint();
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
        crate::world::blocking(install).await.map_err(io::Error::other)??;
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_checkpoint_is_due_when_the_log_has_grown_and_a_snapshot_if_none_came_by_then() {
        let progress = Progress::new(1, 1000);
        let at = Position { index: 1, leader: LeaderId::default() };
        let due = || (progress.checkpoint_due().now_or_never(), progress.snapshot_due().now_or_never());
        progress.note(at, false, 999);
        assert_eq!((due(), progress.is_checkpoint_due()), ((None, None), false));
        progress.note(at, false, 1);
        assert_eq!((due(), progress.is_checkpoint_due()), ((Some(()), None), true));
        progress.note(at, false, 999);
        assert_eq!(due(), (None, None));
        progress.note(at, false, 1);
        assert_eq!(due(), (Some(()), Some(())), "the leader is asked again, and every node sees to itself");
        progress.note_checkpoint();
        assert_eq!((due(), progress.is_checkpoint_due()), ((None, Some(())), false));
    }
}
