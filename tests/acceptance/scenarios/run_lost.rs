//! `lease run` and the loss of its lease: the whole tree is dead before the resource is granted to another.
//!
//! A grandchild in a session of its own, which ignores every wish to end, writes down the time until it dies; the
//! server tells when it granted the resource again. Both are wall time of one machine.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::clients::{LEASES, RESOURCES};
use crate::proxy::Proxy;
use crate::runs::{Home, STUBBORN, Supervised, all_die, lives, next_grant, parent};
use crate::server::Server;

const STUBBORN_RUN: [&str; 7] = ["run", "a", "--ttl", "3s", "--", "sh", "-c"];

fn stubborn(address: std::net::SocketAddr, home: &Home) -> Supervised {
    let args: Vec<&str> = STUBBORN_RUN.into_iter().chain([STUBBORN]).collect();
    Supervised::start(address, home, &args)
}

#[test]
fn when_the_network_swallows_everything_the_tree_is_dead_before_the_next_grant() {
    let (server, home) = (Server::start(), Home::new());
    let proxy = Proxy::before(server.address);
    let run = stubborn(proxy.address, &home);
    let pids = home.stubborn();
    proxy.swallow_everything();
    let granted = next_grant(&server.client(), "a");
    let (last, alive) = (home.last_tick(), pids.iter().any(|pid| lives(*pid)));
    assert!(last < granted && !alive, "last seen at {last}, granted again at {granted}");
    println!("dead {} ms before the next grant", granted - last);
    let (code, said) = run.end();
    assert_eq!(code, Some(79), "{said}");
    assert!(said.contains("lease: lost a: it could not be renewed in time; stopping the command\n"), "{said}");
}

#[test]
fn when_the_server_is_frozen_the_tree_is_dead_within_the_ttl() {
    let (server, home) = (Server::start(), Home::new());
    let run = stubborn(server.address, &home);
    let pids = home.stubborn();
    server.pause();
    let frozen = Instant::now();
    all_die(&pids);
    assert!(frozen.elapsed() < Duration::from_secs(3), "it took {:?}", frozen.elapsed());
    server.resume();
    let granted = next_grant(&server.client(), "a");
    assert!(home.last_tick() < granted);
    assert_eq!(run.end().0, Some(79));
}

#[test]
fn a_stopped_supervisor_makes_no_difference() {
    let (server, home) = (Server::start(), Home::new());
    let run = stubborn(server.address, &home);
    let pids = home.stubborn();
    run.signal(Signal::STOP);
    let granted = next_grant(&server.client(), "a");
    let (last, alive) = (home.last_tick(), pids.iter().any(|pid| lives(*pid)));
    assert!(last < granted && !alive, "last seen at {last}, granted again at {granted}");
    run.signal(Signal::CONT);
    let (code, said) = run.end();
    assert_eq!(code, Some(79), "{said}");
}

#[test]
fn a_stopped_warden_makes_no_difference() {
    let (server, home) = (Server::start(), Home::new());
    let proxy = Proxy::before(server.address);
    let run = stubborn(proxy.address, &home);
    let pids = home.stubborn();
    kill_process(parent(pids[1]), Signal::STOP).unwrap();
    proxy.swallow_everything();
    let granted = next_grant(&server.client(), "a");
    let (last, alive) = (home.last_tick(), pids.iter().any(|pid| lives(*pid)));
    assert!(last < granted && !alive, "last seen at {last}, granted again at {granted}");
    let (code, said) = run.end();
    assert_eq!(code, Some(79), "{said}");
}

#[test]
fn a_killed_supervisor_leaves_nothing_behind() {
    let (server, home) = (Server::start(), Home::new());
    let run = stubborn(server.address, &home);
    let pids = home.stubborn();
    run.signal(Signal::KILL);
    let killed = Instant::now();
    all_die(&pids);
    println!("all dead after {:?}", killed.elapsed());
    assert!(next_grant(&server.client(), "a") > home.last_tick());
}

#[test]
fn a_killed_warden_leaves_nothing_behind() {
    let (server, home) = (Server::start(), Home::new());
    let run = stubborn(server.address, &home);
    let pids = home.stubborn();
    let warden = parent(pids[1]);
    assert_eq!(parent(warden), run.pid());
    kill_process(warden, Signal::KILL).unwrap();
    let (code, said) = run.end();
    assert_eq!(code, Some(79), "{said}");
    assert!(said.contains("lease: the warden of the command was killed; killing the command\n"), "{said}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
    assert!(next_grant(&server.client(), "a") > home.last_tick());
}

#[test]
fn a_revoked_lease_stops_the_command_and_runs_the_hook() {
    let (server, home) = (Server::start(), Home::new());
    let hook = "echo \"$LEASE_RESOURCE $LEASE_FENCING_TOKEN $LEASE_LOST_CAUSE\" > lost";
    let script =
        "trap 'echo asked > heard; exit 0' TERM; echo $LEASE_FENCING_TOKEN > self; while :; do sleep 0.01; done";
    let args = ["run", "a", "--ttl", "60s", "--on-lost", hook, "--", "sh", "-c", script];
    let run = Supervised::start(server.address, &home, &args);
    let token = home.line("self");
    let found = server.client().get(&format!("{RESOURCES}/a")).expect(200);
    let digest = found.json["holders"][0]["lease"].as_str().unwrap();
    let revoke = json!({ "reason": "maintenance", "resource": "a" });
    server.client().post(&format!("{LEASES}/{digest}/revoke"), &revoke).expect(204);
    let (code, said) = run.end();
    assert_eq!(code, Some(79), "{said}");
    assert!(said.contains("lease: lost a: it was revoked") && said.contains("maintenance"), "{said}");
    assert_eq!(home.line("heard"), "asked");
    let lost = home.line("lost");
    assert!(lost.starts_with(&format!("a {token} it was revoked")) && lost.ends_with("maintenance"), "{lost}");
}

#[test]
fn a_short_outage_is_survived() {
    let (mut server, home) = (Server::start(), Home::new());
    let script = "echo x > begun; while [ ! -e stop ]; do sleep 0.01; done; exit 3";
    let run = Supervised::start(server.address, &home, &["run", "a", "--ttl", "10s", "--", "sh", "-c", script]);
    home.line("begun");
    server.kill();
    server.restart();
    std::thread::sleep(Duration::from_secs(5));
    std::fs::write(home.path("stop"), "").unwrap();
    let (code, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
}
