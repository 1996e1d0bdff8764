//! What a run is like: everything that follows from its seed before it begins.

use std::time::Duration;

use leasehold_core::{Limits, Span};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::checkers::{
    fifo, linearizable, never_early, never_late, nothing_lost, once, one_holder, one_revision, stays_ended, watches,
};
use crate::net::Weather;

/// What kind of run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing goes wrong: leases must end on time.
    Calm,
    /// Everything goes wrong that the promises allow for.
    Stormy,
    /// Clocks run at rates beyond the bound, and machines stand still together with their clocks: only what does not
    /// depend on time is promised.
    Beyond,
    /// The cluster is restored from a backup in the middle.
    Restored,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Calm => "calm",
            Kind::Stormy => "stormy",
            Kind::Beyond => "beyond",
            Kind::Restored => "restored",
        }
    }
}

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where everything comes from.
    pub seed: u64,
    /// What kind of run it is.
    pub kind: Kind,
    /// How long things happen, in milliseconds of true time; then everything is mended and comes to rest.
    pub busy: u64,
    /// How long it takes to come to rest.
    pub rest: u64,
    /// How many nodes the cluster begins with.
    pub nodes: u16,
    pub(crate) heartbeat: Duration,
    pub(crate) snapshot_bytes: u64,
    pub(crate) retained_entries: u64,
    pub(crate) ring: usize,
    pub(crate) limits: Limits,
    pub(crate) weather: Weather,
    /// How long a flush takes at most, in milliseconds.
    pub(crate) flush: u64,
    /// By how much rates of clocks are off, at most.
    pub(crate) drift: f64,
    /// The longest pause between two faults, in milliseconds.
    pub(crate) fault_pause: u64,
    /// How many clients of each trade there are.
    pub(crate) lockers: u16,
    pub(crate) writers: u16,
    pub(crate) watchers: u16,
    pub(crate) families: u16,
    pub(crate) crowds: u16,
    pub(crate) readers: u16,
    /// How many resources they quarrel about.
    pub(crate) resources: u32,
}

impl Plan {
    /// Whether its disks are so slow that time goes on in steps.
    pub(crate) fn has_slow_disks(&self) -> bool {
        self.flush >= 10
    }

    /// How long an entry takes at most when all is well: to another node and back, and two flushes. What slow disks take
    /// counts as outages.
    pub(crate) fn entry(&self) -> Duration {
        let flush = if self.has_slow_disks() { 0 } else { self.flush };
        Duration::from_millis(2 * (self.weather.delay + flush))
    }

    /// The checkers that say nothing about this kind of run: what they check is not promised in it.
    pub fn unpromised(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Calm | Kind::Stormy => &[],
            Kind::Beyond => {
                &[one_holder::NAME, never_early::NAME, never_late::NAME, linearizable::NAME, nothing_lost::NAME]
            }
            Kind::Restored => &[
                one_holder::NAME,
                never_early::NAME,
                never_late::NAME,
                linearizable::NAME,
                nothing_lost::NAME,
                once::NAME,
                one_revision::NAME,
                fifo::NAME,
                stays_ended::NAME,
                watches::NAME,
            ],
        }
    }

    /// The plan that follows from a seed.
    pub fn new(seed: u64) -> Plan {
        let mut chance = StdRng::seed_from_u64(seed);
        let kind = match chance.random_range(0..20) {
            0..2 => Kind::Calm,
            2..4 => Kind::Beyond,
            4 => Kind::Restored,
            _ => Kind::Stormy,
        };
        Plan::of(kind, seed)
    }

    /// The plan of a kind that follows from a seed.
    pub fn of(kind: Kind, seed: u64) -> Plan {
        let chance = &mut StdRng::seed_from_u64(seed ^ 0x5eed);
        let limits = Limits {
            sweep_piece: chance.random_range(2..64),
            tombstone_age: Span(chance.random_range(2_000..30_000)),
            tombstones: chance.random_range(20..2_000),
            history: chance.random_range(1..16),
            receipts: chance.random_range(2..64),
            ..Limits::default()
        };
        let harsh = kind != Kind::Calm && chance.random_bool(0.5);
        let weather = Weather {
            delay: chance.random_range(0..6),
            late: if harsh { 20 } else { 0 },
            late_by: if harsh { 300 } else { 0 },
            lost: if harsh { 30 } else { 0 },
            twice: if harsh { chance.random_range(0..60) } else { 0 },
        };
        let nodes = match kind {
            Kind::Restored => 1,
            Kind::Calm | Kind::Stormy | Kind::Beyond => [1, 3, 3, 3, 3, 5][chance.random_range(0..6_usize)],
        };
        let heartbeat = [20, 50, 100][chance.random_range(0..3_usize)];
        // A vote is flushed, so a disk must be faster than elections; without others there are none.
        let slow = if nodes == 1 { 900 } else { heartbeat * 2 };
        let flush = if kind == Kind::Stormy && chance.random_bool(0.2) { chance.random_range(2..slow) } else { 2 };
        Plan {
            seed,
            kind,
            busy: chance.random_range(15_000..30_000),
            rest: 14_000,
            nodes,
            heartbeat: Duration::from_millis(heartbeat),
            snapshot_bytes: chance.random_range(20_000..400_000),
            retained_entries: chance.random_range(5..300),
            ring: chance.random_range(20..3_000),
            limits,
            weather,
            flush,
            drift: match kind {
                Kind::Beyond => 0.15,
                Kind::Calm | Kind::Stormy | Kind::Restored => 0.018,
            },
            fault_pause: chance.random_range(800..8_000),
            lockers: chance.random_range(3..9),
            writers: chance.random_range(1..4),
            watchers: 3,
            families: chance.random_range(0..3),
            crowds: chance.random_range(0..2),
            readers: chance.random_range(0..2),
            resources: chance.random_range(1..6),
        }
    }
}
