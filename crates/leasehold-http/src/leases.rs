//! Leases: grant, list, look at, renew, release, revoke.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{
    Code, Digest, GrantContext, GrantRequest, HolderName, Id, Invalid, Lease, LeaseList, LeaseRef, NamespaceName,
    RemainingText, RenewAnswer, RenewManyAnswer, RenewManyRequest, RenewRequest, RenewResult, RevokeRequest, WaitText,
    checked_reason, lease_by_digest,
};
use leasehold_core::{Command, Holder, LeaseFilter, LeaseId, LeaseTime, Namespace, Outcome, Release, Renew, Revision};
use leasehold_core::{Remaining, ResourceName, Revoke, Span, State};
use leasehold_service::Consistency;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::call::Call;
use crate::errors::Refusal;
use crate::extract::{JsonBody, MaybeJsonBody, Params, number_in, page_limit};
use crate::path;
use crate::reply::{At, LEASE_TIME, ReadConsistency, ReadParams};

/// How long the holder of a revoked lease may still believe that it holds what it held.
pub(crate) const LEASE_MAY_ACT: HeaderName = HeaderName::from_static("lease-may-act");

/// How long a grant or claim waits.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitParams {
    /// How long to wait in the queue: `30s`, `forever`, or `0` (the default) for not at all.
    #[serde(default)]
    #[param(value_type = Option<WaitText>)]
    pub(crate) wait: WaitText,
}

/// Which leases to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// Only those of this holder.
    #[param(value_type = Option<HolderName>)]
    holder: Option<String>,
    /// At most this many, up to 1000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the part before.
    page: Option<String>,
    /// `linearizable` (the default) or `stale`.
    #[serde(default)]
    consistency: ReadConsistency,
}

/// Grants a lease, with claims on resources: all or none.
#[utoipa::path(post, operation_id = "grant_lease", path = "/v1/ns/{ns}/leases", tag = "leases",
    params(("ns" = NamespaceName, Path), WaitParams,
        ("Lease-Time" = Option<u64>, Header, description = "The lease time seen last; `seen` in the body goes before it")),
    request_body = GrantRequest,
    responses(
        (status = 201, description = "The lease lives: newly granted, or found by a repeated grant", body = Lease)))]
pub(crate) async fn grant(
    call: Call,
    Params(WaitParams { wait }): Params<WaitParams>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<GrantRequest>,
) -> Result<Response, Refusal> {
    let seen = match number_in(&headers, &LEASE_TIME)? {
        Some(millis) => LeaseTime(millis),
        None => call.app.service.present().0,
    };
    let id = (call.app.options.new_id)();
    let grant = request.into_grant(GrantContext { id, seen, patience: wait.0 })?;
    let done = call.carry_out_waiting(Command::Grant(grant), wait.0).await?;
    let at = At::from(&done);
    let Outcome::Granted(view) = done.outcome else { return Err(Refusal::bug("a grant")) };
    let place = format!("/v1/ns/{}/leases/{}", call.namespace, Id(view.id));
    let mut response = at.on((StatusCode::CREATED, Json(Lease::known(&view))));
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Lists leases, without their ids.
#[utoipa::path(get, operation_id = "list_leases", path = "/v1/ns/{ns}/leases", tag = "leases", params(("ns" = NamespaceName, Path), ListParams),
    responses((status = 200, description = "A part of the leases", body = LeaseList)))]
pub(crate) async fn list(call: Call, Params(params): Params<ListParams>) -> Result<Response, Refusal> {
    let holder = match &params.holder {
        Some(text) => Some(Holder::new(text).map_err(|reason| Invalid::name("holder", text, reason))?),
        None => None,
    };
    let after = match &params.page {
        Some(page) => Some(Revision(
            page.parse()
                .map_err(|_| Invalid::new("page", "it is not a `next` of this list; begin again without `page`"))?,
        )),
        None => None,
    };
    let filter = LeaseFilter { holder, after, limit: page_limit(params.limit)? };
    let answered = call.read(params.consistency.into(), |state, ns| state.leases(ns, &filter)).await?;
    Ok(At::from(&answered).ok(LeaseList {
        leases: answered.value.items.iter().map(Lease::seen).collect(),
        next: answered.value.next.map(|revision| revision.to_string()),
    }))
}

/// Looks at one lease, with all it carries.
#[utoipa::path(get, operation_id = "get_lease", path = "/v1/ns/{ns}/leases/{id}", tag = "leases",
    params(("ns" = NamespaceName, Path), ("id" = Id, Path), ReadParams),
    responses((status = 200, description = "The lease", body = Lease)))]
pub(crate) async fn one(call: Call, uri: Uri, Params(params): Params<ReadParams>) -> Result<Response, Refusal> {
    let id = path::lease(&uri)?;
    let answered = call.read(params.consistency.into(), |state, ns| state.lease(ns, id)).await?;
    let at = At::from(&answered);
    Ok(at.ok(Lease::known(&answered.value?)))
}

/// Renews one lease.
#[utoipa::path(post, operation_id = "renew_lease", path = "/v1/ns/{ns}/leases/{id}/renew", tag = "leases",
    params(("ns" = NamespaceName, Path), ("id" = Id, Path)), request_body = Option<RenewRequest>,
    responses((status = 200, description = "The lease was renewed", body = RenewAnswer)))]
