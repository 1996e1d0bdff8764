//! What can happen next in `time`, and what it does.

use super::{Action, CLIENTS, RESOURCE, State, TimeModel};
use crate::clock::Clock;
use crate::core::{Answer, Command, Event, LeaseId, Stamp};
use crate::plant::Plant;
use crate::raft::{Item, NODES, Node};

impl TimeModel {
    pub(super) fn grant(&self, lease: LeaseId) -> Command {
        Command::Grant { lease, ttl: self.ttl, parent: None, ask: Some((RESOURCE, 0)), seen: 0 }
    }

    /// Tells whether nobody acts and nobody can come to act any more: the rest is of no interest.
    pub(super) fn is_over(&self, state: &State) -> bool {
        let clock = self.holder_clock(state.real);
        let done = |client: usize| state.left.asks[client] == 0 || state.holders[client].stopped;
        let items = |node: &Node| {
            let mut items = node.tail.iter().map(|entry| entry.item).chain(node.parked);
            items.any(|item| matches!(item, Item::Stamped { asker: Some(_), .. }))
        };
        match self.bounded_life {
            true => !state.core.leases[0].is_living(),
            false => {
                let silent = (0..CLIENTS).all(|client| done(client) && !state.holders[client].is_valid(clock));
                silent && !state.cluster.nodes.iter().any(items)
            }
        }
    }

    /// What one node can do by itself.
    pub(super) fn node_actions(&self, state: &State, leader: usize, actions: &mut Vec<Action>) {
        let node = &state.cluster.nodes[leader];
        let room = node.tail.len() < self.tail;
        if node.leads && node.parked.is_some() && room {
            actions.push(Action::Append { leader });
        }
        if !state.cluster.is_ready(leader) || node.parked.is_some() {
            return;
        }
        if self.bounded_life && state.real < self.horizon && room && self.is_newest(state, leader) {
            actions.push(Action::HealthyTick { leader });
        }
        let mut stamp = |command, client| {
            if room {
                actions.push(Action::Stamp { leader, command, client, parked: false });
            }
            if state.left.parked > 0 {
                actions.push(Action::Stamp { leader, command, client, parked: true });
            }
        };
        if state.left.ticks > 0 {
            stamp(Command::Tick, None);
        }
        for client in 0..CLIENTS {
            self.wishes(state, client).into_iter().for_each(|command| stamp(command, Some(client)));
        }
        if self.rules.broken(Plant::StampCached) && node.open.is_none() {
            actions.push(Action::Open { leader });
        }
    }

    /// What can happen between two nodes.
    pub(super) fn pair_actions(&self, state: &State, node: usize, other: usize, actions: &mut Vec<Action>) {
        let cluster = &state.cluster;
        let (from, to) = (&cluster.nodes[node], &cluster.nodes[other]);
        let room = from.tail.len() < self.tail;
        if room && cluster.electable(node, other).is_some_and(|term| term <= self.terms) {
            actions.push(Action::Elect { candidate: node, voter: other });
        }
        if from.leads && from.complete && to.term <= from.term {
            let news = cluster.has_news(node, other);
            if news || !from.tail.is_empty() || !cluster.is_ready(node) {
                actions.push(Action::Replicate { leader: node, follower: other, heard: true });
            }
            if news && state.left.unheard > 0 {
                actions.push(Action::Replicate { leader: node, follower: other, heard: false });
            }
        }
        if from.parked.is_some() && to.leads && to.tail.len() < self.tail {
            actions.push(Action::Forward { from: node, to: other });
        }
    }

    /// Tells whether nobody has heard of a later leader.
    fn is_newest(&self, state: &State, leader: usize) -> bool {
        let nodes = &state.cluster.nodes;
        nodes.iter().all(|node| node.term <= nodes[leader].term)
    }

    /// What a client may ask for.
    fn wishes(&self, state: &State, client: usize) -> Vec<Command> {
        let (lease, holder) = (client, &state.holders[client]);
        if state.left.asks[client] == 0 || holder.stopped {
            return Vec::new();
        }
        if holder.until == 0 {
            return vec![self.grant(lease)];
        }
        let mut wishes = vec![Command::Renew { lease, ttl: None }];
        wishes.extend(self.releases.then_some(Command::Release { lease }));
        wishes.extend(self.short.map(|ttl| Command::Renew { lease, ttl: Some(ttl) }));
        wishes
    }

    /// The state after an action, with every node in its place.
    pub(super) fn step(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        match action {
            Action::TimePasses => next.pass(true),
            Action::HealthyTick { leader } => {
                next.pass(false);
                self.stamp(&mut next, leader, Command::Tick, None, false);
                self.replicate(&mut next, leader, (leader + 1) % NODES, true);
            }
            Action::Elect { candidate, voter } => self.elect(&mut next, candidate, voter),
            Action::Replicate { leader, follower, heard } => {
                next.left.unheard -= u8::from(!heard);
                self.replicate(&mut next, leader, follower, heard);
            }
            Action::Stamp { leader, command, client, parked } => {
                match client {
                    None => next.left.ticks -= 1,
                    Some(client) => next.left.asks[client] -= 1,
                }
                next.left.parked -= u8::from(parked);
                self.stamp(&mut next, leader, command, client, parked);
            }
            Action::Append { leader } => self.append_parked(&mut next, leader, leader),
            Action::Forward { from, to } => self.append_parked(&mut next, from, to),
            Action::Open { leader } => {
                let stamp = self.read(&mut next, leader);
                next.cluster.nodes[leader].open = Some(stamp);
            }
        }
        next
    }

