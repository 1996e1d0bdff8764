//! The client against a server that follows a script.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fake;

use fake::{Fake, Reaction};
use leasehold_api::{Code, GrantRequest, HandoverRequest, Problem, RevokeRequest, TtlText};
use leasehold_client::Endpoints;
use leasehold_client::http::{Condition, Delivery, Error, HttpClient};
use leasehold_core::{Patience, Remaining, Span, Ttl};

fn client(addrs: &[&str]) -> HttpClient {
    HttpClient::new(addrs.join(",").parse::<Endpoints>().unwrap(), "default")
}

fn answer(status: u16, body: serde_json::Value) -> Reaction {
    Reaction::Answer(status, body.to_string())
}

fn refusal(code: Code) -> Reaction {
    answer(code.status(), serde_json::to_value(Problem::new(code, "because")).unwrap())
}

fn granted(waited: &str) -> Reaction {
    answer(
        201,
        serde_json::json!({
            "id": "0000000000000007", "digest": "~0102030405", "state": "live", "holder": "ann", "token": 12,
            "ttl": "10s", "remaining": "10s", "class": "lock", "granted": "2026-11-03T19:02:11.250Z", "age": "0ms",
            "renewed_ago": "0ms", "changed": 12, "entries": 0, "children": 0, "waits": [],
            "held": [{"resource": "a", "mode": "exclusive", "token": 12, "held_for": "0ms", "waited": waited}],
        }),
    )
}

fn renewed() -> Reaction {
    answer(200, serde_json::json!({"remaining": "9900ms", "ttl": "10s", "changed": 12}))
}

fn request() -> GrantRequest {
    GrantRequest {
        holder: "ann".into(),
        ttl: Some(TtlText(Ttl::For(Span::seconds(10)))),
        resource: Some("a".into()),
        ..GrantRequest::default()
    }
}

fn unused_addr() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_repeated_with_the_same_id() {
    let fake = Fake::start(vec![Reaction::Drop, Reaction::Drop, granted("0ms")]);
    let mut acquire = client(&[fake.addr()]).acquire(request(), Patience::For(Span::seconds(30)));
    let mut lost = 0;
    let found = acquire.granted(|_| lost += 1).await.unwrap();
    let ids: Vec<_> = fake.seen().iter().map(|seen| seen.json()["id"].clone()).collect();
    assert_eq!((ids.len(), lost), (3, 2));
    assert!(ids.iter().all(|id| *id == found.id.to_string()));
    assert!(found.validity.left() > Some(std::time::Duration::from_secs(8)));
}

#[tokio::test]
async fn a_wait_that_a_lost_connection_ended_begins_anew_with_another_id() {
    let fake = Fake::start(vec![Reaction::Drop, refusal(Code::LeaseEnded), granted("0ms")]);
    let mut acquire = client(&[fake.addr()]).acquire(request(), Patience::Endless);
    acquire.granted(|_| {}).await.unwrap();
    let seen = fake.seen();
    assert_eq!(seen[0].json()["id"], seen[1].json()["id"]);
    assert_ne!(seen[1].json()["id"], seen[2].json()["id"]);
    assert_eq!(seen[0].json().get("seen"), None);
    assert_eq!(seen[1].json().get("seen"), None, "a repetition sends what the first one sent");
    assert_eq!(seen[2].json()["seen"], 4200);
}

#[tokio::test]
async fn an_id_of_the_callers_choice_is_never_replaced() {
    let fake = Fake::start(vec![Reaction::Drop, refusal(Code::LeaseEnded)]);
    let request = GrantRequest { id: Some("0000000000000007".parse().unwrap()), ..request() };
    let error = client(&[fake.addr()]).acquire(request, Patience::Endless).granted(|_| {}).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::LeaseEnded));
}

#[tokio::test]
async fn a_waited_grant_is_renewed_before_it_counts() {
    let fake = Fake::start(vec![granted("5s"), renewed()]);
    let mut acquire = client(&[fake.addr()]).acquire(request(), Patience::Endless);
    let found = acquire.granted(|_| {}).await.unwrap();
    assert_eq!(found.lease.remaining.to_string(), "9900ms");
    let seen = fake.seen();
    assert_eq!(seen[0].line, "POST /v1/ns/default/leases?wait=forever");
    assert_eq!(seen[1].line, format!("POST /v1/ns/default/leases/{}/renew", found.id));
}

#[tokio::test]
async fn an_ask_for_a_hand_over_is_repeated_until_it_is_heard() {
    let fake =
        Fake::start(vec![Reaction::Drop, answer(202, serde_json::json!({"holders": 2})), refusal(Code::NotHeld)]);
    let client = client(&[fake.addr()]);
    let ask = HandoverRequest { by: "bob".into(), reason: Some("deploy".into()) };
    assert_eq!(client.request_handover("orders/7", &ask).await.unwrap().holders, 2);
    let seen = fake.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].line, "POST /v1/ns/default/resources/orders%2F7/handover");
    assert_eq!(seen[1].json(), serde_json::json!({"by": "bob", "reason": "deploy"}));
    let error = client.request_handover("orders/7", &ask).await.unwrap_err();
    assert_eq!((error.code(), error.exit()), (Some(Code::NotHeld), 73));
}

