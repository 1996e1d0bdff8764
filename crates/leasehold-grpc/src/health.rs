//! The standard health service: SERVING while the server can commit and answer linearizable reads.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use leasehold_service::Service;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::server::SERVICES;

/// How often a watch of the health looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The health of the server.
pub(crate) struct Doctor(pub(crate) Service);

impl Doctor {
    fn status(service: &Service, name: &str) -> ServingStatus {
        match (name.is_empty() || SERVICES.contains(&name), service.health().ready) {
            (false, _) => ServingStatus::ServiceUnknown,
            (true, true) => ServingStatus::Serving,
            (true, false) => ServingStatus::NotServing,
        }
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for Doctor {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let status = Doctor::status(&self.0, &request.get_ref().service);
        if status == ServingStatus::ServiceUnknown {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(response(status)))
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (service, name) = (self.0.clone(), request.into_inner().service);
        let changes = stream::unfold(None, move |told: Option<ServingStatus>| {
            let (service, name) = (service.clone(), name.clone());
            async move {
                loop {
                    let status = Doctor::status(&service, &name);
                    if told != Some(status) {
                        return Some((Ok(response(status)), Some(status)));
                    }
                    if service.is_stopping() {
                        return None;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(LOOK_EVERY) => {}
                        () = service.stopped() => {}
                    }
                }
            }
        });
        Ok(Response::new(changes.boxed()))
    }
}
