//! The HTTP client with several addresses: it goes on at the next one, repeats only what is safe, and tells of all.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fake;

use std::time::{Duration, Instant};

use fake::{Fake, Reaction};
use leasehold_api::{Code, GrantRequest, Id, Problem, TtlText};
use leasehold_client::Endpoints;
use leasehold_client::http::{Condition, Delivery, HttpClient};
use leasehold_core::{Patience, Span, Ttl};

fn client(addrs: &[&str]) -> HttpClient {
    HttpClient::new(addrs.join(",").parse::<Endpoints>().unwrap(), "default")
}

fn refusal(code: Code, may_have_happened: bool) -> Reaction {
    let problem = Problem { may_have_happened: Some(may_have_happened), ..Problem::new(code, "not here") };
    Reaction::Answer(code.status(), serde_json::to_string(&problem).unwrap())
}

const RENEWED: &str = r#"{"remaining": "9900ms", "ttl": "10s", "changed": 12}"#;
const WRITTEN: &str = r#"{"revision": 1, "version": 1}"#;
const CHANGE: &str = "id: 41\nevent: change\ndata: {\"revision\":41,\"events\":[]}\n\n";
const GRANTED: &str = r#"{
    "id": "0000000000000007", "digest": "~0102030405", "state": "live", "holder": "ann", "token": 12, "ttl": "10s",
    "remaining": "10s", "class": "lock", "granted": "2026-11-03T19:02:11.250Z", "age": "0ms", "renewed_ago": "0ms",
    "changed": 12, "entries": 0, "children": 0, "waits": [],
    "held": [{"resource": "a", "mode": "exclusive", "token": 12, "held_for": "0ms", "waited": "0ms"}]}"#;

fn renewed() -> Reaction {
    Reaction::Answer(200, RENEWED.to_owned())
}

fn written() -> Reaction {
    Reaction::Answer(200, WRITTEN.to_owned())
}

fn id() -> Id {
    "0000000000000007".parse().unwrap()
}

