//! `lease renew`, `release` and `show`: commands on leases whose id is known.

use leasehold_api::{Id, RenewAnswer, RenewResult};
use leasehold_client::http::Error;

use crate::args::{Release, Renew, Show};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::render;
use crate::render::text::left;

/// How many leases one call renews.
const RENEWALS_MAX: usize = 4096;

/// Renews one lease or many.
pub(crate) async fn renew(args: Renew, context: &Context) -> Result<(), Failure> {
    let ttl = args.ttl.map(|ttl| ttl.0);
    let results = match args.ids.as_slice() {
        &[id] => {
            let (renewed, _) = context.client.renew(id, ttl).await?;
            vec![RenewResult { id, renewed: Some(renewed), problem: None }]
        }
        many => {
            let mut results = Vec::new();
            for ids in many.chunks(RENEWALS_MAX) {
                results.extend(context.client.renew_many(ids.to_vec(), ttl).await?.results);
            }
            results
        }
    };
    let mut first = None;
    for result in &results {
        if let Some(problem) = &result.problem {
            let failure = Failure::from(Error::Refused(Box::new(problem.clone())));
            output::message(format!("{}: {}", result.id, failure.text()));
            first.get_or_insert(failure.exit());
        }
    }
    show_renewed(&results, context)?;
    first.map_or(Ok(()), |exit| Err(Failure::quiet(exit)))
}

fn show_renewed(results: &[RenewResult], context: &Context) -> Result<(), Failure> {
    match context.settings.output {
        Output::Json | Output::Jsonl => {
            context.show_list("results", results, |result| result.id.to_string(), |_| String::new())
        }
        Output::Human | Output::Name => {
            let renewed: Vec<(Id, RenewAnswer)> =
                results.iter().filter_map(|result| Some((result.id, result.renewed?))).collect();
            context.show_list("results", &renewed, |(id, _)| id.to_string(), lines)
        }
    }
}

fn lines(renewed: &[(Id, RenewAnswer)]) -> String {
    let line = |(id, answer): &(Id, RenewAnswer)| {
        format!("renewed {id}  ttl={}  ends in {}", answer.ttl, left(answer.remaining))
    };
    renewed.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Releases leases, all that can be.
pub(crate) async fn release(args: Release, context: &Context) -> Result<(), Failure> {
    let mut first = None;
    for id in args.ids {
        match context.client.release(id).await {
            Ok(()) => context.show(
                &serde_json::json!({ "id": id, "released": true }),
                |_| id.to_string(),
                |_| format!("released {id}"),
            )?,
            Err(error @ (Error::Unreachable { .. } | Error::Protocol { .. })) => return Err(error.into()),
            Err(error @ Error::Refused(_)) => {
                let failure = Failure::from(error);
                output::message(format!("{id}: {}", failure.text()));
                first.get_or_insert(failure.exit());
            }
        }
    }
    first.map_or(Ok(()), |exit| Err(Failure::quiet(exit)))
}

/// Shows a lease.
pub(crate) async fn show(args: Show, context: &Context) -> Result<(), Failure> {
    let lease = context.client.lease(args.id).await?;
    context.show(&lease, |_| args.id.to_string(), render::lease::show)
}
