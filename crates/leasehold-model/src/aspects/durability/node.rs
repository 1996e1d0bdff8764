//! A node with its disk: what survives a crash, and what it rebuilds from that.

use crate::clock::Clock;
use crate::core::{Core, Term};
use crate::plant::{Plant, Rules};
use crate::raft::{Entry, Item};

/// What all entries up to an index give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Applied {
    pub(super) index: usize,
    /// The term of the last of these entries.
    pub(super) term: Term,
    pub(super) core: Core,
}

/// A node: first what is on its disk, then what is in its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    /// The latest leadership it knows of, with its vote in it.
    pub(super) term: Term,
    pub(super) snapshot: Applied,
    /// The entries after the snapshot.
    pub(super) log: Vec<Entry>,
    /// How many of them the disk has; all, unless that rule is broken.
    pub(super) flushed: usize,

    pub(super) leads: bool,
    /// What it has applied, which is all that it knows to be committed.
    pub(super) applied: Applied,
    /// Its lease clock; a leader that has one is ready.
    pub(super) clock: Option<Clock>,
}

impl Node {
    pub(super) fn new(applied: Applied) -> Self {
        let (term, snapshot, log) = (applied.term, applied, Vec::new());
        Self { term, snapshot, log, flushed: 0, leads: false, applied, clock: None }
    }

    /// The index of its last entry.
    pub(super) fn end(&self) -> usize {
        self.snapshot.index + self.log.len()
    }

    /// Where its log ends: logs are compared by this.
    pub(super) fn position(&self) -> (Term, usize) {
        (self.log.last().map_or(self.snapshot.term, |entry| entry.term), self.end())
    }

    pub(super) fn follow(&mut self, term: Term) {
        (self.term, self.leads, self.clock) = (term, false, None);
    }

    pub(super) fn append(&mut self, rules: &Rules, item: Item) {
        self.log.push(Entry { term: self.term, item });
        self.flush_unless_late(rules);
    }

    fn flush_unless_late(&mut self, rules: &Rules) {
        if !rules.broken(Plant::AckBeforeFlush) {
            self.flushed = self.log.len();
        }
    }

    /// Takes over the log of a leader, as far as the leader still has it.
    pub(super) fn take_log(&mut self, rules: &Rules, leader: &Node) {
        if leader.snapshot.index >= self.snapshot.index {
            // What the leader's snapshot covers is committed, and this node has it.
            let kept = leader.snapshot.index - self.snapshot.index;
            let before = self.log.len();
            self.log.truncate(kept);
            self.log.extend(&leader.log);
            self.flushed = self.flushed.min(before.min(self.log.len()));
        } else {
            let skipped = self.snapshot.index - leader.snapshot.index;
            self.log = leader.log[skipped..].to_vec();
            self.flushed = self.flushed.min(self.log.len());
        }
        self.flush_unless_late(rules);
    }

    /// Writes a snapshot of what it has applied and cuts the log.
    pub(super) fn write_snapshot(&mut self, rules: &Rules) {
        let covered = self.applied.index - self.snapshot.index;
        self.log.drain(..covered);
        self.flushed = self.flushed.saturating_sub(covered);
        if rules.broken(Plant::CutBeyondSnapshot) {
            self.log.clear();
            self.flushed = 0;
        }
        self.snapshot = self.applied;
    }

    /// Takes the snapshot of a leader in place of all entries that it covers.
    ///
    /// Later entries stay if they follow what the snapshot covers: others may have counted on them.
    pub(super) fn install(&mut self, rules: &Rules, snapshot: Applied) {
        let covered = snapshot.index.checked_sub(self.snapshot.index + 1).and_then(|last| self.log.get(last));
        let follows = covered.is_some_and(|entry| entry.term == snapshot.term);
        let gone = if follows { snapshot.index - self.snapshot.index } else { self.log.len() };
        self.log.drain(..gone);
        self.flushed = self.flushed.saturating_sub(gone);
        if rules.broken(Plant::InstallDropsLog) {
            self.log.clear();
            self.flushed = 0;
        }
        self.snapshot = snapshot;
        self.load(rules);
    }

    /// Loses its memory and starts again from its disk.
    pub(super) fn crash(&mut self, rules: &Rules) {
        self.log.truncate(self.flushed);
        self.follow(self.term);
        if rules.broken(Plant::VoteForgotten) {
            self.term = self.position().0;
        }
        self.load(rules);
    }

    fn load(&mut self, rules: &Rules) {
        self.applied = self.snapshot;
        let core = &mut self.applied.core;
        core.pass_through_snapshot(rules);
        if rules.broken(Plant::TtlRestarts) {
            let now = core.now;
            core.leases.iter_mut().filter(|lease| lease.is_living()).for_each(|lease| lease.deadline = now + lease.ttl);
        }
    }
}
