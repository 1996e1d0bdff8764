//! `lease serve`: hands over to the server library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Start a server: durable, on this machine only unless told otherwise.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease serve
  lease serve --listen 127.0.0.1:8000 --data /var/lib/leasehold")]
pub(crate) struct Serve {
    /// Where to listen [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where to keep the data [default: ./leasehold-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A configuration file; flags go before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Permit what is otherwise refused, such as other machines without authentication
    #[arg(long)]
    insecure: bool,
}

/// Runs the server until it is told to stop.
pub(crate) fn run(args: Serve) -> ExitCode {
    let Serve { listen, data, config, insecure } = args;
    leasehold_server::run(leasehold_server::Flags { listen, data, config, insecure })
}
