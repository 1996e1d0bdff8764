//! The router: every service of the API, reflection and health, and what every answer has in common.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use leasehold_api::Code;
use leasehold_api::grpc::cluster_server::ClusterServer;
use leasehold_api::grpc::entries_server::EntriesServer;
use leasehold_api::grpc::leases_server::LeasesServer;
use leasehold_api::grpc::resources_server::ResourcesServer;
use leasehold_api::grpc::watch_server::WatchServer;
use leasehold_api::grpc::{DESCRIPTORS, PROBLEM_TRAILER};
use leasehold_core::LeaseId;
use leasehold_service::{Service, random_lease_id};
use tonic::Status;
use tonic_health::pb::health_server::HealthServer;

use crate::call::App;
use crate::errors::Refusal;
use crate::health::Doctor;

/// The largest message of a call, as large as a body of the HTTP API.
const MESSAGE_LIMIT: usize = 2 << 20;
/// The largest message of a connection: many commands in one.
const UP_LIMIT: usize = 4 << 20;

/// The services that are offered, as clients ask for their health.
pub(crate) const SERVICES: [&str; 5] = [
    "leasehold.v1.Leases",
    "leasehold.v1.Resources",
    "leasehold.v1.Entries",
    "leasehold.v1.Watch",
    "leasehold.v1.Cluster",
];

/// What the API can be told about its surroundings.
#[derive(Clone)]
pub struct GrpcOptions {
    /// Chooses the id of a lease whose client chose none: at random, never twice.
    pub new_id: Arc<dyn Fn() -> LeaseId + Send + Sync>,
}

impl Default for GrpcOptions {
    fn default() -> Self {
        GrpcOptions { new_id: Arc::new(random_lease_id) }
    }
}

impl fmt::Debug for GrpcOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcOptions").finish_non_exhaustive()
    }
}

/// Builds the API on a service. It has no fallback: it is merged with what answers everything else.
pub fn router(service: Service, options: GrpcOptions) -> Router {
    let app = App { service: service.clone(), options };
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let described = "the contract was compiled, so it can be described";
    Router::new()
        .route_service(
            "/leasehold.v1.Leases/{*method}",
            LeasesServer::new(app.clone()).max_decoding_message_size(UP_LIMIT).max_encoding_message_size(usize::MAX),
        )
        .route_service(
            "/leasehold.v1.Resources/{*method}",
            ResourcesServer::new(app.clone()).max_decoding_message_size(MESSAGE_LIMIT),
        )
        .route_service(
            "/leasehold.v1.Entries/{*method}",
            EntriesServer::new(app.clone()).max_decoding_message_size(MESSAGE_LIMIT),
        )
        .route_service(
            "/leasehold.v1.Watch/{*method}",
            WatchServer::new(app.clone()).max_decoding_message_size(MESSAGE_LIMIT),
        )
        .route_service(
            "/leasehold.v1.Cluster/{*method}",
            ClusterServer::new(app.clone()).max_decoding_message_size(MESSAGE_LIMIT),
        )
        .route_service("/grpc.health.v1.Health/{*method}", HealthServer::new(Doctor(service)))
        .route_service("/grpc.reflection.v1.ServerReflection/{*method}", reflection().build_v1().expect(described))
        .route_service(
            "/grpc.reflection.v1alpha.ServerReflection/{*method}",
            reflection().build_v1alpha().expect(described),
        )
        .layer(middleware::from_fn_with_state(app, finish))
}

/// Refuses what is not gRPC, and gives refusals of the transport the problem that all others have.
async fn finish(State(app): State<App>, request: Request, next: Next) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/grpc") {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "this address speaks gRPC\n").into_response();
    }
    let ours = request.uri().path().starts_with("/leasehold.v1.");
    let response = next.run(request).await;
    match refusal_of_transport(response.headers()).filter(|_| ours) {
        Some(refusal) => refusal.status(app.service.present()).into_http::<axum::body::Body>(),
        None => response,
    }
}

/// The problem of a call that never reached us: too large, not readable, or to an unknown method.
fn refusal_of_transport(headers: &HeaderMap) -> Option<Refusal> {
    let status = Status::from_header_map(headers)?;
    if status.code() == tonic::Code::Ok || status.metadata().get_bin(PROBLEM_TRAILER).is_some() {
        return None;
    }
    if status.code() == tonic::Code::Unimplemented {
        return Some(Refusal::new(Code::UnknownRoute, "there is no such method; reflection lists what there is"));
    }
    Some(Refusal::unreadable(&status))
}
