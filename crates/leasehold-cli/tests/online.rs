//! The real binary against a server that follows a script.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../leasehold-client/tests/fake/mod.rs"]
mod fake;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

use fake::{Fake, Reaction};
use leasehold_api::{Code, Problem};
use serde_json::{Value, json};

const ID: &str = "0000000000000007";

fn command(fake: &Fake, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
    command.env_clear().env("LEASE_ADDR", fake.addr()).env("LEASE_HOLDER", "ann").args(args);
    command
}

fn lease(fake: &Fake, args: &[&str]) -> Output {
    command(fake, args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn answer(status: u16, body: Value) -> Reaction {
    Reaction::Answer(status, body.to_string())
}

fn refusal(code: Code) -> Reaction {
    answer(code.status(), serde_json::to_value(Problem::new(code, "because")).unwrap())
}

fn granted(ttl: &str) -> Reaction {
    answer(
        201,
        json!({
            "id": ID, "digest": "~0102030405", "state": "live", "holder": "ann", "token": 12, "ttl": ttl,
            "remaining": ttl, "class": "lock", "granted": "2026-11-03T19:02:11.250Z", "age": "0ms",
            "renewed_ago": "0ms", "changed": 12, "entries": 0, "children": 0, "waits": [],
            "held": [{"resource": "a", "mode": "exclusive", "token": 12, "held_for": "0ms", "waited": "0ms"}],
        }),
    )
}

fn renewed(ttl: &str) -> Reaction {
    answer(200, json!({"remaining": ttl, "ttl": ttl, "changed": 12}))
}

fn released() -> Reaction {
    Reaction::Answer(204, String::new())
}

fn golden(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(format!("tests/golden/{name}")).unwrap()).unwrap()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Waits until the server was asked `count` times.
fn asked(fake: &Fake, count: usize) {
    while fake.seen().len() < count {
        std::thread::yield_now();
    }
}

#[test]
fn acquire_prints_token_and_id_and_asks_for_what_was_typed() {
    let fake = Fake::start(vec![granted("10s")]);
    let output = lease(
        &fake,
        &["acquire", "a", "--wait", "5s", "--id", ID, "--reason", "why", "--priority", "-3", "--mode", "shared"],
    );
    assert_eq!(stdout(&output), format!("acquired a  token=12  ttl=10s  id={ID}\n"));
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
    let seen = &fake.seen()[0];
    assert_eq!(seen.line.split("?wait=").next(), Some("POST /v1/ns/default/leases"));
    let body = json!({
        "id": ID, "holder": "ann", "ttl": "10s", "resources": ["a"], "mode": "shared", "reason": "why", "priority": -3
    });
    assert_eq!(seen.json(), body);
}

#[test]
fn acquire_shows_the_id_alone_or_the_whole_answer() {
    let fake = Fake::start(vec![granted("10s"), granted("10s")]);
    assert_eq!(stdout(&lease(&fake, &["acquire", "a", "--id", ID, "-o", "name"])), format!("{ID}\n"));
    let output = lease(&fake, &["acquire", "a", "--class", "session", "-o", "json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&found["token"], &found["held"][0]["resource"]), (&json!(12), &json!("a")));
    assert_eq!(fake.seen()[1].json()["class"], "session");
    assert_eq!(fake.seen()[1].json().get("ttl"), None);
}

#[test]
fn not_acquired_names_the_holder_and_ends_with_75_or_as_asked() {
    let held = || answer(408, golden("wait_elapsed.json"));
    let fake = Fake::start(vec![held(), held()]);
    let output = lease(&fake, &["acquire", "nightly", "--wait", "5s"]);
    let text = "lease: not acquired: nightly is held by bob@box2/990 (token 5, for 00:41, ends in 9s unless renewed)\n  \
                you were 1st in the queue; try  --wait 5m  or  lease request-handover nightly\n";
    assert_eq!((stderr(&output).as_str(), output.status.code()), (text, Some(75)));
    assert_eq!(lease(&fake, &["acquire", "nightly", "--wait", "0", "-E", "9"]).status.code(), Some(9));
    assert_eq!(fake.seen()[1].line, "POST /v1/ns/default/leases");
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_id() {
    let fake = Fake::start(vec![Reaction::Drop, granted("10s")]);
    let output = lease(&fake, &["acquire", "a", "-o", "name"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let ids: Vec<Value> = fake.seen().iter().map(|seen| seen.json()["id"].clone()).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(stdout(&output).trim_end(), ids[0]);
}

#[test]
fn refusals_end_with_the_exit_code_of_the_table() {
    for code in [Code::StaleToken, Code::NotFound, Code::Denied, Code::Internal, Code::Overloaded] {
        let fake = Fake::start(vec![refusal(code)]);
        let output = lease(&fake, &["check", "a", "3"]);
        assert_eq!(output.status.code(), Some(i32::from(code.exit())), "{code}");
        assert!(stderr(&output).starts_with("error: because"), "{}", stderr(&output));
    }
}

#[test]
fn a_server_without_a_leader_is_asked_again_but_not_for_ever() {
    let fake = Fake::start(vec![refusal(Code::NoQuorum), answer(200, serde_json::json!({"token": 3}))]);
    let output = lease(&fake, &["check", "a", "3", "-o", "json"]);
    assert_eq!(fake.seen().len(), 2, "{}", stderr(&output));
    let fake = Fake::start((0..100).map(|_| refusal(Code::NoQuorum)).collect());
    let begun = std::time::Instant::now();
    let output = lease(&fake, &["check", "a", "3"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).starts_with("error: because"), "{}", stderr(&output));
    assert!((5..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[test]
fn a_stranger_at_the_address_is_told() {
    let fake = Fake::start(vec![Reaction::Answer(200, "<html>".into())]);
    let output = lease(&fake, &["ls"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("does not answer like a lease server"), "{}", stderr(&output));
}

#[test]
fn ctrl_c_while_waiting_leaves_the_queue() {
    let fake = Fake::start(vec![Reaction::Hang, released()]);
    let child = command(&fake, &["acquire", "a", "--id", ID]).stderr(Stdio::piped()).spawn().unwrap();
    asked(&fake, 1);
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(stderr(&output), "lease: left the queue for a\n");
    assert_eq!(fake.seen()[1].line, format!("DELETE /v1/ns/default/leases/{ID}"));
}

#[test]
fn hold_renews_until_it_is_told_to_stop_and_then_releases() {
    let fake = Fake::start(vec![granted("3s"), renewed("3s"), renewed("60s"), released()]);
    let child = command(&fake, &["acquire", "a", "--hold", "--id", ID]);
    let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    asked(&fake, 3);
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("lease: released a\n", Some(0)));
    assert!(stdout(&output).starts_with("acquired a  token=12"), "{}", stdout(&output));
    assert_eq!(fake.seen()[2].line, format!("POST /v1/ns/default/leases/{ID}/renew"));
    assert_eq!(fake.seen()[3].line, format!("DELETE /v1/ns/default/leases/{ID}"));
}

#[test]
fn a_lease_that_ended_under_hold_is_79() {
    let fake = Fake::start(vec![granted("3s"), refusal(Code::LeaseEnded)]);
    let output = lease(&fake, &["acquire", "a", "--hold", "--id", ID]);
    assert_eq!(output.status.code(), Some(79));
    assert!(stderr(&output).starts_with("error: lost a: because\n"), "{}", stderr(&output));
}

#[test]
fn a_lease_that_cannot_be_renewed_in_time_is_79() {
    let fake = Fake::start(vec![granted("3s"), Reaction::Hang, Reaction::Hang]);
    let output = lease(&fake, &["acquire", "a", "--hold", "--id", ID]);
    assert_eq!(output.status.code(), Some(79));
    assert!(stderr(&output).contains("could not be renewed in time"), "{}", stderr(&output));
}

#[test]
fn renewing_many_tells_each_and_ends_with_the_first_refusal() {
    let other = "0000000000000008";
    let problem = serde_json::to_value(Problem::new(Code::UnknownLease, "because")).unwrap();
    let results = json!({"results": [
        {"id": ID, "renewed": {"remaining": "9900ms", "ttl": "10s", "changed": 1}}, {"id": other, "problem": problem},
    ]});
    let fake = Fake::start(vec![answer(200, results)]);
    let output = lease(&fake, &["renew", ID, other, "--ttl", "10s"]);
    assert_eq!(stdout(&output), format!("renewed {ID}  ttl=10s  ends in 9.9s\n"));
    assert_eq!((stderr(&output), output.status.code()), (format!("{other}: error: because\n"), Some(66)));
    assert_eq!(fake.seen()[0].json(), json!({"leases": [ID, other], "ttl": "10s"}));
}

#[test]
fn release_prints_what_was_released() {
    let fake = Fake::start(vec![released()]);
    assert_eq!(stdout(&lease(&fake, &["release", ID])), format!("released {ID}\n"));
}

#[test]
fn describe_and_ls_show_what_the_server_says() {
    let sample = golden("describe_held.json");
    let parts = ["resource", "queue", "history"].map(|part| answer(200, sample[part].clone()));
    let fake = Fake::start(parts.to_vec());
    let text = stdout(&lease(&fake, &["describe", "orders/7"]));
    assert!(text.contains("since 00:07   ends in 8.1s unless renewed (renewed 1.9s ago)"), "{text}");
    assert_eq!(fake.seen()[1].line, "GET /v1/ns/default/resources/orders%2F7/queue");

    let mut first = golden("ls.json");
    first["next"] = json!("p 2");
    let fake = Fake::start(vec![answer(200, first), answer(200, json!({"resources": []}))]);
    let output = lease(&fake, &["ls", "-o", "name", "-n", "shop"]);
    assert_eq!(stdout(&output), "nightly\norders/größe\nresting\n", "what is free is not listed");
    assert_eq!(fake.seen()[1].line, "GET /v1/ns/shop/resources?page=p%202");

    let fake = Fake::start(vec![answer(200, golden("ls.json"))]);
    let output = lease(&fake, &["ls", "--expiring", "10s", "-o", "jsonl"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["name"], "nightly");
}

#[test]
fn ls_waiting_reads_the_queues() {
    let fake = Fake::start(vec![answer(200, golden("ls.json")), answer(200, golden("ls_waiting.json"))]);
    let text = stdout(&lease(&fake, &["ls", "--waiting"]));
    assert_eq!(text.lines().count(), 3, "{text}");
    assert_eq!(fake.seen()[1].line, "GET /v1/ns/default/resources/nightly/queue");

    let fake = Fake::start(vec![answer(200, golden("ls.json")), answer(200, golden("ls_waiting.json"))]);
    let output = command(&fake, &["ls", "--waiting", "--mine"]).env("LEASE_HOLDER", "dora@box4/22").output().unwrap();
    assert_eq!(stdout(&output).lines().count(), 2, "{}", stdout(&output));
    assert_eq!(stderr(&output), "lease: 1 more wait for nightly; the first ones are shown\n");

    let fake = Fake::start(vec![answer(200, golden("ls.json")), refusal(Code::NotFound)]);
    let output = lease(&fake, &["ls", "--waiting", "-o", "json"]);
    assert_eq!(
        (stdout(&output).replace([' ', '\n'], "").as_str(), output.status.code()),
        (r#"{"waiting":[]}"#, Some(0))
    );
}

#[test]
fn history_is_a_table_or_the_documents_of_the_api() {
    let past = || answer(200, golden("history.json"));
    let fake = Fake::start(vec![past(), past(), past(), refusal(Code::NotFound)]);
    let text = stdout(&lease(&fake, &["history", "orders/7"]));
    assert!(text.starts_with("WHEN ") && text.contains("revoked         1      eve@box9/3"), "{text}");
    let lines = stdout(&lease(&fake, &["history", "orders/7", "-o", "jsonl"]));
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &first["token"]), (4, &json!(5)));
    assert_eq!(stdout(&lease(&fake, &["history", "orders/7", "-o", "name"])).lines().last(), Some("eve@box9/3"));
    assert_eq!(lease(&fake, &["history", "orders/7"]).status.code(), Some(66));
    assert_eq!(fake.seen()[0].line, "GET /v1/ns/default/resources/orders%2F7/history");
}

/// A resource with so many holders, the first of them with the lease ~1a2b3c4d50.
fn held_by(count: usize) -> Reaction {
    let mut resource = golden("describe_held.json")["resource"].clone();
    let holder = resource["holders"][0].clone();
    resource["holders"] = (0..count)
        .map(|index| {
            let mut holder = holder.clone();
            holder["lease"] = json!(format!("~1a2b3c4d5{index}"));
            holder
        })
        .collect();
    resource["holder_count"] = json!(count);
    answer(200, resource)
}

#[test]
fn revoke_takes_the_holder_by_its_digest_and_says_how_long_it_may_act() {
    let fake = Fake::start(vec![held_by(1), Reaction::Header("lease-may-act", "8100ms")]);
    let output = lease(&fake, &["revoke", "nightly", "--reason", "stuck"]);
    let text = "revoked nightly  token=5  holder=bob@box2/990\n  \
                its holder may still act for 8.1s; it rests until then\n";
    assert_eq!((stdout(&output).as_str(), output.status.code()), (text, Some(0)), "{}", stderr(&output));
    assert_eq!(fake.seen()[1].line, "POST /v1/ns/default/leases/~1a2b3c4d50/revoke");
    assert_eq!(fake.seen()[1].json(), json!({"reason": "stuck", "now": false, "resource": "nightly"}));
}

#[test]
fn revoke_of_several_holders_must_say_which() {
    let fake = Fake::start(vec![held_by(2)]);
    let output = lease(&fake, &["revoke", "nightly", "--reason", "stuck"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.starts_with("error: nightly has 2 holders; say which one, or --all\n"), "{text}");
    assert!(text.contains("  --lease ~1a2b3c4d51  bob@box2/990  token 5\n"), "{text}");

    let took = || Reaction::Header("lease-may-act", "1s");
    let fake = Fake::start(vec![held_by(2), took(), held_by(2), took(), took()]);
    let args = ["revoke", "nightly", "--reason", "stuck", "--now", "-o", "jsonl"];
    let output = lease(&fake, &[&args[..], &["--lease", "1a2b3c4d51"]].concat());
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&found["may_act"], &found["now"], &found["token"]), (&json!("1s"), &json!(true), &json!(5)));
    let output = lease(&fake, &[&args[..], &["--all"]].concat());
    assert_eq!(stdout(&output).lines().count(), 2, "{}", stderr(&output));
}

#[test]
fn revoke_tells_what_it_took_before_it_was_refused() {
    let fake = Fake::start(vec![held_by(2), Reaction::Header("lease-may-act", "1s"), refusal(Code::Denied)]);
    let output = lease(&fake, &["revoke", "nightly", "--reason", "stuck", "--all", "-o", "name"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("~1a2b3c4d50\n", Some(77)));
    let fake = Fake::start(vec![held_by(0)]);
    let output = lease(&fake, &["revoke", "nightly", "--reason", "stuck"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(66), ""));
    assert!(stderr(&output).starts_with("error: nobody holds nightly\n"), "{}", stderr(&output));
}

#[test]
fn request_handover_asks_in_the_holders_name() {
    let fake = Fake::start(vec![answer(202, json!({"holders": 1})), held_by(1), answer(202, json!({"holders": 2}))]);
    let output = lease(&fake, &["request-handover", "nightly", "--reason", "deploy"]);
    let text = "asked the holder of nightly: bob@box2/990\n  see what comes of it with  lease watch nightly\n";
    assert_eq!((stdout(&output).as_str(), output.status.code()), (text, Some(0)), "{}", stderr(&output));
    assert_eq!(fake.seen()[0].line, "POST /v1/ns/default/resources/nightly/handover");
    assert_eq!(fake.seen()[0].json(), json!({"by": "ann", "reason": "deploy"}));
    let output = lease(&fake, &["request-handover", "nightly", "-o", "jsonl"]);
    assert_eq!(stdout(&output), "{\"holders\":2}\n");
}

#[test]
fn watch_goes_on_over_a_lost_connection_and_ends_when_compacted() {
    let change = golden("watch.json").to_string();
    let fake = Fake::start(vec![Reaction::Stream(format!("id: 41\ndata: {change}\n\n")), refusal(Code::Compacted)]);
    let output = lease(&fake, &["watch", "night", "--since", "7", "-o", "name"]);
    assert!(stdout(&output).contains("nightly\nnightly\n"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(66));
    assert_eq!(fake.seen()[0].line, "GET /v1/ns/default/watch?prefix=night&since=7");
    assert_eq!(fake.seen()[1].header("last-event-id"), Some("41"));
}

#[test]
fn watch_runs_a_command_for_each_event_in_order() {
    let change = golden("watch.json").to_string();
    let script = || vec![Reaction::Stream(format!("data: {change}\n\n")), refusal(Code::Compacted)];
    let fake = Fake::start(script());
    let echo = "read json; echo $LEASE_REVISION $LEASE_EVENT $LEASE_RESOURCE$LEASE_KEY $LEASE_FENCING_TOKEN; \
                echo \"$json\" | cut -c1-40; test $LEASE_EVENT != queued";
    let output = command(&fake, &["watch", "--since", "7", "--exec", echo]).env("LEASE_KEY", "old").output().unwrap();
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[4]), (20, "41 lease_granted", "41 claim_granted nightly 41"));
    assert_eq!(lines[5], r#"{"revision":41,"at":"2026-11-03T19:02:11"#);
    assert!(lines.contains(&"41 handover_asked nightly") && lines.contains(&"41 entry_put config/mode"), "{text}");
    let told = "lease: revision 41, nightly: the command ended with exit code 1; the watch goes on\n";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(66), "it ended because the rest was compacted");

    let fake = Fake::start(script());
    let output = lease(&fake, &["watch", "--since", "7", "--exec", "exit 9", "--exec-strict"]);
    assert_eq!(output.status.code(), Some(9));
    assert!(stderr(&output).starts_with("error: revision 41, lease ~1a2b3c4d5e: "), "{}", stderr(&output));
}

#[test]
fn top_prints_one_picture_for_scripts_and_refuses_to_draw_into_a_pipe() {
    let fake = Fake::start(vec![answer(200, golden("ls.json")), answer(200, golden("ls_waiting.json"))]);
    let text = stdout(&lease(&fake, &["top", "--once", "--width", "80"]));
    let rest = text.split_once('\n').unwrap().1;
    let expected = std::fs::read_to_string("tests/golden/top_once.txt").unwrap();
    assert_eq!(rest, expected.split_once('\n').unwrap().1);
    assert!(text.starts_with(" lease top   http://127.0.0.1:") && text.contains("4 held, 2 waiting"), "{text}");
    assert_eq!(fake.seen()[0].line, "GET /v1/ns/default/resources?limit=1000");
    let output = lease(&fake, &["top"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("lease top --once"), "{}", stderr(&output));
    assert_eq!(lease(&fake, &["top", "--once", "-o", "json"]).status.code(), Some(2));
}

#[test]
fn entries_are_put_and_read_as_bytes() {
    let put = || answer(200, json!({"revision": 41, "version": 1}));
    let entry = json!({"key": "k", "value_base64": "/wA=", "version": 1, "created": 41, "modified": 41});
    let fake = Fake::start(vec![put(), put(), answer(200, entry), answer(200, json!({"revision": 41, "deleted": 0}))]);
    let output = lease(&fake, &["entry", "put", "k", "v", "--lease", ID, "--if-revision", "12"]);
    assert_eq!(stdout(&output), "put k  revision=41\n");
    assert_eq!(fake.seen()[0].json(), json!({"value": "v", "lease": ID}));
    assert_eq!(fake.seen()[0].header("if-match"), Some("\"12\""));

    let mut child =
        command(&fake, &["entry", "put", "k", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\xff\0").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fake.seen()[1].json(), json!({"value_base64": "/wA="}));

    assert_eq!(lease(&fake, &["entry", "get", "k"]).stdout, b"\xff\0");
    assert_eq!(lease(&fake, &["entry", "rm", "k"]).status.code(), Some(66));
}

#[test]
fn a_reader_that_has_enough_ends_the_command_quietly() {
    let mut change = golden("watch.json");
    let many = (41..2000).map(|revision| {
        change["revision"] = json!(revision);
        format!("data: {change}\n\n")
    });
    let many: String = many.collect();
    let fake = Fake::start(vec![Reaction::Stream(many)]);
    let mut child = command(&fake, &["watch", "--since", "1"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), child.wait().unwrap().code()), ("", Some(0)));
}
