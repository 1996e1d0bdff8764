//! A whole crowd of clients on the nodes of a cluster, and their joint history, held against every promise.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::checkers::check_all;
use crate::clients::{LEASES, Run};
use crate::history::History;
use crate::http::Client;
use crate::runs::soon;

/// A seed that can be given again: `ACCEPT_SEED=… cargo test …`.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("ACCEPT_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| rand::random::<u64>() >> 1);
    println!("ACCEPT_SEED={seed}");
    seed
}

/// Clients at work.
pub(crate) struct Load {
    run: Arc<Run>,
    clients: Vec<JoinHandle<History>>,
    watchers: Vec<JoinHandle<History>>,
}

impl Load {
    /// Contenders, keepers and counters, and a watcher that begins at each address.
    pub(crate) fn start(addresses: Vec<SocketAddr>, seed: u64, contenders: u64) -> Load {
        let nodes = addresses.len();
        let run = Run::over(addresses, seed);
        let watchers = (0..nodes).map(|first| run.watch_from(first)).collect();
        let mut clients: Vec<_> = (0..contenders).map(|number| run.contend(number)).collect();
        clients.extend((0..3).map(|number| run.keep(number)));
        clients.extend((0..2).map(|number| run.count(number)));
        Load { run, clients, watchers }
    }

    /// Tells the clients of one more node; a watcher begins at it.
    pub(crate) fn also_at(&mut self, address: SocketAddr) {
        let number = self.run.addresses().len();
        self.run.also_at(address);
        self.watchers.push(self.run.watch_from(number));
    }

    /// Ends everything and checks what was seen, by all of them together.
    pub(crate) fn end(self) -> History {
        self.run.stop();
        let mut history = History::default();
        for client in self.clients {
            history.absorb(client.join().expect("the client saw what it may see"));
        }
        self.run.end_watches_after(last_revision(&self.run.addresses()));
        let watched: Vec<History> =
            self.watchers.into_iter().map(|watcher| watcher.join().expect("the watch goes on")).collect();
        for (number, other) in watched.iter().enumerate().skip(1) {
            same(&watched[0], other, number);
        }
        history.changes = watched.into_iter().next().map(|first| first.changes).unwrap_or_default();
        println!(
            "{} grants, {} acknowledgements, {} releases, {} ends told, {} looks, {} writes, {} changes",
            history.holds.len(),
            history.acks.len(),
            history.releases.len(),
            history.ends.len(),
            history.looks.len(),
            history.puts.len(),
            history.changes.len(),
        );
        check_all(&history);
        history
    }
}

/// The revision of a linearizable read, from whichever node gives one.
fn last_revision(addresses: &[SocketAddr]) -> u64 {
    let mut at = 0;
    soon("a linearizable read", || {
        let mut client = Client::new(addresses[at % addresses.len()]);
        at += 1;
        client.patience = Duration::from_secs(2);
        let answer = client.send("GET", &format!("{LEASES}?limit=1"), &[], b"").ok()?;
        (answer.status == 200).then(|| answer.revision())
    })
}

/// What one watcher saw is a part of what another saw: some may have seen more after the end.
#[track_caller]
fn same(one: &History, other: &History, number: usize) {
    for (first, second) in one.changes.iter().zip(&other.changes) {
        let kinds = |change: &crate::history::Change| {
            change.events.iter().map(|event| (event.kind.clone(), event.lease.clone())).collect::<Vec<_>>()
        };
        assert_eq!(
            (first.revision, kinds(first)),
            (second.revision, kinds(second)),
            "the first watcher and watcher {number} saw different things"
        );
    }
}
