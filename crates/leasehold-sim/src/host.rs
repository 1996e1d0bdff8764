//! A host: one thread of tasks under a clock of its own.
//!
//! Its clock runs at its own rate against true time. A host that is frozen does nothing and finds, when it thaws, that
//! its clock has run on, like a process that was stopped; one that is suspended finds that it has not, like a machine
//! whose clocks stood still. Each tick runs everything that is due and ready on it, then the next host's.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// Whether a host does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    Runs,
    /// It does nothing, its clock runs on.
    Frozen,
    /// It does nothing, and neither does its clock.
    Suspended,
}

/// One host.
pub(crate) struct Host {
    runtime: Option<Runtime>,
    began: Instant,
    pub(crate) motion: Motion,
    rate: f64,
    /// What its clock should show, in milliseconds since it began.
    clock: f64,
    /// What it shows.
    shown: u64,
}

impl Host {
    pub(crate) fn new(rate: f64) -> Host {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime of one thread needs nothing");
        let began = runtime.block_on(async { Instant::now() });
        Host { runtime: Some(runtime), began, motion: Motion::Runs, rate, clock: 0.0, shown: 0 }
    }

    pub(crate) fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// Starts a task on the host.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// One millisecond of true time goes by.
    pub(crate) fn tick(&mut self) {
        if self.motion != Motion::Suspended {
            self.clock += self.rate;
        }
        let due = self.clock as u64;
        if self.motion != Motion::Runs || due == self.shown {
            return;
        }
        let Some(runtime) = &self.runtime else { return };
        let (jump, until) = (due - self.shown, self.began + Duration::from_millis(due));
        self.shown = due;
        runtime.block_on(async {
            // After a standstill everything that became due meanwhile is late at once, not in its order.
            if jump > 3 {
                tokio::time::advance(Duration::from_millis(jump - 1)).await;
            }
            tokio::time::sleep_until(until).await;
        });
    }

    /// Whether it was not crashed.
    pub(crate) fn is_alive(&self) -> bool {
        self.runtime.is_some()
    }

    /// Ends everything on the host, wherever it stands.
    pub(crate) fn crash(&mut self) {
        self.runtime = None;
    }
}
