//! The router: every address of the API, and what every answer has in common.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use leasehold_api::{Code, PROBLEM_TYPE, Problem};
use leasehold_core::LeaseId;
use leasehold_service::{Service, random_lease_id};

use crate::errors::Refusal;
use crate::reply::{LEASE_REVISION, LEASE_TIME};
use crate::{backup, claims, cluster, entries, health, leases, openapi, resources, txn, watch};

/// The largest request body: a value of 1 MiB as base64, with room to spare.
const BODY_LIMIT: usize = 2 << 20;

/// How the bodies of gRPC begin to say what they are.
const GRPC_TYPE: &str = "application/grpc";

/// What the API can be told about its surroundings.
#[derive(Clone)]
pub struct HttpOptions {
    /// How many bytes a request body may have.
    pub body_limit: usize,
    /// Chooses the id of a lease whose client chose none: at random, never twice.
    pub new_id: Arc<dyn Fn() -> LeaseId + Send + Sync>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions { body_limit: BODY_LIMIT, new_id: Arc::new(random_lease_id) }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions").field("body_limit", &self.body_limit).finish_non_exhaustive()
    }
}

/// What every handler shares.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Service,
    pub(crate) options: HttpOptions,
}

/// Builds the API on a service.
pub fn router(service: Service, options: HttpOptions) -> Router {
    let app = App { service, options };
    let routed = routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    routed
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), finish))
        .with_state(app)
}

/// Every address with its methods; `/openapi.json` describes the same ones, and a test compares them.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        ("/v1/ns/{ns}/leases", post(leases::grant).get(leases::list)),
        ("/v1/ns/{ns}/leases/renew", post(leases::renew_many)),
        ("/v1/ns/{ns}/leases/{id}", get(leases::one).delete(leases::release)),
        ("/v1/ns/{ns}/leases/{id}/renew", post(leases::renew)),
        ("/v1/ns/{ns}/leases/{id}/revoke", post(leases::revoke)),
        ("/v1/ns/{ns}/leases/{id}/claims", post(claims::add)),
        ("/v1/ns/{ns}/leases/{id}/claims/{*resource}", delete(claims::give_back)),
        ("/v1/ns/{ns}/resources", get(resources::list)),
        ("/v1/ns/{ns}/resources/{*name}", get(resources::read).post(resources::act)),
        ("/v1/ns/{ns}/entries", get(entries::list).delete(entries::delete_range)),
        ("/v1/ns/{ns}/entries/{*key}", get(entries::one).put(entries::put).delete(entries::delete_one)),
        ("/v1/ns/{ns}/txn", post(txn::carry_out)),
        ("/v1/ns/{ns}/watch", get(watch::open)),
        ("/v1/cluster", get(cluster::look)),
        ("/v1/cluster/members", post(cluster::add)),
        ("/v1/cluster/members/{node}", delete(cluster::remove)),
        ("/v1/cluster/transfer", post(cluster::transfer)),
        ("/v1/cluster/backup", get(backup::take)),
        ("/healthz", get(health::alive)),
        ("/readyz", get(health::ready)),
        ("/openapi.json", get(openapi::serve)),
    ]
}

async fn unknown_route(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if kind.starts_with(GRPC_TYPE.as_bytes()) {
        return unknown_method();
    }
    let path: String = uri.path().chars().take(256).collect();
    let detail = format!("there is no {method} {path}; /openapi.json lists what there is");
    Refusal::new(Code::UnknownRoute, detail).into_response()
}

/// Tells a client of gRPC, in its own words, that nobody here speaks of its service.
fn unknown_method() -> Response {
    let mut response = Response::default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(GRPC_TYPE));
    headers.insert("grpc-status", HeaderValue::from(u16::from(Code::UnknownRoute.grpc())));
    headers
        .insert("grpc-message", HeaderValue::from_static("there is no such service; reflection lists what there is"));
    response
}

async fn method_not_allowed(method: Method) -> Refusal {
    Refusal::new(Code::MethodNotAllowed, format!("this address does not take {method}; see the header Allow"))
}

/// Completes every answer: the headers all of them carry, and the text of a refusal.
async fn finish(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        problem.instance = Some(path);
        response = with_problem(response, &problem);
    }
    let (now, revision) = app.service.present();
    let headers = response.headers_mut();
    // A handler that knows the entry or state its answer comes from has said so already.
    headers.entry(LEASE_REVISION).or_insert(HeaderValue::from(revision.0));
    headers.entry(LEASE_TIME).or_insert(HeaderValue::from(now.0));
    response
}

fn with_problem(response: Response, problem: &Problem) -> Response {
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
    parts.headers.remove(header::CONTENT_LENGTH);
    let text = serde_json::to_vec(problem).unwrap_or_default();
    (parts, text).into_response()
}
