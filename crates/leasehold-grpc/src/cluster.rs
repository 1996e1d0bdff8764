//! The cluster, as this node sees it.

use leasehold_api::grpc::cluster_server::Cluster;
use leasehold_api::grpc::{InfoRequest, InfoResponse};
use tonic::{Request, Response, Status};

use crate::call::{App, At};

#[tonic::async_trait]
impl Cluster for App {
    async fn info(&self, _request: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        let health = self.service.health();
        let (now, revision) = self.service.present();
        let info = InfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leads: health.leads,
            ready: health.ready,
            revision: revision.0,
            lease_time: now.0,
            disk_full: health.disk_full,
            overloaded: health.overloaded,
            lease_time_lag_ms: u64::try_from(health.lease_time_lag.as_millis()).unwrap_or(u64::MAX),
        };
        self.answer(Ok((At { now, revision, age: None }, info)))
    }
}
