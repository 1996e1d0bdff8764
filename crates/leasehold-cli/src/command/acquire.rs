//! `lease acquire`: a lease on resources, for scripts or held in the foreground.

use std::cell::RefCell;
use std::time::Duration;

use clap::{Args, ValueEnum};
use leasehold_api::{Class, Code, GrantRequest, Id, Mode, SpanText, TtlText, WaitText};
use leasehold_client::http::{Acquire as Acquiring, Error, Granted, HttpClient};
use leasehold_client::store::Progress;
use leasehold_core::{Patience, Span, Ttl};

use super::hold;
use crate::args::resource;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::render::{lease, refusal};
use crate::signals::Signals;
use crate::waiting::WaitingLine;

/// The ttl where neither it nor a class is given.
const DEFAULT_TTL: Span = Span::seconds(10);
/// How often the queue is looked at while a person waits.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After how long a wait is worth a message.
const LOOK_AFTER: Duration = Duration::from_millis(300);
/// How long leaving the queue may delay the exit.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// Acquire resources, all or none, and print the lease's id and token.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease acquire orders/7 --ttl 30s --wait 5s
  id=$(lease acquire orders/7 --ttl 5m -o name) && ./work; lease release $id
  lease acquire orders/7 --hold            hold it until Ctrl-C

The lease ends by itself after its ttl unless it is renewed (`lease renew`, or --hold). Without --wait it waits \
for as long as it takes; --wait 0 does not wait. Not acquired is exit code 75, a lost --hold is 79.")]
pub(crate) struct Acquire {
    /// The resources, like orders/7
    #[arg(required = true, value_name = "RES", value_parser = resource)]
    resources: Vec<String>,
    /// How long to wait: a duration, `forever`, or 0
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "forever")]
    wait: WaitText,
    /// For how long, unless renewed [default: 10s, or that of the class]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    ttl: Option<TtlText>,
    /// What kind of use it is
    #[arg(long, value_enum)]
    class: Option<ClassArg>,
    /// Alone or with others
    #[arg(long, value_enum, default_value = "exclusive")]
    mode: ModeArg,
    /// Higher goes first in the queue
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Why, for people who find it held
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Where to read more
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// How long the resources rest if the lease expires
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    cooldown: Option<SpanText>,
    /// The lease's id, to repeat an acquire whose end is not known; use the same --holder
    #[arg(long, value_name = "HEX")]
    id: Option<Id>,
    /// Renew it in the foreground until Ctrl-C, then release it
    #[arg(long)]
    hold: bool,
    /// The exit code if it is not acquired
    #[arg(short = 'E', value_name = "N", default_value_t = 75)]
    not_acquired: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClassArg {
    /// Exclusive work for seconds: 15s
    Lock,
    /// Leadership: 10s
    Election,
    /// Presence of a user or client: 15m
    Session,
    /// Something set aside for hours: 8h
    Reservation,
    /// A copy that may be used for a while: 10m
    Cache,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModeArg {
    /// Nobody else holds it
    Exclusive,
    /// Others may hold it in the same mode
    Shared,
}

/// Acquires, tells what was acquired, and holds it if asked to.
pub(crate) async fn run(args: Acquire, context: &Context) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let mut acquiring = context.client.acquire(request(&args, &context.settings.holder), args.wait.0);
    let granted = wait_for(&mut acquiring, &args, context, &mut signals).await?;
    if let Err(failure) = tell(&granted, context) {
        // Nobody will ever know its id.
        let _ = acquiring.abandon().await;
        return Err(failure);
    }
    if args.hold { hold::hold(&context.client, &granted, &args.resources, &mut signals).await } else { Ok(()) }
}

fn request(args: &Acquire, holder: &str) -> GrantRequest {
    let default_ttl = args.class.is_none().then_some(TtlText(Ttl::For(DEFAULT_TTL)));
    GrantRequest {
        id: args.id,
        holder: holder.to_owned(),
        ttl: args.ttl.or(default_ttl),
        class: args.class.map(Class::from),
        resources: Some(args.resources.clone()),
        mode: Some(args.mode.into()),
        reason: args.reason.clone(),
        link: args.link.clone(),
        priority: Some(args.priority).filter(|priority| *priority != 0),
        cooldown: args.cooldown,
        ..GrantRequest::default()
    }
}

