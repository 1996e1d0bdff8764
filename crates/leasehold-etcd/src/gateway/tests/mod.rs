//! The gateway before a service that answers what it was told to.
//!
//! What real etcd was sent and answered is in `golden.txt`; here is that, and what has no message to compare with:
//! bodies that cannot be read, time that runs out, streams that end.

mod fake;
mod golden;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tonic::Status;
use tower::ServiceExt as _;

use self::fake::{Fake, Say};
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::{LeaseKeepAliveResponse, RangeRequest, RangeResponse, WatchResponse};

/// Posts a body; the status and the text of the answer, when it has ended.
async fn post(fake: &Fake, path: &str, body: impl Into<Body>) -> (u16, String) {
    let request = Request::post(path).body(body.into()).unwrap();
    send(super::router(fake.clone()), request).await
}

async fn send(router: Router, request: Request<Body>) -> (u16, String) {
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(text.to_vec()).unwrap())
}

fn range_response() -> Say {
    Say::Message(RangeResponse { count: 3, ..RangeResponse::default() }.encode_to_vec())
}

fn kept_alive(id: i64) -> Say {
    Say::Message(LeaseKeepAliveResponse { id, ttl: 5, ..LeaseKeepAliveResponse::default() }.encode_to_vec())
}

fn created(watch_id: i64) -> Say {
    Say::Message(WatchResponse { watch_id, created: true, ..WatchResponse::default() }.encode_to_vec())
}

