//! `lease run` and signals: they reach the command, leave the queue, and a second one kills.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::clients::{LEASES, grant};
use crate::runs::{Home, STUBBORN, Supervised, all_die, lives, soon, waiting};
use crate::server::Server;

#[test]
fn ctrl_c_while_waiting_leaves_the_queue() {
    let (server, home) = (Server::start(), Home::new());
    let mut client = server.client();
    client.post(LEASES, &grant("bob", 60_000, "a")).expect(201);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let run = Supervised::start(server.address, &home, &["run", "a", "--", "touch", "done"]);
        soon("the place in the queue", || (waiting(&mut client, "a") == 1).then_some(()));
        run.signal(signal);
        let (found, said) = run.end();
        assert_eq!((found, said.as_str()), (Some(code), "lease: left the queue for a\n"));
        assert_eq!(waiting(&mut client, "a"), 0);
    }
    assert!(!home.path("done").exists());
}

#[test]
fn signals_reach_the_command() {
    let (server, home) = (Server::start(), Home::new());
    let script = "trap 'echo hup >> heard' HUP; trap 'echo usr1 >> heard' USR1; trap 'echo winch >> heard' WINCH;
        trap 'exit 9' TERM; echo x > begun; while :; do sleep 0.01; done";
    let run = Supervised::start(server.address, &home, &["run", "a", "--", "sh", "-c", script]);
    home.line("begun");
    for (signal, name) in [(Signal::HUP, "hup"), (Signal::USR1, "usr1"), (Signal::WINCH, "winch")] {
        run.signal(signal);
        soon(name, || home.line("heard").ends_with(name).then_some(()));
    }
    run.signal(Signal::TERM);
    assert_eq!(run.end().0, Some(9), "the command's own code, and it was given back");
    server.client().post(LEASES, &grant("bob", 1000, "a")).expect(201);
}

#[test]
fn a_second_wish_to_end_kills() {
    let (server, home) = (Server::start(), Home::new());
    let run = Supervised::start(server.address, &home, &["run", "a", "--", "sh", "-c", STUBBORN]);
    let pids = home.stubborn();
    run.signal(Signal::INT);
    // The first one is passed on before the second is sent.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(pids.iter().all(|pid| lives(*pid)), "the first one is ignored");
    run.signal(Signal::INT);
    let (code, said) = run.end();
    assert_eq!(code, Some(137), "{said}");
    assert!(said.ends_with("lease: killing the command\n"), "{said}");
    all_die(&pids);
}

#[test]
fn the_command_has_the_terminal_and_gives_it_back() {
    let (server, home) = (Server::start(), Home::new());
    let lease = env!("CARGO_BIN_EXE_lease");
    // `script` gives it a terminal; what is typed there is read by the command first, then by the shell that ran it.
    let inner = "read line; echo \"$line\" > first";
    let line = format!("{lease} run a -- sh -c '{inner}'; echo $? > code; read line; echo \"$line\" > second");
    let mut script = std::process::Command::new("script")
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env("LEASE_ADDR", format!("http://{}", server.address))
        .env("SHELL", "/bin/sh")
        .current_dir(home.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut typing = script.stdin.take().unwrap();
    typing.write_all(b"one\n").unwrap();
    assert_eq!(home.line("first"), "one");
    assert_eq!(home.line("code"), "0");
    typing.write_all(b"two\n").unwrap();
    assert_eq!(home.line("second"), "two");
    drop(typing);
    script.wait().unwrap();
}
