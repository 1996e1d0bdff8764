//! `lease run`: the command's environment and exit code, the wait, the end by agreement.

use std::io::Read as _;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::clients::{LEASES, RESOURCES, grant, id_of};
use crate::proxy::Proxy;
use crate::runs::{Home, STUBBORN, Supervised, all_die, lease, lives, soon, waiting};
use crate::server::Server;

#[test]
fn the_exit_code_is_the_commands() {
    let (server, home) = (Server::start(), Home::new());
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)] {
        let (found, said) = lease(server.address, &home, &["run", "a", "--", "sh", "-c", script]);
        assert_eq!(found, Some(code), "{script}: {said}");
        let parts: Vec<&str> = said.trim_end().split("  ").collect();
        assert_eq!(parts.first(), Some(&"lease: acquired a"), "{said}");
        assert!(parts[1].starts_with("token="), "{said}");
        assert_eq!(parts[2..], ["ttl=10s", "holder=ann"], "{said}");
    }
    let resource = server.client().get(&format!("{RESOURCES}/a")).expect(200);
    assert_eq!(resource.json["state"], "free", "it was given back: {}", resource.text);
}

#[test]
fn a_command_that_cannot_be_executed_is_told_apart_from_one_that_fails() {
    let (server, home) = (Server::start(), Home::new());
    let (code, said) = lease(server.address, &home, &["run", "a", "--", "no-such-command"]);
    assert_eq!(code, Some(127), "{said}");
    assert!(said.ends_with("error: cannot run no-such-command: not found\n"), "{said}");
    let (code, said) = lease(server.address, &home, &["run", "a", "--", "/etc/passwd"]);
    assert_eq!(code, Some(126), "{said}");
    assert!(said.ends_with("error: cannot run /etc/passwd: not executable\n"), "{said}");
    assert_eq!(lease(server.address, &home, &["run", "a", "--wait", "0", "--", "true"]).0, Some(0), "it is free again");
}

#[test]
fn the_command_finds_its_lease_in_the_environment() {
    let (server, home) = (Server::start(), Home::new());
    let script = "env | grep ^LEASE_ > env; lease check b $LEASE_FENCING_TOKEN";
    let path = std::env::var("PATH").unwrap();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_lease")).parent().unwrap();
    let run = Supervised::with(server.address, &home, &["run", "b", "a", "--shell", "--", script], |command| {
        command.env("PATH", format!("{}:{path}", folder.display()));
    });
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "the token is current: {said}");
    let env = std::fs::read_to_string(home.path("env")).unwrap();
    let value = |name: &str| env.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
    assert_eq!((value("LEASE_RESOURCE"), value("LEASE_RESOURCES")), ("b", "b,a"));
    assert_eq!(value("LEASE_ID").len(), 16);
    let token = value("LEASE_FENCING_TOKEN");
    assert_eq!(value("LEASE_FENCING_TOKENS"), format!("{token},{token}"));
    assert_eq!(value("LEASE_SLOTS"), "");
    assert!(said.starts_with(&format!("lease: acquired b, a  token={token}  ")), "{said}");
}

#[test]
fn the_command_has_the_standard_streams() {
    let (server, home) = (Server::start(), Home::new());
    std::fs::write(home.path("in"), "hello\n").unwrap();
    let file = std::fs::File::open(home.path("in")).unwrap();
    let mut stdout = String::new();
    let (mut from, to) = std::io::pipe().unwrap();
    let run = Supervised::with(server.address, &home, &["run", "a", "--", "cat"], |command| {
        command.stdin(file).stdout(Stdio::from(to));
    });
    from.read_to_string(&mut stdout).unwrap();
    assert_eq!((run.end().0, stdout.as_str()), (Some(0), "hello\n"));
}

#[test]
fn not_acquired_is_75_or_as_asked_and_names_the_holder() {
    let (server, home) = (Server::start(), Home::new());
    server.client().post(LEASES, &grant("bob", 60_000, "a")).expect(201);
    let (code, said) = lease(server.address, &home, &["run", "a", "--wait", "50ms", "--", "touch", "done"]);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.starts_with("lease: not acquired: a is held by bob (token "), "{said}");
    assert!(said.contains("\n  you were 1st in the queue; try  --wait 5m  or"), "{said}");
    let (code, said) = lease(server.address, &home, &["run", "a", "--wait", "0", "-E", "9", "--", "touch", "done"]);
    assert_eq!(code, Some(9), "{said}");
    assert!(!home.path("done").exists());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_acquired() {
    let (server, home) = (Server::start(), Home::new());
    for args in [
        &["run", "a", "--ttl", "300ms", "--", "true"][..],
        &["run", "a", "--ttl", "10s", "--kill-grace", "9s", "--", "true"],
        &["run", "a"],
        &["run", "", "--", "true"],
        &["run", "a", "--pool", "gpus", "--", "true"],
        &["run", "a", "--lost-signal", "BOO", "--", "true"],
    ] {
        let (code, said) = lease(server.address, &home, args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
    }
    let list = server.client().get(&format!("{RESOURCES}?prefix=a")).expect(200);
    assert_eq!(list.json["resources"], json!([]));
    let nobody = crate::server::free_port();
    let (code, said) = lease(([127, 0, 0, 1], nobody).into(), &home, &["run", "a", "--", "true"]);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.ends_with("start one with `lease serve`, or set LEASE_ADDR\n"), "{said}");
}

