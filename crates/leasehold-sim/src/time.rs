//! True time: what the simulation itself counts by, in whole milliseconds from its start.
//!
//! Nobody inside the simulation sees it. Every host has a clock of its own, which runs a little faster or slower, and
//! stands still or jumps when the simulation says so; histories are written down in true time, so that they compare.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The one clock that is right. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrueTime(Arc<AtomicU64>);

impl TrueTime {
    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The same as a duration.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.now())
    }

    /// Goes on by one tick, a millisecond.
    pub(crate) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
