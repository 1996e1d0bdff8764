//! A whole crowd of clients on the nodes of a cluster, and their joint history, held against every promise.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_sim::checkers::assert_kept;
use leasehold_sim::history::History;

use crate::clients::{LEASES, Run};
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
        for watcher in self.watchers {
            history.absorb(watcher.join().expect("the watch goes on"));
        }
        println!(
            "{} grants, {} acknowledgements, {} releases, {} ends told, {} looks, {} writes, {} changes",
            history.holds.len(),
            history.acks.len(),
            history.releases.len(),
            history.ends.len(),
            history.looks.len(),
            history.puts.len(),
            history.change_count(),
        );
        assert_kept(&history);
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
