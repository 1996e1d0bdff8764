//! What clients saw: written down while something runs, judged afterwards by the checkers.
//!
//! Every moment is true time since the start of the run, so the moments of all clients compare, whatever their own clocks
//! say. A lease is named by its holder, which every run makes unique; streams of events name it by its digest too, and
//! its `lease_granted` event ties the two together. A history may leave out what its recorder does not know, and nobody is
//! blamed for it; but whatever ends or extends a lease by a command must be there: releases, revokes, kinships, and
//! attempts without an answer. A backup that is restored begins a new history; only tokens go on.

mod calls;
mod facts;
mod moment;
mod watched;

pub use calls::{Call, KeyCall, KeyOutcome, KeyWhat, Outcome, What};
pub use facts::{Ack, Answered, Ask, Attempt, Bounds, End, Held, Hold, Kinship, Look, Put, ReadBack, Release, Revoke};
pub use moment::{Moment, Span};
pub use watched::{Change, Event, Filter, Told, Watched};

/// What one client saw, or all of them together.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Acknowledged grants and renewals.
    pub acks: Vec<Ack>,
    /// Grants and renewals without an answer.
    pub attempts: Vec<Attempt>,
    /// What leases asked for, where it was more than once or not the usual.
    pub asks: Vec<Ask>,
    /// Leases that end with another.
    pub kinships: Vec<Kinship>,
    /// Acknowledged claims.
    pub holds: Vec<Hold>,
    /// Releases, acknowledged or not.
    pub releases: Vec<Release>,
    /// Leases taken by an operator.
    pub revokes: Vec<Revoke>,
    /// Answers that a lease is over.
    pub ends: Vec<End>,
    /// Linearizable looks at leases.
    pub looks: Vec<Look>,
    /// Acknowledged writes of counting keys.
    pub puts: Vec<Put>,
    /// Linearizable looks at counting keys.
    pub reads: Vec<ReadBack>,
    /// Answers with the revision that they are true at.
    pub answers: Vec<Answered>,
    /// Calls on exclusive resources, for linearizability.
    pub calls: Vec<Call>,
    /// Calls on entries that are bound to no lease, for linearizability.
    pub key_calls: Vec<KeyCall>,
    /// What each watcher was told.
    pub watched: Vec<Watched>,
    /// Periods in which nothing was disturbed: no fault, a ready leader, no message older than the period on its way.
    pub calm: Vec<Span>,
    /// Periods in which lease time could not go on: nobody led, or nothing could be committed;
    /// none if nobody noted them.
    pub outages: Option<Vec<Span>>,
    /// From the last progress under one leader until another led, where that is no outage.
    pub changes: Vec<Span>,
    /// What the run is held against.
    pub bounds: Bounds,
}

impl History {
    /// Adds what another client saw; the bounds stay.
    pub fn absorb(&mut self, other: History) {
        self.acks.extend(other.acks);
        self.attempts.extend(other.attempts);
        self.asks.extend(other.asks);
        self.kinships.extend(other.kinships);
        self.holds.extend(other.holds);
        self.releases.extend(other.releases);
        self.revokes.extend(other.revokes);
        self.ends.extend(other.ends);
        self.looks.extend(other.looks);
        self.puts.extend(other.puts);
        self.reads.extend(other.reads);
        self.answers.extend(other.answers);
        self.calls.extend(other.calls);
        self.key_calls.extend(other.key_calls);
        self.watched.extend(other.watched);
        self.calm.extend(other.calm);
        if let Some(outages) = other.outages {
            self.outages.get_or_insert_default().extend(outages);
        }
        self.changes.extend(other.changes);
    }

    /// How many changes its watchers were told of, all together.
    pub fn change_count(&self) -> usize {
        self.watched.iter().map(|watched| watched.changes().count()).sum()
    }
}
