//! What a service manager such as systemd hears of the server: that it starts, is ready, is well, and stops.

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::notify::{Notify, watchdog};
use crate::server::Running;

/// While the server waits for others to start, its manager is told this often...
const STILL_STARTING: Duration = Duration::from_secs(10);
/// ...that it takes up to so much longer: other machines may be down for hours, and ending this one helps nobody.
const LONGER: Duration = Duration::from_secs(60);
/// How often the manager hears where the server stands, if it does not ask for more.
const STANDING_EVERY: Duration = Duration::from_secs(5);

/// The way to the service manager.
#[derive(Debug)]
pub(crate) struct Manager {
    notify: Notify,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that the environment names, if any.
    pub(crate) fn from_environment() -> Manager {
        let notify = Notify::from_env().unwrap_or_else(|error| {
            warn!(%error, "the service manager cannot be told how this server stands");
            Notify::nobody()
        });
        Manager { notify, watchdog: watchdog(|name| std::env::var(name).ok()) }
    }

    /// Asks for more time, over and over; never returns.
    pub(crate) async fn starting(&self) {
        let mut again = tokio::time::interval(STILL_STARTING);
        loop {
            again.tick().await;
            self.notify.starting("waiting for a leader", LONGER);
        }
    }

    /// Tells that the server can be used, then where it stands and that it is well; never returns.
    pub(crate) async fn ready(&self, running: &Running) {
        let mut told = running.standing();
        self.notify.ready(&told);
        // Twice as often as the manager wants, so that one late message is no reason to end the server.
        let every = self.watchdog.map_or(STANDING_EVERY, |within| (within / 2).min(STANDING_EVERY));
        let mut again = tokio::time::interval(every.max(Duration::from_millis(10)));
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            again.tick().await;
            // A server that hangs does not get past this line, and its manager hears no more of it.
            let standing = running.standing();
            if self.watchdog.is_some() {
                self.notify.alive();
            }
            if standing != told {
                self.notify.status(&standing);
                told = standing;
            }
        }
    }

    /// Tells that the server stops, and why.
    pub(crate) fn stopping(&self, why: &str) {
        self.notify.stopping(why);
    }
}
