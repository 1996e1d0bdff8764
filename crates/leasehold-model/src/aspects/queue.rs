//! Queues: waiters, hand-on, expiry in the queue, and how a waiter learns that it was served.
//!
//! One holder and two waiters. A waiter is a lease too; whoever dies in the queue is passed over, patience ends, and
//! who is served gets a deadline as if renewed. It learns of that by a push that may take any time, and converts the
//! deadline through its latest acknowledged pair. Leaders are lost with entries in flight. In `backlog` a sweep
//! ends one lease per entry, so that commands meet leases that are over and still there.

use stateright::{Model, Property};

use crate::audit::{Aspect, Audit, promises};
use crate::core::{Answer, Command, Core, End, Event, LeaseId, Life, NEVER, ResourceId, Term, Time};
use crate::holder::{Holder, Rates};
use crate::line::{Applied, Line};
use crate::plant::{Plant, Rules};
use crate::words;

const CLIENTS: usize = 3;
const NAMES: [&str; CLIENTS] = ["ann", "bob", "cid"];
const RESOURCE: ResourceId = 0;

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct QueueModel {
    rules: Rules,
    ttl: Time,
    /// How long each waits.
    patience: [Time; CLIENTS],
    horizon: Time,
    terms: Term,
    in_flight: usize,
    asks: [u8; CLIENTS],
    ticks: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    line: Line,
    holders: [Holder; CLIENTS],
    /// Deadlines on their way to those who were served.
    pushes: [Option<Time>; CLIENTS],
    asks: [u8; CLIENTS],
    ticks: u8,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of real time passes.
    TimePasses,
    /// A client asks for something, and the leader stamps it.
    Ask(usize, Command),
    /// The leader stamps an entry without a command.
    Tick,
    /// The first entry in flight is committed.
    Commit,
    /// The leader is lost, and so many entries in flight survive.
    LoseLeader(usize),
    /// A new leader is ready.
    TakeOver,
    /// A client hears that it was served.
    Push(usize),
}

impl QueueModel {
    /// Waiters, hand-on and pushes.
    pub fn queue(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, ..Rules::DESIGN };
        let patience = [NEVER, 2, NEVER];
        let model = Self { rules, ttl: 2, patience, horizon: 5, terms: 2, in_flight: 1, asks: [1, 2, 1], ticks: 1 };
        if deep { Self { asks: [1, 2, 2], ..model } } else { model }
    }

    /// The same while a sweep ends one lease per entry.
    pub fn backlog(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, piece: 1, ..Rules::DESIGN };
        let model = Self { rules, terms: 1, ..Self::queue(plant, deep) };
        if deep { Self { terms: 2, in_flight: 2, ..model } } else { model }
    }

    fn wishes(&self, state: &State, client: usize) -> Vec<Command> {
        let (lease, holder) = (client, &state.holders[client]);
        if state.asks[client] == 0 || holder.stopped {
            return Vec::new();
        }
        // Without an acknowledged pair it has not heard of its lease yet.
        if holder.pair.is_none() {
            let ask = Some((RESOURCE, self.patience[client]));
            return vec![Command::Grant { lease, ttl: self.ttl, parent: None, ask, seen: state.line.core.now }];
        }
        vec![Command::Renew { lease, ttl: None }, Command::Release { lease }]
    }

    fn ask(&self, state: &mut State, client: usize, command: Command) {
        state.asks[client] -= 1;
        if let Command::Release { .. } = command {
            state.holders[client].sends_release(&self.rules);
        }
        let sent = state.line.real;
        state.line.propose(&self.rules, command, Some(client), sent, 0);
    }

    /// Clients hear what became of an entry.
    fn hear(&self, state: &mut State, applied: Applied) {
        let real = state.line.real;
        for event in &applied.events {
            if let Event::Taken { lease, waited: true, .. } = *event {
                let now = state.line.core.now;
                let told = state.line.core.leases[lease].deadline.max(now + self.ttl);
                state.pushes[lease] = Some(told);
            }
        }
        let Some(client) = applied.flight.client else { return };
        let (holder, sent) = (&mut state.holders[client], applied.flight.sent);
        match applied.answer {
            Answer::Lease { now, remaining, tokens } => {
                holder.acknowledged(sent, now);
                if tokens[RESOURCE].is_some() {
                    holder.hears(&self.rules, &Rates::EQUAL, sent, remaining, real);
                }
            }
            Answer::Ended => holder.stopped = true,
            Answer::Done | Answer::Refused | Answer::TooOld | Answer::Retry => {}
        }
    }

    fn settle(&self, state: &mut State) {
        for client in 0..CLIENTS {
            state.holders[client].settle(state.line.real);
            if state.holders[client].stopped && !self.rules.broken(Plant::PushBelievedAfterRelease) {
                state.pushes[client] = None;
            }
        }
    }

    /// Tells whether nobody acts and nobody can come to act any more.
    fn is_over(&self, state: &State) -> bool {
        let silent = |client: usize| {
            let holder = &state.holders[client];
            let quiet = state.asks[client] == 0 || holder.stopped;
            quiet && state.pushes[client].is_none() && !holder.is_valid(state.line.real)
        };
        (0..CLIENTS).all(silent) && state.line.in_flight.iter().all(|flight| flight.client.is_none())
    }

    fn tell(&self, action: Action) -> String {
        match action {
            Action::TimePasses => "A tick passes".to_owned(),
            Action::Ask(client, command) => format!("{} {}", NAMES[client], words::asked(command)),
            Action::Tick => "The leader stamps a tick".to_owned(),
            Action::Commit => "The first entry in flight is committed".to_owned(),
            Action::LoseLeader(kept) => format!("The leader is lost; {kept} of the entries in flight survive"),
            Action::TakeOver => "A new leader is ready".to_owned(),
            Action::Push(client) => format!("{} hears that it was served", NAMES[client]),
        }
    }
}

