//! `lease watch`: what happens, as it happens.

use clap::Args;
use leasehold_api::Change;
use leasehold_client::http::Delivery;

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
  lease watch --since 1204 -o jsonl    every event after revision 1204, one JSON document per revision

It goes on until Ctrl-C, over lost connections; nothing is missed or shown twice.")]
pub(crate) struct Watch {
    /// Only resources and keys whose names begin so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Begin after this revision instead of now
    #[arg(long, value_name = "REV")]
    since: Option<u64>,
}

/// Watches until a signal or a refusal.
pub(crate) async fn run(args: Watch, context: &Context) -> Result<(), Failure> {
    let mut watch = context.client.watch(&args.prefix, args.since);
    let mut is_lost = false;
    loop {
        match watch.next().await? {
            Delivery::Change(change) => {
                is_lost = false;
                show(&change, context.settings.output)?;
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
