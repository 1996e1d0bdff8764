//! Families: parents, children, and ends that a holder did not ask for.
//!
//! ann holds a lease with resource `s`, and bob a child of it. In one beginning bob holds `r` and dan, a stranger, wants
//! `r` or `s`, at once or after a wait; in one cid holds `r` with a child of bob's lease; in one dan holds `r` and bob
//! waits for it. Everybody may renew and release, an operator may revoke, parents may have shorter or longer ttls
//! than their children. Whoever loses something without having given it back may still believe, so what it held rests
//! until the deadline it had.

use stateright::{Model, Property};

use crate::audit::{Aspect, Audit, promises};
use crate::core::{Answer, Command, Core, Event, LEASES, LeaseId, Life, NEVER, RESOURCES, ResourceId, Term, Time};
use crate::holder::{Holder, Rates};
use crate::line::{Applied, Line};
use crate::plant::{Plant, Rules};
use crate::words;

const NAMES: [&str; LEASES] = ["ann", "bob", "cid", "dan"];
const ANN: LeaseId = 0;
const BOB: LeaseId = 1;
const CID: LeaseId = 2;
const DAN: LeaseId = 3;
const R: ResourceId = 0;
const S: ResourceId = 1;

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct FamilyModel {
    rules: Rules,
    /// The ttls of ann and of the others, in one beginning each.
    ttls: Vec<[Time; 2]>,
    /// Who is there and has what, in one beginning each.
    casts: Vec<Cast>,
    horizon: Time,
    terms: Term,
    asks: [u8; LEASES],
    revokes: u8,
}

/// Who is there at the beginning and has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cast {
    /// bob, a child, holds `r`.
    Child,
    /// cid, a grandchild, holds `r`.
    Grandchild,
    /// dan holds `r` and bob, a child, waits for it.
    WaitingChild,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    line: Line,
    holders: [Holder; LEASES],
    /// What each came to hold.
    held: [Option<ResourceId>; LEASES],
    /// Deadlines on their way to those who were served.
    pushes: [Option<Time>; LEASES],
    ttl: Time,
    asks: [u8; LEASES],
    revokes: u8,
    /// Something rested.
    rested: bool,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of real time passes.
    TimePasses,
    /// Somebody asks for something, and the leader stamps it.
    Ask(LeaseId, Command),
    /// An operator revokes a lease.
    Revoke(LeaseId),
    /// The entry in flight is committed.
    Commit,
    /// The leader is lost; the entry in flight survives or not.
    LoseLeader(usize),
    /// A new leader is ready.
    TakeOver,
    /// A waiter hears that it was served.
    Push(LeaseId),
}

impl FamilyModel {
    /// Parents and children.
    pub fn family(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, ..Rules::DESIGN };
        let ttls = vec![[2, 3], [3, 2]];
        let casts = vec![Cast::Child, Cast::Grandchild, Cast::WaitingChild];
        let model = Self { rules, ttls, casts, horizon: 4, terms: 1, asks: [1, 1, 1, 1], revokes: 1 };
        if deep { Self { terms: 2, ..model } } else { model }
    }

    fn beginning(&self, [first, ttl]: [Time; 2], cast: Cast) -> State {
        let mut state = State {
            line: Line::new(),
            holders: [Holder::NEW; LEASES],
            held: [None; LEASES],
            pushes: [None; LEASES],
            ttl,
            asks: self.asks,
            revokes: self.revokes,
            rested: false,
        };
        let (s, r, wait) = (Some((S, 0)), Some((R, 0)), Some((R, NEVER)));
        let leases = match cast {
            Cast::Child => vec![(ANN, None, s), (BOB, Some(ANN), r)],
            Cast::Grandchild => vec![(ANN, None, s), (BOB, Some(ANN), None), (CID, Some(BOB), r)],
            Cast::WaitingChild => vec![(DAN, None, r), (ANN, None, s), (BOB, Some(ANN), wait)],
        };
        for (lease, parent, ask) in leases {
            let ttl = if lease == ANN { first } else { ttl };
            let answer = state.line.apply(&self.rules, Command::Grant { lease, ttl, parent, ask, seen: 0 });
            self.answer(&mut state, lease, 0, answer);
        }
        state
    }

    fn wishes(&self, state: &State, lease: LeaseId) -> Vec<Command> {
        let holder = &state.holders[lease];
        if state.asks[lease] == 0 || holder.stopped || (lease != DAN && holder.pair.is_none()) {
            return Vec::new();
        }
        if holder.pair.is_some() {
            return vec![Command::Renew { lease, ttl: None }, Command::Release { lease }];
        }
        let asks = [(R, 0), (R, NEVER), (S, 0), (S, NEVER)];
        let (ttl, seen) = (state.ttl, state.line.core.now);
        asks.into_iter().map(|ask| Command::Grant { lease, ttl, parent: None, ask: Some(ask), seen }).collect()
    }

    /// Clients hear what became of an entry.
    fn hear(&self, state: &mut State, applied: Applied) {
        for event in &applied.events {
            if let Event::Taken { lease, resource, waited: true, .. } = *event {
                let core = &state.line.core;
                let own = self.rules.broken(Plant::PushForgetsParent);
                state.pushes[lease] = Some(if own { core.leases[lease].deadline } else { core.deadline(lease) });
                state.held[lease] = Some(resource);
            }
        }
        state.rested |= (0..RESOURCES).any(|resource| state.line.core.is_resting(resource));
        if let Some(client) = applied.flight.client {
            self.answer(state, client, applied.flight.sent, applied.answer);
        }
    }

    fn answer(&self, state: &mut State, lease: LeaseId, sent: Time, answer: Answer) {
        let holder = &mut state.holders[lease];
        match answer {
            Answer::Lease { now, remaining, tokens } => {
                holder.acknowledged(sent, now);
                if let Some(resource) = (0..RESOURCES).find(|resource| tokens[*resource].is_some()) {
                    state.held[lease] = Some(resource);
                    holder.hears(&self.rules, &Rates::EQUAL, sent, remaining, state.line.real);
                }
            }
            Answer::Ended => holder.stopped = true,
            Answer::Done | Answer::Refused | Answer::TooOld | Answer::Retry => {}
        }
    }

    /// Tells whether nobody acts and nobody can come to act any more.
    fn is_over(&self, state: &State) -> bool {
        let silent = |lease: LeaseId| {
            let holder = &state.holders[lease];
            self.wishes(state, lease).is_empty() && !holder.is_valid(state.line.real)
        };
        (0..LEASES).all(silent) && state.pushes == [None; LEASES] && state.line.in_flight.is_empty()
    }

    fn tell(&self, action: Action) -> String {
        match action {
            Action::TimePasses => "A tick passes".to_owned(),
            Action::Ask(lease, command) => format!("{} {}", NAMES[lease], words::asked(command)),
            Action::Revoke(lease) => format!("An operator revokes the lease of {}", NAMES[lease]),
            Action::Commit => "The entry in flight is committed".to_owned(),
            Action::LoseLeader(0) => "The leader is lost, with what was in flight".to_owned(),
            Action::LoseLeader(_) => "The leader is lost; what was in flight survives".to_owned(),
            Action::TakeOver => "A new leader is ready".to_owned(),
            Action::Push(lease) => format!("{} hears that it was served", NAMES[lease]),
        }
    }
}

