//! The lease core: what every node computes from the same log, in the smallest form that still has all rules.
//!
//! Lease time is the largest stamp applied. An entry first moves time, then what is due ends in order of its deadline
//! and is handed on, then its command runs. Leases and resources are few and numbered; every claim is exclusive. The
//! rules are those of the real core (decisions 0001, 0005 and 0006); this one shares no line with it, so that an error
//! in the rules and an error in the code do not hide each other.

mod commands;
mod ends;
mod queue;
mod view;

pub use view::{Claim, End, Event, Lease, Life, Resource};

use crate::plant::{Plant, Rules};

/// Moments and spans, in ticks: of lease time or of real time.
pub type Time = u8;
/// The number of a lease; its client chooses it.
pub type LeaseId = usize;
/// The number of a resource.
pub type ResourceId = usize;
/// The number of a leadership; there is one leader for each.
pub type Term = u8;

/// A moment that never comes.
pub const NEVER: Time = Time::MAX;
/// How many leases there can be.
pub const LEASES: usize = 4;
/// How many resources there are.
pub const RESOURCES: usize = 2;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// Nothing: the entry only moves time.
    Tick,
    /// A lease, with a claim or without.
    Grant {
        /// The id the client chose.
        lease: LeaseId,
        /// The length asked for.
        ttl: Time,
        /// The lease it shall end with.
        parent: Option<LeaseId>,
        /// What it claims, and for how long it waits for it; without patience it is refused instead.
        ask: Option<(ResourceId, Time)>,
        /// The lease time that the client last saw.
        seen: Time,
    },
    /// More time.
    Renew {
        /// Which lease.
        lease: LeaseId,
        /// A length other than the one granted.
        ttl: Option<Time>,
    },
    /// The holder's end of a lease.
    Release {
        /// Which lease.
        lease: LeaseId,
    },
    /// An operator's end of a lease.
    Revoke {
        /// Which lease.
        lease: LeaseId,
    },
    /// One more resource for a lease.
    Claim {
        /// Which lease.
        lease: LeaseId,
        /// What it claims.
        resource: ResourceId,
        /// For how long it waits.
        patience: Time,
        /// The number of this command on that lease.
        seq: u8,
    },
    /// One resource given back.
    Unclaim {
        /// Which lease.
        lease: LeaseId,
        /// What it gives back.
        resource: ResourceId,
        /// The token it was given with.
        token: u8,
        /// The number of this command on that lease.
        seq: u8,
    },
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// The lease as it is at this entry.
    Lease {
        /// Lease time at this entry.
        now: Time,
        /// The time that the lease has left.
        remaining: Time,
        /// The tokens of what it holds.
        tokens: [Option<u8>; RESOURCES],
    },
    /// It is done, and there is nothing more to tell.
    Done,
    /// The lease has ended.
    Ended,
    /// Refused: held by another, or the id is in use.
    Refused,
    /// Refused: it may be a late copy of something that is over.
    TooOld,
    /// The entry did not count; ask again.
    Retry,
}

/// When and by whom an entry was stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// The leadership in which it was read.
    pub leader: Term,
    /// The leader's lease clock.
    pub now: Time,
}

/// Everything there is. The same entries in the same order give the same state on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Core {
    /// Lease time.
    pub now: Time,
    /// The counter of visible changes; tokens come from it.
    pub revision: u8,
    /// Lease time at the latest take-over.
    pub taken_over: Time,
    /// How long lease time stands still after it.
    pub grace: Time,
    /// All leases, by id.
    pub leases: [Lease; LEASES],
    /// All resources.
    pub resources: [Resource; RESOURCES],
    /// Ends up to this lease time may be forgotten; none was yet if absent.
    pub horizon: Option<Time>,
}

impl Core {
    /// A state in which nothing was ever granted.
    pub fn new() -> Self {
        let (leases, resources) = ([Lease::UNKNOWN; LEASES], [Resource::UNUSED; RESOURCES]);
        Self { now: 0, revision: 0, taken_over: 0, grace: 0, leases, resources, horizon: None }
    }

    /// Notes that a new leader took over: the first entry of every leadership.
    ///
    /// Its grace is as long as lease time went on since the last take-over, at most the limit.
    pub fn take_over(&mut self, rules: &Rules) {
        let since = self.now.saturating_sub(self.taken_over);
        self.grace = if rules.broken(Plant::GraceEveryTime) { rules.grace } else { rules.grace.min(since) };
        self.taken_over = self.now;
    }

