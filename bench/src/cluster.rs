//! Three nodes in one process, on the same cores and the same disk: commands on the leader and through a follower.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_raft::{Formation, Node, Options as NodeOptions, PeerOptions};
use leasehold_service::log::{Leadership, Log as _};
use leasehold_service::{MachineClocks, Options, Replica, Service};
use tokio::runtime::Runtime;

use crate::figures::Figures;
use crate::grants::{acquire_release, callers_at_work, renew};
use crate::setup::{directory, runtime};
use crate::size::{grant_all, write_on};

const NODES: usize = 3;

/// Running nodes, each with a service.
struct Cluster {
    runtime: Runtime,
    nodes: Vec<(Arc<Node<Replica>>, Service)>,
    _directories: Vec<tempfile::TempDir>,
}

impl Cluster {
    fn start() -> Cluster {
        let runtime = runtime();
        let directories: Vec<_> = (0..NODES).map(|_| directory()).collect();
        let addresses: Vec<_> = (0..NODES).map(|_| free_address()).collect();
        let name = |at: usize| format!("n{}", at + 1);
        let members: BTreeMap<_, _> = addresses.iter().enumerate().map(|(at, a)| (name(at), a.to_string())).collect();
        let nodes = runtime.block_on(async {
            let mut nodes = Vec::new();
            for (at, directory) in directories.iter().enumerate() {
                let formation = Formation::Members(members.clone());
                let peers = PeerOptions { formation, ..PeerOptions::new(name(at), addresses[at]) };
                let options = NodeOptions { peers: Some(peers), ..NodeOptions::new(directory.path()) };
                let replica = Arc::new(Replica::new());
                let opened = Node::open(options, Arc::clone(&replica)).await;
                let node = Arc::new(opened.expect("the directory can be opened").0);
                let options = Options {
                    data: Some(directory.path().to_path_buf()),
                    in_flight: in_flight(),
                    ..Options::default()
                };
                let service = Service::start(Arc::clone(&node), replica, MachineClocks, options);
                nodes.push((node, service));
            }
            nodes
        });
        let cluster = Cluster { runtime, nodes, _directories: directories };
        while cluster.leader().is_none() || !cluster.nodes.iter().all(|(_, service)| service.health().ready) {
            std::thread::sleep(Duration::from_millis(5));
        }
        cluster
    }

    fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|(node, _)| matches!(*node.leadership().borrow(), Leadership::Leads(_)))
    }

    fn close(self) {
        self.runtime.block_on(async {
            for (node, service) in &self.nodes {
                service.stop().await;
                node.shutdown().await;
            }
        });
    }
}

/// Acquire and release of a lock by a number of callers, on the leader and on a follower.
pub(crate) fn commands() {
    let only = std::env::var("CALLERS").ok().and_then(|text| text.parse::<usize>().ok());
    for callers in [1, 64, 512].into_iter().filter(|n| only.is_none_or(|only| only == *n)) {
        let cluster = Cluster::start();
        let leader = cluster.leader().expect("one leads");
        let follower = (leader + 1) % NODES;
        measure(&cluster, leader, callers, acquire_release, "grant and release on the leader");
        measure(&cluster, follower, callers, acquire_release, "grant and release on a follower");
        measure(&cluster, leader, callers, renew, "renew on the leader");
        measure(&cluster, follower, callers, renew, "renew on a follower");
        cluster.close();
    }
}

fn measure<F>(cluster: &Cluster, at: usize, callers: usize, work: fn(Service, usize, Instant) -> F, place: &str)
where
    F: Future<Output = Figures> + Send + 'static,
{
    let service = &cluster.nodes[at].1;
    let (commands, mut figures, took) = cluster.runtime.block_on(callers_at_work(service, callers, work));
    let rate = commands as f64 / took.as_secs_f64();
    println!("{callers:>4} callers, {place}: {rate:>9.0} commands/s   a command: {}", figures.line());
}

/// How long a hand-over of leadership keeps callers waiting.
pub(crate) fn transfer() {
    let cluster = Cluster::start();
    let mut figures = Figures::default();
    for _ in 0..20 {
        let leader = cluster.leader().expect("one leads");
        let to = (leader + 1) % NODES;
        let began = Instant::now();
        cluster.runtime.block_on(async {
            let (node, _) = &cluster.nodes[leader];
            let target = cluster.nodes[to].0.identity().node;
            node.transfer(target).await.expect("the other one takes over");
        });
        while cluster.leader() != Some(to) {
            std::thread::sleep(Duration::from_micros(200));
        }
        figures.add(began.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("a planned hand-over: {}", figures.line());
    cluster.close();
}

/// A node with a million leases grows to three while callers go on.
pub(crate) fn growth() {
    let runtime = runtime();
    let directories: Vec<_> = (0..NODES).map(|_| directory()).collect();
    let addresses: Vec<_> = (0..NODES).map(|_| free_address()).collect();
    let open = |at: usize, formation| {
        let peers = PeerOptions { formation, ..PeerOptions::new(format!("n{}", at + 1), addresses[at]) };
        let options = NodeOptions { peers: Some(peers), ..NodeOptions::new(directories[at].path()) };
        async move {
            let replica = Arc::new(Replica::new());
            let opened = Node::open(options, Arc::clone(&replica)).await;
            let node = Arc::new(opened.expect("the node is let in").0);
            let options = Options { in_flight: in_flight(), ..Options::default() };
            let service = Service::start(Arc::clone(&node), replica, MachineClocks, options);
            (node, service)
        }
    };
    runtime.block_on(async {
        let (first, service) = open(0, Formation::Alone).await;
        while !service.health().ready {
            tokio::task::yield_now().await;
        }
        grant_all(&service, false).await;
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..16).map(|n| tokio::spawn(write_on(service.clone(), n, Arc::clone(&stop)))).collect();
        let mut nodes = vec![(first, service)];
        for at in 1..NODES {
            let began = Instant::now();
            nodes.push(open(at, Formation::Join(vec![addresses[0].to_string()])).await);
            while nodes[0].0.members().iter().filter(|member| member.voter).count() <= at {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            println!("from {at} to {} voters: {:.2} s", at + 1, began.elapsed().as_secs_f64());
        }
        stop.store(true, Ordering::Release);
        let mut figures = Figures::default();
        for writer in writers {
            figures.join(writer.await.expect("a caller does not panic"));
        }
        println!("{} commands of 16 callers meanwhile: {}", figures.len(), figures.line());
        for (node, service) in &nodes {
            service.stop().await;
            node.shutdown().await;
        }
    });
}

/// As the server has it, unless another number is to be tried.
fn in_flight() -> usize {
    std::env::var("IN_FLIGHT").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

fn free_address() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    listener.local_addr().expect("it is bound")
}
