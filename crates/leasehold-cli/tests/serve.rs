//! `lease serve` as a process: what its service manager hears, and what it refuses to start with.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn serve() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
    command.env_clear().args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::null());
    command
}

fn refused(args: &[&str]) -> (String, Option<i32>) {
    let output: Output = serve().args(args).output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

/// The next message that has this line.
fn heard(socket: &UnixDatagram, line: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("nothing about {line}: {error}"));
        let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
        if text.lines().any(|found| found == line) {
            return text;
        }
    }
}

/// A server that does not outlive its test.
struct Server(Child);

impl Server {
    fn terminate(&self) {
        assert!(Command::new("kill").arg(self.0.id().to_string()).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_service_manager_hears_that_it_is_ready_well_and_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = serve();
    command.arg("--data").arg(folder.path().join("data"));
    let mut server = Server(command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000").spawn().unwrap());
    let ready = heard(&socket, "READY=1");
    assert!(ready.contains("STATUS=this node leads"), "{ready}");
    heard(&socket, "WATCHDOG=1");
    heard(&socket, "WATCHDOG=1");
    server.terminate();
    heard(&socket, "STOPPING=1");
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn one_of_three_asks_for_more_time_while_it_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let ports = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = ports.map(|listener| listener.local_addr().unwrap());
    let members = format!("n1={},n2={},n3={}", ports[0], ports[1], ports[2]);
    let mut command = serve();
    command.args(["--name", "n1", "--members", &members]).arg("--data").arg(folder.path().join("data"));
    let mut server = Server(command.env("NOTIFY_SOCKET", &path).stderr(Stdio::piped()).spawn().unwrap());
    let asks = heard(&socket, "EXTEND_TIMEOUT_USEC=60000000");
    assert!(asks.contains("STATUS=waiting for a leader"), "{asks}");
    let mut stderr = std::io::BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("waiting for a majority: ") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut stderr, &mut line).unwrap() > 0, "it never said for whom it waits");
    }
    assert_eq!(line, "waiting for a majority: n2, n3 are not reached yet\n");
    server.terminate();
    // Read to the end, so that it can write what it has to say.
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn what_makes_no_sense_about_other_nodes_ends_with_78() {
    let members = ["--members", "n1=127.0.0.1:1,n2=127.0.0.1:2"];
    let (text, code) = refused(&members);
    assert_eq!(
        (text.as_str(), code),
        ("error: a node that meets others has a name; add --name, like --name n1\n", Some(78))
    );
    let (text, code) = refused(&[&["--name", "n1", "--join", "127.0.0.1:2"], &members[..]].concat());
    assert!(text.starts_with("error: --members forms a new cluster and --join enters"), "{text}");
    assert_eq!(code, Some(78));
    let (text, _) = refused(&["--name", "n1", "--members", "n1=10.0.0.1:1,n2=10.0.0.2:2"]);
    assert!(text.starts_with("error: 10.0.0.1:1 is not on this machine"), "{text}");
}

#[test]
fn a_clock_of_tests_must_have_a_rate() {
    let output = serve().env("LEASE_TEST_CLOCK_RATE", "fast").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: LEASE_TEST_CLOCK_RATE is `fast`: "), "{text}");
    assert_eq!(output.status.code(), Some(78));
}
