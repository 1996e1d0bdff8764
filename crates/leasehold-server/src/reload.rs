//! SIGHUP: reads the configuration again and puts the log level in force.
//!
//! Every other setting needs a restart. Certificates of nodes are read again at each new connection anyway.

use std::convert::Infallible;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::config::{Config, Flags};
use crate::telemetry::{self, LevelHandle};

/// Waits for SIGHUP, which would otherwise end the process without a clean stop.
pub(crate) struct Reload {
    hangup: Signal,
    flags: Flags,
    level: LevelHandle,
}

impl Reload {
    /// Listens for the signal from now on.
    pub(crate) fn listen(flags: Flags, level: LevelHandle) -> std::io::Result<Reload> {
        Ok(Reload { hangup: signal(SignalKind::hangup())?, flags, level })
    }

    /// Reloads at every signal.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            if self.hangup.recv().await.is_none() {
                // The runtime delivers no more signals.
                std::future::pending::<()>().await;
            }
            match self.reload() {
                Ok(level) => {
                    info!(target: "cluster", log_level = %level, "SIGHUP: log level in force; other settings need a restart")
                }
                Err(error) => warn!(%error, "SIGHUP: settings stay as they are"),
            }
        }
    }

    fn reload(&self) -> Result<String, Box<dyn std::error::Error>> {
        let level = Config::load(self.flags.clone())?.log.level;
        self.level.set(telemetry::filter(&level)?)?;
        Ok(level)
    }
}