/// Waits until it is granted, refused, or a signal ends the wait.
async fn wait_for(
    acquiring: &mut Acquiring,
    args: &Acquire,
    context: &Context,
    signals: &mut Signals,
) -> Result<Granted, Failure> {
    let watched = output::is_watched() && args.wait.0 != Patience::None;
    let line = RefCell::new(WaitingLine::new(watched));
    let result = tokio::select! {
        result = acquiring.granted(|error| tell_lost(error, watched, &line)) => Ok(result),
        signal = signals.next() => Err(signal),
        never = show_queue(context, &args.resources, &line), if watched => match never {},
    };
    line.borrow_mut().finish();
    match result {
        Ok(Ok(granted)) => Ok(granted),
        Ok(Err(error)) => Err(refused(error, args)),
        Err(signal) => {
            // The broken connection leaves the queue too, but only this is sure to.
            let left = tokio::time::timeout(LEAVE_MAX, acquiring.abandon()).await;
            Err(match left {
                Ok(Ok(())) => Failure::outcome(signal, format!("left the queue for {}", args.resources.join(", "))),
                Ok(Err(_)) | Err(_) => Failure::quiet(signal),
            })
        }
    }
}

fn refused(error: Error, args: &Acquire) -> Failure {
    match (&error, error.code()) {
        (Error::Refused(problem), Some(Code::Held | Code::WaitElapsed)) => {
            refusal::not_acquired(problem, args.wait.0, args.not_acquired)
        }
        (Error::Refused(_) | Error::Unreachable { .. } | Error::Protocol { .. }, _) => error.into(),
    }
}

fn tell_lost(error: &Error, watched: bool, line: &RefCell<WaitingLine>) {
    if watched {
        line.borrow_mut().finish();
        output::message(format!("lease: {}; trying again", refusal::lost(error)));
    }
}

fn tell(granted: &Granted, context: &Context) -> Result<(), Failure> {
    let id = granted.id.to_string();
    let name = id.clone();
    context.show(&granted.lease, |_| name, |found| lease::granted(found, &id))
}

/// What never happens.
enum Never {}

/// Shows who stands in the way, as long as it lasts.
async fn show_queue(context: &Context, resources: &[String], line: &RefCell<WaitingLine>) -> Never {
    tokio::time::sleep(LOOK_AFTER).await;
    loop {
        for resource in resources {
            if let Some((progress, rests)) = look(&context.client, resource, &context.settings.holder).await {
                match rests {
                    Some(rests) => line.borrow_mut().update_resting(&progress, rests),
                    None => line.borrow_mut().update(&progress),
                }
                break;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
        line.borrow_mut().tick();
    }
}

/// How far the wait for one resource is, and how long it rests; none if nobody is in the way.
async fn look(client: &HttpClient, name: &str, holder: &str) -> Option<(Progress, Option<Duration>)> {
    let resource = client.resource(name).await.ok()?;
    let queue = client.queue(name).await.ok()?;
    let place = queue.waiters.iter().find(|waiter| waiter.holder == holder)?;
    let millis = |span: SpanText| Duration::from_millis(span.0.0);
    let progress = Progress {
        resource: name.to_owned(),
        place: Some((place.position, queue.length)),
        holder: resource.holders.into_iter().next(),
        estimate: place.estimate.map(millis),
    };
    Some((progress, resource.rests.map(millis)))
}

impl From<ClassArg> for Class {
    fn from(class: ClassArg) -> Class {
        match class {
            ClassArg::Lock => Class::Lock,
            ClassArg::Election => Class::Election,
            ClassArg::Session => Class::Session,
            ClassArg::Reservation => Class::Reservation,
            ClassArg::Cache => Class::Cache,
        }
    }
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Mode {
        match mode {
            ModeArg::Exclusive => Mode::Exclusive,
            ModeArg::Shared => Mode::Shared,
        }
    }
}
