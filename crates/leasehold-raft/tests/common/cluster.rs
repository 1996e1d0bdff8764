//! Nodes in one process that meet on loopback ports.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use leasehold_raft::{Formation, Options, PeerOptions};
use leasehold_service::log::{Leadership, Log};
use tempfile::TempDir;

use super::{Running, open_with, payload};

/// Nothing here takes so long unless it never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a free port below those that the system gives to outgoing connections. The odd port after it is kept
/// bound until the process ends, so that no other test process takes the port while its node is stopped.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static KEPT: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() as u16 % 6000);
        let port = 20_000 + step % 6000 * 2;
        let Ok(kept) = TcpListener::bind(address(port + 1)) else { continue };
        if TcpListener::bind(address(port)).is_ok() {
            KEPT.lock().unwrap().push(kept);
            return address(port);
        }
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// For tests that need one leader to stay, however busy the machine is.
pub(crate) fn patient(options: &mut Options) {
    options.election_min = Duration::from_millis(1500);
    options.election_max = Duration::from_millis(3000);
}

/// Opens a node that joins the cluster of the node at an address.
pub(crate) async fn joining(name: &str, member: &str, dir: &std::path::Path, change: impl Fn(&mut Options)) -> Running {
    let formation = Formation::Join(vec![member.to_string()]);
    let peers = PeerOptions { formation, ..PeerOptions::new(name, free_address()) };
    let mut options = Options { peers: Some(peers), ..Options::new(dir) };
    change(&mut options);
    open_with(options).await.unwrap()
}

/// Nodes that can be stopped and started again.
pub(crate) struct Cluster {
    pub(crate) options: Vec<Options>,
    pub(crate) nodes: Vec<Option<Running>>,
    _dirs: Vec<TempDir>,
}

impl Cluster {
    /// Declares so many nodes; starts none.
    pub(crate) fn declared(count: usize, change: impl Fn(&mut Options)) -> Cluster {
        let addresses: Vec<_> = (0..count).map(|_| free_address()).collect();
        let name = |at: usize| format!("n{}", at + 1);
        let members: BTreeMap<_, _> = addresses.iter().enumerate().map(|(at, a)| (name(at), a.to_string())).collect();
        let dirs: Vec<_> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let options = addresses.iter().enumerate().map(|(at, address)| {
            let formation = Formation::Members(members.clone());
            let peers = PeerOptions { formation, ..PeerOptions::new(name(at), *address) };
            let mut options = Options { peers: Some(peers), ..Options::new(dirs[at].path()) };
            change(&mut options);
            options
        });
        Cluster { options: options.collect(), nodes: (0..count).map(|_| None).collect(), _dirs: dirs }
    }

    /// Starts a node that begins a cluster by itself.
    pub(crate) async fn of_one(change: impl Fn(&mut Options)) -> Cluster {
        let mut cluster = Cluster::declared(0, |_| ());
        cluster.add_node("n1", Formation::Alone, change);
        cluster.start(0).await;
        cluster
    }

    /// Prepares a node that asks the one at `via` to join its cluster; returns its place.
    pub(crate) fn joiner(&mut self, name: &str, via: usize, change: impl Fn(&mut Options)) -> usize {
        let address = self.address(via);
        self.add_node(name, Formation::Join(vec![address]), change)
    }

