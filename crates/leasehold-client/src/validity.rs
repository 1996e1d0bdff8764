//! How long a holder may believe that it holds: the local deadline of DESIGN.md, section 2.
//!
//! An answer tells the time left at its log entry, which was written after the request was sent. Counting from
//! the sending, and giving away twice the clocks' rate error, the holder stops before the service may go on.

use std::time::Duration;

use leasehold_core::Remaining;

/// The rate error of a clock that is allowed for, in percent.
const DRIFT_PERCENT: u32 = 2;

/// A moment on clocks that also run while the machine sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    boot: Duration,
    raw: Duration,
}

impl Moment {
    /// This moment.
    pub fn now() -> Moment {
        clocks::now()
    }

    /// How long ago it was, by the faster of the clocks.
    pub fn elapsed(self) -> Duration {
        let now = Moment::now();
        now.boot.saturating_sub(self.boot).max(now.raw.saturating_sub(self.raw))
    }
}

#[cfg(target_os = "linux")]
mod clocks {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    use super::Moment;

    pub(super) fn now() -> Moment {
        Moment { boot: read(ClockId::Boottime), raw: read(ClockId::MonotonicRaw) }
    }

    fn read(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

#[cfg(not(target_os = "linux"))]
mod clocks {
    use std::sync::OnceLock;
    use std::time::Instant;

    use super::Moment;

    static START: OnceLock<Instant> = OnceLock::new();

    pub(super) fn now() -> Moment {
        let since = START.get_or_init(Instant::now).elapsed();
        Moment { boot: since, raw: since }
    }
}

/// Until when a holder may act, by its own clocks.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    sent: Moment,
    lasts: Option<Duration>,
}

impl Validity {
    /// The validity that follows from an answer with this time left, to a request sent at `sent`.
    pub fn new(sent: Moment, remaining: Remaining) -> Validity {
        let lasts = match remaining {
            Remaining::For(span) => Some(safe(Duration::from_millis(span.0))),
            Remaining::Endless => None,
        };
        Validity { sent, lasts }
    }

    /// The time left to act; none if there is no end by time.
    pub fn left(&self) -> Option<Duration> {
        self.lasts.map(|lasts| lasts.saturating_sub(self.sent.elapsed()))
    }

    /// How much of it has gone by.
    pub fn age(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Whether the holder must no longer act.
    pub fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}

/// A duration shortened so that it is over here before it is over at the service.
fn safe(remaining: Duration) -> Duration {
    remaining * (100 - DRIFT_PERCENT) / (100 + DRIFT_PERCENT)
}

#[cfg(test)]
mod tests {
    use leasehold_core::Span;

    use super::*;

    #[test]
    fn the_holder_stops_before_the_service_goes_on() {
        assert_eq!(safe(Duration::from_millis(10_200)), Duration::from_millis(9_800));
        assert_eq!(safe(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn time_left_counts_from_the_sending() {
        let now = Moment::now();
        let minute = Duration::from_secs(60);
        let earlier = Moment { boot: now.boot.saturating_sub(minute), raw: now.raw.saturating_sub(minute) };
        assert!(Validity::new(now, Remaining::For(Span::seconds(60))).left() > Some(Duration::from_secs(50)));
        assert!(Validity::new(earlier, Remaining::For(Span::seconds(60))).is_over());
        assert!(Validity::new(earlier, Remaining::Endless).left().is_none());
    }

    #[test]
    fn the_faster_clock_counts() {
        let now = Moment::now();
        let slept = Moment { boot: now.boot.saturating_sub(Duration::from_secs(5)), raw: now.raw };
        assert!(slept.elapsed() >= Duration::from_secs(5));
    }
}
