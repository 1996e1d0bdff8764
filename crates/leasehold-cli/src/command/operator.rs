//! `lease revoke` and `lease request-handover`: to take a resource from its holder, or to ask for it.

use std::collections::BTreeSet;

use clap::Args;
use leasehold_api::{Digest, HandoverRequest, HolderInfo, RemainingText, RevokeRequest};
use leasehold_core::{Remaining, Span};
use serde::Serialize;

use crate::args::resource;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::text::{left, more, names, plain};

/// How often the holders are looked up with `--all`, where not all are told at once.
const ROUNDS_MAX: usize = 1000;

/// Take a resource from its holder.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease revoke orders/7 --reason \"stuck since noon\"
  lease revoke orders/7 --reason \"box2 is gone\" --now
  lease revoke reports --reason cleanup --lease ~1a2b3c4d5e

The whole lease ends, with everything else it holds. Its holder may not have heard of it and may still act \
until the deadline it knows, so the resource rests until then. --now grants it to the next one at once: \
then only the fencing token protects it. If you can wait, `lease request-handover` asks first.")]
pub(crate) struct Revoke {
    /// The resource, like orders/7
    #[arg(value_name = "RES", value_parser = resource)]
    resource: String,
    /// Why, for its holder and for people
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Let the next one have it at once, although the holder may still act
    #[arg(long)]
    now: bool,
    /// Which lease, if several hold or wait for it: the digest that `-o json` lists show
    #[arg(long, value_name = "DIGEST", value_parser = digest, conflicts_with = "all")]
    lease: Option<Digest>,
    /// All that hold it
    #[arg(long)]
    all: bool,
}

/// Ask the holders of a resource to hand it over.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease request-handover orders/7 --reason \"deploy of 3.2\"
  lease request-handover orders/7 && lease acquire orders/7 --wait 5m --hold

It is theirs to agree, to finish first, or to refuse: nothing is taken from them. You are named by --holder. \
Asking does not wait for the resource, nor does it keep a place in its queue.")]
pub(crate) struct RequestHandover {
    /// The resource, like orders/7
    #[arg(value_name = "RES", value_parser = resource)]
    resource: String,
    /// Why, for its holders and for people
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Reads a digest, also without its `~`, which a shell may take for a home.
fn digest(text: &str) -> Result<Digest, &'static str> {
    format!("~{}", text.trim_start_matches('~')).parse()
}

/// A lease that was revoked.
#[derive(Debug, Serialize)]
struct Revoked {
    resource: String,
    lease: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// How long the holder may still act.
    may_act: RemainingText,
    /// Whether the resource went on at once.
    now: bool,
}

/// Revokes the holder, one of several, or all.
pub(crate) async fn revoke(args: Revoke, context: &Context) -> Result<(), Failure> {
    let mut done = BTreeSet::new();
    let mut revoked = Vec::new();
    let mut result = Ok(());
    for _ in 0..ROUNDS_MAX {
        let (chosen, has_more) = chosen(&args, context).await?;
        let fresh: Vec<_> = chosen.into_iter().filter(|(lease, _)| done.insert(*lease)).collect();
        if fresh.is_empty() {
            break;
        }
        for (lease, holder) in fresh {
            match take(&args, lease, holder, context).await {
                Ok(taken) => revoked.push(taken),
                Err(failure) => result = Err(failure),
            }
        }
        if !(args.all && has_more) || result.is_err() {
            break;
        }
    }
    // What was taken is told, also if the rest was refused.
    if result.is_ok() || !revoked.is_empty() {
        context.show_list("revoked", &revoked, |taken| taken.lease.to_string(), lines)?;
    }
    result
}

