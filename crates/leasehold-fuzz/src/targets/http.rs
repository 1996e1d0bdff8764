//! Whole requests against the HTTP API, several to a fresh service: every answer has a status of its own and, if it is a
//! refusal, says so as problem+json; none is the server's fault; none is waited for in vain.
//!
//! An input is text: requests with a line of method and path, headers, an empty line and the body, separated by a line
//! of equal signs. What no HTTP parser would pass on (a method with a space in it) is left out.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use leasehold_api::Problem;
use leasehold_http::{HttpOptions, router};
use tower::ServiceExt as _;

use crate::here::{block_on, service};

const SEPARATOR: &[u8] = b"\n====\n";
const REQUESTS_MAX: usize = 12;
/// How long an answer may take that nobody asked to wait for.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How much of a stream is read.
const STREAM_FOR: Duration = Duration::from_secs(3);

pub(crate) fn run(bytes: &[u8]) {
    statuses(bytes);
}

/// Sends all requests of an input; gives the statuses of the answers, 0 for one that is still waited for.
fn statuses(bytes: &[u8]) -> Vec<u16> {
    block_on(async {
        let mut statuses = Vec::new();
        let service = service().await;
        let app = router(service.clone(), HttpOptions { body_limit: 4096, ..HttpOptions::default() });
        for text in split(bytes).into_iter().take(REQUESTS_MAX) {
            if let Some(request) = request(text) {
                statuses.push(send(&app, request, text).await);
            }
        }
        service.stop().await;
        statuses
    })
}

fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = bytes.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + SEPARATOR.len()..];
    }
    parts.push(bytes);
    parts
}

fn request(text: &[u8]) -> Option<Request<Body>> {
    let head_end = text.windows(2).position(|window| window == b"\n\n");
    let (head, body) = head_end.map_or((text, &[][..]), |at| (&text[..at], &text[at + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let mut request = Request::builder().method(&first[..space]).uri(&first[space + 1..]);
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let value = line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..]);
        request = request.header(&line[..colon], value);
    }
    request.body(Body::from(body.to_vec())).ok()
}

async fn send(app: &Router, request: Request<Body>, text: &[u8]) -> u16 {
    let shown = String::from_utf8_lossy(text);
    // A wait and a watch may last; whoever asked for one goes away.
    let may_last = shown.contains("wait") || shown.contains("watch");
    let is_head = request.method() == http::Method::HEAD;
    let answered = async {
        let response = app.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(STREAM_FOR, body.collect()).await;
        let body = body.map(|body| body.map(|body| body.to_bytes()).unwrap_or_default()).unwrap_or_default();
        Response::from_parts(parts, body)
    };
    match tokio::time::timeout(ANSWER_WITHIN, answered).await {
        Ok(response) => {
            check(&response, is_head, &shown);
            response.status().as_u16()
        }
        Err(_) => {
            assert!(may_last, "no answer to:\n{shown}");
            0
        }
    }
}

fn check(response: &Response<bytes::Bytes>, is_head: bool, asked: &str) {
    let status = response.status();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let shown = String::from_utf8_lossy(response.body());
    assert!(header("lease-revision").parse::<u64>().is_ok(), "no lease-revision: {response:?}");
    assert!(header("lease-time").parse::<u64>().is_ok(), "no lease-time: {response:?}");
    if status.is_success() || status == http::StatusCode::NOT_MODIFIED {
        if header("content-type") == "application/json" && !is_head {
            serde_json::from_slice::<serde_json::Value>(response.body())
                .unwrap_or_else(|error| panic!("{error} in {shown} to:\n{asked}"));
        }
        return;
    }
    assert!(status.is_client_error(), "{status}, {shown}\nto:\n{asked}");
    assert_eq!(header("content-type"), "application/problem+json", "{status}, {shown}\nto:\n{asked}");
    if is_head {
        return;
    }
    let problem: Problem = serde_json::from_slice(response.body())
        .unwrap_or_else(|error| panic!("{error} in the problem {shown} to:\n{asked}"));
    assert_eq!(problem.status, status.as_u16(), "{shown}");
    assert!(problem.known_code().is_some() && !problem.detail.is_empty(), "{shown}");
}