impl Model for QueueModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut line = Line::new();
        line.apply(
            &self.rules,
            Command::Grant { lease: 0, ttl: self.ttl, parent: None, ask: Some((RESOURCE, 0)), seen: 0 },
        );
        let mut holders = [Holder::NEW; CLIENTS];
        holders[0].acknowledged(0, 0);
        holders[0].hears(&self.rules, &Rates::EQUAL, 0, self.ttl, 0);
        vec![State { line, holders, pushes: [None; CLIENTS], asks: self.asks, ticks: self.ticks }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self.is_over(state) {
            return;
        }
        if state.line.real < self.horizon {
            actions.push(Action::TimePasses);
        }
        if state.line.clock.is_none() {
            actions.push(Action::TakeOver);
        } else {
            if state.line.in_flight.len() < self.in_flight {
                let wishes = (0..CLIENTS).flat_map(|client| {
                    self.wishes(state, client).into_iter().map(move |command| Action::Ask(client, command))
                });
                actions.extend(wishes);
                actions.extend((state.ticks > 0).then_some(Action::Tick));
            }
            if state.line.term < self.terms {
                actions.extend((0..=state.line.in_flight.len()).map(Action::LoseLeader));
            }
            if !state.line.in_flight.is_empty() {
                actions.push(Action::Commit);
            }
        }
        actions.extend((0..CLIENTS).filter(|client| state.pushes[*client].is_some()).map(Action::Push));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::TimePasses => next.line.real += 1,
            Action::Ask(client, command) => self.ask(&mut next, client, command),
            Action::Tick => {
                next.ticks -= 1;
                next.line.propose(&self.rules, Command::Tick, None, 0, 0);
            }
            Action::Commit => {
                let applied = next.line.commit(&self.rules);
                self.hear(&mut next, applied);
            }
            Action::LoseLeader(kept) => next.line.lose_leader(kept),
            Action::TakeOver => {
                for applied in next.line.take_over(&self.rules) {
                    self.hear(&mut next, applied);
                }
            }
            Action::Push(client) => {
                // Without a pair it renews first; the push is kept until then.
                next.holders[client].pair?;
                let deadline = next.pushes[client].take()?;
                next.holders[client].is_pushed(&self.rules, &Rates::EQUAL, deadline, next.line.real);
            }
        }
        self.settle(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = promises::<Self>();
        all.push(Property::<Self>::sometimes("a waiter acts after the holder expired", |model, state| {
            let expired = matches!(state.line.core.leases[0].life, Life::Ended { end: End::Expired, .. });
            expired && model.acts(state, 1, RESOURCE)
        }));
        all.push(Property::<Self>::sometimes(
            "the second waiter acts though the first came before it",
            |model, state| {
                model.acts(state, 2, RESOURCE) && matches!(state.line.core.leases[1].life, Life::Ended { .. })
            },
        ));
        all.push(Property::<Self>::sometimes("patience ends a wait", |_, state| {
            matches!(state.line.core.leases[1].life, Life::Ended { end: End::Impatient, .. })
        }));
        if self.rules.piece == 1 {
            all.push(Property::<Self>::sometimes("something is over and still there", |_, state| {
                state.line.core.has_backlog()
            }));
        }
        all
    }
}

impl Aspect for QueueModel {
    fn core<'a>(&self, state: &'a State) -> &'a Core {
        &state.line.core
    }

    fn audit(&self, state: &State) -> Audit {
        state.line.audit
    }

    fn acts(&self, state: &State, lease: LeaseId, resource: ResourceId) -> bool {
        resource == RESOURCE && state.holders.get(lease).is_some_and(|holder| holder.is_valid(state.line.real))
    }

    fn story(&self, path: &[(State, Option<Action>)]) -> Vec<String> {
        words::tell(
            path,
            |action| self.tell(*action),
            |state| {
                let acting = (0..CLIENTS).filter(|lease| self.acts(state, *lease, RESOURCE)).map(|lease| NAMES[lease]);
                words::leases(&state.line.core, state.line.real, &NAMES, acting)
            },
        )
    }
}
