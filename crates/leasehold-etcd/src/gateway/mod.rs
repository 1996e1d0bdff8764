//! The JSON gateway: every call of the contract as `POST /v3/…`, for curl and clients without gRPC.
//!
//! It translates between JSON and messages and knows nothing of what calls mean: they are carried out by whatever has
//! the traits of the contract. Paths under `/v3beta` and `/v3alpha` are those of old clients, as are the three of
//! leases under `kv`. Like etcd's gateway, `/v3` has no `maintenance/hashkv`.

pub(crate) mod about;
mod call;
mod json;
mod objects;
mod refusal;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use tonic::Status;

use self::call::Call;
use crate::proto::etcdserverpb::auth_server::Auth;
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3lockpb::lock_server::Lock;
use crate::streams::Streams;

/// The largest body, and the largest object of one that is a stream: what gRPC takes, 2 MiB, is 2.7 MiB in base64.
const BODY_MAX: usize = 3 << 20;

/// How the paths of the gateway begin: now, and for old clients.
const PREFIXES: [&str; 3] = ["/v3", "/v3beta", "/v3alpha"];

/// Everything that the gateway offers.
pub(crate) trait Offered: Kv + Lease + Cluster + Maintenance + Auth + Lock + Election + Streams {}

impl<S: Kv + Lease + Cluster + Maintenance + Auth + Lock + Election + Streams> Offered for S {}

/// A call of one request and one answer.
macro_rules! one {
    ($call:path) => {
        post(|State(service): State<S>, call: Call| async move { call.one(|request| $call(&service, request)).await })
    };
}

/// A call of one request and many answers.
macro_rules! many {
    ($call:path) => {
        post(|State(service): State<S>, call: Call| async move { call.many(|request| $call(&service, request)).await })
    };
}

/// A call of many requests and many answers.
macro_rules! exchange {
    ($call:path) => {
        post(|State(service): State<S>, call: Call| async move {
            call.exchange(|requests| $call(&service, requests)).await
        })
    };
}

/// Builds the gateway on a service. It answers only below its prefixes: it is merged with what answers the rest.
pub(crate) fn router<S: Offered>(service: S) -> Router {
    let calls = keys::<S>()
        .merge(leases())
        .merge(locks())
        .merge(operators())
        .merge(users())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(service);
    PREFIXES.iter().fold(Router::new(), |router, prefix| router.nest(prefix, calls.clone()))
}

fn keys<S: Offered>() -> Router<S> {
    Router::new()
        .route("/kv/range", one!(Kv::range))
        .route("/kv/put", one!(Kv::put))
        .route("/kv/deleterange", one!(Kv::delete_range))
        .route("/kv/txn", one!(Kv::txn))
        .route("/kv/compaction", one!(Kv::compact))
        .route("/watch", exchange!(Streams::watch))
}

fn leases<S: Offered>() -> Router<S> {
    Router::new()
        .route("/lease/grant", one!(Lease::lease_grant))
        .route("/lease/keepalive", exchange!(Streams::keep_alive))
        .route("/lease/revoke", one!(Lease::lease_revoke))
        .route("/lease/timetolive", one!(Lease::lease_time_to_live))
        .route("/lease/leases", one!(Lease::lease_leases))
        .route("/kv/lease/revoke", one!(Lease::lease_revoke))
        .route("/kv/lease/timetolive", one!(Lease::lease_time_to_live))
        .route("/kv/lease/leases", one!(Lease::lease_leases))
}

fn locks<S: Offered>() -> Router<S> {
    Router::new()
        .route("/lock/lock", one!(Lock::lock))
        .route("/lock/unlock", one!(Lock::unlock))
        .route("/election/campaign", one!(Election::campaign))
        .route("/election/proclaim", one!(Election::proclaim))
        .route("/election/leader", one!(Election::leader))
        .route("/election/observe", many!(Election::observe))
        .route("/election/resign", one!(Election::resign))
}

fn operators<S: Offered>() -> Router<S> {
    Router::new()
        .route("/cluster/member/add", one!(Cluster::member_add))
        .route("/cluster/member/remove", one!(Cluster::member_remove))
        .route("/cluster/member/update", one!(Cluster::member_update))
        .route("/cluster/member/list", one!(Cluster::member_list))
        .route("/cluster/member/promote", one!(Cluster::member_promote))
        .route("/maintenance/alarm", one!(Maintenance::alarm))
        .route("/maintenance/status", one!(Maintenance::status))
        .route("/maintenance/defragment", one!(Maintenance::defragment))
        .route("/maintenance/hash", one!(Maintenance::hash))
        .route("/maintenance/snapshot", many!(Maintenance::snapshot))
        .route("/maintenance/transfer-leadership", one!(Maintenance::move_leader))
        .route("/maintenance/downgrade", one!(Maintenance::downgrade))
}

fn users<S: Offered>() -> Router<S> {
    Router::new()
        .route("/auth/enable", one!(Auth::auth_enable))
        .route("/auth/disable", one!(Auth::auth_disable))
        .route("/auth/status", one!(Auth::auth_status))
        .route("/auth/authenticate", one!(Auth::authenticate))
        .route("/auth/user/add", one!(Auth::user_add))
        .route("/auth/user/get", one!(Auth::user_get))
        .route("/auth/user/list", one!(Auth::user_list))
        .route("/auth/user/delete", one!(Auth::user_delete))
        .route("/auth/user/changepw", one!(Auth::user_change_password))
        .route("/auth/user/grant", one!(Auth::user_grant_role))
        .route("/auth/user/revoke", one!(Auth::user_revoke_role))
        .route("/auth/role/add", one!(Auth::role_add))
        .route("/auth/role/get", one!(Auth::role_get))
        .route("/auth/role/list", one!(Auth::role_list))
        .route("/auth/role/delete", one!(Auth::role_delete))
        .route("/auth/role/grant", one!(Auth::role_grant_permission))
        .route("/auth/role/revoke", one!(Auth::role_revoke_permission))
}

async fn not_found() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "Not Found\n")
}

async fn method_not_allowed() -> (StatusCode, &'static str) {
    (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n")
}

/// A body is larger than anything that could be in it.
fn too_large() -> Status {
    Status::resource_exhausted(format!("the request is too large: at most {BODY_MAX} bytes are read"))
}
