//! Everything on one port: the gateway beside gRPC, the version and the health.

use std::path::PathBuf;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use leasehold_service::Options;
use tower::ServiceExt as _;

use super::{Three, dialect, of};
use crate::{EtcdOptions, router};

async fn send(router: &Router, request: Request<Body>) -> (u16, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(text.to_vec()).unwrap())
}

async fn post(router: &Router, path: &str, body: &'static str) -> (u16, String) {
    send(router, Request::post(path).body(Body::from(body)).unwrap()).await
}

async fn get(router: &Router, path: &str) -> (u16, String) {
    send(router, Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_key_is_written_and_read_without_grpc() {
    let router = router(of(&Three::default()).await.service().clone(), EtcdOptions::default());
    let header = r#""header":{"cluster_id":"6","member_id":"1","revision":"1","raft_term":"1"}"#;
    let put = post(&router, "/v3/kv/put", r#"{"key":"YQ==","value":"MQ=="}"#).await;
    assert_eq!(put, (200, format!("{{{header}}}")));
    let kv = r#"{"key":"YQ==","create_revision":"1","mod_revision":"1","version":"1","value":"MQ=="}"#;
    let range = post(&router, "/v3beta/kv/range", r#"{"key":"YQ=="}"#).await;
    assert_eq!(range, (200, format!(r#"{{{header},"kvs":[{kv}],"count":"1"}}"#)));
}

#[tokio::test]
async fn web_pages_are_refused() {
    let router = router(of(&Three::default()).await.service().clone(), EtcdOptions::default());
    let body = Body::from(r#"{"key":"YQ=="}"#);
    let request = Request::post("/v3/kv/range").header("origin", "http://evil.example").body(body).unwrap();
    let (status, text) = send(&router, request).await;
    assert_eq!(status, 403, "{text}");
}

#[tokio::test]
async fn health_tells_of_a_full_disk() {
    let well = router(of(&Three::default()).await.service().clone(), EtcdOptions::default());
    assert_eq!(get(&well, "/health").await, (200, r#"{"health":"true","reason":""}"#.to_owned()));
    assert_eq!(get(&well, "/version").await.0, 200);
    let data = Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let full = dialect(Options { data, disk_reserve: u64::MAX, ..Options::default() }).await;
    while !full.service().health().disk_full {
        tokio::task::yield_now().await;
    }
    let full = router(full.service().clone(), EtcdOptions::default());
    assert_eq!(get(&full, "/health").await, (503, r#"{"health":"false","reason":"ALARM NOSPACE"}"#.to_owned()));
}

#[tokio::test]
async fn calls_of_operators_are_there_over_grpc() {
    let router = router(of(&Three::default()).await.service().clone(), EtcdOptions::default());
    for path in ["Cluster/MemberList", "Maintenance/Status", "Auth/AuthStatus"] {
        let request = Request::post(format!("/etcdserverpb.{path}"))
            .header("content-type", "application/grpc")
            .body(Body::from(vec![0; 5]))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let trailers = response.into_body().collect().await.unwrap().trailers().cloned().unwrap();
        assert_eq!(trailers["grpc-status"], "0", "{path}");
    }
}
