//! Leases, resources and what waits for them, as messages.

use leasehold_api::grpc::kind::{remaining_fields, ttl_fields};
use leasehold_api::grpc::{
    self, HeldClaim, HolderInfo, Lease, LeaseState, Mode, Past, Place, QueueInfo, RenewResponse, RenewResult, Renewed,
    Resource, ResourceState, RevokeResponse, Wait, WaitPlace, Waiter,
};
use leasehold_api::{Digest, PastInfo, Problem};
use leasehold_core as core;
use leasehold_core::{
    HolderView, LeaseId, LeaseView, Metadata, Outcome, PlaceView, Rejection, Renewal, ResourceView, Span, WaitView,
    WaiterView,
};
use leasehold_service::{Progress, Standing};

/// Who a lease is shown to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// One who knows its id.
    Owner,
    /// One who knows its id and can do without the digest.
    Connection,
    /// Anybody.
    Others,
}

pub(crate) fn lease(view: &LeaseView, whom: For) -> Lease {
    let (ttl_ms, ttl_endless) = ttl_fields(view.ttl);
    let (remaining_ms, remaining_endless) = remaining_fields(view.remaining);
    let state = match (view.ending, view.waits.is_empty()) {
        (true, _) => LeaseState::Ending,
        (false, false) => LeaseState::Waiting,
        (false, true) => LeaseState::Live,
    };
    Lease {
        id: (whom != For::Others).then(|| view.id.number()),
        digest: if whom == For::Connection { String::new() } else { Digest::of(view.id).to_string() },
        state: state.into(),
        holder: view.holder.to_string(),
        token: match view.held.as_slice() {
            [only] => Some(only.token.0),
            _ => None,
        },
        ttl_ms,
        ttl_endless,
        remaining_ms,
        remaining_endless,
        class: grpc::Class::from(leasehold_api::Class::from(view.class)).into(),
        parent: view.parent.map(|parent| Digest::of(parent).to_string()),
        metadata: texts(&view.metadata),
        granted_unix_ms: view.granted.0,
        age_ms: view.age.0,
        renewed_ago_ms: view.renewed_ago.0,
        changed: view.changed.0,
        held: view.held.iter().map(held).collect(),
        waits: view.waits.iter().map(wait).collect(),
        entries: view.entries,
        children: view.children,
    }
}

fn texts(metadata: &Metadata) -> std::collections::BTreeMap<String, String> {
    metadata.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

pub(crate) fn mode(mode: core::Mode) -> i32 {
    Mode::from(leasehold_api::Mode::from(mode)).into()
}

fn millis(span: Option<Span>) -> Option<u64> {
    span.map(|span| span.0)
}

fn held(view: &core::HeldView) -> HeldClaim {
    HeldClaim {
        resource: view.resource.to_string(),
        mode: mode(view.mode),
        token: view.token.0,
        held_for_ms: view.held.0,
        waited_ms: view.waited.0,
    }
}

fn wait(view: &WaitView) -> Wait {
    Wait {
        wait: view.wait.0,
        patience_ms: millis(view.patience),
        waited_ms: view.waited.0,
        places: view.places.iter().map(place).collect(),
    }
}

fn place(view: &PlaceView) -> Place {
    Place {
        resource: view.resource.to_string(),
        mode: mode(view.mode),
        position: view.position,
        length: view.length,
        estimate_ms: millis(view.estimate),
    }
}

/// The results of a renewal; a connection knows which leases it named and in which order.
pub(crate) fn renewed(leases: &[LeaseId], results: &[Result<Renewal, Box<Rejection>>]) -> RenewResponse {
    let leases = leases.iter().map(|lease| lease.number()).chain(std::iter::repeat(0));
    RenewResponse { results: results.iter().zip(leases).map(|(result, lease)| renew_result(lease, result)).collect() }
}

fn renew_result(lease: u64, result: &Result<Renewal, Box<Rejection>>) -> RenewResult {
    use grpc::renew_result::Result as Of;
    let result = match result {
        Ok(renewal) => {
            let (remaining_ms, remaining_endless) = remaining_fields(renewal.remaining);
            let (ttl_ms, ttl_endless) = ttl_fields(renewal.ttl);
            let changed = renewal.changed.0;
            Of::Renewed(Renewed { remaining_ms, remaining_endless, ttl_ms, ttl_endless, changed })
        }
        Err(rejection) => Of::Problem(Box::new((&Problem::from(&**rejection)).into())),
    };
    RenewResult { lease, result: Some(result) }
}

/// How long the holder of a revoked lease may still act; without an end if its lease had none.
pub(crate) fn revoked(may_act: Span) -> RevokeResponse {
    let endless = may_act == Span(u64::MAX);
    RevokeResponse { may_act_ms: if endless { 0 } else { may_act.0 }, may_act_endless: endless }
}

/// The lease of an outcome that shows one.
pub(crate) fn shown(outcome: Outcome) -> Option<Box<LeaseView>> {
    match outcome {
        Outcome::Granted(view) | Outcome::Claimed(view) => Some(view),
        Outcome::Renewed(_)
        | Outcome::Released { .. }
        | Outcome::Revoked { .. }
        | Outcome::Unclaimed
        | Outcome::Left
        | Outcome::HandoverAsked { .. }
        | Outcome::Written(_)
        | Outcome::Configured => None,
    }
}

pub(crate) fn holder(view: &HolderView) -> HolderInfo {
    (&leasehold_api::HolderInfo::from(view)).into()
}

pub(crate) fn resource(view: &ResourceView) -> Resource {
    let state = match (view.holder_count, view.rests) {
        (0, None) => ResourceState::Free,
        (0, Some(_)) => ResourceState::Resting,
        (1.., _) => ResourceState::Held,
    };
    Resource {
        name: view.name.to_string(),
        state: state.into(),
        holders: view.holders.iter().map(holder).collect(),
        holder_count: view.holder_count,
        queue: Some(QueueInfo { length: view.queue, position: None, estimate_ms: None }),
        rests_ms: millis(view.rests),
        last_token: view.last_token.0,
        usual_hold_ms: millis(view.usual_hold),
    }
}

pub(crate) fn waiter(view: &WaiterView) -> Waiter {
    Waiter {
        position: view.position,
        holder: view.holder.to_string(),
        lease: Digest::of(view.lease).to_string(),
        mode: mode(view.mode),
        priority: view.priority,
        wait: view.wait.0,
        waited_ms: view.waited.0,
        patience_ms: millis(view.patience),
        estimate_ms: millis(view.estimate),
        metadata: texts(&view.metadata),
    }
}

pub(crate) fn past(past: &core::Past) -> Past {
    let info = PastInfo::from(past);
    Past {
        at_unix_ms: info.at.0.0,
        revision: info.revision,
        what: info.what,
        holder: info.holder,
        token: info.token,
        waited_ms: millis(info.waited.map(|span| span.0)),
        held_for_ms: millis(info.held_for.map(|span| span.0)),
        reason: info.reason,
        by: info.by,
    }
}

pub(crate) fn progress(number: u64, progress: &Progress) -> grpc::Progress {
    grpc::Progress { number, wait: progress.wait.0, places: progress.places.iter().map(standing).collect() }
}

fn standing(standing: &Standing) -> WaitPlace {
    WaitPlace {
        resource: standing.place.resource.to_string(),
        position: standing.place.position,
        length: standing.place.length,
        estimate_ms: millis(standing.place.estimate),
        holder: standing.holder.as_ref().map(holder),
        holder_count: standing.holder_count,
        rests_ms: millis(standing.rests),
    }
}
