//! The leader's lease clock: what it stamps entries with.
//!
//! It starts from the last applied lease time when the leader is ready, stands still for the grace of that take-over,
//! is never more than the bound ahead of what is applied, and after it stood at the bound it goes on from the next
//! applied entry.

use crate::core::Time;
use crate::plant::Rules;

/// The lease clock of one leadership. Real time is given to it in the ticks of its own machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clock {
    base: Time,
    /// Real time from which it moves on.
    from: Time,
    applied: Time,
    /// It stood at its bound since the last applied entry.
    stalled: bool,
}

impl Clock {
    /// Starts from the last applied lease time and stands still for `grace` first.
    pub fn start(applied: Time, grace: Time, real: Time) -> Self {
        Self { base: applied, from: real + grace, applied, stalled: false }
    }

    /// Reads it: a stamp is such a reading.
    pub fn read(&mut self, rules: &Rules, real: Time) -> Time {
        let time = self.base + real.saturating_sub(self.from);
        let limit = self.applied.saturating_add(rules.ahead);
        self.stalled |= time > limit;
        time.min(limit)
    }

    /// Notes that an entry was applied, after which lease time is `now`.
    pub fn applied(&mut self, now: Time, real: Time) {
        self.applied = self.applied.max(now);
        if self.stalled {
            *self = Self::start(self.applied, 0, real);
        }
    }
}
