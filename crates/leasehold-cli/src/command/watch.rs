//! `lease watch`: what happens, as it happens.

use clap::Args;
use leasehold_api::Change;
use leasehold_client::http::Delivery;

use super::reaction;
use super::resources::now;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::render::{event, refusal};

/// Show what happens to resources and entries, as it happens.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease watch orders/
  lease watch --since 1204 -o jsonl    one JSON document per revision after 1204
  lease watch orders/ --exec 'echo $LEASE_EVENT $LEASE_RESOURCE >> orders.log'

It goes on until Ctrl-C, over lost connections; nothing is missed or shown twice.

--exec runs a command by `sh -c` for every event, one at a time and in order, instead of showing it. The \
event is on its stdin as JSON and in its environment: LEASE_EVENT (like claim_granted), LEASE_REVISION, \
LEASE_AT, and what the event has of LEASE_RESOURCE, LEASE_KEY, LEASE_DIGEST, LEASE_EVENT_HOLDER, \
LEASE_FENCING_TOKEN, LEASE_MODE, LEASE_POSITION, LEASE_CAUSE, LEASE_BY, LEASE_REASON. A command that fails is told and \
does not end the watch, unless --exec-strict is given: then its exit code is that of the watch.")]
pub(crate) struct Watch {
    /// Only resources and keys whose names begin so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Begin after this revision instead of now
    #[arg(long, value_name = "REV")]
    since: Option<u64>,
    /// Run this for every event
    #[arg(long, value_name = "CMD")]
    exec: Option<String>,
    /// End with the first command that fails
    #[arg(long, requires = "exec")]
    exec_strict: bool,
}

/// Watches until a signal or a refusal.
pub(crate) async fn run(args: Watch, context: &Context) -> Result<(), Failure> {
    let mut watch = context.client.watch(&args.prefix, args.since);
    let mut is_lost = false;
    loop {
        match watch.next().await? {
            Delivery::Change(change) => {
                is_lost = false;
                match &args.exec {
                    Some(command) => react(&change, command, args.exec_strict).await?,
                    None => show(&change, context.settings.output)?,
                }
            }
            Delivery::Mark(_) => is_lost = false,
            // One message for an outage, however many attempts it takes.
            Delivery::Lost(error) if !is_lost => {
                is_lost = true;
                output::message(format!("lease: {}; trying again", refusal::lost(&error)));
            }
            Delivery::Lost(_) => {}
        }
    }
}

/// Runs the command for each event of a revision.
async fn react(change: &Change, command: &str, is_strict: bool) -> Result<(), Failure> {
    for event in &change.events {
        if let Err(failed) = reaction::run(command, change.revision, event).await {
            let what = format!("revision {}, {}: {}", change.revision, event::name(event), failed.what);
            if is_strict {
                return Err(Failure::new(failed.exit, what));
            }
            output::message(format!("lease: {what}; the watch goes on"));
        }
    }
    Ok(())
}

fn show(change: &Change, output: Output) -> Result<(), Failure> {
    match output {
        Output::Human => {
            let now = now();
            let lines = change.events.iter().map(|event| event::line(change.revision, event, now) + "\n");
            output::lines(lines.collect::<String>())?;
        }
        Output::Json | Output::Jsonl => output::json_line(change)?,
        Output::Name => output::lines(change.events.iter().map(|event| event::name(event) + "\n").collect::<String>())?,
    }
    Ok(())
}
