//! `lease elect`: a command that only the incumbent of an election runs.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use leasehold_api::Class;
use leasehold_client::{Client, Error, Guard, Renewal};
use leasehold_core::{Patience, Ttl};

use super::run::{How, result, split};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::render::text::plain;
use crate::run::campaign::{self, Outcome};
use crate::run::signals::Signals;
use crate::run::supervise::{End, Job, supervise};
use crate::run::timing::Timing;

/// The pause before a campaign is begun anew when no server answers.
const PAUSE: Duration = Duration::from_secs(1);

/// Stand for election for ever, and run a command whenever elected.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease elect scheduler -- ./scheduler
  lease elect scheduler --on-handover true -- ./scheduler   resign if asked

One candidate is the incumbent and runs its command; the others wait in order. An incumbent that loses its lease, or \
hands it over, stops its command and stands for election again. If the command ends by itself, so does \
`lease elect`, with its exit code: what restarts services restarts it. See `lease run --help` for the rest.")]
pub(crate) struct Elect {
    /// The name of the election
    #[arg(required = true, value_name = "NAME")]
    words: Vec<OsString>,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    how: How,
}

/// Campaigns, and runs the command in each term.
pub(crate) async fn run(args: Box<Elect>, context: &Context) -> Result<(), Failure> {
    let (names, command) = split(&args.words, &args.command)?;
    if names.len() > 1 {
        return Err(Failure::new(2, "an election has one name"));
    }
    let job = args.how.job(names, command, None)?;
    let ttl = args.how.ttl(Some(Class::Election));
    Timing::new(ttl, job.kill_grace)?;
    let mut signals = Signals::new()?;
    let client = campaign::client(context);
    let done = terms(&args, &job, ttl, &client, context, &mut signals).await;
    campaign::leave(client).await;
    done
}

/// One term after the other, until the command ends by itself or a signal ends the campaign.
async fn terms(
    args: &Elect,
    job: &Job,
    ttl: Ttl,
    client: &Client,
    context: &Context,
    signals: &mut Signals,
) -> Result<(), Failure> {
    loop {
        let guard = elected(args, job, ttl, client, signals).await?;
        campaign::tell("elected for", &job.resources, &guard, &context.client).await;
        match supervise(job, guard, signals).await? {
            End::Lost | End::HandedOver => {
                output::message(format!("lease: standing for {} again", plain(&job.resources.join(", "))));
            }
            end @ (End::Ended(_) | End::NotExecuted(_) | End::MaxHold) => return result(end, job),
        }
    }
}

/// Waits to be elected, however long it takes and whether or not a server is there.
async fn elected(args: &Elect, job: &Job, ttl: Ttl, client: &Client, signals: &mut Signals) -> Result<Guard, Failure> {
    let names = plain(&job.resources.join(", "));
    let mut is_told = false;
    loop {
        if let Some(notify) = &job.notify {
            notify.status(&format!("standing for {names}"));
        }
        let lock = client.locks(&job.resources).class(Class::Election).wait_forever();
        let lock = args.how.finish(lock, ttl).renewal(Renewal::Continuous);
        match campaign::acquire(lock, signals).await {
            Outcome::Acquired(guard) => return Ok(guard),
            Outcome::Left(exit) => return Err(Failure::outcome(exit, format!("left the election for {names}"))),
            Outcome::Refused(error @ (Error::Unreachable { .. } | Error::Unavailable(_))) => {
                // One message for an outage, however long it lasts.
                if !std::mem::replace(&mut is_told, true) {
                    output::message(format!("lease: {}; trying again", plain(&error.to_string())));
                }
            }
            Outcome::Refused(error) => return Err(campaign::refused(&error, Patience::Endless, 75)),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            exit = signals.ending() => return Err(Failure::quiet(exit)),
        }
    }
}