impl Model for FamilyModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let all = self.ttls.iter().flat_map(|ttls| self.casts.iter().map(|cast| self.beginning(*ttls, *cast)));
        all.collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self.is_over(state) {
            return;
        }
        if state.line.real < self.horizon {
            actions.push(Action::TimePasses);
        }
        actions.extend((0..LEASES).filter(|lease| state.pushes[*lease].is_some()).map(Action::Push));
        if state.line.clock.is_none() {
            return actions.push(Action::TakeOver);
        }
        if state.line.term < self.terms {
            actions.extend((0..=state.line.in_flight.len()).map(Action::LoseLeader));
        }
        if !state.line.in_flight.is_empty() {
            return actions.push(Action::Commit);
        }
        for lease in 0..LEASES {
            actions.extend(self.wishes(state, lease).into_iter().map(|command| Action::Ask(lease, command)));
            if state.revokes > 0 && state.line.core.leases[lease].is_living() {
                actions.push(Action::Revoke(lease));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let sent = next.line.real;
        match action {
            Action::TimePasses => next.line.real += 1,
            Action::Ask(lease, command) => {
                next.asks[lease] -= 1;
                if let Command::Release { .. } = command {
                    next.holders[lease].sends_release(&self.rules);
                }
                next.line.propose(&self.rules, command, Some(lease), sent, 0);
            }
            Action::Revoke(lease) => {
                next.revokes -= 1;
                next.line.propose(&self.rules, Command::Revoke { lease }, None, sent, 0);
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
            Action::Push(lease) => {
                let deadline = next.pushes[lease].take()?;
                next.holders[lease].is_pushed(&self.rules, &Rates::EQUAL, deadline, sent);
            }
        }
        for (holder, push) in next.holders.iter_mut().zip(&mut next.pushes) {
            holder.settle(next.line.real);
            *push = push.filter(|_| !holder.stopped);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = promises::<Self>();
        all.push(Property::<Self>::sometimes("a stranger acts after a rest", |model, state| {
            state.rested && model.acts(state, DAN, R)
        }));
        all.push(Property::<Self>::sometimes("a holder acts on what rests", |model, state| {
            model.acts(state, BOB, R) && state.line.core.is_resting(R)
        }));
        all.push(Property::<Self>::sometimes("a grandchild ends with its grandparent", |_, state| {
            let ended = |lease: LeaseId| match state.line.core.leases[lease].life {
                Life::Ended { revision, .. } => Some(revision),
                Life::Unknown | Life::Living => None,
            };
            ended(CID).is_some() && ended(CID) == ended(ANN)
        }));
        all
    }
}

impl Aspect for FamilyModel {
    fn core<'a>(&self, state: &'a State) -> &'a Core {
        &state.line.core
    }

    fn audit(&self, state: &State) -> Audit {
        state.line.audit
    }

    fn acts(&self, state: &State, lease: LeaseId, resource: ResourceId) -> bool {
        state.held[lease] == Some(resource) && state.holders[lease].is_valid(state.line.real)
    }

    fn story(&self, path: &[(State, Option<Action>)]) -> Vec<String> {
        words::tell(
            path,
            |action| self.tell(*action),
            |state| {
                let acts = |lease: &LeaseId| (0..RESOURCES).any(|resource| self.acts(state, *lease, resource));
                let acting = (0..LEASES).filter(acts).map(|lease| NAMES[lease]);
                words::leases(&state.line.core, state.line.real, &NAMES, acting)
            },
        )
    }
}
