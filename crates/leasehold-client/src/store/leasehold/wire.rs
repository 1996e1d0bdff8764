//! Translates between the store's words and the messages of the gRPC contract.

use std::time::Duration;

use leasehold_api::grpc::answer::Outcome;
use leasehold_api::grpc::{self, event::Fact, notice, renew_result, watch_delivery};
use leasehold_api::{Code, Problem};
use leasehold_core::{LeaseId, Patience, Remaining, Span, Ttl};
use prost::Message as _;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::stream::Pair;
use crate::store::{Granted, HandoverAsk, Incumbent, Notice, Progress, Wish};
use crate::{Error, LostCause, Moment, Validity};

/// The trailer that carries a refusal.
const PROBLEM: &str = "leasehold-problem-bin";
/// The metadata that tells the revision of an answer.
const REVISION: &str = "lease-revision";

pub(super) fn grant(wish: &Wish, patience: Patience, seen: Option<u64>) -> grpc::GrantRequest {
    let (ttl_ms, ttl_endless) = match wish.ttl {
        Ttl::For(span) => (Some(span.0), false),
        Ttl::Endless => (None, true),
    };
    let (wait_ms, wait_forever) = match patience {
        Patience::None => (0, false),
        Patience::For(span) => (span.0.max(1), false),
        Patience::Endless => (0, true),
    };
    grpc::GrantRequest {
        namespace: String::new(),
        id: Some(wish.id.number()),
        holder: wish.holder.clone(),
        ttl_ms,
        ttl_endless,
        class: grpc::Class::from(wish.class).into(),
        resources: wish.resources.clone(),
        mode: grpc::Mode::from(wish.mode).into(),
        parent: None,
        metadata: wish.metadata.clone(),
        priority: wish.priority,
        cooldown_ms: millis(wish.cooldown),
        seen,
        wait_ms,
        wait_forever,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A granted lease. Its deadline is turned into local time by whichever pair of sending and lease time serves
/// best: after a long wait the grant's own sending is long ago, and another command may have been answered since.
pub(super) fn granted(lease: &grpc::Lease, wish: &Wish, pairs: &[Pair], now: u64) -> Result<Granted, Error> {
    let remaining = remaining(lease.remaining_ms, lease.remaining_endless);
    let here = Moment::now();
    let validities = pairs.iter().map(|(sent, then)| match remaining {
        Remaining::For(span) => {
            let span = Span(span.0.saturating_add(now.saturating_sub(*then)));
            Validity::of_answer(*sent, here, Remaining::For(span))
        }
        Remaining::Endless => Validity::new(*sent, Remaining::Endless),
    });
    let validity = validities.reduce(|one, other| one.longer(other, here));
    let token = |name: &String| lease.held.iter().find(|held| held.resource == *name).map(|held| held.token);
    let waited = lease.held.iter().map(|held| held.waited_ms).max().unwrap_or(0);
    Ok(Granted {
        validity: validity.ok_or_else(|| strange("a grant without a time"))?,
        tokens: wish.resources.iter().map(token).collect(),
        waited: Duration::from_millis(waited),
    })
}

fn remaining(ms: u64, endless: bool) -> Remaining {
    if endless { Remaining::Endless } else { Remaining::For(Span(ms)) }
}

pub(super) fn renewed(result: &grpc::RenewResult, sent: Moment) -> Result<Validity, Error> {
    match &result.result {
        Some(renew_result::Result::Renewed(renewed)) => {
            Ok(Validity::of_answer(sent, Moment::now(), remaining(renewed.remaining_ms, renewed.remaining_endless)))
        }
        Some(renew_result::Result::Problem(problem)) => Err(error((**problem).clone())),
        None => Err(strange("a renewal without a result")),
    }
}

pub(super) fn handover(ask: HandoverAsk) -> grpc::HandoverRequest {
    grpc::HandoverRequest { namespace: String::new(), resource: ask.resource, by: ask.by, reason: ask.reason }
}

pub(super) fn error(problem: grpc::Problem) -> Error {
    Problem::try_from(problem).map_or_else(|unreadable| strange(&unreadable.to_string()), Error::from_problem)
}

/// The refusal that a failed call carries.
pub(super) fn refusal(status: &Status) -> Option<Error> {
    let bytes = status.metadata().get_bin(PROBLEM)?.to_bytes().ok()?;
    grpc::Problem::decode(bytes).ok().map(error)
}

pub(super) fn revision(metadata: &MetadataMap) -> u64 {
    metadata.get(REVISION).and_then(|text| text.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// The error of an answer that is a refusal, or does not fit its command.
pub(super) fn refused(address: &str, outcome: Outcome) -> Error {
    if let Outcome::Problem(problem) = outcome {
        return error(problem);
    }
    Error::Unreachable { addr: address.to_owned(), cause: "it does not answer like a lease server".to_owned() }
}

fn strange(what: &str) -> Error {
    Error::Unreachable { addr: "the service".to_owned(), cause: format!("it sent {what}") }
}

/// Whether an answer comes from an entry of the log that was stamped after its command was sent.
pub(super) fn is_by_entry(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Granted(_)
        | Outcome::Renewed(_)
        | Outcome::Released(_)
        | Outcome::Revoked(_)
        | Outcome::Claimed(_)
        | Outcome::Unclaimed(_)
        | Outcome::Left(_)
        | Outcome::Txn(_)
        | Outcome::Handover(_) => true,
        Outcome::Problem(_) | Outcome::Hello(_) | Outcome::Attached(_) => false,
    }
}

/// Whether an answer says that another server of the cluster may do better: this one has no leader, or is stopping.
pub(super) fn is_of_this_server(outcome: &Outcome) -> bool {
    let Outcome::Problem(problem) = outcome else { return false };
    [Code::NoQuorum, Code::ShuttingDown].into_iter().any(|code| code.name() == problem.code)
}

pub(super) fn progress(place: grpc::WaitPlace) -> Progress {
    Progress {
        resource: place.resource,
        place: Some((place.position, place.length)),
        holder: place.holder.and_then(|holder| holder.try_into().ok()),
        estimate: place.estimate_ms.map(Duration::from_millis),
    }
}

pub(super) fn notice(notice: grpc::Notice) -> Option<Notice> {
    match notice.notice? {
        notice::Notice::Ended(lost) => {
            let cause = LostCause::from_end(&lost.cause, lost.by, lost.reason);
            Some(Notice::Ended { lease: LeaseId::new(lost.lease)?, cause })
        }
        notice::Notice::HandoverAsked(asked) => {
            let ask = HandoverAsk { resource: asked.resource, by: asked.by, reason: asked.reason };
            Some(Notice::HandoverAsked { lease: LeaseId::new(asked.lease)?, ask })
        }
        // What was missed is learned by the next renewal.
        notice::Notice::Gap(_) => None,
    }
}

pub(super) fn incumbent(resource: grpc::Resource) -> Option<Incumbent> {
    let holder = resource.holders.into_iter().next()?;
    Some(Incumbent { holder: holder.holder, token: Some(holder.token) })
}

/// Whether a delivery may tell of another holder of a resource.
pub(super) fn concerns(delivery: &grpc::WatchDelivery, resource: &str) -> bool {
    match &delivery.delivery {
        Some(watch_delivery::Delivery::Change(change)) => change.events.iter().any(|event| match &event.fact {
            Some(Fact::ClaimGranted(granted)) => granted.resource == resource,
            Some(Fact::ClaimEnded(ended)) => ended.resource == resource,
            Some(_) | None => false,
        }),
        Some(watch_delivery::Delivery::TooSlow(_)) => true,
        Some(watch_delivery::Delivery::Progress(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::{Class, Mode};

    use super::*;

    #[test]
    fn a_grant_for_longer_than_there_is_time_is_taken_and_lasts() {
        let wish = Wish {
            id: LeaseId::new(1).unwrap(),
            holder: "ann".into(),
            resources: vec!["a".into()],
            mode: Mode::Exclusive,
            ttl: Ttl::For(Span(1000)),
            class: Class::Lock,
            patience: Patience::None,
            fair: false,
            priority: 0,
            cooldown: Duration::ZERO,
            metadata: Default::default(),
        };
        let lease = grpc::Lease { remaining_ms: u64::MAX, ..grpc::Lease::default() };
        let granted = granted(&lease, &wish, &[(Moment::now(), 0)], u64::MAX).unwrap();
        assert!(granted.validity.left().unwrap() > Duration::from_secs(1 << 40));
    }
}