#[tokio::test]
async fn old_paths_lead_to_the_same_calls() {
    for path in ["/v3/kv/range", "/v3beta/kv/range", "/v3alpha/kv/range"] {
        let fake = Fake::saying([range_response()]);
        assert_eq!(post(&fake, path, r#"{"key":"YQ=="}"#).await, (200, r#"{"count":"3"}"#.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_so() {
    let not_found = (404, "Not Found\n".to_owned());
    for path in ["/v3/kv/nonsense", "/v3/nonsense", "/v3beta/x", "/v3/kv/range/", "/v3/maintenance/hashkv"] {
        assert_eq!(post(&Fake::default(), path, "{}").await, not_found, "{path}");
    }
    let get = Request::get("/v3/kv/range").body(Body::empty()).unwrap();
    assert_eq!(send(super::router(Fake::default()), get).await, (405, "Method Not Allowed\n".to_owned()));
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused_in_etcds_shape() {
    let calls = [
        ("/v3/kv/range", "x"),
        ("/v3/kv/range", "[]"),
        ("/v3/kv/range", "\"x\""),
        ("/v3/kv/range", r#"{"key":"YQ==""#),
        ("/v3/kv/range", r#"{"key":5}"#),
        ("/v3/kv/range", r#"{"key":"a b"}"#),
        ("/v3/kv/range", r#"{"key":"YQ==","limit":"x"}"#),
        ("/v3/kv/range", r#"{"key":"YQ==","limit":true}"#),
        ("/v3/kv/range", r#"{"key":"YQ==","limit":1.5}"#),
        ("/v3/kv/range", r#"{"key":"YQ==","limit":"9223372036854775808"}"#),
        ("/v3/kv/range", r#"{"key":"YQ==","sort_order":"FOO"}"#),
        ("/v3/kv/range", r#"{"key":"YQ==","sort_order":"1"}"#),
        ("/v3/kv/txn", r#"{"compare":[{"target":"CREATED"}]}"#),
        ("/v3/election/observe", "x"),
        ("/v3/watch", "x"),
        ("/v3/watch", r#"{"create_request":"#),
        ("/v3/watch", r#"{"create_request":5}"#),
        ("/v3/watch", r#"{"create_request":{"filters":["NOTHING"]}}"#),
        ("/v3/watch", r#"{"create_request":{},"cancel_request":{}}"#),
    ];
    for (path, body) in calls {
        let fake = Fake::default();
        let (status, text) = post(&fake, path, body).await;
        assert_eq!(status, 400, "{path} {body}");
        let refusal: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(refusal["code"], 3, "{path} {body}");
        assert_eq!(refusal["error"], refusal["message"]);
        assert!(refusal["error"].as_str().unwrap().starts_with("the request cannot be read: "), "{text}");
        assert!(fake.asked.lock().unwrap().is_empty(), "nothing unread is carried out");
    }
}

#[tokio::test]
async fn what_follows_the_first_object_is_ignored() {
    for body in [r#"{"key":"YQ=="} trailing"#, r#" {"key":"YQ=="}{"key":"Yg=="}"#, r#"{"key":"Yg==","key":"YQ=="}"#] {
        let fake = Fake::saying([range_response()]);
        assert_eq!(post(&fake, "/v3/kv/range", body).await.0, 200);
        let asked = RangeRequest { key: "a".into(), ..RangeRequest::default() }.encode_to_vec();
        assert_eq!(*fake.asked.lock().unwrap(), [("KV.Range".to_owned(), asked)], "{body}");
    }
}

#[tokio::test]
async fn bytes_may_be_in_either_alphabet_of_base64() {
    for (text, bytes) in [("/+8=", [0xff, 0xef]), ("_-8=", [0xff, 0xef]), ("_-8", [0xff, 0xef])] {
        let fake = Fake::saying([range_response()]);
        assert_eq!(post(&fake, "/v3/kv/range", format!(r#"{{"key":"{text}"}}"#)).await.0, 200);
        let asked = RangeRequest { key: Bytes::copy_from_slice(&bytes), ..RangeRequest::default() }.encode_to_vec();
        assert_eq!(fake.asked.lock().unwrap()[0].1, asked, "{text}");
    }
}

#[tokio::test]
async fn a_body_without_measure_is_refused() {
    let body = format!(r#"{{"key":"{}"}}"#, "YWFh".repeat(super::BODY_MAX / 4));
    for path in ["/v3/kv/range", "/v3/watch"] {
        let (status, text) = post(&Fake::default(), path, body.clone()).await;
        assert_eq!((status, text.contains("too large")), (429, true), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_small_body_cannot_become_a_large_thing() {
    let empties = vec!["{}"; 5000].join(",");
    let (status, text) = post(&Fake::default(), "/v3/kv/txn", format!(r#"{{"success":[{empties}]}}"#)).await;
    assert_eq!((status, text.contains(EtcdError::TooManyOps.text())), (400, true), "{text}");
    let deep = format!("{}{}", r#"{"success":[{"request_txn":"#.repeat(60), "}]}".repeat(60));
    assert_eq!(post(&Fake::default(), "/v3/kv/txn", deep).await.0, 400);
}

#[tokio::test]
async fn headers_become_metadata() {
    let fake = Fake::saying([range_response()]);
    let request = Request::post("/v3/kv/range")
        .header("Grpc-Metadata-hasleader", "true")
        .header("Authorization", "secret")
        .header("X-Other", "no")
        .body(Body::empty())
        .unwrap();
    assert_eq!(send(super::router(fake.clone()), request).await.0, 200);
    let metadata = fake.metadata.lock().unwrap().clone().into_headers();
    let mut pairs: Vec<_> = metadata.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [("hasleader", "true"), ("token", "secret")]);
}

#[tokio::test]
async fn a_stream_can_require_a_leader() {
    for (value, required) in [("true", true), ("false", false)] {
        let fake = Fake::saying([kept_alive(7)]);
        let request = Request::post("/v3/lease/keepalive").header("Grpc-Metadata-hasleader", value);
        send(super::router(fake.clone()), request.body(Body::from(r#"{"ID":7}"#)).unwrap()).await;
        assert_eq!(*fake.leader_required.lock().unwrap(), required);
    }
}

fn timed(path: &str, timeout: &str, body: &'static str) -> Request<Body> {
    Request::post(path).header("Grpc-Timeout", timeout).body(Body::from(body)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_given_up_when_its_time_is_over() {
    let late = r#"{"error":"context deadline exceeded","code":4,"message":"context deadline exceeded"}"#;
    for (timeout, millis) in [("2S", 2000), ("300m", 300), ("1M", 60_000), ("1H", 3_600_000), ("5000u", 5)] {
        let begun = tokio::time::Instant::now();
        let router = super::router(Fake::saying([Say::Silence]));
        assert_eq!(send(router, timed("/v3/lock/lock", timeout, "{}")).await, (504, late.to_owned()));
        let waited = begun.elapsed().abs_diff(Duration::from_millis(millis));
        assert!(waited <= Duration::from_millis(2), "{timeout}: {waited:?} off");
    }
    for path in ["/v3/election/observe", "/v3/watch"] {
        let router = super::router(Fake::saying([Say::Silence]));
        assert_eq!(send(router, timed(path, "1S", "{}")).await, (504, late.to_owned()), "{path}");
    }
    for wrong in ["x", "1", "S", "1.5S", "-1S", "123456789S"] {
        let (status, text) = send(super::router(Fake::default()), timed("/v3/kv/range", wrong, "{}")).await;
        assert_eq!((status, text.contains("invalid grpc-timeout")), (400, true), "{wrong}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_begun_ends_with_its_refusal() {
    let begun = "{\"result\":{\"created\":true}}\n";
    let late = r#"{"error":{"grpc_code":4,"http_code":504,"message":"context deadline exceeded","http_status":"Gateway Timeout"}}"#;
    let router = super::router(Fake::saying([created(0), Say::Silence]));
    let request = timed("/v3/watch", "1S", r#"{"create_request":{"key":"YQ=="}}"#);
    assert_eq!(send(router, request).await, (200, format!("{begun}{late}")));

    let fake = Fake::saying([created(0), Say::Refuse(EtcdError::NoLeader.into())]);
    let lost = r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}}"#;
    assert_eq!(post(&fake, "/v3/watch", r#"{"create_request":{"key":"YQ=="}}"#).await, (200, format!("{begun}{lost}")));
}

#[tokio::test]
async fn a_stream_that_has_not_begun_is_refused_as_a_whole() {
    let fake = Fake::saying([Say::Refuse(EtcdError::NoLeader.into())]);
    let refusal = r#"{"error":"etcdserver: no leader","code":14,"message":"etcdserver: no leader"}"#;
    assert_eq!(post(&fake, "/v3/watch", "{}").await, (503, refusal.to_owned()));
    let fake = Fake::saying([Say::Refuse(Status::unimplemented("no"))]);
    let refusal = r#"{"error":"no","code":12,"message":"no"}"#;
    assert_eq!(post(&fake, "/v3/maintenance/snapshot", "").await, (501, refusal.to_owned()));
}

#[tokio::test]
async fn the_end_of_the_requests_is_not_the_end_of_a_watch() {
    let fake = Fake::saying([created(0), created(1)]);
    let text = "{\"result\":{\"created\":true}}\n{\"result\":{\"watch_id\":\"1\",\"created\":true}}\n";
    assert_eq!(post(&fake, "/v3/watch", r#"{"create_request":{}}"#).await, (200, text.to_owned()));
    assert_eq!(fake.asked.lock().unwrap().len(), 1, "the second answer came after the only request");
}

#[tokio::test]
async fn a_stream_without_requests_ends_with_its_answers() {
    for body in ["", " \n "] {
        assert_eq!(post(&Fake::default(), "/v3/lease/keepalive", body).await, (200, String::new()));
    }
}

#[tokio::test]
async fn requests_are_carried_out_as_they_come() {
    let (send, receive) = tokio::sync::mpsc::channel::<&'static str>(1);
    let body = Body::from_stream(stream::unfold(receive, async |mut receive| {
        Some((Ok::<_, std::io::Error>(Bytes::from_static(receive.recv().await?.as_bytes())), receive))
    }));
    let router = super::router(Fake::saying([kept_alive(7), kept_alive(8)]));
    send.send(r#"{"ID":"7"}{"#).await.unwrap();
    let request = Request::post("/v3/lease/keepalive").body(body).unwrap();
    let mut answer = router.oneshot(request).await.unwrap().into_body();
    let mut line = async || String::from_utf8(answer.frame().await?.unwrap().into_data().unwrap().to_vec()).ok();
    assert_eq!(line().await.unwrap(), "{\"result\":{\"ID\":\"7\",\"TTL\":\"5\"}}\n");
    send.send(r#""ID":"8"}"#).await.unwrap();
    assert_eq!(line().await.unwrap(), "{\"result\":{\"ID\":\"8\",\"TTL\":\"5\"}}\n");
    drop(send);
    assert_eq!(line().await, None);
}

#[tokio::test]
async fn a_later_request_that_cannot_be_read_ends_the_stream_with_a_refusal() {
    let fake = Fake::saying([kept_alive(7)]);
    let (status, text) = post(&fake, "/v3/lease/keepalive", r#"{"ID":"7"}{"ID":"x"}"#).await;
    let (first, last) = text.split_once('\n').unwrap();
    assert_eq!((status, first), (200, r#"{"result":{"ID":"7","TTL":"5"}}"#));
    assert!(
        last.starts_with(r#"{"error":{"grpc_code":3,"http_code":400,"message":"the request cannot be read: "#),
        "{last}"
    );
}

#[tokio::test]
async fn version_and_health_are_told_as_etcd_tells_them() {
    let well = super::about::router(|| None);
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    let version = r#"{"etcdserver":"3.5.1","etcdcluster":"3.5.0"}"#;
    assert_eq!(send(well.clone(), get("/version")).await, (200, version.to_owned()));
    assert_eq!(send(well.clone(), get("/health")).await, (200, r#"{"health":"true","reason":""}"#.to_owned()));
    let ill = super::about::router(|| Some("RAFT NO LEADER".to_owned()));
    let text = r#"{"health":"false","reason":"RAFT NO LEADER"}"#;
    assert_eq!(send(ill, get("/health")).await, (503, text.to_owned()));
    let wrong = Request::builder().method(Method::POST).uri("/health").body(Body::empty()).unwrap();
    assert_eq!(send(well, wrong).await.0, StatusCode::METHOD_NOT_ALLOWED.as_u16());
}
