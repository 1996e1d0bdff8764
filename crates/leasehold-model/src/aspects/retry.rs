//! Retries: copies of messages that arrive twice, late, or after everything they were about is over.
//!
//! Every message stays in the network and may be delivered twice, at any moment; its sender may also send it again. In
//! one beginning ann asks for a lease with `r`, releases it, and ended leases are soon forgotten; in another she has a
//! lease, claims `r` that bob holds, and gives it back, with numbered commands, and answers come at any time or
//! never. The next leader may know the state from a snapshot.

use stateright::{Model, Property};

use crate::audit::{Aspect, Audit, promises};
use crate::core::{Answer, Claim, Command, Core, Event, LeaseId, Life, ResourceId, Term, Time};
use crate::holder::{Holder, Rates};
use crate::line::{Applied, Line};
use crate::plant::{Plant, Rules};
use crate::words;

const NAMES: [&str; 2] = ["ann", "bob"];
const ANN: LeaseId = 0;
const BOB: LeaseId = 1;
const RESOURCE: ResourceId = 0;

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct RetryModel {
    rules: Rules,
    /// ann has a lease at the beginning and numbers her commands; otherwise she asks for one.
    numbered: bool,
    ttl: Time,
    horizon: Time,
    terms: Term,
    letters: usize,
    copies: u8,
    /// How many answers are on their way at once.
    answers: usize,
    repeats: u8,
    ticks: u8,
}

/// A message in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Letter {
    command: Command,
    /// When it was sent last.
    sent: Time,
    /// How often it can still be delivered.
    copies: u8,
    /// How often it took effect.
    effects: u8,
    /// It was refused once.
    refused: bool,
    /// It took effect after that.
    overturned: bool,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    line: Line,
    holders: [Holder; 2],
    /// The token with which each believes to hold `r`.
    held: [Option<u8>; 2],
    /// The highest token that ann gave back.
    given_back: u8,
    /// What ann sent.
    letters: Vec<Letter>,
    /// Answers on their way to ann: when the attempt was sent, and what it says.
    answers: Vec<(Time, Answer)>,
    /// The highest number that took effect.
    ran: u8,
    repeats: u8,
    ticks: u8,
    bob_may_release: bool,
    /// A command took effect after a later one of the same lease.
    disorder: bool,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of real time passes.
    TimePasses,
    /// ann sends a new message.
    Send(Command),
    /// ann sends a message again.
    Repeat(usize),
    /// A copy of a message reaches the leader.
    Deliver(usize),
    /// bob releases what he holds.
    BobReleases,
    /// The leader stamps an entry without a command.
    Tick,
    /// The entry in flight is committed.
    Commit,
    /// The leader is lost; the entry in flight survives or not.
    LoseLeader(usize),
    /// A new leader is ready; it has the state from a snapshot.
    TakeOver,
    /// An answer reaches ann.
    Hear(usize),
}

