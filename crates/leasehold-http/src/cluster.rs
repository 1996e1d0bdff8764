//! The cluster: how it is doing, and changing it.
//!
//! Every node answers for itself and passes changes on to the leader. A node is named by its name or its id.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use leasehold_api::{
    AddMemberRequest, ClusterInfo, Code, Invalid, LeaderInfo, MemberInfo, NodeId, NodeInfo, SpanText, TransferRequest,
    checked_node_address, checked_node_name,
};
use leasehold_core::Span;
use leasehold_service::{ClusterChange, ClusterChanged, ClusterStatus, Member};

use crate::errors::Refusal;
use crate::extract::{JsonBody, MaybeJsonBody};
use crate::path;
use crate::server::App;

/// Tells about the cluster, as this node sees it.
#[utoipa::path(get, operation_id = "get_cluster", path = "/v1/cluster", tag = "cluster", responses((status = 200, description = "The cluster", body = ClusterInfo)))]
pub(crate) async fn look(State(app): State<App>) -> Result<Json<ClusterInfo>, Refusal> {
    let status = status(&app)?;
    let health = app.service.health();
    let (now, revision) = app.service.present();
    Ok(Json(ClusterInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cluster: format!("{:032x}", status.cluster),
        node: node(&status, status.node),
        leader: status.leader.map(|leader| LeaderInfo {
            id: NodeId(leader),
            name: status.name_of(leader),
            term: status.term,
        }),
        leads: health.leads,
        ready: health.ready,
        members: status.members.iter().map(|found| member(&status, found)).collect(),
        applied: status.applied,
        last_log: status.last_log,
        snapshot: status.snapshot,
        log_bytes: status.log_bytes,
        revision: revision.0,
        lease_time: now.0,
    }))
}

/// Admits a node. It becomes a voter when it was started with `--join` and has caught up.
#[utoipa::path(post, operation_id = "add_member", path = "/v1/cluster/members", tag = "cluster", request_body = AddMemberRequest,
    responses((status = 201, description = "It may join", body = NodeInfo)))]
pub(crate) async fn add(
    State(app): State<App>,
    JsonBody(body): JsonBody<AddMemberRequest>,
) -> Result<Response, Refusal> {
    let name = checked_node_name(&body.name)?.to_owned();
    let address = checked_node_address(&body.address)?.to_owned();
    match change(&app, ClusterChange::Add { name: name.clone(), address }).await? {
        ClusterChanged::Added { node } => {
            Ok((StatusCode::CREATED, Json(NodeInfo { id: NodeId(node), name })).into_response())
        }
        ClusterChanged::Removed | ClusterChanged::Transferred { .. } => Err(Refusal::bug("an added member")),
    }
}

/// Removes a node for good; its id is never used again.
#[utoipa::path(delete, operation_id = "remove_member", path = "/v1/cluster/members/{node}", tag = "cluster",
    params(("node" = String, Path, description = "Its name or its id")),
    responses((status = 204, description = "It is gone")))]
pub(crate) async fn remove(State(app): State<App>, uri: Uri) -> Result<StatusCode, Refusal> {
    let node = found(&status(&app)?, &path::member(&uri)?)?;
    match change(&app, ClusterChange::Remove { node }).await? {
        ClusterChanged::Removed => Ok(StatusCode::NO_CONTENT),
        ClusterChanged::Added { .. } | ClusterChanged::Transferred { .. } => Err(Refusal::bug("a removed member")),
    }
}

/// Hands leadership to another voter; the answer tells to which one.
#[utoipa::path(post, operation_id = "transfer_leadership", path = "/v1/cluster/transfer", tag = "cluster", request_body = Option<TransferRequest>,
    responses((status = 200, description = "It leads", body = NodeInfo)))]
pub(crate) async fn transfer(
    State(app): State<App>,
    MaybeJsonBody(body): MaybeJsonBody<TransferRequest>,
) -> Result<Json<NodeInfo>, Refusal> {
    let status = status(&app)?;
    let to = body.to.map(|text| found(&status, &text)).transpose()?;
    match change(&app, ClusterChange::Transfer { to }).await? {
        ClusterChanged::Transferred { to } => Ok(Json(node(&status, to))),
        ClusterChanged::Added { .. } | ClusterChanged::Removed => Err(Refusal::bug("a transfer")),
    }
}

fn status(app: &App) -> Result<ClusterStatus, Refusal> {
    Ok(app.service.cluster(&app.service.anonymous())?)
}

async fn change(app: &App, change: ClusterChange) -> Result<ClusterChanged, Refusal> {
    Ok(app.service.change_cluster(&app.service.anonymous(), change).await?)
}

/// The id of a member that is named by its name or id.
fn found(status: &ClusterStatus, text: &str) -> Result<u64, Refusal> {
    if text.is_empty() {
        return Err(Invalid::new("node", "say which one, by its name or id").into());
    }
    let shown: String = text.chars().take(64).collect();
    let unknown = || Refusal::new(Code::NotFound, format!("no member has the name or id {shown:?}"));
    status.member(text).map(|member| member.node).ok_or_else(unknown)
}

fn node(status: &ClusterStatus, id: u64) -> NodeInfo {
    NodeInfo { id: NodeId(id), name: status.name_of(id) }
}

fn member(status: &ClusterStatus, member: &Member) -> MemberInfo {
    MemberInfo {
        id: NodeId(member.node),
        name: status.name_of(member.node),
        address: member.address.clone(),
        voter: member.voter,
        leads: status.leader == Some(member.node),
        matched: member.matched,
        heard: member.heard_ms.map(|millis| SpanText(Span(millis))),
    }
}
