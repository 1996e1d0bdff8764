//! `lease cluster` against servers that follow a script.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(dead_code, reason = "this suite does not need all of it")]
#[path = "../../leasehold-client/tests/fake/mod.rs"]
mod fake;

use std::process::{Command, Output};

use fake::{Fake, Reaction};
use leasehold_api::{Code, Problem};
use serde_json::{Value, json};

fn lease(addr: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
    command.env_clear().env("LEASE_ADDR", addr).arg("cluster").args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(format!("tests/golden/{name}")).unwrap()
}

fn leader() -> Reaction {
    Reaction::Answer(200, golden("cluster.json"))
}

/// What a node says that sees no leader.
fn leaderless() -> Reaction {
    let mut info: Value = serde_json::from_str(&golden("cluster.json")).unwrap();
    info["node"] = json!({"id": "5fc94d6d36f3b0cd", "name": "n2"});
    info["leads"] = false.into();
    info.as_object_mut().unwrap().remove("leader");
    Reaction::Answer(200, info.to_string())
}

#[test]
fn status_is_told_by_the_one_that_knows_most() {
    let (follower, leads) = (Fake::start(vec![leaderless()]), Fake::start(vec![leader()]));
    let output = lease(&format!("{},{}", follower.addr(), leads.addr()), &["status"]);
    let shown = stdout(&output).replace(leads.addr(), "http://127.0.0.1:7117");
    // The follower told its version.
    assert_eq!(squeezed(&shown), squeezed(&golden("cluster.txt")).replace("now - ", "now 0.1.0 "));
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
}

/// The words alone, without what aligns them.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn status_names_those_that_do_not_answer() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let leads = Fake::start(vec![leader()]);
    let output = lease(&format!("{gone},{}", leads.addr()), &["status", "-o", "json"]);
    assert_eq!(stderr(&output), format!("warning: cannot reach {gone}: connection refused\n"));
    let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(told, serde_json::from_str::<Value>(&golden("cluster.json")).unwrap());
    let nobody = lease(&gone, &["status"]);
    assert_eq!(nobody.status.code(), Some(69));
    assert!(stderr(&nobody).contains("connection refused"), "{}", stderr(&nobody));
}

#[test]
fn a_cluster_that_nobody_leads_is_shown_and_ends_with_69() {
    let fake = Fake::start(vec![leaderless()]);
    let output = lease(fake.addr(), &["status"]);
    assert!(stdout(&output).contains("nobody leads"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(69));
}

#[test]
fn members_are_a_table_or_names() {
    let fake = Fake::start(vec![leader(), leader()]);
    let text = stdout(&lease(fake.addr(), &["members"]));
    assert_eq!(text.lines().next(), Some("NAME  ROLE      ADDRESS        ID"));
    assert_eq!(text.lines().nth(4), Some("n4    learner   10.0.0.4:7118  02c1b7a2f0a89f10"));
    assert_eq!(stdout(&lease(fake.addr(), &["members", "-o", "name"])), "n1\nn2\nn3\nn4\n");
}

#[test]
fn add_prints_how_to_start_the_node() {
    let added = Reaction::Answer(201, json!({"id": "0000000000000061", "name": "n5"}).to_string());
    let fake = Fake::start(vec![leader(), added]);
    let output = lease(fake.addr(), &["add", "n5", "10.0.0.5:7118"]);
    let join = "--join 10.0.0.1:7118,10.0.0.2:7118,10.0.0.3:7118";
    let expected = format!("lease serve --name n5 --peer-listen 10.0.0.5:7118 {join}");
    assert!(stdout(&output).contains(&expected), "{}", stdout(&output));
    let seen = &fake.seen()[1];
    assert_eq!(seen.line, "POST /v1/cluster/members");
    assert_eq!(seen.json(), json!({"name": "n5", "address": "10.0.0.5:7118"}));
    for bad in [["7", "10.0.0.5:7118"], ["n5", "10.0.0.5"]] {
        let refused = lease(fake.addr(), &["add", bad[0], bad[1]]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    }
}

#[test]
fn remove_takes_a_name_or_an_id_and_asks_for_the_id() {
    let gone = || Reaction::Answer(204, String::new());
    let fake = Fake::start(vec![leader(), gone(), leader(), gone(), leader()]);
    for node in ["n3", "0ee2e1e6fdc2f4d1"] {
        let output = lease(fake.addr(), &["remove", node]);
        assert!(stdout(&output).starts_with("removed n3  id=0ee2e1e6fdc2f4d1\n"), "{}", stderr(&output));
    }
    assert_eq!(fake.seen()[1].line, "DELETE /v1/cluster/members/0ee2e1e6fdc2f4d1");
    let unknown = lease(fake.addr(), &["remove", "n9", "--yes"]);
    let text = "error: no member has the name or id \"n9\"\n  see who belongs to it with  lease cluster members\n";
    assert_eq!((stderr(&unknown).as_str(), unknown.status.code()), (text, Some(66)));
}

#[test]
fn transfer_says_who_leads_and_how_long_it_took() {
    let led = || Reaction::Answer(200, json!({"id": "5fc94d6d36f3b0cd", "name": "n2"}).to_string());
    let problem = Problem::new(Code::ChangeRefused, "the cluster was not changed: n4 does not vote");
    let refused = Reaction::Answer(409, serde_json::to_string(&problem).unwrap());
    let fake = Fake::start(vec![led(), led(), refused]);
    let output = lease(fake.addr(), &["transfer", "n2"]);
    assert!(stdout(&output).starts_with("n2 leads, after "), "{}", stdout(&output));
    assert_eq!(fake.seen()[0].json(), json!({"to": "n2"}));
    let told: Value = serde_json::from_str(&stdout(&lease(fake.addr(), &["transfer", "-o", "json"]))).unwrap();
    assert_eq!((&told["leader"]["name"], told["took_ms"].is_u64()), (&json!("n2"), true));
    assert_eq!(fake.seen()[1].json(), json!({}));
    let output = lease(fake.addr(), &["transfer", "n4"]);
    let text = "error: the cluster was not changed: n4 does not vote\n";
    assert_eq!((stderr(&output).as_str(), output.status.code()), (text, Some(73)));
}
