//! How the server is doing: for load balancers, supervisors and people.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Alive, HealthInfo};

use crate::errors::span;
use crate::server::App;

/// Tells that the process lives and answers.
#[utoipa::path(get, operation_id = "get_health", path = "/healthz", tag = "health", responses((status = 200, description = "It lives", body = Alive)))]
pub(crate) async fn alive() -> Response {
    Json(Alive { status: "ok".to_owned() }).into_response()
}

/// Tells whether the server can have commands committed and answer linearizable reads, itself or through the leader.
#[utoipa::path(get, operation_id = "get_readiness", path = "/readyz", tag = "health", responses((status = 200, description = "It is", body = HealthInfo),
    (status = 503, description = "It is not", body = HealthInfo)))]
pub(crate) async fn ready(State(app): State<App>) -> Response {
    let health = app.service.health();
    let info = HealthInfo {
        ready: health.ready,
        leads: health.leads,
        disk_full: health.disk_full,
        overloaded: health.overloaded,
        lease_time_lag: span(health.lease_time_lag),
    };
    if health.ready {
        return Json(info).into_response();
    }
    let retry = [(header::RETRY_AFTER, HeaderValue::from_static("1"))];
    (StatusCode::SERVICE_UNAVAILABLE, retry, Json(info)).into_response()
}
