//! The API from the outside, on a running service. Needs the feature `app-tests` and `support::app()`.

#![allow(clippy::unwrap_used, reason = "helpers of tests panic like tests do")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json as object};
use support::{app, json, plain, send, text};
use tower::ServiceExt;

const NS: &str = "/v1/ns/default";

async fn grant(app: &Router, body: Value) -> Value {
    json(app, "POST", &format!("{NS}/leases"), body).await.expect(201)
}

fn id(lease: &Value) -> &str {
    lease["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_lease_lives_and_tells_how_it_ended() {
    let app = app().await;
    let body = object!({"holder": "ann", "ttl": "10s", "resources": ["orders/7"], "reason": "backfill"});
    let answer = json(&app, "POST", &format!("{NS}/leases"), body).await;
    assert!(answer.header("lease-revision").parse::<u64>().unwrap() > 0);
    assert!(answer.header("lease-time").parse::<u64>().is_ok());
    let place = answer.header("location").to_owned();
    let lease = answer.expect(201);
    assert_eq!(place, format!("{NS}/leases/{}", id(&lease)));
    assert_eq!((lease["ttl"].as_str(), lease["remaining"].as_str()), (Some("10s"), Some("10s")));
    assert_eq!(lease["token"], lease["held"][0]["token"]);

    assert_eq!(plain(&app, "GET", &place).await.expect(200)["state"], "live");
    let renewed = plain(&app, "POST", &format!("{place}/renew")).await.expect(200);
    assert_eq!(renewed["remaining"], "10s");
    plain(&app, "DELETE", &place).await.expect(204);
    plain(&app, "DELETE", &place).await.expect(204);
    let problem = plain(&app, "GET", &place).await.refused(410, "lease_ended");
    assert_eq!(problem["ended"]["cause"], "released");
    assert_eq!(problem["instance"], place);
    plain(&app, "POST", &format!("{place}/renew")).await.refused(410, "lease_ended");
    plain(&app, "GET", &format!("{NS}/leases/0000000000000001")).await.refused(404, "unknown_lease");
}

#[tokio::test]
async fn a_repeated_grant_finds_its_lease() {
    let app = app().await;
    let body = object!({"id": "05f31c09a4e2b7d8", "holder": "ann", "ttl": "10s", "resource": "a"});
    let first = grant(&app, body.clone()).await;
    assert_eq!(grant(&app, body.clone()).await["token"], first["token"]);
    let other = object!({"id": "05f31c09a4e2b7d8", "holder": "bob", "ttl": "10s", "resource": "a"});
    json(&app, "POST", &format!("{NS}/leases"), other).await.refused(409, "id_in_use");
}

#[tokio::test]
async fn a_refusal_names_the_holder_and_the_place_in_the_queue() {
    let app = app().await;
    let ann = object!({"holder": "ann", "ttl": "10s", "resource": "a", "reason": "schema 41", "link": "http://x/1"});
    let lease = grant(&app, ann).await;
    let bob = object!({"holder": "bob", "ttl": "10s", "resource": "a"});
    let answer = json(&app, "POST", &format!("{NS}/leases"), bob.clone()).await;
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    let problem = answer.refused(409, "held");
    let holder = &problem["holders"][0];
    assert_eq!((holder["holder"].as_str(), holder["reason"].as_str()), (Some("ann"), Some("schema 41")));
    assert_eq!((&holder["token"], &holder["link"]), (&lease["token"], &object!("http://x/1")));
    assert_eq!(problem["queue"], object!({"length": 0, "position": 1}));
    assert_eq!(problem["resource"], "a");
    assert!(!problem.to_string().contains(id(&lease)), "the id of another's lease is shown");

    let problem = json(&app, "POST", &format!("{NS}/leases?wait=50ms"), bob).await.refused(408, "wait_elapsed");
    assert_eq!(problem["queue"]["position"], 1);
    assert_eq!(problem["holders"][0]["holder"], "ann");
}

#[tokio::test]
async fn a_waiter_gets_the_resource_when_it_is_free_and_leaves_when_it_hangs_up() {
    let app = app().await;
    let ann = grant(&app, object!({"holder": "ann", "ttl": "10s", "resource": "a"})).await;
    let wait = |holder: &'static str| {
        let app = app.clone();
        let body = object!({"holder": holder, "ttl": "10s", "resource": "a"});
        tokio::spawn(async move { json(&app, "POST", &format!("{NS}/leases?wait=forever"), body).await })
    };
    let queue_of = async |length: u64| {
        loop {
            let queue = plain(&app, "GET", &format!("{NS}/resources/a/queue")).await.expect(200);
            if queue["length"] == length {
                return queue;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let bob = wait("bob");
    queue_of(1).await;
    let cleo = wait("cleo");
    let queue = queue_of(2).await;
    assert_eq!((&queue["waiters"][0]["holder"], &queue["waiters"][1]["position"]), (&object!("bob"), &object!(2)));
    bob.abort();
    queue_of(1).await;
    plain(&app, "DELETE", &format!("{NS}/leases/{}", id(&ann))).await.expect(204);
    let lease = cleo.await.unwrap().expect(201);
    assert!(lease["token"].as_u64() > ann["token"].as_u64());
}

#[tokio::test]
async fn many_leases_are_renewed_with_a_result_each() {
    let app = app().await;
    let one = grant(&app, object!({"holder": "ann", "ttl": "10s"})).await;
    let body = object!({"leases": [id(&one), "0000000000000009"]});
    let answer = json(&app, "POST", &format!("{NS}/leases/renew"), body).await.expect(200);
    assert_eq!(answer["results"][0]["renewed"]["remaining"], "10s");
    assert_eq!(answer["results"][1]["problem"]["code"], "unknown_lease");
    json(&app, "POST", &format!("{NS}/leases/renew"), object!({"leases": []})).await.refused(422, "invalid");
}

#[tokio::test]
async fn lists_show_digests_and_have_pages() {
    let app = app().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let holder = if n < 3 { "ann" } else { "bob" };
        ids.push(id(&grant(&app, object!({"holder": holder, "class": "session"})).await).to_owned());
    }
    let (mut page, mut seen) = (String::new(), 0);
    loop {
        let answer = plain(&app, "GET", &format!("{NS}/leases?limit=2{page}")).await.expect(200);
        assert!(ids.iter().all(|id| !answer.to_string().contains(id)), "{answer}");
        seen += answer["leases"].as_array().unwrap().len();
        match answer["next"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 5);
    let found = plain(&app, "GET", &format!("{NS}/leases?holder=bob")).await.expect(200);
    assert_eq!(found["leases"].as_array().unwrap().len(), 2);
    plain(&app, "GET", &format!("{NS}/leases?page=zz")).await.refused(422, "invalid");
}

#[tokio::test]
async fn claims_are_added_and_given_back() {
    let app = app().await;
    let lease = grant(&app, object!({"holder": "ann", "ttl": "10s"})).await;
    let claims = format!("{NS}/leases/{}/claims", id(&lease));
    let body = object!({"resources": ["a/b", "c"], "seq": 1});
    let claimed = json(&app, "POST", &claims, body.clone()).await.expect(201);
    assert_eq!(claimed["held"].as_array().unwrap().len(), 2);
    json(&app, "POST", &claims, body).await.expect(201);
    let token = claimed["held"][0]["token"].as_u64().unwrap();
    plain(&app, "DELETE", &format!("{claims}/a/b?token={}", token + 1)).await.refused(409, "stale_token");
    plain(&app, "DELETE", &format!("{claims}/a/b?token={token}&seq=3&acked=1")).await.expect(204);
    plain(&app, "DELETE", &format!("{claims}/a/b?token={token}&seq=3&acked=1")).await.expect(204);
    plain(&app, "DELETE", &format!("{claims}/a/b")).await.refused(422, "invalid");
}

#[tokio::test]
async fn an_operator_revokes_with_a_reason() {
    let app = app().await;
    let lease = grant(&app, object!({"holder": "ann", "ttl": "10s", "resource": "a"})).await;
    let path = format!("{NS}/leases/{}", id(&lease));
    json(&app, "POST", &format!("{path}/revoke"), object!({})).await.refused(422, "invalid");
    json(&app, "POST", &format!("{path}/revoke"), object!({"reason": " "})).await.refused(422, "invalid");
    let answer = json(&app, "POST", &format!("{path}/revoke"), object!({"reason": "stuck", "now": true})).await;
    assert!(!answer.header("lease-may-act").is_empty());
    answer.expect(204);
    let problem = plain(&app, "GET", &path).await.refused(410, "lease_ended");
    assert_eq!((&problem["ended"]["cause"], &problem["ended"]["reason"]), (&object!("revoked"), &object!("stuck")));
}

#[tokio::test]
async fn an_operator_revokes_what_a_refusal_shows() {
    let app = app().await;
    let lease = grant(&app, object!({"holder": "ann", "ttl": "10s", "resource": "a"})).await;
    let revoke = format!("{NS}/leases/{}/revoke", lease["digest"].as_str().unwrap());
    json(&app, "POST", &revoke, object!({"reason": "stuck"})).await.refused(422, "invalid");
    let elsewhere = object!({"reason": "stuck", "resource": "b"});
    json(&app, "POST", &revoke, elsewhere).await.refused(404, "unknown_lease");
    json(&app, "POST", &revoke, object!({"reason": "stuck", "resource": "a"})).await.expect(204);
    plain(&app, "GET", &format!("{NS}/leases/{}", id(&lease))).await.refused(410, "lease_ended");
}

#[tokio::test]
async fn a_resource_tells_its_holder_queue_and_history() {
    let app = app().await;
    let lease = grant(&app, object!({"holder": "ann", "ttl": "10s", "resources": ["orders/7", "x/queue"]})).await;
    for path in ["orders/7", "orders%2F7", "x%2Fqueue"] {
        let found = plain(&app, "GET", &format!("{NS}/resources/{path}")).await.expect(200);
        assert_eq!((found["state"].as_str(), found["holders"][0]["holder"].as_str()), (Some("held"), Some("ann")));
    }
    let history = plain(&app, "GET", &format!("{NS}/resources/orders/7/history")).await.expect(200);
    assert_eq!(history["history"][0]["what"], "granted");
    let list = plain(&app, "GET", &format!("{NS}/resources?prefix=orders/&limit=1")).await.expect(200);
    assert_eq!(list["resources"][0]["name"], "orders/7");
    let stale = plain(&app, "GET", &format!("{NS}/resources?consistency=stale")).await;
    assert!(!stale.header("lease-age-ms").is_empty());

    let token = lease["held"][0]["token"].as_u64().unwrap();
    let check = format!("{NS}/resources/orders/7/check");
    assert_eq!(json(&app, "POST", &check, object!({"token": token})).await.expect(200)["holder"], "ann");
    let problem = json(&app, "POST", &check, object!({"token": token + 1})).await.refused(409, "stale_token");
    assert_eq!(problem["current_token"], token);
    plain(&app, "GET", &check).await.refused(405, "method_not_allowed");
    plain(&app, "GET", &format!("{NS}/resources/none")).await.refused(404, "not_found");
}

#[tokio::test]
async fn the_holders_of_a_resource_are_asked_to_hand_it_over() {
    let app = app().await;
    let handover = &format!("{NS}/resources/orders/7/handover");
    let ask = object!({"by": "zoe", "reason": "deploy"});
    let problem = json(&app, "POST", handover, ask.clone()).await.refused(409, "not_held");
    assert_eq!((problem["resource"].as_str(), problem["retry"].as_str()), (Some("orders/7"), Some("no")));

    let shared = |holder: &str| object!({"holder": holder, "ttl": "10s", "resource": "orders/7", "mode": "shared"});
    let ann = grant(&app, shared("ann")).await;
    let bob = grant(&app, shared("bob")).await;
    let answer = json(&app, "POST", handover, ask).await;
    let revision: u64 = answer.header("lease-revision").parse().unwrap();
    assert_eq!(answer.expect(202), object!({"holders": 2}));

    let told = watched(&app, revision - 1, "handover_asked").await;
    assert_eq!(told["revision"], revision, "all are told in one revision");
    let fact =
        |event: &Value| (event["holder"].clone(), event["lease"].clone(), event["by"].clone(), event["reason"].clone());
    let asked: BTreeMap<String, Value> = told["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let (holder, lease, by, reason) = fact(event);
            assert_eq!((by, reason), (object!("zoe"), object!("deploy")));
            (holder.as_str().unwrap().to_owned(), lease)
        })
        .collect();
    let expected = [("ann".to_owned(), ann["digest"].clone()), ("bob".to_owned(), bob["digest"].clone())];
    assert_eq!(asked, BTreeMap::from(expected));

    let history = plain(&app, "GET", &format!("{NS}/resources/orders/7/history")).await.expect(200);
    let newest = &history["history"][0];
    assert_eq!((newest["what"].as_str(), newest["by"].as_str()), (Some("handover_asked"), Some("zoe")));
    assert_eq!(plain(&app, "GET", &format!("{NS}/leases/{}", id(&ann))).await.expect(200)["state"], "live");
}

#[tokio::test]
async fn an_ask_for_a_hand_over_that_makes_no_sense_is_refused() {
    let app = app().await;
    grant(&app, object!({"holder": "ann", "ttl": "10s", "resource": "a"})).await;
    let handover = &format!("{NS}/resources/a/handover");
    for (body, code, field) in [
        (object!({}), "invalid", "by"),
        (object!({"by": ""}), "invalid_name", "by"),
        (object!({"by": "a\nb"}), "invalid_name", "by"),
        (object!({"by": "bob", "reason": " "}), "invalid", "reason"),
        (object!({"by": "bob", "reason": "a\u{1b}b"}), "invalid", "reason"),
        (object!({"by": "bob", "reason": "x".repeat(1025)}), "invalid", "reason"),
        (object!({"by": "bob", "token": 1}), "invalid", "token"),
    ] {
        let problem = json(&app, "POST", handover, body.clone()).await.refused(422, code);
        assert!(problem["field"] == field || problem["detail"].as_str().unwrap().contains(field), "{body} {problem}");
    }
    plain(&app, "POST", handover).await.refused(415, "unsupported_media_type");
    let answer = plain(&app, "GET", handover).await;
    assert_eq!(answer.header("allow"), "POST");
    answer.refused(405, "method_not_allowed");
    let history = plain(&app, "GET", &format!("{NS}/resources/a/history")).await.expect(200);
    assert_eq!(history["history"].as_array().unwrap().len(), 1, "a refused ask is not remembered");
}

/// The first change after a revision that has an event of this kind.
async fn watched(app: &Router, since: u64, kind: &str) -> Value {
    let request = Request::builder().uri(format!("{NS}/watch?since={since}"));
    let mut body = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().into_body();
    let mut text = String::new();
    loop {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&frame).unwrap());
        let changes = text.split("\n\n").filter(|message| message.contains(kind));
        let data = changes.filter_map(|message| message.lines().find_map(|line| line.strip_prefix("data: "))).next();
        if let Some(change) = data.and_then(|data| serde_json::from_str(data).ok()) {
            return change;
        }
    }
}

