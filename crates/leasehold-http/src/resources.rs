//! Resources: who holds them, who waits, what happened, whether a token is current; asking for a hand-over.
//!
//! A resource that nobody holds, wants or recently held is not known: that is 404, although it can be claimed.

use axum::Json;
use axum::extract::FromRequest;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use leasehold_api::{
    CheckAnswer, CheckRequest, Code, HandoverAnswer, HandoverRequest, HistoryList, Invalid, NamespaceName, PastInfo,
    Problem, QueueList, Resource, ResourceList, ResourcePath, WaiterInfo,
};
use leasehold_core::{Command, Outcome, ResourceName, Token};
use leasehold_service::Consistency;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::call::Call;
use crate::errors::Refusal;
use crate::extract::{JsonBody, Params, page_limit};
use crate::path::{self, Aspect};
use crate::reply::{At, ReadConsistency, ReadParams};

/// Which resources to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// Only those whose name begins so.
    #[serde(default)]
    prefix: String,
    /// At most this many, up to 1000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the part before.
    #[param(value_type = Option<ResourcePath>)]
    page: Option<String>,
    /// `linearizable` (the default) or `stale`.
    #[serde(default)]
    consistency: ReadConsistency,
}

/// How to look at a resource.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookParams {
    /// At most this many waiters of its queue, up to 1000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `linearizable` (the default) or `stale`.
    #[serde(default)]
    consistency: ReadConsistency,
}

/// Lists resources by name.
#[utoipa::path(get, operation_id = "list_resources", path = "/v1/ns/{ns}/resources", tag = "resources", params(("ns" = NamespaceName, Path), ListParams),
    responses((status = 200, description = "A part of the resources", body = ResourceList)))]
pub(crate) async fn list(call: Call, Params(params): Params<ListParams>) -> Result<Response, Refusal> {
    let limit = page_limit(params.limit)?;
    let after = match &params.page {
        Some(page) => Some(ResourceName::new(page).map_err(|reason| Invalid::name("page", page, reason))?),
        None => None,
    };
    let answered = call
        .read(params.consistency.into(), |state, ns| state.resources(ns, &params.prefix, after.as_ref(), limit))
        .await?;
    Ok(At::from(&answered).ok(ResourceList {
        resources: answered.value.items.iter().map(Resource::from).collect(),
        next: answered.value.next.as_ref().map(ToString::to_string),
    }))
}

/// Looks at a resource, its queue or its history.
pub(crate) async fn read(call: Call, uri: Uri, Params(params): Params<LookParams>) -> Result<Response, Refusal> {
    let (name, aspect) = path::resource(&uri)?;
    let consistency = params.consistency.into();
    match aspect {
        Aspect::Itself => itself(call, name, consistency).await,
        Aspect::Queue => queue(call, name, consistency, page_limit(params.limit)?).await,
        Aspect::History => history(call, name, consistency).await,
        Aspect::Check => Err(only("POST", "check")),
        Aspect::Handover => Err(only("POST", "handover")),
    }
}

/// Does something with a resource.
pub(crate) async fn act(call: Call, uri: Uri, request: Request) -> Result<Response, Refusal> {
    let (name, aspect) = path::resource(&uri)?;
    match aspect {
        Aspect::Check => {
            let JsonBody(body) = JsonBody::<CheckRequest>::from_request(request, &call.app).await?;
            check(call, name, body).await
        }
        Aspect::Handover => {
            let JsonBody(body) = JsonBody::<HandoverRequest>::from_request(request, &call.app).await?;
            handover(call, name, body).await
        }
        Aspect::Queue => Err(only("GET", "queue")),
        Aspect::History => Err(only("GET", "history")),
        Aspect::Itself => Err(allow("GET", "a resource is claimed by granting a lease: POST /v1/ns/{ns}/leases")),
    }
}

/// Looks at a resource: who holds it, how many wait.
#[utoipa::path(get, operation_id = "get_resource", path = "/v1/ns/{ns}/resources/{name}", tag = "resources",
    params(("ns" = NamespaceName, Path), ("name" = ResourcePath, Path), ReadParams),
    responses((status = 200, description = "The resource", body = Resource)))]
pub(crate) async fn itself(call: Call, name: ResourceName, consistency: Consistency) -> Result<Response, Refusal> {
    let answered = call.read(consistency, |state, ns| state.resource(ns, &name)).await?;
    match &answered.value {
        Some(view) => Ok(At::from(&answered).ok(Resource::from(view))),
        None => Err(unknown(&name)),
    }
}