#[tokio::test]
async fn a_revoke_tells_how_long_the_holder_may_still_act() {
    let script = vec![
        Reaction::Header("lease-may-act", "9s"),
        Reaction::Header("lease-may-act", "none"),
        Reaction::Header("x", "y"),
    ];
    let fake = Fake::start(script);
    let client = client(&[fake.addr()]);
    let request = RevokeRequest { reason: "stuck".into(), resource: Some("a".into()), ..RevokeRequest::default() };
    assert_eq!(client.revoke("~1a2b3c4d5e", &request).await.unwrap(), Remaining::For(Span::seconds(9)));
    assert_eq!(client.revoke("~1a2b3c4d5e", &request).await.unwrap(), Remaining::Endless);
    let error = client.revoke("~1a2b3c4d5e", &request).await.unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    assert!(fake.seen()[0].line.ends_with("/revoke"), "{}", fake.seen()[0].line);
    assert_eq!(fake.seen()[0].json()["resource"], "a");
}

#[tokio::test]
async fn a_revoke_whose_answer_was_lost_is_not_repeated() {
    let fake = Fake::start(vec![Reaction::Drop]);
    let request = RevokeRequest { reason: "stuck".into(), ..RevokeRequest::default() };
    let error = client(&[fake.addr()]).revoke("0000000000000007", &request).await.unwrap_err();
    assert!(error.to_string().contains("may have taken effect"), "{error}");
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn a_server_that_was_never_there_is_told_at_once() {
    let addr = unused_addr();
    let error = client(&[&addr]).acquire(request(), Patience::Endless).granted(|_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach {addr}: connection refused"));
}

#[tokio::test]
async fn the_next_address_is_tried_and_kept() {
    let fake = Fake::start(vec![renewed(), renewed()]);
    let client = client(&[&unused_addr(), fake.addr()]);
    let id = "0000000000000007".parse().unwrap();
    client.renew(id, None).await.unwrap();
    client.renew(id, None).await.unwrap();
    assert_eq!(fake.seen().len(), 2);
    assert_eq!(client.lease_time(), Some(4200));
}

#[tokio::test]
async fn a_write_is_not_repeated_and_says_that_it_may_have_happened() {
    let fake = Fake::start(vec![Reaction::Drop, answer(200, serde_json::json!({"revision": 1, "version": 1}))]);
    let client = client(&[fake.addr()]);
    let error = client.put("a/b", b"x", None, Condition::Absent).await.unwrap_err();
    assert!(error.to_string().contains("may have taken effect"), "{error}");
    assert_eq!(fake.seen().len(), 1);
    assert_eq!(fake.seen()[0].line, "PUT /v1/ns/default/entries/a%2Fb");
    assert_eq!(fake.seen()[0].header("if-none-match"), Some("*"));
    client.put("a", b"\xff", None, Condition::Revision(3)).await.unwrap();
    assert_eq!(fake.seen()[1].header("if-match"), Some("\"3\""));
    assert_eq!(fake.seen()[1].json()["value_base64"], "/w==");
}

#[tokio::test]
async fn a_refusal_and_a_stranger_are_told_apart() {
    let fake = Fake::start(vec![refusal(Code::StaleToken), Reaction::Answer(404, "<html>".into())]);
    let client = client(&[fake.addr()]);
    let error = client.check("a", 3).await.unwrap_err();
    assert_eq!((error.code(), error.exit()), (Some(Code::StaleToken), 73));
    let error = client.health().await.unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

const CHANGE: &str = "id: 41\nevent: change\ndata: {\"revision\":41,\"events\":[]}\n\n";

#[tokio::test]
async fn a_watch_resumes_after_the_last_event_and_gives_up_when_compacted() {
    let again = format!(": hello\n\n{CHANGE}id: 45\ndata: {{\"revision\":45}}\n\n");
    let fake = Fake::start(vec![
        Reaction::Stream(CHANGE.into()),
        Reaction::Drop,
        Reaction::Stream(again),
        refusal(Code::Compacted),
    ]);
    let mut watch = client(&[fake.addr()]).watch("orders/", Some(40));
    let mut revisions = Vec::new();
    let error = loop {
        match watch.next().await {
            Ok(Delivery::Change(change)) => revisions.push(change.revision),
            Ok(Delivery::Mark(mark)) => revisions.push(mark.revision),
            Ok(Delivery::Lost(_)) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(revisions, [41, 45], "what was delivered is not delivered again");
    assert_eq!(error.code(), Some(Code::Compacted));
    let seen = fake.seen();
    assert_eq!(seen[0].line, "GET /v1/ns/default/watch?prefix=orders%2F&since=40");
    let resumed: Vec<_> = seen.iter().map(|seen| seen.header("last-event-id")).collect();
    assert_eq!(resumed, [None, Some("41"), Some("41"), Some("45")]);
}

#[tokio::test]
async fn a_watch_from_now_on_resumes_from_where_it_began() {
    let cluster = serde_json::json!({"version": "1", "leads": true, "ready": true, "revision": 40, "lease_time": 1});
    let fake = Fake::start(vec![answer(200, cluster), Reaction::Stream(String::new()), refusal(Code::Compacted)]);
    let mut watch = client(&[fake.addr()]).watch("", None);
    assert!(matches!(watch.next().await, Ok(Delivery::Lost(_))));
    assert!(watch.next().await.is_err());
    assert_eq!(fake.seen()[1].line, "GET /v1/ns/default/watch?since=40");
    assert_eq!(fake.seen()[2].header("last-event-id"), Some("40"));
}

#[tokio::test]
async fn dropping_a_waiting_grant_closes_its_connection() {
    let fake = Fake::start(vec![Reaction::Hang, Reaction::Answer(204, String::new())]);
    let mut acquire = client(&[fake.addr()]).acquire(request(), Patience::Endless);
    tokio::select! {
        result = acquire.granted(|_| {}) => panic!("{result:?}"),
        () = async { while fake.seen().is_empty() { tokio::task::yield_now().await } } => {}
    }
    acquire.abandon().await.unwrap();
    assert_eq!(fake.seen()[1].line, format!("DELETE /v1/ns/default/leases/{}", acquire.id()));
}
