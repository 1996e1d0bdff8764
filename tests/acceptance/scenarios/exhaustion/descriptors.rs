//! Descriptors that run out: clients wait for a place, and the log never lacks one.

use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;

use super::open_descriptors;
use crate::clients::{ENTRIES, LEASES, grant};
use crate::http::connect;
use crate::server::{Server, Setup, heavy};

/// Runs the server with a limit of open files; `limits` are the words of `ulimit`.
fn limited(limits: &str, config: &str) -> Server {
    let through = ["sh", "-c", &format!("ulimit {limits} && exec \"$@\""), "sh"].map(str::to_owned);
    Server::with(Setup { config: Some(config.to_owned()), through: through.to_vec(), ..Setup::default() })
}

/// Opens connections and asks for a watch on each, whether or not the server accepts it.
fn watches(server: &Server, count: usize) -> Vec<BufReader<TcpStream>> {
    let open = |_| {
        let mut connection = connect(server.address).unwrap();
        let request = format!("GET /v1/ns/default/watch?prefix=quiet HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        connection
    };
    (0..count).map(open).collect()
}

#[test]
fn watches_cannot_take_the_descriptors_of_the_log() {
    let _alone = heavy();
    let mut server = limited("-n 256", "[raft]\nsnapshot_bytes = 65536\nretained_entries = 4\n");
    let mut client = server.client();
    client.post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    let before = server.log_files();
    let open = watches(&server, 400);
    let mut most = 0;
    for n in 0..200 {
        client.put(&format!("{ENTRIES}/{}", n % 7), &"v".repeat(65_536)).expect(200);
        most = most.max(open_descriptors(&server));
    }
    assert!(server.runs(), "{}", server.stderr());
    assert!(most < 256 - 32, "{most} descriptors are open");
    assert!(!server.snapshots().is_empty(), "the log was to be compacted meanwhile");
    assert_ne!(server.log_files(), before, "a new log file was to be opened meanwhile");
    drop(open);
    server.client().get("/readyz").expect(200);
}

#[test]
fn the_soft_limit_of_open_files_is_raised_at_start() {
    let server = limited("-Sn 256", "");
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = [3, 4].map(|at| line.split_whitespace().nth(at).unwrap());
    assert_eq!(soft, hard, "{line}");
}

#[test]
fn a_limit_of_open_files_below_the_reserve_is_refused() {
    let through = ["sh", "-c", "ulimit -n 64 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let Err(refused) = Server::attempt(Setup { through, ..Setup::default() }) else { panic!("it started") };
    assert_eq!(refused.status.code(), Some(69));
    assert!(refused.stderr.contains("may open 64 files and needs at least 112"), "{}", refused.stderr);
}