#[tokio::test]
async fn entries_are_put_compared_read_and_removed() {
    let app = app().await;
    let path = format!("{NS}/entries/config/a");
    let put = async |condition: &str, tag: &str, value: &str| {
        let request = Request::builder().method("PUT").uri(&path).header(condition, tag);
        send(&app, request.body(Body::from(value.to_owned())).unwrap()).await
    };
    let first = put("if-none-match", "*", "one").await;
    let tag = first.header("etag").to_owned();
    assert_eq!(first.expect(200)["version"], 1);
    put("if-none-match", "*", "two").await.refused(412, "precondition_failed");
    assert_eq!(put("if-match", &tag, "two").await.expect(200)["version"], 2);
    let problem = put("if-match", &tag, "three").await.refused(412, "precondition_failed");
    let found = plain(&app, "GET", &path).await;
    assert_eq!(found.header("etag"), format!("\"{}\"", problem["current_revision"]));
    assert_eq!(found.expect(200)["value"], "two");

    let raw = Request::builder().uri(&path).header("accept", "application/octet-stream").body(Body::empty()).unwrap();
    assert_eq!(&send(&app, raw).await.body[..], b"two");
    json(&app, "PUT", &path, object!({"value_base64": "/wA="})).await.expect(200);
    assert_eq!(plain(&app, "GET", &path).await.expect(200)["value_base64"], "/wA=");
    json(&app, "PUT", &path, object!({"wrong": 1})).await.refused(422, "invalid");

    for n in 0..5 {
        text(&app, "PUT", &format!("{NS}/entries/list/{n}"), "text/plain", "x").await.expect(200);
    }
    let page = plain(&app, "GET", &format!("{NS}/entries?prefix=list/&limit=3")).await.expect(200);
    assert_eq!((page["count"].as_u64(), page["entries"].as_array().map(Vec::len)), (Some(5), Some(3)));
    let next = page["next"].as_str().unwrap();
    let page = plain(&app, "GET", &format!("{NS}/entries?prefix=list/&limit=3&page={next}")).await.expect(200);
    assert_eq!((page["entries"][0]["key"].as_str(), page.get("next")), (Some("list/3"), None));
    let range = plain(&app, "GET", &format!("{NS}/entries?from=list/1&to=list/3")).await.expect(200);
    assert_eq!(range["count"], 2);
    let deleted = plain(&app, "DELETE", &format!("{NS}/entries?prefix=list/")).await.expect(200);
    assert_eq!(deleted["deleted"], 5);
    plain(&app, "DELETE", &format!("{NS}/entries")).await.refused(422, "invalid");
    assert_eq!(plain(&app, "DELETE", &path).await.expect(200)["deleted"], 1);
    assert_eq!(plain(&app, "DELETE", &path).await.expect(200)["deleted"], 0);
    plain(&app, "GET", &path).await.refused(404, "not_found");
}

