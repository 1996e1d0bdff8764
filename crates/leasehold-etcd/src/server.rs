//! The router: every service of the dialect on one port.

use std::time::Duration;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use leasehold_service::Service;
use tonic::Status;
use tracing::debug;

use crate::dialect::{Dialect, EtcdOptions};
use crate::gateway;
use crate::proto::etcdserverpb::auth_server::AuthServer;
use crate::proto::etcdserverpb::cluster_server::ClusterServer;
use crate::proto::etcdserverpb::kv_server::KvServer;
use crate::proto::etcdserverpb::lease_server::LeaseServer;
use crate::proto::etcdserverpb::maintenance_server::MaintenanceServer;
use crate::proto::etcdserverpb::watch_server::WatchServer;
use crate::proto::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse, WatchRequest, WatchResponse};
use crate::proto::v3electionpb::election_server::ElectionServer;
use crate::proto::v3lockpb::lock_server::LockServer;
use crate::streams::{Answers, Requests, Streams};
use crate::urls;

/// The largest message of a call: etcd's own bound.
const MESSAGE_LIMIT: usize = 2 << 20;
/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Builds the dialect on a service: everything that is spoken on its port.
pub fn router(service: Service, options: EtcdOptions) -> Router {
    let dialect = Dialect::new(service, options);
    macro_rules! serve {
        ($server:ident) => {
            $server::new(dialect.clone()).max_decoding_message_size(MESSAGE_LIMIT).max_encoding_message_size(usize::MAX)
        };
    }
    Router::new()
        .route_service("/etcdserverpb.KV/{*method}", serve!(KvServer))
        .route_service("/etcdserverpb.Lease/{*method}", serve!(LeaseServer))
        .route_service("/etcdserverpb.Watch/{*method}", serve!(WatchServer))
        .route_service("/etcdserverpb.Cluster/{*method}", serve!(ClusterServer))
        .route_service("/etcdserverpb.Maintenance/{*method}", serve!(MaintenanceServer))
        .route_service("/etcdserverpb.Auth/{*method}", serve!(AuthServer))
        .route_service("/v3lockpb.Lock/{*method}", serve!(LockServer))
        .route_service("/v3electionpb.Election/{*method}", serve!(ElectionServer))
        .layer(map_response(in_gos_words))
        .merge(gateway::router(dialect.clone()))
        .merge(gateway::about::router(move || dialect.ills()))
}

/// What the transport refuses by itself, as a server in Go says it.
async fn in_gos_words(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    if message.starts_with("Error,%20decoded%20message%20length%20too%20large") {
        let status = Status::resource_exhausted(format!("grpc: received message larger than max ({MESSAGE_LIMIT})"));
        headers.remove("grpc-message");
        headers.remove("grpc-status");
        // A text of ours has no character that a header cannot have.
        let _ = status.add_header(headers);
    }
    response
}

/// Makes the first revision, if there is none: to etcd's clients 0 is no revision but "now". And says where this node
/// serves them. Returns when both are in force.
pub async fn prepare(service: &Service, url: &str) {
    let caller = service.anonymous();
    let node = service.cluster(&caller).map_or(0, |status| status.node);
    loop {
        let written = urls::say(service, &caller, node, url).await;
        match written {
            Ok(()) => return,
            Err(failure) => debug!(%failure, "etcd's clients have to wait"),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = service.stopped() => return,
        }
    }
}

impl Streams for Dialect {
    fn watch(&self, requests: Requests<WatchRequest>) -> Answers<WatchResponse> {
        self.watches(requests)
    }

    fn keep_alive(&self, requests: Requests<LeaseKeepAliveRequest>) -> Answers<LeaseKeepAliveResponse> {
        self.renewals(requests)
    }
}
