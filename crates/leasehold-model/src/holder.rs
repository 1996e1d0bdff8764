//! The holder's side: until when it may act, by its own clock.
//!
//! Every answer carries the time that is left at the entry that answered. The holder counts it from the moment it
//! *sent* that attempt, shortened for the drift of both clocks. A deadline that is pushed to it is converted through
//! the latest acknowledged pair of (sent, lease time at the entry). It stops when it sends a release.

use crate::core::Time;
use crate::plant::{Plant, Rules};

/// How fast clocks may run, as parts of a tick of real time: servers, holders, and what a holder makes of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Ticks of a server's clock in one of real time.
    pub server: Time,
    /// Ticks of a holder's clock in one of real time.
    pub holder: Time,
    /// What a holder makes of a span, as a fraction.
    pub shrink: (Time, Time),
    /// The same if it allows for one clock only.
    pub one_sided: (Time, Time),
}

impl Rates {
    /// Clocks that run alike.
    pub const EQUAL: Rates = Rates { server: 1, holder: 1, shrink: (1, 1), one_sided: (1, 1) };
    /// Clocks that are wrong by a third, in the worst way: servers fast (4/3), holders slow (2/3). A tick is three
    /// parts, and (1 − d) / (1 + d) is a half.
    pub const APART: Rates = Rates { server: 4, holder: 2, shrink: (1, 2), one_sided: (2, 3) };
}

/// What one holder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// The moment of its own clock at which it stops by itself; zero if it never held anything.
    pub until: Time,
    /// The latest acknowledged pair: when it was sent by its own clock, and lease time at the entry.
    pub pair: Option<(Time, Time)>,
    /// It gave up or gave back, or heard that its lease is over.
    pub stopped: bool,
}

impl Holder {
    /// A holder that has heard nothing.
    pub const NEW: Holder = Holder { until: 0, pair: None, stopped: false };

    /// Tells whether it may act at moment `clock` of its own clock.
    pub fn is_valid(&self, clock: Time) -> bool {
        !self.stopped && clock < self.until
    }

    /// Notes an acknowledgement: the pair, for deadlines that are pushed later.
    pub fn acknowledged(&mut self, sent: Time, now: Time) {
        self.pair = self.pair.max(Some((sent, now)));
    }

    /// Hears that it holds, with `remaining` left at the entry that answered what it `sent`; it is `clock` now.
    pub fn hears(&mut self, rules: &Rules, rates: &Rates, sent: Time, remaining: Time, clock: Time) {
        let from = if rules.broken(Plant::CountFromAnswer) { clock } else { sent };
        self.until = self.until.max(from + shrink(rules, rates, remaining));
    }

    /// Hears by a push that it holds until the lease time `deadline`; it is `clock` now.
    pub fn is_pushed(&mut self, rules: &Rules, rates: &Rates, deadline: Time, clock: Time) {
        let Some((sent, now)) = self.pair else { return };
        if rules.broken(Plant::PushBelievedAfterRelease) {
            self.stopped = false;
        }
        let from = if rules.broken(Plant::PushCountsFromArrival) { clock } else { sent };
        self.until = self.until.max(from + shrink(rules, rates, deadline.saturating_sub(now)));
    }

    /// Sends a release: from now on it does not act.
    pub fn sends_release(&mut self, rules: &Rules) {
        self.stopped = !rules.broken(Plant::ValidUntilReleased);
    }

    /// Forgets what can no longer matter at moment `clock`, so that equal futures are one state.
    pub fn settle(&mut self, clock: Time) {
        if self.until > 0 && (self.stopped || self.until <= clock) {
            self.until = 1;
        }
    }
}

fn shrink(rules: &Rules, rates: &Rates, span: Time) -> Time {
    let (times, over) = if rules.broken(Plant::OneSidedDrift) { rates.one_sided } else { rates.shrink };
    let shrunk = u16::from(span) * u16::from(times) / u16::from(over);
    Time::try_from(shrunk).unwrap_or(Time::MAX)
}