#[tokio::test]
async fn an_entry_bound_to_a_lease_goes_with_it() {
    let app = app().await;
    let lease = grant(&app, object!({"holder": "ann", "ttl": "10s"})).await;
    let path = format!("{NS}/entries/up/ann");
    text(&app, "PUT", &format!("{path}?lease={}", id(&lease)), "text/plain", "here").await.expect(200);
    assert_eq!(plain(&app, "GET", &path).await.expect(200)["lease"], lease["digest"]);
    plain(&app, "DELETE", &format!("{NS}/leases/{}", id(&lease))).await.expect(204);
    plain(&app, "GET", &path).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_transaction_goes_one_way_or_the_other() {
    let app = app().await;
    let body = object!({
        "compares": [{"key": "a", "version": 0}],
        "then": [{"put": {"key": "a", "value": "1"}}, {"put": {"key": "b", "value": "2"}}],
        "otherwise": [{"read": {"prefix": ""}}],
    });
    let answer = json(&app, "POST", &format!("{NS}/txn"), body.clone()).await.expect(200);
    assert_eq!(answer["succeeded"], true);
    let answer = json(&app, "POST", &format!("{NS}/txn"), body).await.expect(200);
    assert_eq!((&answer["succeeded"], &answer["results"][0]["read"]["count"]), (&object!(false), &object!(2)));
}

#[tokio::test]
async fn a_watch_tells_what_happened_since() {
    let app = app().await;
    let first = grant(&app, object!({"holder": "ann", "ttl": "10s", "resource": "jobs/1"})).await;
    let request = Request::builder().uri(format!("{NS}/watch?prefix=jobs/")).header("last-event-id", "0");
    let response = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(response.headers().contains_key("lease-revision"));
    let mut body = response.into_body();
    plain(&app, "DELETE", &format!("{NS}/leases/{}", id(&first))).await.expect(204);
    let mut text = String::new();
    while !text.contains("claim_ended") {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&frame).unwrap());
    }
    assert!(text.contains(&format!("id: {}\nevent: change\ndata: {{\"revision\":", first["token"])), "{text}");
    assert!(text.contains("\"type\":\"claim_granted\""), "{text}");
    plain(&app, "GET", &format!("{NS}/watch?since=x")).await.refused(422, "invalid");
}