pub(crate) const WORDS: &[&str] = &[
    "GET ",
    "POST ",
    "PUT ",
    "DELETE ",
    "HEAD ",
    "/v1/ns/a/",
    "leases",
    "renew",
    "revoke",
    "claims",
    "resources",
    "entries",
    "txn",
    "watch",
    "queue",
    "history",
    "check",
    "handover",
    "?wait=1s",
    "&limit=1",
    "?since=0",
    "?prefix=",
    "?page=",
    "?holder=",
    "?consistency=stale",
    "?token=",
    "?lease=",
    "0000000000000001",
    "if-match: \"1\"\n",
    "if-none-match: *\n",
    "content-type: application/json\n",
    "last-event-id: 0\n",
    "\n====\n",
    "%2F",
    "%00",
    "%FF",
    "null",
    "true",
    "-1",
    "1e99",
    "18446744073709551615",
    "18446744073709551616",
    "\"\"",
    "[]",
    "{}",
    "\"none\"",
    "\"forever\"",
    "\"holder\":",
    "\"ttl\":",
    "\"resources\":",
    "\"mode\":\"shared\"",
    "\"wait\":",
    "\"parent\":",
    "\"seq\":1",
    "\"acked\":",
    "\"metadata\":{}",
    "\"priority\":",
    "\"cooldown\":",
    "\"key\":",
    "\"value\":",
];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let json = "content-type: application/json\n\n";
    let grant = format!(
        "POST /v1/ns/a/leases\n{json}{{\"id\":\"0000000000000001\",\"holder\":\"ann\",\"ttl\":\"10s\",\"resources\":[\"orders/7\"]}}"
    );
    let wait = format!(
        "POST /v1/ns/a/leases?wait=5s\n{json}{{\"id\":\"0000000000000002\",\"holder\":\"bob\",\"ttl\":\"1s\",\
         \"resources\":[\"orders/7\",\"b\"],\"mode\":\"shared\",\"priority\":1,\"metadata\":{{\"reason\":\"x\"}},\"cooldown\":\"2s\"}}"
    );
    let txn = "{\"compares\":[{\"key\":\"k\",\"is\":\"equal\",\"version\":1}],\"then\":[{\"put\":{\"key\":\"k\",\"value\":\"v\"}},\
               {\"delete\":{\"prefix\":\"k\"}},{\"read\":{\"key\":\"k\"}}],\"otherwise\":[]}";
    let lease = "/v1/ns/a/leases/0000000000000001";
    let groups: [Vec<String>; 6] = [
        vec![
            grant.clone(),
            format!("GET {lease}"),
            format!("POST {lease}/renew\n{json}{{\"ttl\":\"20s\"}}"),
            format!("POST /v1/ns/a/leases/renew\n{json}{{\"leases\":[\"0000000000000001\",\"0000000000000003\"]}}"),
            format!("DELETE {lease}"),
            format!("GET {lease}"),
        ],
        vec![
            grant.clone(),
            wait,
            "GET /v1/ns/a/resources/orders/7/queue".to_owned(),
            "GET /v1/ns/a/resources/orders/7/history".to_owned(),
            format!("POST /v1/ns/a/resources/orders/7/check\n{json}{{\"token\":1}}"),
            format!("POST /v1/ns/a/resources/orders/7/handover\n{json}{{\"by\":\"zoe\",\"reason\":\"please\"}}"),
            format!("POST {lease}/revoke\n{json}{{\"reason\":\"gone\",\"now\":true}}"),
        ],
        vec![
            grant.clone(),
            format!("POST {lease}/claims?wait=1s\n{json}{{\"resources\":[\"b\"],\"seq\":1,\"acked\":0}}"),
            format!("DELETE {lease}/claims/b?token=2&seq=2"),
            "GET /v1/ns/a/resources?prefix=o&limit=1".to_owned(),
            "GET /v1/ns/a/leases?holder=ann&limit=10".to_owned(),
        ],
        vec![
            grant.clone(),
            "PUT /v1/ns/a/entries/k?lease=0000000000000001\nif-none-match: *\n\nvalue".to_owned(),
            "PUT /v1/ns/a/entries/k/2\nif-match: \"1\"\n\nvalue".to_owned(),
            "GET /v1/ns/a/entries?prefix=k&limit=1".to_owned(),
            "GET /v1/ns/a/entries/k\nif-none-match: \"1\"\n".to_owned(),
            "DELETE /v1/ns/a/entries/k".to_owned(),
            "DELETE /v1/ns/a/entries?prefix=k".to_owned(),
        ],
        vec![
            format!("POST /v1/ns/a/txn\n{json}{txn}"),
            grant,
            "GET /v1/ns/a/watch?since=0&prefix=o\naccept: text/event-stream\n".to_owned(),
            "GET /v1/ns/a/watch\nlast-event-id: 1\n".to_owned(),
        ],
        vec![
            "GET /v1/cluster".to_owned(),
            "GET /v1/cluster/backup".to_owned(),
            format!("POST /v1/cluster/members\n{json}{{\"name\":\"n2\",\"address\":\"h:1\"}}"),
            "DELETE /v1/cluster/members/2".to_owned(),
            format!("POST /v1/cluster/transfer\n{json}{{}}"),
            "GET /healthz".to_owned(),
            "GET /readyz".to_owned(),
            "GET /openapi.json".to_owned(),
            "POST /leasehold.v1.Leases/Grant\ncontent-type: text/plain\n".to_owned(),
        ],
    ];
    let mut seeds: Vec<Vec<u8>> = groups.iter().map(|group| group.join("\n====\n").into_bytes()).collect();
    seeds.extend(groups.into_iter().flatten().map(String::into_bytes));
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs that are refused at once lead nowhere.
    #[test]
    fn the_seeds_are_requests_that_are_served() {
        let served: Vec<Vec<u16>> = seeds().iter().take(6).map(|seed| statuses(seed)).collect();
        let expected: [&[u16]; 6] = [
            &[201, 200, 200, 200, 204, 410],
            &[201, 408, 200, 200, 200, 202, 204],
            &[201, 201, 204, 200, 200],
            &[201, 200, 412, 200, 200, 200, 200],
            &[200, 201, 200, 200],
            &[200, 200, 409, 404, 409, 200, 200, 200, 404],
        ];
        assert_eq!(served, expected);
    }
}