pub(crate) async fn renew(
    call: Call,
    uri: Uri,
    MaybeJsonBody(request): MaybeJsonBody<RenewRequest>,
) -> Result<Response, Refusal> {
    let lease = path::lease(&uri)?;
    let renew = Renew { leases: vec![lease], ttl: request.ttl.map(|ttl| ttl.0) };
    let done = call.carry_out(Command::Renew(renew)).await?;
    let at = At::from(&done);
    let Outcome::Renewed(mut results) = done.outcome else { return Err(Refusal::bug("a renewal")) };
    match results.pop() {
        Some(result) => Ok(at.ok(RenewAnswer::from(&result?))),
        None => Err(Refusal::bug("a renewal")),
    }
}

/// Renews many leases; each gets a result of its own.
#[utoipa::path(post, operation_id = "renew_leases", path = "/v1/ns/{ns}/leases/renew", tag = "leases", params(("ns" = NamespaceName, Path)),
    request_body = RenewManyRequest,
    responses((status = 200, description = "A result for each lease", body = RenewManyAnswer)))]
pub(crate) async fn renew_many(call: Call, JsonBody(request): JsonBody<RenewManyRequest>) -> Result<Response, Refusal> {
    if request.leases.is_empty() {
        return Err(Invalid::new("leases", "it is empty; name at least one lease").into());
    }
    let leases: Vec<_> = request.leases.iter().map(|id| id.0).collect();
    let renew = Renew { leases: leases.clone(), ttl: request.ttl.map(|ttl| ttl.0) };
    let done = call.carry_out(Command::Renew(renew)).await?;
    let at = At::from(&done);
    let Outcome::Renewed(results) = done.outcome else { return Err(Refusal::bug("a renewal")) };
    let results = leases.into_iter().zip(&results).map(|(lease, result)| RenewResult::new(lease, result)).collect();
    Ok(at.ok(RenewManyAnswer { results }))
}

/// Releases a lease; again and again if need be.
#[utoipa::path(delete, operation_id = "release_lease", path = "/v1/ns/{ns}/leases/{id}", tag = "leases",
    params(("ns" = NamespaceName, Path), ("id" = Id, Path)),
    responses((status = 204, description = "The lease is over")))]
pub(crate) async fn release(call: Call, uri: Uri) -> Result<Response, Refusal> {
    let lease = path::lease(&uri)?;
    match call.carry_out(Command::Release(Release { lease })).await {
        Ok(done) => Ok(At::from(&done).empty()),
        // However it ended: it is over, and that is what was asked for.
        Err(refusal) if refusal.problem.code == Code::LeaseEnded.name() => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(refusal) => Err(refusal),
    }
}

/// Takes a lease from its holder. Operators know leases by their digests: with a `resource` of the lease in the
/// body, the digest stands in the path in place of the id. The header `Lease-May-Act` says how long that one may still believe.
#[utoipa::path(post, operation_id = "revoke_lease", path = "/v1/ns/{ns}/leases/{id}/revoke", tag = "leases",
    params(("ns" = NamespaceName, Path), ("id" = LeaseRef, Path)), request_body = RevokeRequest,
    responses((status = 204, description = "The lease is over")))]
pub(crate) async fn revoke(
    call: Call,
    uri: Uri,
    JsonBody(request): JsonBody<RevokeRequest>,
) -> Result<Response, Refusal> {
    let reason = checked_reason(&request.reason)?;
    let lease = match (path::digest(&uri)?, &request.resource) {
        (Some(digest), Some(resource)) => by_digest(&call, digest, path::resource_name(resource)?).await?,
        (Some(_), None) => {
            let detail = "a lease named by its digest is looked for at a `resource` that it holds or waits for";
            return Err(Invalid::new("resource", detail).into());
        }
        (None, _) => path::lease(&uri)?,
    };
    let done = call.carry_out(Command::Revoke(Revoke { lease, reason, now: request.now })).await?;
    let mut response = At::from(&done).empty();
    let Outcome::Revoked { may_act } = done.outcome else { return Err(Refusal::bug("a revoke")) };
    if let Ok(value) = HeaderValue::try_from(may_act_text(may_act).to_string()) {
        response.headers_mut().insert(LEASE_MAY_ACT, value);
    }
    Ok(response)
}

/// How long the holder may still believe; without an end if its lease had none.
fn may_act_text(may_act: Span) -> RemainingText {
    RemainingText(if may_act == Span(u64::MAX) { Remaining::Endless } else { Remaining::For(may_act) })
}

/// The lease with this digest among those that hold or wait for a resource.
async fn by_digest(call: &Call, digest: Digest, resource: ResourceName) -> Result<LeaseId, Refusal> {
    let query = |state: &State, ns: &Namespace| lease_by_digest(state, ns, &resource, digest);
    Ok(call.read(Consistency::Linearizable, query).await?.value?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_an_endless_lease_may_act_without_end() {
        assert_eq!(may_act_text(Span(9_000)).to_string(), "9s");
        assert_eq!(may_act_text(Span(u64::MAX)).to_string(), "none");
    }
}
