//! The cluster: how it is doing, and changing it.

use leasehold_api::grpc::cluster_server::Cluster;
use leasehold_api::grpc::{
    AddMemberRequest, AddMemberResponse, InfoRequest, InfoResponse, Member, Node, RemoveMemberRequest,
    RemoveMemberResponse, TransferRequest, TransferResponse,
};
use leasehold_api::{Code, Invalid, checked_node_address, checked_node_name};
use leasehold_service::{ClusterChange, ClusterChanged, ClusterStatus};
use tonic::{Request, Response, Status};

use crate::call::{App, At};
use crate::errors::Refusal;

type Answer<T> = Result<(At, T), Refusal>;

#[tonic::async_trait]
impl Cluster for App {
    async fn info(&self, _request: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        self.answer(info(self))
    }

    async fn add_member(&self, request: Request<AddMemberRequest>) -> Result<Response<AddMemberResponse>, Status> {
        self.answer(added(self, request.into_inner()).await)
    }

    async fn remove_member(
        &self,
        request: Request<RemoveMemberRequest>,
    ) -> Result<Response<RemoveMemberResponse>, Status> {
        self.answer(removed(self, request.into_inner()).await)
    }

    async fn transfer(&self, request: Request<TransferRequest>) -> Result<Response<TransferResponse>, Status> {
        self.answer(transferred(self, request.into_inner()).await)
    }
}

fn info(app: &App) -> Answer<InfoResponse> {
    let status = app.service.cluster(&app.caller())?;
    let health = app.service.health();
    let at = present(app);
    let info = InfoResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        leads: health.leads,
        ready: health.ready,
        revision: at.revision.0,
        lease_time: at.now.0,
        disk_full: health.disk_full,
        overloaded: health.overloaded,
        lease_time_lag_ms: u64::try_from(health.lease_time_lag.as_millis()).unwrap_or(u64::MAX),
        cluster: format!("{:032x}", status.cluster),
        node: Some(node(&status, status.node)),
        leader: status.leader.map(|leader| node(&status, leader)),
        term: status.term,
        members: members(&status),
        applied: status.applied,
        last_log: status.last_log,
        snapshot: status.snapshot,
        log_bytes: status.log_bytes,
    };
    Ok((at, info))
}

async fn added(app: &App, request: AddMemberRequest) -> Answer<AddMemberResponse> {
    let name = checked_node_name(&request.name)?.to_owned();
    let address = checked_node_address(&request.address)?.to_owned();
    match change(app, ClusterChange::Add { name: name.clone(), address }).await? {
        ClusterChanged::Added { node } => Ok((present(app), AddMemberResponse { node: Some(Node { id: node, name }) })),
        ClusterChanged::Removed | ClusterChanged::Transferred { .. } => Err(Refusal::bug("an added member")),
    }
}

async fn removed(app: &App, request: RemoveMemberRequest) -> Answer<RemoveMemberResponse> {
    let node = found(&app.service.cluster(&app.caller())?, "node", &request.node)?;
    match change(app, ClusterChange::Remove { node }).await? {
        ClusterChanged::Removed => Ok((present(app), RemoveMemberResponse {})),
        ClusterChanged::Added { .. } | ClusterChanged::Transferred { .. } => Err(Refusal::bug("a removed member")),
    }
}

async fn transferred(app: &App, request: TransferRequest) -> Answer<TransferResponse> {
    let status = app.service.cluster(&app.caller())?;
    let to = request.to.map(|text| found(&status, "to", &text)).transpose()?;
    match change(app, ClusterChange::Transfer { to }).await? {
        ClusterChanged::Transferred { to } => Ok((present(app), TransferResponse { leader: Some(node(&status, to)) })),
        ClusterChanged::Added { .. } | ClusterChanged::Removed => Err(Refusal::bug("a transfer")),
    }
}

async fn change(app: &App, change: ClusterChange) -> Result<ClusterChanged, Refusal> {
    Ok(app.service.change_cluster(&app.caller(), change).await?)
}

/// What this node has applied.
fn present(app: &App) -> At {
    let (now, revision) = app.service.present();
    At::new(now, revision)
}

/// The id of a member that is named by its name or id.
fn found(status: &ClusterStatus, field: &str, text: &str) -> Result<u64, Refusal> {
    if text.is_empty() {
        return Err(Invalid::new(field, "say which one, by its name or id").into());
    }
    let shown: String = text.chars().take(64).collect();
    let unknown = || Refusal::new(Code::NotFound, format!("no member has the name or id {shown:?}"));
    status.member(text).map(|member| member.node).ok_or_else(unknown)
}

fn node(status: &ClusterStatus, id: u64) -> Node {
    Node { id, name: status.name_of(id) }
}

fn members(status: &ClusterStatus) -> Vec<Member> {
    let member = |member: &leasehold_service::Member| Member {
        id: member.node,
        name: status.name_of(member.node),
        address: member.address.clone(),
        voter: member.voter,
        leads: status.leader == Some(member.node),
        matched: member.matched,
        heard_ms: member.heard_ms,
    };
    status.members.iter().map(member).collect()
}
