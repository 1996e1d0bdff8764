//! The server as a library: configuration, wiring, telemetry and shutdown.
//!
//! It puts the parts together and decides nothing of the domain: a node over the data directory, the service over
//! the node, the dialects over the service, each on its listener. [`run`] is what `lease serve` calls.

mod authority;
mod backup;
mod clocks;
mod config;
mod descriptors;
mod duties;
mod file;
mod greeting;
mod listener;
mod manager;
mod notify;
mod peers;
mod reload;
mod server;
mod setting;
mod telemetry;
mod threads;

use std::process::ExitCode;
use std::time::Instant;

pub use backup::{BackupError, BackupSummary, RestAfterRestore, Restored, read_backup, restore_backup, verify_backup};
pub use clocks::test_clock_rate;
pub use config::{Config, ConfigError, Etcd, Flags};
pub use descriptors::TooFewDescriptors;
pub use file::read_file;
pub use leasehold_raft::NODE_NAME;
pub use notify::{NOTIFY_SOCKET, Notify};
pub use peers::{Coming, PeerError, PeerWords, Peers};
pub use server::{Running, StartError, start};
pub use setting::{Setting, Source};

use crate::manager::Manager;
use crate::reload::Reload;

/// The exit code for a configuration that cannot be used.
const BAD_CONFIGURATION: u8 = 78;
/// The exit code for a server that could not start or had to stop.
const UNAVAILABLE: u8 = 69;

/// Runs the server until it is told to stop, and gives the exit code of the process.
pub fn run(flags: Flags) -> ExitCode {
    let started = Instant::now();
    let config = match Config::load(flags.clone()) {
        Ok(config) => config,
        Err(error) => return fail(&error, BAD_CONFIGURATION),
    };
    let level = telemetry::init(&config.log);
    match threads::one() {
        Ok(runtime) => runtime.block_on(async {
            let reload = match Reload::listen(flags, level) {
                Ok(reload) => reload,
                Err(error) => return fail(&error, UNAVAILABLE),
            };
            tokio::select! {
                code = serve(config, started) => code,
                never = reload.run() => match never {},
            }
        }),
        Err(error) => fail(&error, UNAVAILABLE),
    }
}

async fn serve(config: Config, started: Instant) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(&error, UNAVAILABLE),
    };
    let manager = Manager::from_environment();
    // A node that joins a cluster is not started before it is let in, which may take long.
    let running = tokio::select! {
        started = server::start(&config) => match started {
            Ok(running) => running,
            Err(error) => return fail(&error, error.exit_code()),
        },
        () = manager.starting() => return ExitCode::SUCCESS,
        () = signals.received() => return ExitCode::SUCCESS,
    };
    greeting::greet(&config, &running);
    let served = async {
        tokio::select! {
            () = greeting::led(config.peers.as_ref(), running.leadership()) => {}
            () = manager.starting() => {}
        }
        greeting::ready(&config, &running, started);
        manager.ready(&running).await;
    };
    let failed = tokio::select! {
        reason = running.failed() => Some(reason),
        () = signals.received() => None,
        () = served => None,
    };
    match failed {
        Some(reason) => {
            manager.stopping(&reason);
            eprintln!("error: the server cannot go on and stops: {reason}");
            eprintln!("  nothing acknowledged is lost; look at the disk, then start it again");
            // Without a clean shutdown: after a failed write nothing further may be written.
            ExitCode::from(UNAVAILABLE)
        }
        None => {
            manager.stopping("told to stop");
            running.stop().await;
            eprintln!("stopped");
            ExitCode::SUCCESS
        }
    }
}

fn fail(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

/// The signals that stop the server.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