fn unused_addr() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_server_that_cannot_serve_is_left_for_the_next() {
    for code in [Code::NoQuorum, Code::ShuttingDown] {
        let (a, b) = (Fake::start(vec![refusal(code, true)]), Fake::start(vec![renewed(), renewed()]));
        let client = client(&[a.addr(), b.addr()]);
        client.renew(id(), None).await.unwrap();
        client.renew(id(), None).await.unwrap();
        assert_eq!((a.seen().len(), b.seen().len()), (1, 2), "and stays left");
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_at_the_next() {
    let (a, b) = (Fake::start(vec![Reaction::Drop]), Fake::start(vec![renewed()]));
    client(&[a.addr(), b.addr()]).renew(id(), None).await.unwrap();
    assert_eq!((a.seen().len(), b.seen().len()), (1, 1));
}

#[tokio::test]
async fn a_server_that_is_there_again_is_found_again() {
    let busy = || refusal(Code::NoQuorum, false);
    let a = Fake::start(vec![busy(), busy(), renewed()]);
    let b = Fake::start(vec![busy(), busy()]);
    client(&[a.addr(), b.addr()]).renew(id(), None).await.unwrap();
    assert_eq!((a.seen().len(), b.seen().len()), (3, 2));
    let alone = Fake::start(vec![busy(), busy(), renewed()]);
    client(&[alone.addr()]).renew(id(), None).await.unwrap();
    assert_eq!(alone.seen().len(), 3);
}

#[tokio::test]
async fn a_write_is_repeated_only_if_it_certainly_did_not_happen() {
    let (a, b) = (Fake::start(vec![refusal(Code::NoQuorum, false)]), Fake::start(vec![written()]));
    client(&[a.addr(), b.addr()]).put("a", b"x", None, Condition::Always).await.unwrap();
    assert_eq!((a.seen().len(), b.seen().len()), (1, 1));
    let (a, b) = (Fake::start(vec![refusal(Code::NoQuorum, true)]), Fake::start(vec![written()]));
    let error = client(&[a.addr(), b.addr()]).put("a", b"x", None, Condition::Always).await.unwrap_err();
    assert_eq!((error.code(), b.seen().len()), (Some(Code::NoQuorum), 0));
    assert_eq!(error.problem().unwrap().may_have_happened, Some(true));
}

#[tokio::test]
async fn the_error_names_each_address_once() {
    let dead = unused_addr();
    let (a, b) = (Fake::start(vec![refusal(Code::NoQuorum, false)]), Fake::start(vec![Reaction::Drop]));
    let error = client(&[&dead, a.addr(), b.addr()]).put("a", b"x", None, Condition::Always).await.unwrap_err();
    let text = error.to_string();
    let told = format!("cannot reach {dead}: connection refused; nor {}: not here; nor {}: ", a.addr(), b.addr());
    assert!(text.starts_with(&told), "{text}");
    assert!(text.ends_with("may have taken effect, look before repeating it"), "{text}");
    assert_eq!(error.exit(), 69);
    let error = client(&[&dead, &unused_addr()]).renew(id(), None).await.unwrap_err();
    assert_eq!(error.to_string().matches("connection refused").count(), 2, "{error}");
}

#[tokio::test]
async fn a_server_that_takes_its_time_is_not_left() {
    let a = Fake::start(vec![Reaction::Late(Duration::from_secs(1), 200, RENEWED.to_owned()), renewed()]);
    let b = Fake::start(vec![renewed()]);
    let client = client(&[a.addr(), b.addr()]);
    client.renew(id(), None).await.unwrap();
    client.renew(id(), None).await.unwrap();
    assert_eq!((a.seen().len(), b.seen().len()), (2, 0));
}

#[tokio::test]
async fn a_server_that_never_answers_is_not_asked_again_by_one_who_gave_up() {
    let (a, b) = (Fake::start(vec![Reaction::Hang, Reaction::Hang]), Fake::start(vec![renewed()]));
    let client = client(&[a.addr(), b.addr()]);
    let given_up = tokio::time::timeout(Duration::from_millis(700), client.renew(id(), None)).await;
    assert!(given_up.is_err());
    client.renew(id(), None).await.unwrap();
    assert_eq!((a.seen().len(), b.seen().len()), (1, 1));
}

#[tokio::test]
async fn what_hangs_at_one_address_is_asked_for_at_the_next() {
    let (a, b) = (Fake::start(vec![Reaction::Hang]), Fake::start(vec![renewed()]));
    let begun = Instant::now();
    client(&[a.addr(), b.addr()]).renew(id(), None).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_grant_goes_on_at_the_next_address_with_its_id_and_its_wait() {
    let request = GrantRequest {
        holder: "ann".into(),
        ttl: Some(TtlText(Ttl::For(Span::seconds(10)))),
        resource: Some("a".into()),
        ..GrantRequest::default()
    };
    for wait in [Patience::None, Patience::For(Span::seconds(30)), Patience::Endless] {
        let a = Fake::start(vec![refusal(Code::NoQuorum, true)]);
        let b = Fake::start(vec![Reaction::Drop, refusal(Code::ShuttingDown, true)]);
        let c = Fake::start(vec![Reaction::Answer(201, GRANTED.to_owned())]);
        let client = client(&[a.addr(), b.addr(), c.addr(), b.addr()]);
        let granted = client.acquire(request.clone(), wait).granted(|_| {}).await.unwrap();
        let seen = [a.seen(), b.seen(), c.seen()].concat();
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|seen| seen.json()["id"] == granted.id.to_string()), "{seen:?}");
        assert!(seen.iter().all(|seen| seen.line.contains("wait=") == (wait != Patience::None)), "{seen:?}");
    }
}

#[tokio::test]
async fn a_watch_goes_on_at_the_next_address_after_the_last_event() {
    let a = Fake::start(vec![refusal(Code::ShuttingDown, false), Reaction::Stream(String::new())]);
    let b = Fake::start(vec![Reaction::Stream(CHANGE.to_owned()), refusal(Code::NoQuorum, false)]);
    let again = "id: 45\ndata: {\"revision\":45}\n\n";
    let c = Fake::start(vec![Reaction::Stream(again.to_owned())]);
    // The first is stopping, the second ends the stream, and so on around.
    let mut watch = client(&[a.addr(), b.addr(), a.addr(), b.addr(), c.addr()]).watch("", Some(40));
    let mut revisions = Vec::new();
    while revisions.last() != Some(&45) {
        match watch.next().await.unwrap() {
            Delivery::Change(change) => revisions.push(change.revision),
            Delivery::Mark(mark) => revisions.push(mark.revision),
            Delivery::Lost(_) => {}
        }
    }
    assert_eq!(revisions, [41, 45]);
    assert_eq!(c.seen()[0].header("last-event-id"), Some("41"));
    assert_eq!((a.seen().len(), b.seen().len()), (2, 2));
}

#[tokio::test]
async fn a_watch_at_a_server_that_is_behind_goes_on_elsewhere() {
    let behind = Problem { field: Some("since".to_owned()), ..Problem::new(Code::Invalid, "not reached") };
    let behind = || Reaction::Answer(422, serde_json::to_string(&behind).unwrap());
    let a = Fake::start(vec![Reaction::Stream(CHANGE.to_owned()), Reaction::Stream(CHANGE.replace("41", "42"))]);
    let b = Fake::start(vec![behind()]);
    let mut watch = client(&[a.addr(), b.addr()]).watch("", Some(40));
    let mut revisions = Vec::new();
    while revisions.len() < 2 {
        if let Delivery::Change(change) = watch.next().await.unwrap() {
            revisions.push(change.revision);
        }
    }
    assert_eq!((revisions, b.seen().len()), (vec![41, 42], 1));
    let asked = Fake::start(vec![behind()]);
    let error = client(&[asked.addr()]).watch("", Some(4_000)).next().await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Invalid), "what the caller asked for is its own fault");
}
