//! Lease time: integers with a unit.
//!
//! Lease time is the timeline of the log. It has nothing to do with wall time, which travels along for
//! people to read and decides nothing.

use std::fmt;

/// A moment of lease time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseTime(pub u64);

impl LeaseTime {
    /// The beginning of lease time.
    pub const ZERO: LeaseTime = LeaseTime(0);
    /// The deadline of a lease that never ends by time.
    pub const NEVER: LeaseTime = LeaseTime(u64::MAX);

    /// The moment `span` later.
    pub fn after(self, span: Span) -> LeaseTime {
        LeaseTime(self.0.saturating_add(span.0))
    }

    /// How long it is from `earlier` to this moment; nothing if that lies ahead.
    pub fn since(self, earlier: LeaseTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Tells whether something with this deadline is over at `now`.
    pub fn is_due(self, now: LeaseTime) -> bool {
        self < now
    }
}

/// A length of lease time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A number of seconds.
    pub const fn seconds(seconds: u64) -> Span {
        Span(seconds * 1000)
    }
}

/// Shows the largest units that lose nothing: `1m30s`, `1500ms`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_multiple_of(1000) || self.0 == 0 {
            return write!(f, "{}ms", self.0);
        }
        let seconds = self.0 / 1000;
        for (amount, unit) in
            [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")]
        {
            if amount > 0 {
                write!(f, "{amount}{unit}")?;
            }
        }
        Ok(())
    }
}

/// How long a lease is granted for: a length, or without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ttl {
    /// Until this long after the grant or the latest renewal.
    For(Span),
    /// Until it is ended by a command; needs a right.
    Endless,
}

impl Ttl {
    /// The deadline of a lease granted or renewed at `now`.
    pub fn deadline(self, now: LeaseTime) -> LeaseTime {
        match self {
            Ttl::For(span) => now.after(span),
            Ttl::Endless => LeaseTime::NEVER,
        }
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ttl::For(span) => span.fmt(f),
            Ttl::Endless => f.write_str("none"),
        }
    }
}

/// How long a claim is willing to wait in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Patience {
    /// Not at all: what is not free is refused.
    #[default]
    None,
    /// At most this long.
    For(Span),
    /// As long as its lease lives.
    Endless,
}

impl Patience {
    /// When the wait of a claim queued at `now` is over.
    pub fn deadline(self, now: LeaseTime) -> LeaseTime {
        match self {
            Patience::None => now,
            Patience::For(span) => now.after(span),
            Patience::Endless => LeaseTime::NEVER,
        }
    }
}

/// Wall time in milliseconds since 1970, UTC: for people only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

/// What the leader puts on an entry when it proposes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The leader that stamped it.
    pub leader: crate::LeaderId,
    /// Lease time by that leader's lease clock.
    pub now: LeaseTime,
    /// Wall time, for people.
    pub wall: WallTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_means_past_the_deadline_not_at_it() {
        assert!(!LeaseTime(10).is_due(LeaseTime(10)));
        assert!(LeaseTime(10).is_due(LeaseTime(11)));
        assert!(!LeaseTime::NEVER.is_due(LeaseTime(u64::MAX)));
    }

    #[test]
    fn spans_read_as_people_write_them() {
        assert_eq!(Span(0).to_string(), "0ms");
        assert_eq!(Span(1500).to_string(), "1500ms");
        assert_eq!(Span(90_000).to_string(), "1m30s");
        assert_eq!(Span::seconds(86_400 + 3600).to_string(), "1d1h");
    }
}
