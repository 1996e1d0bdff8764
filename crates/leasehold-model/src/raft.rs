//! Abstract Raft: what consensus does to a log, without messages.
//!
//! An election takes one step and needs one vote besides the candidate's own; replication copies the leader's whole
//! log. What is left is what matters to leases: leaders that do not know that they are deposed and go on stamping,
//! logs that are overwritten, entries of an old term that a later leader commits, entries that reach a log under
//! another leader than the one that stamped them. Committed entries are the same for all and are folded into one
//! state, so a node has only what comes after them.

use crate::clock::Clock;
use crate::core::{Command, Stamp, Term, Time};

/// How many nodes there are.
pub const NODES: usize = 3;

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// The first entry of a leadership.
    TakeOver,
    /// A stamped command.
    Stamped {
        /// When, and by whom.
        stamp: Stamp,
        /// What is asked.
        command: Command,
        /// Who asked, and when it sent that by its own clock.
        asker: Option<(usize, Time)>,
    },
}

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// The leadership under which it was appended.
    pub term: Term,
    /// What it is for.
    pub item: Item,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// The latest leadership it knows of.
    pub term: Term,
    /// It believes that it leads.
    pub leads: bool,
    /// It has all committed entries.
    pub complete: bool,
    /// What it has after them.
    pub tail: Vec<Entry>,
    /// Its lease clock; a leader that has one is ready.
    pub clock: Option<Clock>,
    /// An entry that is stamped and not in a log yet.
    pub parked: Option<Item>,
    /// The stamp of an entry whose commands are still to come; only where that rule is broken.
    pub open: Option<Stamp>,
}

/// All nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// The nodes; which is which does not matter.
    pub nodes: Vec<Node>,
    /// The term of the latest committed entry.
    pub committed: Term,
}

impl Cluster {
    /// Three nodes of which the first leads, and nothing but committed entries.
    pub fn new(clock: Clock) -> Self {
        let node = Node { term: 1, leads: false, complete: true, tail: vec![], clock: None, parked: None, open: None };
        let mut nodes = vec![node; NODES];
        nodes[0].leads = true;
        nodes[0].clock = Some(clock);
        Self { nodes, committed: 1 }
    }

    /// Tells whether a node leads, as far as it knows, and has applied the first entry of its leadership.
    pub fn is_ready(&self, node: usize) -> bool {
        self.nodes[node].leads && self.nodes[node].clock.is_some()
    }

    /// Where the log of a node ends: logs are compared by this.
    fn end(&self, node: usize) -> (Term, usize) {
        let Node { complete, tail, .. } = &self.nodes[node];
        let last = tail.last().map_or(self.committed, |entry| entry.term);
        if *complete { (last, tail.len()) } else { (0, 0) }
    }

    /// The term of a leadership that a candidate would get with the vote of `voter`, if it would get it.
    pub fn electable(&self, candidate: usize, voter: usize) -> Option<Term> {
        let able = self.nodes[candidate].complete && self.end(candidate) >= self.end(voter);
        able.then(|| self.nodes[candidate].term.max(self.nodes[voter].term) + 1)
    }

    /// Elects a node, which begins its leadership with an entry of its own.
    pub fn elect(&mut self, candidate: usize, voter: usize) {
        let term = self.nodes[candidate].term.max(self.nodes[voter].term) + 1;
        self.nodes[voter].follow(term);
        self.nodes[candidate].follow(term);
        self.nodes[candidate].leads = true;
        self.append(candidate, Item::TakeOver);
    }

    /// Puts an entry into the log of a leader.
    pub fn append(&mut self, leader: usize, item: Item) {
        let node = &mut self.nodes[leader];
        // A leader that lacks committed entries is deposed: nothing of its log can count any more.
        if node.complete {
            node.tail.push(Entry { term: node.term, item });
        }
    }

    /// Tells whether a follower would take something from a leader.
    pub fn has_news(&self, leader: usize, follower: usize) -> bool {
        let (from, to) = (&self.nodes[leader], &self.nodes[follower]);
        to.term != from.term || !to.complete || to.tail != from.tail
    }

    /// Copies the log of a leader to a follower.
    pub fn replicate(&mut self, leader: usize, follower: usize) {
        let Node { term, tail, .. } = self.nodes[leader].clone();
        let node = &mut self.nodes[follower];
        if node.term < term || node.leads {
            node.follow(term);
        }
        (node.tail, node.complete) = (tail, true);
    }

    /// Commits the whole log of a leader that knows that a majority has it; gives what is newly committed.
    ///
    /// Entries of older terms are committed only together with one of its own.
    pub fn commit(&mut self, leader: usize) -> Vec<Entry> {
        if self.end(leader).0 != self.nodes[leader].term {
            return Vec::new();
        }
        let fresh = std::mem::take(&mut self.nodes[leader].tail);
        let Some(last) = fresh.last() else { return fresh };
        self.committed = last.term;
        for node in (0..self.nodes.len()).filter(|node| *node != leader) {
            let node = &mut self.nodes[node];
            node.complete &= node.tail.get(fresh.len() - 1).is_some_and(|entry| entry.term == last.term);
            node.tail = if node.complete { node.tail.split_off(fresh.len()) } else { Vec::new() };
        }
        fresh
    }
}

impl Node {
    fn follow(&mut self, term: Term) {
        (self.term, self.leads, self.clock, self.open) = (term, false, None, None);
    }
}
