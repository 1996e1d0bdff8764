//! What etcd tells of itself without gRPC: its version and its health.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::json;

use crate::dialect::{CLUSTER_VERSION, SERVER_VERSION};

/// Answers `/version` and `/health`; `ill` tells what keeps the server from serving, if something does.
pub(crate) fn router(ill: impl Fn() -> Option<String> + Clone + Send + Sync + 'static) -> Router {
    Router::new()
        .route("/version", get(async || version()))
        .route("/health", get(async move || health(ill())))
        .method_not_allowed_fallback(super::method_not_allowed)
}

fn version() -> Response {
    // In this order: etcd's own, byte for byte.
    let text = format!(r#"{{"etcdserver":"{SERVER_VERSION}","etcdcluster":"{CLUSTER_VERSION}"}}"#);
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// The state of health is text, not a truth value: that is what clients compare it with.
fn health(ill: Option<String>) -> Response {
    let status = if ill.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = json!({ "health": ill.is_none().to_string(), "reason": ill.unwrap_or_default() });
    (status, [(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}
