//! A process that uses the Rust client and is paused for longer than its lease lasts: the test is its own child.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold_client::{Client, LeaseEvent};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::Server;

/// Tells the child where the server is, and that it is the child.
const ADDRESS: &str = "PAUSED_CLIENT_OF";
const TTL: Duration = Duration::from_secs(1);
const NAME: &str = "scenarios::paused::paused_for_two_ttls_the_first_thing_told_is_the_loss";

#[test]
fn paused_for_two_ttls_the_first_thing_told_is_the_loss() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return hold_and_tell(&address);
    }
    let server = Server::start();
    let child = Holder::start(&server.address.to_string());
    child.next_with("held");
    child.next_with("safe");
    child.signal(Signal::STOP);
    thread::sleep(TTL * 5 / 2);
    // What it said before it was stopped does not count.
    while child.lines.try_recv().is_ok() {}
    child.signal(Signal::CONT);
    let first = child.lines.recv_timeout(Duration::from_secs(20)).expect("it tells something");
    assert!(first.starts_with("lost and without a token"), "{first}");
}

/// Holds a lease and tells how it stands, until it is lost.
fn hold_and_tell(address: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(address).unwrap();
        let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
        println!("held with token {}", guard.token().unwrap());
        let mut events = guard.events();
        while let Some(event) = events.next().await {
            match (event, guard.token()) {
                (LeaseEvent::Safe { .. }, Ok(_)) => println!("safe"),
                (LeaseEvent::Lost(cause), Err(_)) => println!("lost and without a token: {cause}"),
                (event, token) => println!("{event:?} with {token:?}"),
            }
        }
    });
}

/// The child.
struct Holder {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Holder {
    fn start(address: &str) -> Holder {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(ADDRESS, address)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The harness has its own lines, and may write before ours on the same one.
                let words = ["held", "safe", "lost", "Safe", "Lost", "Jeopardy"];
                let Some(at) = words.iter().filter_map(|word| line.find(word)).min() else { continue };
                if send.send(line[at..].to_owned()).is_err() {
                    return;
                }
            }
        });
        Holder { process, lines }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn next_with(&self, word: &str) {
        while !self.lines.recv_timeout(Duration::from_secs(20)).expect("it goes on").starts_with(word) {}
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