    fn elect(&self, next: &mut State, candidate: usize, voter: usize) {
        next.cluster.elect(candidate, voter);
        if self.rules.broken(Plant::TimeGoesBack) {
            let clock = Clock::start(next.core.now, 0, self.server_clock(next.real));
            next.cluster.nodes[candidate].clock = Some(clock);
        }
    }

    /// Reads a leader's clock.
    fn read(&self, next: &mut State, leader: usize) -> Stamp {
        let real = self.server_clock(next.real);
        let node = &mut next.cluster.nodes[leader];
        let clock = node.clock.as_mut().expect("only ready leaders stamp");
        Stamp { leader: node.term, now: clock.read(&self.rules, real) }
    }

    fn stamp(&self, next: &mut State, leader: usize, command: Command, client: Option<usize>, parked: bool) {
        let sent = self.holder_clock(next.real);
        if let (Command::Release { .. }, Some(client)) = (command, client) {
            next.holders[client].sends_release(&self.rules);
        }
        let stamp = match next.cluster.nodes[leader].open.take() {
            Some(early) => early,
            None => self.read(next, leader),
        };
        let item = Item::Stamped { stamp, command, asker: client.map(|client| (client, sent)) };
        match parked {
            true => next.cluster.nodes[leader].parked = Some(item),
            false => self.append(next, leader, item),
        }
    }

    fn append_parked(&self, next: &mut State, from: usize, to: usize) {
        let item = next.cluster.nodes[from].parked.take().expect("something is parked");
        self.append(next, to, item);
    }

    fn append(&self, next: &mut State, leader: usize, item: Item) {
        next.cluster.append(leader, item);
        if let Item::Stamped { command: Command::Renew { lease, .. }, asker: Some((client, sent)), .. } = item
            && self.rules.broken(Plant::AckBeforeCommit)
            && next.core.leases[lease].is_living()
        {
            next.holders[client].hears(&self.rules, &self.rates, sent, self.ttl, sent);
        }
    }

    fn replicate(&self, next: &mut State, leader: usize, follower: usize, heard: bool) {
        next.cluster.replicate(leader, follower);
        if !heard {
            return;
        }
        let term = next.cluster.nodes[leader].term;
        for entry in next.cluster.commit(leader) {
            self.apply(next, entry.term, entry.item, term);
        }
        self.tell_clock(next, leader);
    }

    /// Applies a committed entry and answers who asked.
    fn apply(&self, next: &mut State, appended_by: u8, item: Item, committed_by: u8) {
        let Item::Stamped { stamp, command, asker } = item else {
            return next.core.take_over(&self.rules);
        };
        let (before, mut events) = (next.core, Vec::<Event>::new());
        let answer = next.core.apply(&self.rules, appended_by, stamp, command, &mut events);
        next.audit.see(&before, &next.core, &events);
        let old = appended_by < committed_by && answer != Answer::Retry;
        next.seen = [next.seen[0] || old, next.seen[1] || answer == Answer::Retry];
        let Some((client, sent)) = asker else { return };
        let clock = self.holder_clock(next.real);
        let holder = &mut next.holders[client];
        match answer {
            Answer::Lease { remaining, .. } => holder.hears(&self.rules, &self.rates, sent, remaining, clock),
            Answer::Ended => holder.stopped = true,
            // A release whose answer is lost: what the holder makes of it must not depend on it.
            Answer::Done | Answer::Refused | Answer::TooOld | Answer::Retry => {}
        }
    }

    /// The leader's clock hears what is applied; the first time it starts.
    fn tell_clock(&self, next: &mut State, leader: usize) {
        let real = self.server_clock(next.real);
        let (now, grace) = (next.core.now, next.core.grace);
        let node = &mut next.cluster.nodes[leader];
        if next.cluster.committed != node.term {
            return;
        }
        match &mut node.clock {
            Some(clock) => clock.applied(now, real),
            None => node.clock = Some(Clock::start(now, grace, real)),
        }
    }
}

impl State {
    fn pass(&mut self, outage: bool) {
        self.real += 1;
        if let Some((age, lost)) = &mut self.age {
            *age += 1;
            *lost += u8::from(outage);
        }
    }

    /// Forgets what cannot matter any more, so that equal futures are one state.
    pub(super) fn settle(&mut self, model: &TimeModel) {
        for holder in &mut self.holders {
            holder.pair = None;
            holder.settle(model.holder_clock(self.real));
        }
        if model.bounded_life {
            self.seen = [false; 2];
        }
        if self.age.is_some() && !self.core.leases[0].is_living() {
            self.age = Some((0, 0));
        }
    }
}
