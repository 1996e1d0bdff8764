//! Claims: more resources on a living lease, and giving one back.

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use leasehold_api::{ClaimRequest, Id, Lease, NamespaceName, ResourcePath, once};
use leasehold_core::{Command, Outcome, Token, Unclaim};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::call::Call;
use crate::errors::Refusal;
use crate::extract::{JsonBody, Params};
use crate::leases::WaitParams;
use crate::path;
use crate::reply::At;

/// Which claim to give back.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct GiveBackParams {
    /// The token it was granted with.
    token: u64,
    /// The number of the command on its lease, rising; a repetition has the same one.
    #[param(minimum = 1)]
    seq: Option<u64>,
    /// The client has the outcomes of all commands up to this number.
    acked: Option<u64>,
}

/// Asks for more resources on a living lease: all or none.
#[utoipa::path(post, operation_id = "add_claims", path = "/v1/ns/{ns}/leases/{id}/claims", tag = "claims",
    params(("ns" = NamespaceName, Path), ("id" = Id, Path), WaitParams), request_body = ClaimRequest,
    responses((status = 201, description = "The lease as it is now", body = Lease)))]
pub(crate) async fn add(
    call: Call,
    uri: Uri,
    Params(WaitParams { wait }): Params<WaitParams>,
    JsonBody(request): JsonBody<ClaimRequest>,
) -> Result<Response, Refusal> {
    let claim = request.into_claim(path::lease(&uri)?, wait.0)?;
    let done = call.carry_out_waiting(Command::Claim(claim), wait.0).await?;
    let at = At::from(&done);
    let Outcome::Claimed(view) = done.outcome else { return Err(Refusal::bug("a claim")) };
    Ok(at.on((StatusCode::CREATED, Json(Lease::known(&view)))))
}

/// Gives one held claim back.
#[utoipa::path(delete, operation_id = "give_back_claim", path = "/v1/ns/{ns}/leases/{id}/claims/{resource}", tag = "claims",
    params(("ns" = NamespaceName, Path), ("id" = Id, Path), ("resource" = ResourcePath, Path), GiveBackParams),
    responses((status = 204, description = "The claim is given back")))]
pub(crate) async fn give_back(
    call: Call,
    uri: Uri,
    Params(params): Params<GiveBackParams>,
) -> Result<Response, Refusal> {
    let unclaim = Unclaim {
        lease: path::lease(&uri)?,
        once: once(params.seq, params.acked)?,
        resource: path::claimed(&uri)?,
        token: Token(params.token),
    };
    let done = call.carry_out(Command::Unclaim(unclaim)).await?;
    Ok(At::from(&done).empty())
}
