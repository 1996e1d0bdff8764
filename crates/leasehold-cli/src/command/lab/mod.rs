//! `lease lab`: demonstrations on a server of their own, which goes with them.

mod fencing;
mod register;

use std::time::Duration;

use clap::{Args, Subcommand};
use leasehold_client::Endpoints;
use leasehold_client::http::HttpClient;
use leasehold_server::{Config, Flags, Running};

use crate::args::Globals;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::signals::Signals;

/// See how leases behave; no server is needed.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Example:
  lease lab fencing")]
pub(crate) enum Lab {
    Fencing(Fencing),
}

/// See why tokens matter: a holder that slept writes too late.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease lab fencing
  lease lab fencing --fast -o jsonl

It takes 20 seconds, starts a server of its own on a free port of this machine, and leaves nothing behind. \
Tokens, waits and refusals are those of that server.")]
pub(crate) struct Fencing {
    /// With short ttls and no time to read along: 2 seconds
    #[arg(long)]
    fast: bool,
}

/// Runs a demonstration until its end or a signal.
pub(crate) fn run(lab: Lab, globals: &Globals) -> Result<(), Failure> {
    let Lab::Fencing(args) = lab;
    let settings = Settings::new(globals, |name| std::env::var_os(name))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let done = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let server = Server::start().await?;
        let pace = if args.fast { fencing::Pace::FAST } else { fencing::Pace::CALM };
        let done = tokio::select! {
            done = fencing::demonstrate(&server, pace, settings.output) => done,
            signal = signals.next() => Err(Failure::quiet(signal)),
        };
        server.stop().await;
        done
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

/// A server for one demonstration, with a data directory that goes with it.
struct Server {
    running: Running,
    _data: tempfile::TempDir,
}

impl Server {
    async fn start() -> Result<Server, Failure> {
        let data = tempfile::Builder::new().prefix("lease-lab-").tempdir()?;
        let flags =
            Flags { listen: Some("127.0.0.1:0".to_owned()), data: Some(data.path().join("data")), ..Flags::default() };
        let config = Config::load(flags).map_err(|error| Failure::config(error.to_string()))?;
        let running = leasehold_server::start(&config)
            .await
            .map_err(|error| Failure::new(error.exit_code(), format!("no server for the demonstration: {error}")))?;
        Ok(Server { running, _data: data })
    }

    fn address(&self) -> String {
        format!("http://{}", self.running.address())
    }

    /// A client with connections of its own, as every process has.
    fn client(&self) -> Result<HttpClient, Failure> {
        let endpoints: Endpoints = self.address().parse().map_err(|_| Failure::new(69, "the address is not usable"))?;
        Ok(HttpClient::new(endpoints, "default"))
    }

    async fn stop(self) {
        self.running.stop().await;
    }
}
