//! The API on a service of its own, and a small client for it.

#![allow(dead_code, reason = "not every test needs everything")]

pub(crate) mod three;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use leasehold_http::{HttpOptions, router};
use leasehold_service::{Cluster, MachineClocks, MemoryLog, Options, Replica, Service};
use serde_json::Value;
use tower::ServiceExt;

/// The API on a fresh service.
pub(crate) async fn app() -> Router {
    with(Options::default()).await
}

/// The API on a fresh service of a node of this cluster.
pub(crate) async fn app_of(cluster: Arc<dyn Cluster>) -> Router {
    with(Options { cluster: Some(cluster), ..Options::default() }).await
}

async fn with(options: Options) -> Router {
    let replica = Arc::new(Replica::new());
    let log = MemoryLog::start(Arc::clone(&replica));
    let service = Service::start(log, replica, MachineClocks, options);
    while !service.health().ready {
        tokio::task::yield_now().await;
    }
    router(service, HttpOptions::default())
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON; null if there is none.
    pub(crate) fn json(&self) -> Value {
        if self.body.is_empty() { Value::Null } else { serde_json::from_slice(&self.body).unwrap() }
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Checks the status and gives the body.
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Checks that it is a problem with this status and code, and gives the problem.
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        assert!(!self.header("lease-revision").is_empty() && !self.header("lease-time").is_empty());
        let problem = self.expect(status);
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        problem
    }
}

/// Sends a request and reads the whole answer.
pub(crate) async fn send(app: &Router, request: Request<Body>) -> Answer {
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Sends a request without a body.
pub(crate) async fn plain(app: &Router, method: &str, path: &str) -> Answer {
    send(app, Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await
}

/// Sends JSON.
pub(crate) async fn json(app: &Router, method: &str, path: &str, body: Value) -> Answer {
    text(app, method, path, "application/json", &body.to_string()).await
}

/// Sends text of some kind.
pub(crate) async fn text(app: &Router, method: &str, path: &str, kind: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    send(app, request.body(Body::from(body.to_owned())).unwrap()).await
}
