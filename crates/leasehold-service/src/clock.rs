//! The leader's lease clock: what it stamps entries with.
//!
//! It starts from the last applied lease time when the leader is ready, stands still for the grace of that
//! take-over, and then follows the slower of two monotonic clocks. It is never more than [`AHEAD_MAX`] ahead of
//! the last applied lease time; when it has stood at that limit (nothing committed: disk, quorum, pause, suspend)
//! it goes on from the next applied entry. So time that nobody could use is forgotten, and leases get
//! longer in a fault, never shorter. Wall time is stamped beside it, for people, and decides nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::planted::{self, Bug};
use leasehold_core::{AHEAD_MAX, LeaseTime, Span, WallTime};
use rustix::time::{ClockId, clock_gettime};

/// A reading of two clocks of one machine, each from a start of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Disciplined by the network's time, in rate only.
    pub monotonic: Duration,
    /// The bare oscillator.
    pub raw: Duration,
}

/// Where readings come from.
pub trait Clocks: Send + Sync + 'static {
    /// Reads both clocks.
    fn read(&self) -> Reading;

    /// The time of day, for people.
    fn wall(&self) -> WallTime {
        wall_time()
    }
}

/// The time of day of this machine.
pub(crate) fn wall_time() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(since.as_millis() as u64)
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClocks;

impl Clocks for MachineClocks {
    fn read(&self) -> Reading {
        Reading { monotonic: reading_of(ClockId::Monotonic), raw: reading_of(ClockId::MonotonicRaw) }
    }
}

fn reading_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The lease clock of one leadership.
#[derive(Debug)]
pub struct LeaseClock<C> {
    clocks: C,
    /// Lease time at the anchor.
    base: LeaseTime,
    anchor: Reading,
    /// How long after the anchor it begins to move.
    grace: Duration,
    applied: LeaseTime,
    /// It stood at its limit since the last applied entry.
    stalled: bool,
}

impl<C: Clocks> LeaseClock<C> {
    /// Starts from the last applied lease time, standing still for `grace` first.
    pub fn start(clocks: C, applied: LeaseTime, grace: Span) -> Self {
        let anchor = clocks.read();
        Self { clocks, base: applied, anchor, grace: Duration::from_millis(grace.0), applied, stalled: false }
    }

    /// Reads the clock. A stamp is such a reading, taken after the last command was put into the entry.
    pub fn read(&mut self) -> LeaseTime {
        let now = self.clocks.read();
        let monotonic = now.monotonic.saturating_sub(self.anchor.monotonic);
        let raw = now.raw.saturating_sub(self.anchor.raw);
        let moved = monotonic.min(raw).saturating_sub(self.grace);
        let time = self.base.after(Span(moved.as_millis() as u64));
        let limit = self.applied.after(AHEAD_MAX);
        if time > limit && !planted::is(Bug::ClockRunsAhead) {
            self.stalled = true;
            return limit;
        }
        time
    }

    /// Notes that an entry was applied, after which lease time is `now`.
    pub fn applied(&mut self, now: LeaseTime) {
        self.applied = self.applied.max(now);
        if self.stalled {
            self.stalled = false;
            self.base = self.applied;
            self.anchor = self.clocks.read();
            self.grace = Duration::ZERO;
        }
    }

    /// The time of day, for people.
    pub(crate) fn wall(&self) -> WallTime {
        self.clocks.wall()
    }

    /// How far it is ahead of the last applied lease time.
    pub fn lag(&mut self) -> Span {
        self.read().since(self.applied)
    }

    /// How long it takes until it shows `moment`, if entries go on being applied.
    pub fn until(&mut self, moment: LeaseTime) -> Duration {
        let moved = self.read();
        let still = {
            let now = self.clocks.read();
            let gone = now.monotonic.saturating_sub(self.anchor.monotonic);
            self.grace.saturating_sub(gone)
        };
        still + Duration::from_millis(moment.since(moved).0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Hands(Arc<Mutex<Reading>>);

    impl Hands {
        fn turn(&self, monotonic_ms: u64, raw_ms: u64) {
            let mut reading = self.0.lock();
            reading.monotonic += Duration::from_millis(monotonic_ms);
            reading.raw += Duration::from_millis(raw_ms);
        }
    }

    impl Clocks for Hands {
        fn read(&self) -> Reading {
            *self.0.lock()
        }
    }

    fn started(applied: u64, grace: u64) -> (Hands, LeaseClock<Hands>) {
        let hands = Hands::default();
        hands.turn(123_456, 99);
        (hands.clone(), LeaseClock::start(hands, LeaseTime(applied), Span(grace)))
    }

    #[test]
    fn it_goes_on_from_the_last_applied_time_after_the_grace() {
        let (hands, mut clock) = started(5_000, 300);
        assert_eq!(clock.read(), LeaseTime(5_000));
        hands.turn(300, 300);
        assert_eq!(clock.read(), LeaseTime(5_000));
        hands.turn(20, 20);
        assert_eq!(clock.read(), LeaseTime(5_020));
    }

    #[test]
    fn it_follows_the_slower_clock() {
        let (hands, mut clock) = started(0, 0);
        hands.turn(100, 98);
        assert_eq!(clock.read(), LeaseTime(98));
        hands.turn(98, 110);
        assert_eq!(clock.read(), LeaseTime(198));
    }

    #[test]
    fn it_stands_at_one_second_ahead_and_goes_on_from_the_next_applied_entry() {
        let (hands, mut clock) = started(0, 0);
        hands.turn(1_000, 1_000);
        assert_eq!(clock.read(), LeaseTime(1_000));
        hands.turn(9_000, 9_000);
        assert_eq!(clock.read(), LeaseTime(1_000), "nothing was applied for ten seconds");
        hands.turn(500, 500);
        clock.applied(LeaseTime(1_000));
        assert_eq!(clock.read(), LeaseTime(1_000), "the stall is forgotten");
        hands.turn(7, 7);
        assert_eq!(clock.read(), LeaseTime(1_007));
    }

    #[test]
    fn a_stall_that_ends_before_a_reading_is_no_stall() {
        let (hands, mut clock) = started(0, 0);
        hands.turn(900, 900);
        clock.applied(LeaseTime(900));
        hands.turn(900, 900);
        assert_eq!(clock.read(), LeaseTime(1_800));
    }

    #[test]
    fn after_a_stall_a_late_copy_of_an_old_stamp_does_not_turn_it_back() {
        let (hands, mut clock) = started(10_000, 0);
        hands.turn(5_000, 5_000);
        assert_eq!(clock.read(), LeaseTime(11_000));
        clock.applied(LeaseTime(10_200));
        assert_eq!(clock.read(), LeaseTime(10_200), "it goes on from what is applied, not from what it showed");
        clock.applied(LeaseTime(9_000));
        assert!(clock.read() >= LeaseTime(10_200));
    }

    #[test]
    fn it_tells_how_long_to_sleep() {
        let (hands, mut clock) = started(1_000, 200);
        assert_eq!(clock.until(LeaseTime(1_500)), Duration::from_millis(700));
        hands.turn(300, 300);
        assert_eq!(clock.until(LeaseTime(1_500)), Duration::from_millis(400));
        assert_eq!(clock.until(LeaseTime(900)), Duration::ZERO);
    }

    #[test]
    fn the_machine_has_both_clocks() {
        let first = MachineClocks.read();
        let second = MachineClocks.read();
        assert!(second.monotonic >= first.monotonic && second.raw >= first.raw);
    }
}