    /// Applies an entry that the leader of `appended_by` put into its log.
    pub fn apply(
        &mut self,
        rules: &Rules,
        appended_by: Term,
        stamp: Stamp,
        command: Command,
        events: &mut Vec<Event>,
    ) -> Answer {
        let foreign = stamp.leader != appended_by;
        if foreign && !rules.broken(Plant::ForeignStampCounts) && !rules.broken(Plant::ForeignCommandRuns) {
            return Answer::Retry;
        }
        if stamp.now > self.now + rules.ahead {
            return Answer::Retry;
        }
        if !foreign || rules.broken(Plant::ForeignStampCounts) {
            self.now = if rules.broken(Plant::TimeGoesBack) { stamp.now } else { self.now.max(stamp.now) };
        }
        self.sweep(rules, events);
        let answer = self.execute(rules, command, events);
        self.revisit(rules, events);
        self.forget(rules);
        answer
    }

    /// Ends what is due, in order of its deadline, up to the size of one piece.
    fn sweep(&mut self, rules: &Rules, events: &mut Vec<Event>) {
        for _ in 0..rules.piece {
            let Some((_, due)) = self.first_due() else { break };
            match due {
                Due::Lease(lease) => self.end_due(rules, lease, events),
                Due::Wait(lease, resource) => self.end_wait(rules, lease, resource, End::Impatient, events),
                Due::Rest(resource) => self.resources[resource].rests_until = 0,
            }
        }
        self.revisit(rules, events);
    }

    /// The earliest of all that is due: by moment, then leases before waits before rests.
    fn first_due(&self) -> Option<(Time, Due)> {
        let living = || (0..LEASES).filter(|lease| self.leases[*lease].is_living());
        let leases = living().map(|lease| (self.leases[lease].deadline, Due::Lease(lease)));
        let waits = living().flat_map(|lease| (0..RESOURCES).map(move |resource| (lease, resource)));
        let waits = waits.filter_map(|(lease, resource)| match self.leases[lease].claims[resource] {
            Claim::Waiting { until, .. } => Some((until, Due::Wait(lease, resource))),
            Claim::None | Claim::Held { .. } => None,
        });
        let rests = (0..RESOURCES).filter(|resource| self.resources[*resource].rests_until > 0);
        let rests = rests.map(|resource| (self.resources[resource].rests_until, Due::Rest(resource)));
        leases.chain(waits).chain(rests).filter(|(at, _)| *at < self.now).min()
    }

    /// Tells whether something that is over still waits for the sweep.
    pub fn has_backlog(&self) -> bool {
        self.first_due().is_some()
    }

    /// Forgets ended leases that are too old, and remembers that it did.
    fn forget(&mut self, rules: &Rules) {
        for lease in 0..LEASES {
            let Life::Ended { at, .. } = self.leases[lease].life else { continue };
            if at.saturating_add(rules.tombstone_age) < self.now {
                self.leases[lease] = Lease::UNKNOWN;
                if !rules.broken(Plant::HorizonForgotten) {
                    self.horizon = self.horizon.max(Some(at));
                }
            }
        }
    }

    /// What becomes of the state when it is written as a snapshot and read again: nothing.
    pub fn pass_through_snapshot(&mut self, rules: &Rules) {
        if rules.broken(Plant::SnapshotWithoutTime) {
            (self.now, self.taken_over) = (0, 0);
        }
        if rules.broken(Plant::SnapshotWithoutRevision) {
            self.revision = 0;
        }
        if rules.broken(Plant::SnapshotWithoutReceipts) {
            self.leases.iter_mut().for_each(|lease| (lease.seq, lease.receipts) = (0, [0; 2]));
        }
        if rules.broken(Plant::SnapshotWithoutHorizon) {
            self.horizon = None;
        }
    }

    /// When a lease ends unless renewed: the earliest deadline of its own and its ancestors'.
    pub fn deadline(&self, lease: LeaseId) -> Time {
        let own = self.leases[lease].deadline;
        self.leases[lease].parent.map_or(own, |parent| own.min(self.deadline(parent)))
    }

    /// Tells whether the time of a lease or of one of its ancestors is over.
    pub fn is_due(&self, lease: LeaseId) -> bool {
        self.deadline(lease) < self.now
    }

    /// The token with which a lease holds a resource.
    pub fn token(&self, lease: LeaseId, resource: ResourceId) -> Option<u8> {
        match self.leases[lease].claims[resource] {
            Claim::Held { token } => Some(token),
            Claim::None | Claim::Waiting { .. } => None,
        }
    }

    /// Who holds a resource.
    pub fn holder(&self, resource: ResourceId) -> Option<LeaseId> {
        (0..LEASES).find(|lease| self.token(*lease, resource).is_some())
    }

    /// A lease as it is, for answers.
    fn view(&self, rules: &Rules, lease: LeaseId) -> Answer {
        let row = &self.leases[lease];
        let until = if rules.broken(Plant::ParentNotAsked) { row.deadline } else { self.deadline(lease) };
        let tokens = std::array::from_fn(|resource| self.token(lease, resource));
        Answer::Lease { now: self.now, remaining: until.saturating_sub(self.now), tokens }
    }
}

impl Default for Core {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Lease(LeaseId),
    Wait(LeaseId, ResourceId),
    Rest(ResourceId),
}