#[tokio::test]
async fn the_server_tells_how_it_is_and_what_it_offers() {
    let app = app().await;
    assert_eq!(plain(&app, "GET", "/healthz").await.expect(200)["status"], "ok");
    assert_eq!(plain(&app, "GET", "/readyz").await.expect(200)["ready"], true);
    assert_eq!(plain(&app, "GET", "/v1/cluster").await.expect(200)["leads"], true);
    assert!(plain(&app, "GET", "/openapi.json").await.expect(200)["paths"].is_object());
}

#[tokio::test]
async fn whatever_cannot_be_read_gets_a_clear_refusal() {
    let app = app().await;
    let leases = &format!("{NS}/leases");
    plain(&app, "GET", "/v2/x").await.refused(404, "unknown_route");
    let answer = plain(&app, "PUT", leases).await;
    assert_eq!(answer.header("allow"), "POST,GET,HEAD");
    answer.refused(405, "method_not_allowed");
    text(&app, "POST", leases, "text/plain", "{}").await.refused(415, "unsupported_media_type");
    text(&app, "POST", leases, "application/json", "{\"holder\"").await.refused(400, "malformed");
    text(&app, "POST", leases, "application/json", &" ".repeat((2 << 20) + 1)).await.refused(413, "too_large");
    plain(&app, "GET", &format!("{NS}/leases/xyz")).await.refused(422, "invalid");
    plain(&app, "GET", &format!("{NS}/leases/~1a2b3c4d5e")).await.refused(422, "invalid");
    plain(&app, "GET", "/v1/ns/UPPER/leases").await.refused(422, "invalid_name");
    plain(&app, "GET", &format!("{NS}/resources/a%FF")).await.refused(400, "malformed");
    plain(&app, "GET", &format!("{NS}/resources/a%0Ab")).await.refused(422, "invalid_name");
    plain(&app, "GET", &format!("{NS}/leases?limit=0")).await.refused(422, "invalid");
    plain(&app, "GET", &format!("{NS}/leases?nope=1")).await.refused(422, "invalid");
    for (body, code) in [
        (object!({"holder": "ann"}), "invalid"),
        (object!({"ttl": "1s"}), "invalid"),
        (object!({"holder": "ann", "ttl": 0}), "invalid"),
        (object!({"holder": "ann", "ttl": -1}), "invalid"),
        (object!({"holder": "ann", "ttl": u64::MAX}), "invalid"),
        (object!({"holder": "ann", "ttl": "1ms"}), "ttl_out_of_bounds"),
        (object!({"holder": "ann", "ttl": "31d"}), "ttl_out_of_bounds"),
        (object!({"holder": "", "ttl": "1s"}), "invalid_name"),
        (object!({"holder": "ann", "ttl": "1s", "resource": "a/../b"}), "invalid_name"),
        (object!({"holder": "ann", "ttl": "1s", "resource": "x".repeat(513)}), "invalid_name"),
        (object!({"holder": "ann", "ttl": "1s", "pool": "gpus"}), "invalid"),
        (object!({"holder": "ann", "ttl": "1s", "colour": "red"}), "invalid"),
        (object!({"holder": "ann", "ttl": "1s", "resources": ["a", "a"]}), "invalid"),
    ] {
        json(&app, "POST", leases, body).await.refused(422, code);
    }
    json(&app, "POST", leases, object!({"holder": "ann", "ttl": "none"})).await.refused(403, "needs_right");
    let list = plain(&app, "GET", leases).await.expect(200);
    assert_eq!(list["leases"], object!([]), "a refused request changes nothing");
}

#[tokio::test]
async fn a_backup_is_a_file_with_a_beginning_and_an_end() {
    let app = app().await;
    grant(&app, object!({"holder": "ann", "ttl": "10s", "resource": "orders/7"})).await;
    let answer = plain(&app, "GET", "/v1/cluster/backup").await;
    assert_eq!(answer.status.as_u16(), 200);
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("lease-revision"), "1");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"leasehold-1.backup\"");
    assert!(answer.body.starts_with(b"LHBACK\r\n"));
    // The footer: no further block, the bytes of the blocks, how many they are, a checksum.
    let footer = &answer.body[answer.body.len() - 20..];
    assert_eq!((&footer[..4], &footer[12..16]), (&[0; 4][..], &1u32.to_le_bytes()[..]));
}