/// Looks at the queue of a resource.
#[utoipa::path(get, operation_id = "get_queue", path = "/v1/ns/{ns}/resources/{name}/queue", tag = "resources",
    params(("ns" = NamespaceName, Path), ("name" = ResourcePath, Path), LookParams),
    responses((status = 200, description = "The first waiters", body = QueueList)))]
pub(crate) async fn queue(
    call: Call,
    name: ResourceName,
    consistency: Consistency,
    limit: usize,
) -> Result<Response, Refusal> {
    let query = |state: &leasehold_core::State, ns: &leasehold_core::Namespace| {
        state.resource(ns, &name).map(|resource| (resource.queue, state.queue(ns, &name, limit)))
    };
    let answered = call.read(consistency, query).await?;
    let Some((length, waiters)) = &answered.value else { return Err(unknown(&name)) };
    let waiters = waiters.iter().map(WaiterInfo::from).collect();
    Ok(At::from(&answered).ok(QueueList { length: *length, waiters }))
}

/// Looks at the recent past of a resource, newest first.
#[utoipa::path(get, operation_id = "get_history", path = "/v1/ns/{ns}/resources/{name}/history", tag = "resources",
    params(("ns" = NamespaceName, Path), ("name" = ResourcePath, Path), ReadParams),
    responses((status = 200, description = "What happened", body = HistoryList)))]
pub(crate) async fn history(call: Call, name: ResourceName, consistency: Consistency) -> Result<Response, Refusal> {
    let query = |state: &leasehold_core::State, ns: &leasehold_core::Namespace| {
        state.resource(ns, &name).map(|_| state.history(ns, &name))
    };
    let answered = call.read(consistency, query).await?;
    let Some(past) = &answered.value else { return Err(unknown(&name)) };
    Ok(At::from(&answered).ok(HistoryList { history: past.iter().rev().map(PastInfo::from).collect() }))
}

/// Tells whether a token is current.
#[utoipa::path(post, operation_id = "check_token", path = "/v1/ns/{ns}/resources/{name}/check", tag = "resources",
    params(("ns" = NamespaceName, Path), ("name" = ResourcePath, Path)), request_body = CheckRequest,
    responses((status = 200, description = "The token is current", body = CheckAnswer)))]
pub(crate) async fn check(call: Call, name: ResourceName, body: CheckRequest) -> Result<Response, Refusal> {
    let token = Token(body.token);
    let answered = call.read(Consistency::Linearizable, |state, ns| state.check(ns, &name, token)).await?;
    let at = At::from(&answered);
    Ok(at.ok(CheckAnswer::from(&answered.value?)))
}

/// Asks the holders of a resource to hand it over. It takes nothing from them: they are told, and decide.
#[utoipa::path(post, operation_id = "request_handover", path = "/v1/ns/{ns}/resources/{name}/handover", tag = "resources",
    params(("ns" = NamespaceName, Path), ("name" = ResourcePath, Path)), request_body = HandoverRequest,
    responses((status = 202, description = "The holders were asked", body = HandoverAnswer)))]
pub(crate) async fn handover(call: Call, name: ResourceName, body: HandoverRequest) -> Result<Response, Refusal> {
    let done = call.carry_out(Command::AskHandover(body.into_ask(name)?)).await?;
    let at = At::from(&done);
    let Outcome::HandoverAsked { holders } = done.outcome else { return Err(Refusal::bug("an ask for a hand-over")) };
    Ok(at.on((StatusCode::ACCEPTED, Json(HandoverAnswer { holders }))))
}

fn unknown(name: &ResourceName) -> Refusal {
    let detail = format!("nobody holds, wants or recently held {name}");
    Problem { resource: Some(name.to_string()), ..Problem::new(Code::NotFound, detail) }.into()
}

/// The aspect takes another method. Also the answer to somebody who means a resource whose name ends so.
fn only(method: &'static str, aspect: &str) -> Refusal {
    let detail =
        format!("…/{aspect} takes only {method}; a resource whose own name ends in /{aspect} is written …%2F{aspect}");
    allow(method, detail)
}

fn allow(method: &'static str, detail: impl Into<String>) -> Refusal {
    let mut refusal = Refusal::new(Code::MethodNotAllowed, detail);
    refusal.headers.insert(header::ALLOW, HeaderValue::from_static(method));
    refusal
}