    fn add_node(&mut self, name: &str, formation: Formation, change: impl Fn(&mut Options)) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let peers = PeerOptions { formation, ..PeerOptions::new(name, free_address()) };
        let mut options = Options { peers: Some(peers), ..Options::new(dir.path()) };
        change(&mut options);
        self.options.push(options);
        self.nodes.push(None);
        self._dirs.push(dir);
        self.nodes.len() - 1
    }

    pub(crate) fn address(&self, at: usize) -> String {
        self.options[at].peers.as_ref().unwrap().listen.to_string()
    }

    pub(crate) fn id(&self, at: usize) -> u64 {
        self.node(at).opened.identity.node
    }

    /// Waits until every running node knows these voters and no other member, by name.
    pub(crate) async fn has_voters(&self, names: &[&str]) {
        let has = |running: &Running| {
            let mut voters: Vec<_> = running.node.members().into_iter().filter(|m| m.voter).map(|m| m.name).collect();
            voters.sort();
            voters == names && running.node.members().len() == names.len()
        };
        until(&format!("all voters are {names:?}"), || self.running().all(has)).await;
    }

    /// Starts three nodes and waits until one is ready to lead.
    pub(crate) async fn of_three(change: impl Fn(&mut Options)) -> Cluster {
        Cluster::of(3, change).await
    }

    /// Starts so many nodes and waits until one is ready to lead.
    pub(crate) async fn of(count: usize, change: impl Fn(&mut Options)) -> Cluster {
        let mut cluster = Cluster::declared(count, change);
        for at in 0..count {
            cluster.start(at).await;
        }
        cluster.leader().await;
        cluster
    }

    pub(crate) async fn start(&mut self, at: usize) {
        self.nodes[at] = Some(open_with(self.options[at].clone()).await.unwrap());
    }

    pub(crate) async fn stop(&mut self, at: usize) {
        self.nodes[at].take().unwrap().node.shutdown().await;
    }

    pub(crate) fn node(&self, at: usize) -> &Running {
        self.nodes[at].as_ref().unwrap()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Running> {
        self.nodes.iter().flatten()
    }

    /// Waits until all running nodes agree on a leader that is ready; returns its place.
    pub(crate) async fn leader(&self) -> usize {
        let leads = |running: &Running| match *running.node.leadership().borrow() {
            Leadership::Leads(leader) => Some((leader, true)),
            Leadership::Follows(leader) => Some((leader, false)),
            Leadership::CutOff(_) | Leadership::Unknown => None,
        };
        let agreed = || {
            let known: Vec<_> = self.running().map(leads).collect();
            known.iter().all(|one| one.is_some() && one.map(|one| one.0) == known[0].map(|one| one.0))
                && known.iter().flatten().any(|one| one.1)
        };
        until("all nodes follow one leader", agreed).await;
        let leads = |node: &Option<Running>| node.as_ref().and_then(leads).is_some_and(|one| one.1);
        self.nodes.iter().position(leads).unwrap()
    }

    /// Returns the place of a running node that does not lead.
    pub(crate) async fn follower(&self) -> usize {
        let leader = self.leader().await;
        (0..self.nodes.len()).find(|at| *at != leader && self.nodes[*at].is_some()).unwrap()
    }

    /// Proposes payloads with these numbers, each until it is acknowledged.
    pub(crate) async fn propose(&self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let started = Instant::now();
            loop {
                let at = self.leader().await;
                // Not held while it is proposed: nobody could be told of another leader.
                let present = *self.node(at).node.leadership().borrow();
                if let Leadership::Leads(leader) = present
                    && self.node(at).propose_as(leader, payload(number)).await.is_ok()
                {
                    break;
                }
                assert!(started.elapsed() < PATIENCE, "payload {number} was never acknowledged");
            }
        }
    }

    /// Waits until every running node has applied the same entries, which are these payloads at least.
    pub(crate) async fn all_have(&self, payloads: &[Vec<u8>]) {
        let has = |running: &Running| {
            let applied = running.ledger.payloads();
            payloads.iter().all(|payload| applied.contains(payload))
        };
        until("every node has every payload", || self.running().all(has)).await;
        let first = self.running().next().unwrap();
        let same = |running: &Running| running.ledger.entries() == first.ledger.entries();
        until("every node has the same entries", || self.running().all(same)).await;
    }

    pub(crate) async fn stop_all(&mut self) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_some() {
                self.stop(at).await;
            }
        }
    }
}
