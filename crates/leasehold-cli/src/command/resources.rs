//! `lease ls`, `describe`, `history` and `check`: who holds what, who held it, and whether a token is current.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use leasehold_api::{Code, Resource, ResourceState, SpanText, Timestamp};
use leasehold_client::http::HttpClient;
use leasehold_core::{Remaining, WallTime};
use serde::Serialize;

use crate::args::resource;
use crate::context::{Context, all_pages};
use crate::failure::Failure;
use crate::output;
use crate::render::list::Waiting;
use crate::render::text::{ends_in, plain};
use crate::render::{describe as description, list};
use crate::settings::Settings;

/// List who holds what.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease ls                     everything that is held or wanted
  lease ls orders/ --waiting   who waits, and for how long
  lease ls --expiring 10s      what ends soon unless it is renewed")]
pub(crate) struct Ls {
    /// Only resources whose names begin so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Who waits, instead of who holds
    #[arg(long, conflicts_with = "expiring")]
    waiting: bool,
    /// Only what the same user on this host holds or waits for, or what LEASE_HOLDER does
    #[arg(long)]
    mine: bool,
    /// Only what ends within this time unless renewed
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    expiring: Option<SpanText>,
    /// Also what is free and only remembered
    #[arg(long, conflicts_with_all = ["waiting", "mine", "expiring"])]
    all: bool,
}

/// Show a resource: holder, queue, history.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease describe orders/7")]
pub(crate) struct Describe {
    /// The resource, like orders/7
    #[arg(value_name = "RES", value_parser = resource)]
    resource: String,
}

/// Show what happened to a resource, newest first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease history orders/7
  lease history orders/7 -o jsonl

The server remembers the last few grants and ends of each resource; `lease watch` shows everything as it \
happens.")]
pub(crate) struct History {
    /// The resource, like orders/7
    #[arg(value_name = "RES", value_parser = resource)]
    resource: String,
}

/// Check that a token is the current one.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lease check orders/7 12 && ./write

A stale token is exit code 73. What is written to should look at tokens itself: between a check and a write the \
lease may end.")]
pub(crate) struct Check {
    /// The resource, like orders/7
    #[arg(value_name = "RES", value_parser = resource)]
    resource: String,
    /// The token that came with its grant
    #[arg(value_name = "TOKEN")]
    token: u64,
}

/// Lists resources or waiters.
pub(crate) async fn ls(args: Ls, context: &Context) -> Result<(), Failure> {
    let (client, settings) = (&context.client, &context.settings);
    let found = all_pages(async |page| {
        let part = client.resources(&args.prefix, page).await?;
        Ok((part.resources, part.next))
    })
    .await?;
    if args.waiting {
        let waiting = waiters(found, client).await?;
        let waiting: Vec<Waiting> =
            waiting.into_iter().filter(|row| !args.mine || settings.is_mine(&row.waiter.holder)).collect();
        tell_empty(waiting.is_empty(), "nobody waits");
        return context.show_list("waiting", &waiting, |row| plain(&row.resource), list::waiting);
    }
    let found: Vec<Resource> = found.into_iter().filter_map(|resource| asked_for(resource, &args, settings)).collect();
    tell_empty(found.is_empty(), "nothing is held");
    context.show_list("resources", &found, |resource| plain(&resource.name), list::resources)
}

/// The resource with the holders that were asked for, if any.
fn asked_for(mut resource: Resource, args: &Ls, settings: &Settings) -> Option<Resource> {
    if !args.mine && args.expiring.is_none() {
        let idle = resource.state == ResourceState::Free && resource.queue.length == 0;
        return (args.all || !idle).then_some(resource);
    }
    resource.holders.retain(|holder| {
        let soon = args.expiring.is_none_or(|within| match holder.remaining.0 {
            Remaining::For(left) => left <= within.0,
            Remaining::Endless => false,
        });
        soon && (!args.mine || settings.is_mine(&holder.holder))
    });
    // Those that are not told may not be meant.
    resource.holder_count = u32::try_from(resource.holders.len()).unwrap_or(u32::MAX);
    (!resource.holders.is_empty()).then_some(resource)
}

async fn waiters(resources: Vec<Resource>, client: &HttpClient) -> Result<Vec<Waiting>, Failure> {
    let mut rows = Vec::new();
    for resource in resources.into_iter().filter(|resource| resource.queue.length > 0) {
        let queue = match client.queue(&resource.name).await {
            // Nobody waits for what is forgotten by now.
            Err(error) if error.code() == Some(Code::NotFound) => continue,
            queue => queue?,
        };
        let more = queue.length.saturating_sub(u32::try_from(queue.waiters.len()).unwrap_or(u32::MAX));
        if more > 0 {
            output::message(format!("lease: {more} more wait for {}; the first ones are shown", plain(&resource.name)));
        }
        rows.extend(queue.waiters.into_iter().map(|waiter| Waiting { resource: resource.name.clone(), waiter }));
    }
    Ok(rows)
}

/// An empty list says so to a person.
fn tell_empty(is_empty: bool, text: &str) {
    if is_empty && output::is_shown() {
        output::message(text);
    }
}

/// A description as one document.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    resource: Resource,
    waiters: Vec<leasehold_api::WaiterInfo>,
    history: Vec<leasehold_api::PastInfo>,
}

/// Describes a resource.
pub(crate) async fn describe(args: Describe, context: &Context) -> Result<(), Failure> {
    let client = &context.client;
    let resource = client.resource(&args.resource).await?;
    let queue = client.queue(&args.resource).await?;
    let history = client.history(&args.resource).await?;
    let text = description::describe(&resource, &queue, &history, now());
    let described = Described { resource, waiters: queue.waiters, history: history.history };
    context.show(&described, |found| plain(&found.resource.name), |_| text)
}

/// Shows the past of a resource.
pub(crate) async fn history(args: History, context: &Context) -> Result<(), Failure> {
    let found = context.client.history(&args.resource).await?.history;
    tell_empty(found.is_empty(), "nothing has happened yet");
    context.show_list("history", &found, |past| plain(&past.holder), |past| list::history(past, now()))
}

/// Checks a token.
pub(crate) async fn check(args: Check, context: &Context) -> Result<(), Failure> {
    let answer = context.client.check(&args.resource, args.token).await?;
    let human = format!(
        "current {}  token={}  holder={}  {}",
        args.resource,
        args.token,
        plain(&answer.holder),
        ends_in(answer.remaining)
    );
    context.show(&answer, |answer| plain(&answer.holder), |_| human)
}

/// Wall time, for people.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