/// The leases to revoke, with their holders where they are known, and whether there may be more of them.
async fn chosen(args: &Revoke, context: &Context) -> Result<(Vec<(Digest, Option<HolderInfo>)>, bool), Failure> {
    let name = plain(&args.resource);
    let found = context.client.resource(&args.resource).await?;
    if let Some(lease) = args.lease {
        let holder = found.holders.into_iter().find(|holder| holder.lease == lease);
        // Who is not a holder may be a waiter, or a holder that is not told; the server knows.
        return Ok((vec![(lease, holder)], false));
    }
    let others = more(&found.holders, found.holder_count);
    if found.holders.is_empty() {
        let failure = Failure::new(66, format!("nobody holds {name}"));
        return Err(failure.hint(format!("see  lease describe {name}")));
    }
    if !args.all && found.holder_count > 1 {
        let failure = Failure::new(2, format!("{name} has {} holders; say which one, or --all", found.holder_count));
        let failure = found.holders.iter().fold(failure, |failure, holder| {
            failure.hint(format!("--lease {}  {}  token {}", holder.lease, plain(&holder.holder), holder.token))
        });
        return Err(if others > 0 { failure.hint(format!("and {others} more")) } else { failure });
    }
    Ok((found.holders.into_iter().map(|holder| (holder.lease, Some(holder))).collect(), others > 0))
}

async fn take(args: &Revoke, lease: Digest, holder: Option<HolderInfo>, context: &Context) -> Result<Revoked, Failure> {
    let request = RevokeRequest { reason: args.reason.clone(), now: args.now, resource: Some(args.resource.clone()) };
    let may_act = context.client.revoke(&lease.to_string(), &request).await?;
    Ok(Revoked {
        resource: args.resource.clone(),
        lease,
        token: holder.as_ref().map(|holder| holder.token),
        holder: holder.map(|holder| holder.holder),
        may_act: RemainingText(may_act),
        now: args.now,
    })
}

fn lines(revoked: &[Revoked]) -> String {
    revoked.iter().map(|taken| line(taken) + "\n").collect()
}

/// What was taken, and how long its holder may still act.
fn line(taken: &Revoked) -> String {
    let name = plain(&taken.resource);
    let token = taken.token.map(|token| format!("  token={token}")).unwrap_or_default();
    let holder = taken.holder.as_deref().map_or_else(String::new, |holder| format!("  holder={}", plain(holder)));
    let protects = if taken.now { "only the token protects until then" } else { "it rests until then" };
    let acts = match taken.may_act.0 {
        Remaining::For(Span::ZERO) => "its holder can act no more".to_owned(),
        Remaining::For(_) => format!("its holder may still act for {}; {protects}", left(taken.may_act)),
        Remaining::Endless => "its holder may still act, without an end by time; only the token protects".to_owned(),
    };
    format!("revoked {name}{token}{holder}\n  {acts}")
}

/// Asks the holders.
pub(crate) async fn request_handover(args: RequestHandover, context: &Context) -> Result<(), Failure> {
    let request = HandoverRequest { by: context.settings.holder.clone(), reason: args.reason };
    let answer = context.client.request_handover(&args.resource, &request).await?;
    let name = plain(&args.resource);
    // Who they are is only for people; if it cannot be told, they were asked all the same.
    let holders = match context.settings.output {
        Output::Human => context.client.resource(&args.resource).await.ok(),
        Output::Json | Output::Jsonl | Output::Name => None,
    };
    let who = holders.map(|found| format!(": {}", names(&found.holders, found.holder_count))).unwrap_or_default();
    let count = if answer.holders == 1 { "the holder".to_owned() } else { format!("the {} holders", answer.holders) };
    let human = format!("asked {count} of {name}{who}\n  see what comes of it with  lease watch {name}");
    context.show(&answer, |_| name.clone(), |_| human)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(may_act: Remaining, now: bool) -> String {
        line(&Revoked {
            resource: "nightly".into(),
            lease: "~1a2b3c4d5e".parse().unwrap(),
            holder: Some("bob@box2/990".into()),
            token: Some(5),
            may_act: RemainingText(may_act),
            now,
        })
    }

    #[test]
    fn it_says_how_long_the_holder_may_still_act_and_what_protects_meanwhile() {
        let text = "revoked nightly  token=5  holder=bob@box2/990\n  its holder may still act for 8.1s; ";
        let left = Remaining::For(Span(8100));
        assert_eq!(taken(left, false), format!("{text}it rests until then"));
        assert_eq!(taken(left, true), format!("{text}only the token protects until then"));
        assert!(taken(Remaining::For(Span::ZERO), false).ends_with("its holder can act no more"));
        assert!(taken(Remaining::Endless, true).contains("without an end"));
    }
}