impl RetryModel {
    /// Grants, their late copies, and what is forgotten.
    pub fn grants(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, tombstone_age: 0, ..Rules::DESIGN };
        let model = Self {
            rules,
            numbered: false,
            ttl: 2,
            horizon: 3,
            terms: 2,
            letters: 2,
            copies: 2,
            answers: 1,
            repeats: 1,
            ticks: 1,
        };
        if deep { Self { horizon: 4, ticks: 2, ..model } } else { model }
    }

    /// Numbered commands on a lease, and their late copies.
    pub fn numbered(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, ..Rules::DESIGN };
        let model = Self {
            rules,
            numbered: true,
            horizon: 1,
            letters: 3,
            answers: 2,
            repeats: 0,
            ticks: 0,
            ..Self::grants(plant, false)
        };
        if deep { Self { horizon: 2, letters: 4, ..model } } else { model }
    }

    /// What ann may send now.
    fn wishes(&self, state: &State) -> Vec<Command> {
        let lease = ANN;
        if state.letters.len() >= self.letters || state.holders[ANN].stopped {
            return Vec::new();
        }
        let seq = state.letters.len() as u8 + 1;
        match (self.numbered, state.held[ANN]) {
            (true, Some(token)) => vec![Command::Unclaim { lease, resource: RESOURCE, token, seq }],
            (true, None) => vec![Command::Claim { lease, resource: RESOURCE, patience: 0, seq }],
            (false, _) if state.letters.is_empty() => {
                let (ask, seen) = (Some((RESOURCE, 0)), state.line.core.now);
                vec![Command::Grant { lease, ttl: self.ttl, parent: None, ask, seen }]
            }
            (false, _) => vec![Command::Release { lease }],
        }
    }

    fn send(&self, state: &mut State, command: Command) {
        let sent = state.line.real;
        match command {
            Command::Release { .. } => state.holders[ANN].sends_release(&self.rules),
            Command::Unclaim { token, .. } => {
                state.held[ANN] = None;
                state.given_back = token;
            }
            Command::Tick
            | Command::Grant { .. }
            | Command::Renew { .. }
            | Command::Revoke { .. }
            | Command::Claim { .. } => {}
        }
        state.letters.push(Letter {
            command,
            sent,
            copies: self.copies,
            effects: 0,
            refused: false,
            overturned: false,
        });
    }

    fn repeat(&self, state: &mut State, number: usize) {
        state.repeats -= 1;
        let now = state.line.core.now;
        let letter = &mut state.letters[number];
        letter.sent = state.line.real;
        letter.copies = letter.copies.max(1);
        if let Command::Grant { seen, .. } = &mut letter.command
            && self.rules.broken(Plant::SeenAtRepeat)
        {
            *seen = now;
        }
    }

    /// Notes what an entry did, and sends its answer.
    fn note(&self, state: &mut State, applied: Applied) {
        if applied.flight.client != Some(ANN) {
            return;
        }
        let took_effect = took_effect(&applied, &state.line.core);
        let letter = &mut state.letters[applied.flight.letter];
        if took_effect {
            letter.effects += 1;
            letter.overturned |= letter.refused;
            let seq = applied.flight.letter as u8 + 1;
            state.disorder |= self.numbered && seq < state.ran;
            state.ran = state.ran.max(seq);
        }
        letter.refused |= applied.answer == Answer::Refused;
        // What is too much at once is lost.
        if state.answers.len() < self.answers {
            state.answers.push((applied.flight.sent, applied.answer));
            state.answers.sort_unstable();
            state.answers.dedup();
        }
    }

    fn hear(&self, state: &mut State, number: usize) {
        let (sent, answer) = state.answers.remove(number);
        let (holder, real) = (&mut state.holders[ANN], state.line.real);
        match answer {
            Answer::Lease { now, remaining, tokens } => {
                holder.acknowledged(sent, now);
                holder.hears(&self.rules, &Rates::EQUAL, sent, remaining, real);
                // What was given back is not held again because an older answer comes late.
                let fresh = |token: &u8| *token > state.given_back || self.rules.broken(Plant::LateAnswerBelieved);
                state.held[ANN] = tokens[RESOURCE].filter(fresh).or(state.held[ANN]);
            }
            Answer::Ended => holder.stopped = true,
            Answer::Done | Answer::Refused | Answer::TooOld | Answer::Retry => {}
        }
    }

    /// Tells whether nothing is on its way and nobody acts.
    fn is_over(&self, state: &State) -> bool {
        let arrived = state.answers.is_empty() && state.line.in_flight.is_empty();
        let delivered = state.letters.iter().all(|letter| letter.copies == 0) && state.repeats == 0;
        let acting = (0..2).any(|lease| self.acts(state, lease, RESOURCE));
        arrived && delivered && !acting && self.wishes(state).is_empty()
    }

    fn tell(&self, state: &State, action: Action) -> String {
        let letter = |number: usize| words::asked(state.letters[number].command);
        match action {
            Action::TimePasses => "A tick passes".to_owned(),
            Action::Send(command) => format!("ann {}", words::asked(command)),
            Action::Repeat(number) => format!("ann sends again that she {}", letter(number)),
            Action::Deliver(number) => format!("It reaches the leader that ann {}", letter(number)),
            Action::BobReleases => "bob releases".to_owned(),
            Action::Tick => "The leader stamps a tick".to_owned(),
            Action::Commit => "The entry in flight is committed".to_owned(),
            Action::LoseLeader(0) => "The leader is lost, with what was in flight".to_owned(),
            Action::LoseLeader(_) => "The leader is lost; what was in flight survives".to_owned(),
            Action::TakeOver => "A new leader is ready, with a state from a snapshot".to_owned(),
            Action::Hear(number) => format!("ann hears: {:?}", state.answers[number].1),
        }
    }
}

/// Tells whether a command did something.
fn took_effect(applied: &Applied, after: &Core) -> bool {
    match applied.flight.command {
        Command::Claim { lease, resource, .. } => {
            applied.before.leases[lease].claims[resource] == Claim::None
                && after.leases[lease].claims[resource] != Claim::None
        }
        Command::Unclaim { .. } => applied.events.iter().any(|event| matches!(event, Event::GivenBack { .. })),
        Command::Grant { .. } => applied.events.iter().any(|event| matches!(event, Event::Granted { .. })),
        Command::Tick | Command::Renew { .. } | Command::Release { .. } | Command::Revoke { .. } => false,
    }
}

