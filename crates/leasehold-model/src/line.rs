//! The log seen from outside: one line of entries, of which the last ones are in flight.
//!
//! This is what is left of consensus when only committed entries and lost ones matter: a leader stamps entries and they
//! commit in order; when it is lost, some of those in flight survive and the next leader commits them with its first
//! entry, the others never were. How Raft gets there, and what deposed leaders may do meanwhile, is the matter of the
//! aspect `time`.

use crate::audit::Audit;
use crate::clock::Clock;
use crate::core::{Answer, Command, Core, Event, Stamp, Term, Time};
use crate::plant::Rules;

/// An entry in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    /// Lease time by its leader's clock.
    pub now: Time,
    /// What is asked.
    pub command: Command,
    /// Who asked; nobody waits for the answer to an operator's command or a tick.
    pub client: Option<usize>,
    /// When it was sent.
    pub sent: Time,
    /// Which message it came with, where that matters.
    pub letter: usize,
}

/// An applied entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The entry.
    pub flight: Flight,
    /// The state before it.
    pub before: Core,
    /// What became of its command.
    pub answer: Answer,
    /// What followed from it.
    pub events: Vec<Event>,
}

/// Real time, the committed state, and what is on its way there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Real time.
    pub real: Time,
    /// What all committed entries give.
    pub core: Core,
    /// What the auditor saw of them.
    pub audit: Audit,
    /// The present leadership.
    pub term: Term,
    /// The leader's clock; nobody leads if there is none.
    pub clock: Option<Clock>,
    /// Entries that are stamped and not committed.
    pub in_flight: Vec<Flight>,
}

impl Line {
    /// A line at its beginning, with a leader.
    pub fn new() -> Self {
        let (core, audit, clock) = (Core::new(), Audit::default(), Some(Clock::start(0, 0, 0)));
        Self { real: 0, core, audit, term: 1, clock, in_flight: Vec::new() }
    }

    /// Applies a command at once.
    pub fn apply(&mut self, rules: &Rules, command: Command) -> Answer {
        let now = self.core.now;
        self.run(rules, Flight { now, command, client: None, sent: 0, letter: 0 }).answer
    }

    /// The leader stamps a command; it is in flight then.
    pub fn propose(&mut self, rules: &Rules, command: Command, client: Option<usize>, sent: Time, letter: usize) {
        let clock = self.clock.as_mut().expect("only a leader stamps");
        let now = clock.read(rules, self.real);
        self.in_flight.push(Flight { now, command, client, sent, letter });
    }

    /// Commits the first entry in flight.
    pub fn commit(&mut self, rules: &Rules) -> Applied {
        let flight = self.in_flight.remove(0);
        let applied = self.run(rules, flight);
        if let Some(clock) = &mut self.clock {
            clock.applied(self.core.now, self.real);
        }
        applied
    }

    /// The leader is lost; the first `kept` entries in flight survive it.
    pub fn lose_leader(&mut self, kept: usize) {
        self.in_flight.truncate(kept);
        self.clock = None;
    }

    /// A new leader commits what survived and is ready.
    pub fn take_over(&mut self, rules: &Rules) -> Vec<Applied> {
        let survived: Vec<Flight> = self.in_flight.drain(..).collect();
        let applied = survived.into_iter().map(|flight| self.run(rules, flight)).collect();
        self.term += 1;
        self.core.take_over(rules);
        self.clock = Some(Clock::start(self.core.now, self.core.grace, self.real));
        applied
    }

    fn run(&mut self, rules: &Rules, flight: Flight) -> Applied {
        let (before, mut events) = (self.core, Vec::new());
        let stamp = Stamp { leader: self.term, now: flight.now };
        let answer = self.core.apply(rules, self.term, stamp, flight.command, &mut events);
        self.audit.see(&before, &self.core, &events);
        Applied { flight, before, answer, events }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}
