//! Bad input: each gets a clear refusal with a stable code, and nothing changes.

use std::thread;

use serde_json::{Value, json};

use crate::clients::{ENTRIES, LEASES, RESOURCES, grant};
use crate::http::{Answer, Client};
use crate::server::Server;

/// A request and how it must be refused.
struct Case {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
}

const JSON: &str = "application/json";

fn case(method: &'static str, path: &str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Case {
    let headers = vec![("content-type", JSON.to_owned())];
    Case { method, path: path.to_owned(), headers, body: body.into(), status, code }
}

fn post(path: &str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Case {
    case("POST", path, body, status, code)
}

fn get(path: &str, status: u16, code: &'static str) -> Case {
    case("GET", path, "", status, code)
}

impl Case {
    fn with(mut self, name: &'static str, value: &str) -> Case {
        self.headers.retain(|(given, _)| *given != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn try_on(&self, client: &mut Client) -> Answer {
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = client.send(self.method, &self.path, &headers, &self.body);
        answer.unwrap_or_else(|error| panic!("{}: {error}", self.shown()))
    }

    fn shown(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(120).collect();
        let path: String = self.path.chars().take(120).collect();
        format!("{} {path} {body}", self.method)
    }
}

/// Refuses every case, each with a problem that people and programs can read, and with the revision as it was.
fn all_are_refused(cases: &[Case]) {
    let server = Server::start();
    let mut client = server.client();
    client
        .post(LEASES, &json!({ "id": "0000000000000001", "holder": "ann", "ttl": "1h", "resource": "a" }))
        .expect(201);
    let before = client.get("/v1/cluster").expect(200).revision();
    for case in cases {
        let answer = case.try_on(&mut client);
        let shown = case.shown();
        assert_eq!((answer.status, answer.code()), (case.status, case.code), "{shown}: {}", answer.text);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{shown}");
        assert_eq!(answer.json["status"], case.status, "{shown}: {}", answer.text);
        for field in ["title", "detail", "type"] {
            assert!(answer.json[field].as_str().is_some_and(|text| !text.is_empty()), "{shown}: no {field}");
        }
        assert!(
            !answer.text.contains("0000000000000001") || shown.contains("0000000000000001"),
            "{shown}: an id is shown"
        );
        assert_eq!(answer.revision(), before, "{shown} changed something");
    }
    assert_eq!(client.get("/v1/cluster").expect(200).revision(), before);
    client.post(LEASES, &grant("bob", 10_000, "b")).expect(201);
}

#[test]
fn a_ttl_that_makes_no_sense_is_refused() {
    let with = |ttl: &str, status, code| post(LEASES, format!(r#"{{"holder":"x","ttl":{ttl}}}"#), status, code);
    let mut cases = vec![post(LEASES, r#"{"holder":"x"}"#, 422, "invalid")];
    for ttl in ["0", "-1", "\"0s\"", "\"-5s\"", "\"\"", "\"10\"", "\"ten\"", "1.5", "[]", "{}", "true", "\"5 parsecs\""]
    {
        cases.push(with(ttl, 422, "invalid"));
    }
    for ttl in ["18446744073709551615", "99999999999999999999", "\"99999999999999999999d\"", "-9223372036854775809"] {
        cases.push(with(ttl, 422, "invalid"));
    }
    cases.push(with("1", 422, "ttl_out_of_bounds"));
    cases.push(with("\"99ms\"", 422, "ttl_out_of_bounds"));
    cases.push(with("\"31d\"", 422, "ttl_out_of_bounds"));
    cases.push(with("\"none\"", 403, "needs_right"));
    let renew = format!("{LEASES}/0000000000000001/renew");
    cases.push(post(&renew, r#"{"ttl":0}"#, 422, "invalid"));
    cases.push(post(&renew, r#"{"ttl":"1ms"}"#, 422, "ttl_out_of_bounds"));
    cases.push(post(&renew, r#"{"ttl":"31d"}"#, 422, "ttl_out_of_bounds"));
    for wait in ["-1s", "10", "x", "99999999999999999999d", ""] {
        cases.push(post(&format!("{LEASES}?wait={wait}"), r#"{"holder":"x","ttl":"1s"}"#, 422, "invalid"));
    }
    let cooldown = r#"{"holder":"x","ttl":"1s","resource":"c","cooldown":"2d"}"#;
    cases.push(post(LEASES, cooldown, 422, "cooldown_too_long"));
    all_are_refused(&cases);
}

#[test]
fn a_name_that_is_none_is_refused() {
    let mut cases = Vec::new();
    let names = ["", "/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a\u{0}b", "a\nb", "a\u{7f}", "a\u{85}b"];
    let long = "x".repeat(513);
    for name in names.into_iter().chain([long.as_str()]) {
        cases.push(post(
            LEASES,
            json!({ "holder": "x", "ttl": "1s", "resource": name }).to_string(),
            422,
            "invalid_name",
        ));
        let among = json!({ "holder": "x", "ttl": "1s", "resources": ["good", name] });
        cases.push(post(LEASES, among.to_string(), 422, "invalid_name"));
        let claim = format!("{LEASES}/0000000000000001/claims");
        cases.push(post(&claim, json!({ "resource": name }).to_string(), 422, "invalid_name"));
    }
    let holder = "h".repeat(257);
    for name in ["", "a\tb", holder.as_str()] {
        cases.push(post(LEASES, json!({ "holder": name, "ttl": "1s" }).to_string(), 422, "invalid_name"));
    }
    for name in ["a/../b", "..", "a//b", "a%00b", "a%0Ab", "%2Fa", "a/%2E%2E/b", &"x".repeat(513)] {
        cases.push(get(&format!("{RESOURCES}/{name}"), 422, "invalid_name"));
        cases.push(post(&format!("{RESOURCES}/{name}/check"), r#"{"token":1}"#, 422, "invalid_name"));
    }
    for ns in ["Shop", "a%20b", "%2E%2E", ".hidden", &"n".repeat(65), "a%2Fb"] {
        cases.push(post(&format!("/v1/ns/{ns}/leases"), r#"{"holder":"x","ttl":"1s"}"#, 422, "invalid_name"));
    }
    for path in [format!("{RESOURCES}/a%FFb"), format!("{ENTRIES}/%C3%28"), format!("{LEASES}?wait=%FF")] {
        let method = if path.contains("wait") { "POST" } else { "GET" };
        cases.push(case(method, &path, "", 400, "malformed"));
    }
    cases.push(
        case("PUT", &format!("{ENTRIES}/{}", "k".repeat(1025)), "v", 422, "invalid_name")
            .with("content-type", "text/plain"),
    );
    for id in ["xyz", "1", "0000000000000000", "f000000000000000", "~1a2b3c4d5e", "00000000000000001"] {
        cases.push(get(&format!("{LEASES}/{id}"), 422, "invalid"));
        cases.push(case("DELETE", &format!("{LEASES}/{id}"), "", 422, "invalid"));
        cases.push(post(LEASES, json!({ "id": id, "holder": "x", "ttl": "1s" }).to_string(), 422, "invalid"));
    }
    all_are_refused(&cases);
}

#[test]
fn fields_that_are_unknown_or_of_another_type_are_refused() {
    let mut cases = Vec::new();
    for body in [
        r#"{"holder":"x","ttl":"1s","resorce":"a"}"#,
        r#"{"holder":7,"ttl":"1s"}"#,
        r#"{"ttl":"1s"}"#,
        r#"{"holder":null,"ttl":"1s"}"#,
        r#"{"holder":"x","ttl":"1s","resources":"a"}"#,
        r#"{"holder":"x","ttl":"1s","resources":[1]}"#,
        r#"{"holder":"x","ttl":"1s","resource":"a","resources":["b"]}"#,
        r#"{"holder":"x","ttl":"1s","resources":["b","b"]}"#,
        r#"{"holder":"x","ttl":"1s","mode":"both","resource":"a"}"#,
        r#"{"holder":"x","ttl":"1s","priority":"high"}"#,
        r#"{"holder":"x","ttl":"1s","priority":99999999999}"#,
        r#"{"holder":"x","ttl":"1s","priority":1.5}"#,
        r#"{"holder":"x","ttl":"1s","metadata":[]}"#,
        r#"{"holder":"x","ttl":"1s","metadata":{"a":1}}"#,
        r#"{"holder":"x","ttl":"1s","metadata":{"":"y"}}"#,
        r#"{"holder":"x","ttl":"1s","class":"king"}"#,
        r#"{"holder":"x","ttl":"1s","parent":"nobody"}"#,
        r#"{"holder":"x","ttl":"1s","pool":"gpus","slots":2}"#,
        r#"{"holder":"x","holder":"y","ttl":"1s"}"#,
        r#"{"holder":"x","ttl":"1s","seen":-1}"#,
        "[]",
        "7",
        "null",
        "\"x\"",
    ] {
        cases.push(post(LEASES, body, 422, "invalid"));
    }
    let (one, claims) = (format!("{LEASES}/0000000000000001"), format!("{LEASES}/0000000000000001/claims"));
    cases.push(post(&claims, "{}", 422, "invalid"));
    cases.push(post(&claims, r#"{"resource":"z","seq":0}"#, 422, "invalid"));
    cases.push(post(&claims, r#"{"resource":"z","seq":-1}"#, 422, "invalid"));
    cases.push(post(&claims, r#"{"resource":"z","acked":1}"#, 422, "invalid"));
    cases.push(case("DELETE", &format!("{claims}/a"), "", 422, "invalid"));
    cases.push(case("DELETE", &format!("{claims}/a?token=x"), "", 422, "invalid"));
    cases.push(case("DELETE", &format!("{claims}/a?token=999"), "", 409, "stale_token"));
    cases.push(post(&format!("{one}/revoke"), "{}", 422, "invalid"));
    cases.push(post(&format!("{one}/revoke"), r#"{"reason":" "}"#, 422, "invalid"));
    cases.push(post(&format!("{LEASES}/renew"), r#"{"leases":[]}"#, 422, "invalid"));
    cases.push(post(&format!("{LEASES}/renew"), r#"{"leases":"all"}"#, 422, "invalid"));
    cases.push(post(&format!("{RESOURCES}/a/check"), r#"{"token":-1}"#, 422, "invalid"));
    cases.push(post(&format!("{RESOURCES}/a/check"), r#"{"token":999}"#, 409, "stale_token"));
    cases.push(post(LEASES, r#"{"id":"0000000000000001","holder":"eve","ttl":"1s"}"#, 409, "id_in_use"));
    cases.push(post(LEASES, r#"{"holder":"x","ttl":"1s","parent":"0000000000000099"}"#, 404, "unknown_lease"));
    for query in ["limit=0", "limit=1001", "limit=x", "limit=-1", "page=x", "nothing=1", "consistency=maybe"] {
        cases.push(get(&format!("{LEASES}?{query}"), 422, "invalid"));
        cases.push(get(&format!("{ENTRIES}?{query}"), 422, "invalid"));
    }
    for (query, condition) in
        [("seq=1", ""), ("session=0000000000000001", ""), ("acked=1", ""), ("lease=x", ""), ("", "12")]
    {
        let put = case("PUT", &format!("{ENTRIES}/k?{query}"), "v", 422, "invalid").with("content-type", "text/plain");
        cases.push(if condition.is_empty() { put } else { put.with("if-match", condition) });
    }
    let put =
        || case("PUT", &format!("{ENTRIES}/k"), "v", 412, "precondition_failed").with("content-type", "text/plain");
    cases.push(put().with("if-match", "*"));
    cases.push(put().with("if-match", "\"12\""));
    cases.push(case("DELETE", ENTRIES, "", 422, "invalid"));
    for body in [r#"{"then":[{"put":{"value":"x"}}]}"#, r#"{"compares":[{"key":"a"}]}"#, r#"{"then":[{"burn":{}}]}"#] {
        cases.push(post("/v1/ns/default/txn", body, 422, "invalid"));
    }
    all_are_refused(&cases);
}

#[test]
fn bodies_that_are_no_json_too_large_or_of_another_kind_are_refused() {
    let mut cases = Vec::new();
    for body in
        ["", "{", "{\"holder\":\"x\"", "not json", "{\"holder\":\"x\",}", "{\"holder\":\"a\u{0}\"}", "\u{feff}{}"]
    {
        cases.push(post(LEASES, body, 400, "malformed"));
    }
    cases.push(post(LEASES, b"{\"holder\":\"\xff\",\"ttl\":\"1s\"}".to_vec(), 400, "malformed"));
    cases.push(post(LEASES, r#"{"holder":"x","ttl":1e400}"#, 400, "malformed"));
    cases.push(post(LEASES, format!(r#"{{"holder":"x","ttl":"1s","metadata":{}"#, "[".repeat(50_000)), 422, "invalid"));
    cases.push(post(LEASES, format!(r#"{{"holder":"x","pool":{}"#, "[".repeat(50_000)), 400, "malformed"));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        let body = r#"{"holder":"x","ttl":"1s"}"#;
        cases.push(post(LEASES, body, 415, "unsupported_media_type").with("content-type", kind));
    }
    let value = vec![b'v'; (1 << 20) + 1];
    cases.push(case("PUT", &format!("{ENTRIES}/k"), value, 413, "too_large").with("content-type", "text/plain"));
    let metadata: serde_json::Map<String, Value> = (0..17).map(|n| (format!("k{n}"), json!("v"))).collect();
    let pairs = json!({ "holder": "x", "ttl": "1s", "metadata": metadata });
    cases.push(post(LEASES, pairs.to_string(), 413, "too_large"));
    let text = json!({ "holder": "x", "ttl": "1s", "reason": "r".repeat(5000) });
    cases.push(post(LEASES, text.to_string(), 413, "too_large"));
    let many: Vec<String> = (1..=4097).map(|n| format!("{n:016x}")).collect();
    cases.push(post(&format!("{LEASES}/renew"), json!({ "leases": many }).to_string(), 413, "too_large"));
    let resources: Vec<String> = (0..8193).map(|n| format!("r/{n}")).collect();
    let claims = json!({ "holder": "x", "ttl": "1s", "resources": resources });
    cases.push(post(LEASES, claims.to_string(), 429, "limit_reached"));
    cases.push(get("/v1/nothing", 404, "unknown_route"));
    cases.push(get("/", 404, "unknown_route"));
    cases.push(case("PATCH", LEASES, "", 405, "method_not_allowed"));
    cases.push(case("POST", &format!("{RESOURCES}/a"), "{}", 405, "method_not_allowed"));
    all_are_refused(&cases);
}

#[test]
fn leases_beyond_the_limit_of_a_caller_are_refused_however_many() {
    const CALLERS: usize = 8;
    let server = Server::configured("[limits]\nleases_per_identity = 50\n");
    let mut client = server.client();
    for number in 0..50 {
        client.post(LEASES, &grant(&format!("h{number}"), 600_000, &format!("r/{number}"))).expect(201);
    }
    let before = client.get("/v1/cluster").revision();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let mut client = server.client();
            thread::spawn(move || {
                for _ in 0..10_000 / CALLERS {
                    let answer = client.post(LEASES, &json!({ "holder": "x", "ttl": "10s" }));
                    let answer = answer.refused(429, "limit_reached");
                    assert_eq!(answer.json["limit"]["max"], 50, "{}", answer.text);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    assert_eq!(client.get("/v1/cluster").revision(), before, "nothing changed");
    assert_eq!(client.get(&format!("{LEASES}?limit=100")).json["leases"].as_array().unwrap().len(), 50);
}