#[test]
fn it_waits_its_turn_and_tells_how_the_one_before_ended() {
    let (server, home) = (Server::start(), Home::new());
    let mut client = server.client();
    let first = id_of(&client.post(LEASES, &grant("bob", 60_000, "a")).expect(201));
    let run = Supervised::start(server.address, &home, &["run", "a", "--", "true"]);
    soon("the place in the queue", || (waiting(&mut client, "a") == 1).then_some(()));
    std::thread::sleep(Duration::from_millis(1100));
    client.delete(&format!("{LEASES}/{first}")).expect(204);
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("  waited 00:01  (previous holder released)\n"), "{said}");
}

#[test]
fn after_max_hold_the_tree_is_ended_and_the_lease_given_back() {
    let (server, home) = (Server::start(), Home::new());
    let args = ["run", "a", "--max-hold", "700ms", "--kill-grace", "200ms", "--", "sh", "-c", STUBBORN];
    let (code, said) = lease(server.address, &home, &args);
    assert_eq!(code, Some(124), "{said}");
    assert!(said.contains("lease: held a for 0.7s (--max-hold); stopping the command\n"), "{said}");
    assert!(home.stubborn().iter().all(|pid| !lives(*pid)));
    let free = server.client().post(LEASES, &grant("bob", 1000, "a"));
    free.expect(201);
}

#[test]
fn a_hand_over_needs_the_consent_of_the_hook() {
    let (server, home) = (Server::start(), Home::new());
    let ask = json!({ "by": "bob", "reason": "deploy" });
    let handover = format!("{RESOURCES}/a/handover");

    let hook = "echo \"$LEASE_HANDOVER_BY $LEASE_HANDOVER_REASON\" > asked; test -e agreed";
    let run =
        Supervised::start(server.address, &home, &["run", "a", "--on-handover", hook, "--", "sh", "-c", STUBBORN]);
    let pids = home.stubborn();
    server.client().post(&handover, &ask).expect(202);
    run.said("lease: a is not handed over to bob: ");
    assert_eq!(home.line("asked"), "bob deploy");
    assert!(pids.iter().all(|pid| lives(*pid)), "it goes on");

    std::fs::write(home.path("agreed"), "").unwrap();
    server.client().post(&handover, &ask).expect(202);
    let (code, said) = run.end();
    assert_eq!(code, Some(80), "{said}");
    assert!(said.contains("lease: handing a over to bob; stopping the command\n"), "{said}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
    server.client().post(LEASES, &grant("bob", 1000, "a")).expect(201);
}

#[test]
fn an_ask_without_a_hook_is_told_and_it_goes_on() {
    let (server, home) = (Server::start(), Home::new());
    let script = "echo x > begun; while [ ! -e stop ]; do sleep 0.01; done; exit 3";
    let run = Supervised::start(server.address, &home, &["run", "a", "--", "sh", "-c", script]);
    home.line("begun");
    let ask = json!({ "by": "bob", "reason": "deploy" });
    server.client().post(&format!("{RESOURCES}/a/handover"), &ask).expect(202);
    run.said("lease: bob asks for a (\"deploy\"); it goes on (see --on-handover)\n");
    std::fs::write(home.path("stop"), "").unwrap();
    assert_eq!(run.end().0, Some(3));
}

#[test]
fn a_release_that_fails_changes_no_exit_code_and_is_told() {
    let (server, home) = (Server::start(), Home::new());
    let proxy = Proxy::before(server.address);
    let script = "echo x > begun; while [ ! -e stop ]; do sleep 0.01; done; exit 3";
    let run = Supervised::start(proxy.address, &home, &["run", "a", "--ttl", "20s", "--", "sh", "-c", script]);
    home.line("begun");
    proxy.swallow_everything();
    std::fs::write(home.path("stop"), "").unwrap();
    let (code, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("lease: cannot release a: ") && said.contains("; it expires by itself in "), "{said}");
}

#[test]
fn what_the_command_leaves_behind_is_ended_before_the_release() {
    let (server, home) = (Server::start(), Home::new());
    let script = format!("({STUBBORN}) & while [ ! -s far ]; do sleep 0.01; done; exit 4");
    let (code, said) = lease(server.address, &home, &["run", "a", "--kill-grace", "200ms", "--", "sh", "-c", &script]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("processes behind; ending what is left\n"), "{said}");
    all_die(&home.pids(&["far"]));
}

#[test]
fn a_service_manager_is_told_when_the_command_runs_and_stops() {
    let (server, home) = (Server::start(), Home::new());
    let socket = UnixDatagram::bind(home.path("notify")).unwrap();
    socket.set_read_timeout(Some(crate::runs::PATIENCE)).unwrap();
    let next = || {
        let mut piece = [0; 1000];
        let count = socket.recv(&mut piece).unwrap();
        String::from_utf8_lossy(&piece[..count]).into_owned()
    };
    let script = "env | grep -c NOTIFY_SOCKET > told; while :; do sleep 0.01; done";
    let run = Supervised::with(server.address, &home, &["run", "a", "--notify", "--", "sh", "-c", script], |command| {
        command.env("NOTIFY_SOCKET", home.path("notify"));
    });
    assert_eq!(next(), "STATUS=waiting for a\n");
    assert_eq!(next(), "READY=1\nSTATUS=holding a\n");
    assert_eq!(home.line("told"), "0", "we speak for the command");
    run.signal(rustix::process::Signal::TERM);
    assert!(next().starts_with("STOPPING=1\n"));
    assert_eq!(run.end().0, Some(143));
}
