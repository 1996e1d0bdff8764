//! `lease elect`: one incumbent, fail-over, another campaign after a loss.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::clients::RESOURCES;
use crate::proxy::Proxy;
use crate::runs::{Home, Supervised, lease, soon, waiting};
use crate::server::Server;

/// Writes its token into the file named by its first argument, then runs for ever.
const TERM: &str = "echo $LEASE_FENCING_TOKEN >> $0; trap 'exit 0' TERM; while :; do sleep 0.01; done";

fn elect(address: std::net::SocketAddr, home: &Home, name: &str, more: &[&str]) -> Supervised {
    let args = [&["elect", "e", "--ttl", "2s"], more, &["--", "sh", "-c", TERM, name]].concat();
    Supervised::start(address, home, &args)
}

/// The tokens of the terms that a candidate had so far.
fn terms(home: &Home, name: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(home.path(name)).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn next_term(home: &Home, name: &str, before: usize) -> u64 {
    soon(&format!("term {} of {name}", before + 1), || terms(home, name).get(before).copied())
}

#[test]
fn the_next_candidate_takes_over_from_a_dead_incumbent() {
    let (server, home) = (Server::start(), Home::new());
    let ann = elect(server.address, &home, "ann", &[]);
    let first = next_term(&home, "ann", 0);
    let bob = elect(server.address, &home, "bob", &[]);
    soon("the place of the candidate", || (waiting(&mut server.client(), "e") == 1).then_some(()));
    assert!(terms(&home, "bob").is_empty(), "there is one incumbent");
    ann.signal(Signal::KILL);
    assert!(next_term(&home, "bob", 0) > first);
    bob.signal(Signal::TERM);
    assert_eq!(bob.end().0, Some(0), "the command's own code");
}

#[test]
fn an_incumbent_that_was_cut_off_stands_for_election_again() {
    let (server, home) = (Server::start(), Home::new());
    let proxy = Proxy::before(server.address);
    let ann = elect(proxy.address, &home, "ann", &[]);
    let first = next_term(&home, "ann", 0);
    let bob = elect(server.address, &home, "bob", &[]);
    proxy.swallow_everything();
    let second = next_term(&home, "bob", 0);
    assert!(ann.stderr().contains("lease: lost e: it could not be renewed in time"), "{}", ann.stderr());
    proxy.heal();
    soon("the place of the candidate", || (waiting(&mut server.client(), "e") == 1).then_some(()));
    bob.signal(Signal::TERM);
    assert_eq!(bob.end().0, Some(0));
    let third = next_term(&home, "ann", 1);
    assert!(first < second && second < third);
}

#[test]
fn one_who_hands_over_stands_for_election_again() {
    let (server, home) = (Server::start(), Home::new());
    let ann = elect(server.address, &home, "ann", &["--on-handover", "true"]);
    let first = next_term(&home, "ann", 0);
    let bob = elect(server.address, &home, "bob", &[]);
    soon("the place of the candidate", || (waiting(&mut server.client(), "e") == 1).then_some(()));
    server.client().post(&format!("{RESOURCES}/e/handover"), &json!({ "by": "bob" })).expect(202);
    let second = next_term(&home, "bob", 0);
    assert!(second > first);
    ann.said("lease: standing for e again\n");
    bob.signal(Signal::KILL);
    assert!(next_term(&home, "ann", 1) > second);
}

#[test]
fn it_ends_as_its_command_does() {
    let (server, home) = (Server::start(), Home::new());
    assert_eq!(lease(server.address, &home, &["elect", "e", "--", "sh", "-c", "exit 6"]).0, Some(6));
    let resource = server.client().get(&format!("{RESOURCES}/e")).expect(200);
    assert_eq!(resource.json["state"], "free", "it was given back: {}", resource.text);
}

#[test]
fn a_candidate_waits_for_a_server_that_is_not_there_yet() {
    let home = Home::new();
    let port = crate::server::free_port();
    let ann = elect(([127, 0, 0, 1], port).into(), &home, "ann", &[]);
    ann.said("; trying again\n");
    std::thread::sleep(Duration::from_millis(100));
    let setup = crate::server::Setup { listen: Some(format!("127.0.0.1:{port}")), ..Default::default() };
    let _server = Server::with(setup);
    next_term(&home, "ann", 0);
}
