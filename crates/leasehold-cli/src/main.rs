//! The binary `lease`: the server and every client command.
//!
//! Data goes to stdout, messages to stderr, and the exit code tells scripts what happened. Each group of
//! commands has its file in `command/`; what people read is made in `render/`, from the answers alone.

mod args;
mod certificates;
mod command;
mod config_file;
mod context;
mod failure;
mod output;
mod render;
mod run;
mod settings;
mod signals;
mod waiting;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = run::inner(std::env::args_os()) {
        return code;
    }
    let cli = Cli::parse();
    if let Err(error) = leasehold_server::test_clock_rate(std::env::var("LEASE_TEST_CLOCK_RATE").ok().as_deref()) {
        return Failure::config(error.to_string()).tell();
    }
    let done = match cli.command {
        Command::Serve(args) => return command::serve::run(args),
        Command::Client(command) => {
            Context::new(&cli.globals).and_then(|context| block_on(command::run(command, context)))
        }
        Command::Local(command) => command::run_local(command, &cli.globals),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

/// Runs a client command; one thread is enough for it.
fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A name that is still being looked up must not delay the exit.
    runtime.shutdown_background();
    done
}