impl Model for RetryModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            line: Line::new(),
            holders: [Holder::NEW; 2],
            held: [None; 2],
            given_back: 0,
            letters: Vec::new(),
            answers: Vec::new(),
            ran: 0,
            repeats: self.repeats,
            ticks: self.ticks,
            bob_may_release: false,
            disorder: false,
        };
        if self.numbered {
            for (lease, ask) in [(ANN, None), (BOB, Some((RESOURCE, 0)))] {
                state.line.apply(&self.rules, Command::Grant { lease, ttl: self.ttl, parent: None, ask, seen: 0 });
                state.holders[lease].hears(&self.rules, &Rates::EQUAL, 0, self.ttl, 0);
            }
            state.held[BOB] = state.line.core.token(BOB, RESOURCE);
            state.bob_may_release = true;
        } else {
            // So that a client which has seen nothing differs from one that has seen the beginning.
            state.line.core.now = 1;
            state.line.clock = Some(crate::clock::Clock::start(1, 0, 0));
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self.is_over(state) {
            return;
        }
        if state.line.real < self.horizon {
            actions.push(Action::TimePasses);
        }
        actions.extend(self.wishes(state).into_iter().map(Action::Send));
        actions.extend((0..state.answers.len()).map(Action::Hear));
        if state.repeats > 0 {
            actions.extend((0..state.letters.len()).map(Action::Repeat));
        }
        if state.line.clock.is_none() {
            return actions.push(Action::TakeOver);
        }
        if state.line.term < self.terms {
            actions.extend((0..=state.line.in_flight.len()).map(Action::LoseLeader));
        }
        if !state.line.in_flight.is_empty() {
            return actions.push(Action::Commit);
        }
        let copies = (0..state.letters.len()).filter(|number| state.letters[*number].copies > 0);
        actions.extend(copies.map(Action::Deliver));
        actions.extend(state.bob_may_release.then_some(Action::BobReleases));
        actions.extend((state.ticks > 0).then_some(Action::Tick));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let sent = next.line.real;
        match action {
            Action::TimePasses => next.line.real += 1,
            Action::Send(command) => self.send(&mut next, command),
            Action::Repeat(number) => self.repeat(&mut next, number),
            Action::Deliver(number) => {
                let letter = &mut next.letters[number];
                letter.copies -= 1;
                next.line.propose(&self.rules, letter.command, Some(ANN), letter.sent, number);
            }
            Action::BobReleases => {
                next.bob_may_release = false;
                next.held[BOB] = None;
                next.line.propose(&self.rules, Command::Release { lease: BOB }, None, sent, 0);
            }
            Action::Tick => {
                next.ticks -= 1;
                next.line.propose(&self.rules, Command::Tick, None, sent, 0);
            }
            Action::Commit => {
                let applied = next.line.commit(&self.rules);
                self.note(&mut next, applied);
            }
            Action::LoseLeader(kept) => next.line.lose_leader(kept),
            Action::TakeOver => {
                for applied in next.line.take_over(&self.rules) {
                    self.note(&mut next, applied);
                }
                next.line.core.pass_through_snapshot(&self.rules);
            }
            Action::Hear(number) => self.hear(&mut next, number),
        }
        for holder in &mut next.holders {
            holder.pair = None;
            holder.settle(next.line.real);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = promises::<Self>();
        all.push(Property::<Self>::always("a command takes effect once", |_, state| {
            state.letters.iter().all(|letter| letter.effects <= 1)
        }));
        all.push(Property::<Self>::always("what was refused stays refused", |_, state| {
            !state.letters.iter().any(|letter| letter.overturned)
        }));
        all.push(Property::<Self>::always("commands on a lease run in order", |_, state| !state.disorder));
        if self.numbered {
            all.push(Property::<Self>::sometimes("ann holds, gave back, and holds again", |_, state| {
                state.given_back > 0 && state.held[ANN].is_some()
            }));
            all.push(Property::<Self>::sometimes("a copy is refused as too old", |_, state| {
                state.answers.iter().any(|(_, answer)| *answer == Answer::TooOld)
            }));
        } else {
            all.push(Property::<Self>::sometimes(
                "a lease is forgotten and a copy of its grant is refused",
                |_, state| {
                    let forgotten = state.line.core.leases[ANN].life == Life::Unknown;
                    forgotten && state.answers.iter().any(|(_, answer)| *answer == Answer::TooOld)
                },
            ));
            all.push(Property::<Self>::sometimes("a repeated grant is answered", |model, state| {
                state.repeats == 0 && model.acts(state, ANN, RESOURCE)
            }));
        }
        all
    }
}

impl Aspect for RetryModel {
    fn core<'a>(&self, state: &'a State) -> &'a Core {
        &state.line.core
    }

    fn audit(&self, state: &State) -> Audit {
        state.line.audit
    }

    fn acts(&self, state: &State, lease: LeaseId, resource: ResourceId) -> bool {
        let holds = state.held.get(lease).is_some_and(Option::is_some);
        resource == RESOURCE && holds && state.holders[lease].is_valid(state.line.real)
    }

    fn story(&self, path: &[(State, Option<Action>)]) -> Vec<String> {
        let mut steps = Vec::new();
        for pair in path.windows(2) {
            let [(state, Some(action)), (next, _)] = pair else { continue };
            let acting = (0..2).filter(|lease| self.acts(next, *lease, RESOURCE)).map(|lease| NAMES[lease]);
            let stand = words::leases(&next.line.core, next.line.real, &NAMES, acting);
            steps.push(format!("{}. {stand}", self.tell(state, *action)));
        }
        steps
    }
}
