//! The clock a client lives by: the machine's, or one that a test moves.
//!
//! Everything that waits or counts in this crate asks the clock it was given, so that a test can hold it still. A
//! [`Moment`] is read from two clocks of the machine that also run while it sleeps; the faster of them counts.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::Settle;

/// A moment on clocks that also run while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    boot: Duration,
    raw: Duration,
}

impl Moment {
    /// This moment on the machine's clocks.
    pub fn now() -> Moment {
        rate::of_moment(machine::now())
    }

    /// The moment at which a clock that began at zero shows `elapsed`.
    pub fn at(elapsed: Duration) -> Moment {
        Moment { boot: elapsed, raw: elapsed }
    }

    /// How long it is after `earlier`, by the faster of the clocks; zero if it is before.
    pub fn since(self, earlier: Moment) -> Duration {
        self.boot.saturating_sub(earlier.boot).max(self.raw.saturating_sub(earlier.raw))
    }

    /// This moment, earlier by `duration`.
    pub(crate) fn earlier_by(self, duration: Duration) -> Moment {
        Moment { boot: self.boot.saturating_sub(duration), raw: self.raw.saturating_sub(duration) }
    }

    /// How long ago it was, by the machine's clocks.
    pub fn elapsed(self) -> Duration {
        Moment::now().since(self)
    }
}

/// What a client counts time by.
pub trait Clock: std::fmt::Debug + Send + Sync + 'static {
    /// This moment.
    fn now(&self) -> Moment;

    /// Returns after `duration`. It may return late, after a pause of the process: look at [`Clock::now`] then.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// The longest sleep for one who must notice soon that the machine was suspended: its timers stand still then.
    fn longest_nap(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// Takes note of a client that lives by this clock. A clock that a test moves waits until all of them are idle.
    fn attach(&self, _client: Settle) {}
}

/// The clocks of this machine. Sleeping needs a tokio runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Moment {
        Moment::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(rate::of_sleep(duration)))
    }
}

/// The machine's clocks as they are.
#[cfg(not(debug_assertions))]
mod rate {
    use std::time::Duration;

    use super::Moment;

    pub(super) fn of_moment(moment: Moment) -> Moment {
        moment
    }

    pub(super) fn of_sleep(duration: Duration) -> Duration {
        duration
    }
}

/// For tests: with `LEASE_TEST_CLOCK_RATE=1.02` a debug build believes that time runs 2 % faster than it does. `lease`
/// refuses values that make no sense, and release builds the variable as a whole.
#[cfg(debug_assertions)]
mod rate {
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::Moment;

    static RATE: OnceLock<Option<f64>> = OnceLock::new();

    fn rate() -> Option<f64> {
        let read =
            || std::env::var("LEASE_TEST_CLOCK_RATE").ok()?.parse().ok().filter(|rate| (0.5..=2.0).contains(rate));
        *RATE.get_or_init(read)
    }

    pub(super) fn of_moment(moment: Moment) -> Moment {
        let Some(rate) = rate() else { return moment };
        Moment { boot: moment.boot.mul_f64(rate), raw: moment.raw.mul_f64(rate) }
    }

    pub(super) fn of_sleep(duration: Duration) -> Duration {
        // A sleep without end stays one.
        rate().and_then(|rate| Duration::try_from_secs_f64(duration.as_secs_f64() / rate).ok()).unwrap_or(duration)
    }
}

#[cfg(target_os = "linux")]
mod machine {
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
mod machine {
    use std::sync::OnceLock;
    use std::time::Instant;

    use super::Moment;

    static START: OnceLock<Instant> = OnceLock::new();

    pub(super) fn now() -> Moment {
        Moment::at(START.get_or_init(Instant::now).elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_clock_counts() {
        let now = Moment::now();
        let slept = Moment { boot: now.boot.saturating_sub(Duration::from_secs(5)), raw: now.raw };
        assert!(slept.elapsed() >= Duration::from_secs(5));
        assert_eq!(slept.since(now), Duration::ZERO);
    }
}
