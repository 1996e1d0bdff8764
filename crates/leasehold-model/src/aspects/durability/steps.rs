//! What can happen next in `durability`, and what it does.

use super::node::Node;
use super::{Action, CLIENTS, DurabilityModel, State};
use crate::clock::Clock;
use crate::core::{Answer, Command, Stamp};
use crate::holder::Rates;
use crate::raft::{Entry, Item};

impl DurabilityModel {
    /// What one node can do by itself.
    pub(super) fn node_actions(&self, state: &State, number: usize, actions: &mut Vec<Action>) {
        let node = &state.nodes[number];
        if state.left.crashes > 0 {
            actions.push(Action::Crash { node: number });
        }
        if state.left.snapshots > 0 && node.applied.index > node.snapshot.index {
            actions.push(Action::Snapshot { node: number });
        }
        if node.flushed < node.log.len() {
            actions.push(Action::Flush { node: number });
        }
        if !node.leads || node.clock.is_none() {
            return;
        }
        let mut stamp = |command, client| actions.push(Action::Stamp { leader: number, command, client });
        if state.left.ticks > 0 {
            stamp(Command::Tick, None);
        }
        for client in (0..CLIENTS).filter(|client| state.left.asks[*client] > 0) {
            let known = state.holders[client].until > 0;
            stamp(if known { Command::Renew { lease: client, ttl: None } } else { self.grant(client) }, Some(client));
        }
    }

    /// What can happen between two nodes.
    pub(super) fn pair_actions(&self, state: &State, number: usize, other: usize, actions: &mut Vec<Action>) {
        let (node, peer) = (&state.nodes[number], &state.nodes[other]);
        if node.term.max(peer.term) < self.terms && node.position() >= peer.position() {
            actions.push(Action::Elect { candidate: number, voter: other });
        }
        if !node.leads || node.term < peer.term || (peer.leads && node.term == peer.term) {
            return;
        }
        if node.snapshot.index <= agreed(node, peer) {
            actions.push(Action::Replicate { leader: number, follower: other });
        }
        // A node that started again knows of no commit yet, so it may be given what its log has already.
        if peer.applied.index < node.snapshot.index {
            actions.push(Action::Install { leader: number, follower: other });
        }
    }

    /// The state after an action, with every node in its place.
    pub(super) fn step(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::TimePasses => next.real += 1,
            Action::Stamp { leader, command, client } => self.stamp(&mut next, leader, command, client),
            Action::Replicate { leader, follower } => self.replicate(&mut next, leader, follower),
            Action::Install { leader, follower } => {
                let (term, snapshot) = (next.nodes[leader].term, next.nodes[leader].snapshot);
                next.nodes[follower].follow(term);
                next.nodes[follower].install(&self.rules, snapshot);
                next.installed = true;
            }
            Action::Elect { candidate, voter } => {
                let term = next.nodes[candidate].term.max(next.nodes[voter].term) + 1;
                next.nodes[voter].follow(term);
                next.nodes[candidate].follow(term);
                next.nodes[candidate].leads = true;
                next.nodes[candidate].append(&self.rules, Item::TakeOver);
            }
            Action::Snapshot { node } => {
                next.left.snapshots -= 1;
                next.nodes[node].write_snapshot(&self.rules);
            }
            Action::Crash { node } => {
                next.left.crashes -= 1;
                next.nodes[node].crash(&self.rules);
            }
            Action::CrashAll => {
                next.left.outages -= 1;
                next.nodes.iter_mut().for_each(|node| node.crash(&self.rules));
            }
            Action::Flush { node } => next.nodes[node].flushed = next.nodes[node].log.len(),
        }
        for holder in &mut next.holders {
            holder.settle(next.real);
        }
        next
    }

    fn stamp(&self, next: &mut State, leader: usize, command: Command, client: Option<usize>) {
        match client {
            None => next.left.ticks -= 1,
            Some(client) => next.left.asks[client] -= 1,
        }
        let (real, node) = (next.real, &mut next.nodes[leader]);
        let now = node.clock.as_mut().expect("only ready leaders stamp").read(&self.rules, real);
        let stamp = Stamp { leader: node.term, now };
        node.append(&self.rules, Item::Stamped { stamp, command, asker: client.map(|client| (client, real)) });
    }

    /// Copies the log to a follower, which applies what the leader knows to be committed. Then both have it, which is a
    /// majority: the leader commits and applies it, and the follower hears of that the next time.
    fn replicate(&self, next: &mut State, leader: usize, follower: usize) {
        let from = next.nodes[leader].clone();
        let to = &mut next.nodes[follower];
        if to.term < from.term {
            to.follow(from.term);
        }
        to.take_log(&self.rules, &from);
        self.apply_to(next, follower, from.applied.index);
        if from.position().0 == from.term {
            self.apply_to(next, leader, from.end());
            self.tell_clock(next, leader);
        }
    }

    fn apply_to(&self, next: &mut State, number: usize, end: usize) {
        while next.nodes[number].applied.index < end {
            let node = &next.nodes[number];
            let Some(entry) = node.log.get(node.applied.index - node.snapshot.index) else { break };
            self.apply(next, number, *entry);
        }
    }

    /// The leader's clock hears what is applied; the first time it starts.
    fn tell_clock(&self, next: &mut State, leader: usize) {
        let (real, node) = (next.real, &mut next.nodes[leader]);
        let (now, grace) = (node.applied.core.now, node.applied.core.grace);
        match &mut node.clock {
            Some(clock) => clock.applied(now, real),
            None => node.clock = Some(Clock::start(now, grace, real)),
        }
    }

    fn apply(&self, next: &mut State, number: usize, entry: Entry) {
        let node = &mut next.nodes[number];
        let (before, mut events, mut answer) = (node.applied.core, Vec::new(), Answer::Retry);
        node.applied.index += 1;
        node.applied.term = entry.term;
        match entry.item {
            Item::TakeOver => node.applied.core.take_over(&self.rules),
            Item::Stamped { stamp, command, .. } => {
                answer = node.applied.core.apply(&self.rules, entry.term, stamp, command, &mut events);
            }
        }
        let applied = node.applied;
        let first = applied.index > next.committed.index;
        if first {
            next.audit.see(&before, &applied.core, &events);
            next.committed = applied;
        } else if applied.index == next.committed.index {
            next.diverged |= applied != next.committed;
        }
        let Item::Stamped { asker: Some((client, sent)), .. } = entry.item else { return };
        if let (true, Answer::Lease { remaining, .. }) = (first, answer) {
            next.holders[client].hears(&self.rules, &Rates::EQUAL, sent, remaining, next.real);
        }
    }
}

/// Up to where a follower surely has what its leader has: the end of its log if that is the leader's too, else what it
/// has applied.
fn agreed(leader: &Node, follower: &Node) -> usize {
    let at = |node: &Node, index: usize| match index.checked_sub(node.snapshot.index) {
        Some(0) => Some(node.snapshot.term),
        Some(after) => node.log.get(after - 1).map(|entry| entry.term),
        None => None,
    };
    let end = follower.end().min(leader.end());
    let same = |index: &usize| at(leader, *index).is_some() && at(leader, *index) == at(follower, *index);
    (0..=end).rev().find(same).unwrap_or(follower.applied.index)
}
