//! Three servers on loopback that are one cluster: how they start, hand leadership over, and stop.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::TcpListener;
use std::time::Duration;

use leasehold_server::{Config, Flags, PeerWords, Running, start};
use leasehold_service::log::Leadership;
use leasehold_service::{ClusterChange, ClusterStatus};
use tempfile::TempDir;

/// Nothing here takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Addresses on which nobody listens.
fn free_addresses<const N: usize>() -> [String; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().to_string())
}

/// The settings of node `n1` to `n3`, each with what its file says besides.
fn settings(folder: &TempDir, files: [&str; 3]) -> [Config; 3] {
    let addresses = free_addresses::<3>();
    let list: Vec<String> = (1..=3).map(|n| format!("n{n}={}", addresses[n - 1])).collect();
    [1, 2, 3].map(|n| {
        let file = folder.path().join(format!("n{n}.toml"));
        std::fs::write(&file, files[n - 1]).unwrap();
        let peers = PeerWords { name: Some(format!("n{n}")), members: Some(list.join(",")), ..PeerWords::default() };
        let listen = Some("127.0.0.1:0".to_owned());
        let data = Some(folder.path().join(format!("n{n}")));
        Config::load(Flags { listen, data, config: Some(file), peers, ..Flags::default() }).unwrap()
    })
}

async fn three(folder: &TempDir, files: [&str; 3]) -> Vec<Running> {
    let mut running = Vec::new();
    for config in &settings(folder, files) {
        running.push(start(config).await.unwrap());
    }
    running
}

fn status(running: &Running) -> ClusterStatus {
    running.service().cluster(&running.service().anonymous()).unwrap()
}

/// Waits until this node sees a leader that is as wanted, and gives its place in the list.
async fn led_by(nodes: &[Running], wanted: impl Fn(usize) -> bool) -> usize {
    let found = async {
        loop {
            let leader = nodes.iter().position(|node| matches!(*node.leadership().borrow(), Leadership::Leads(_)));
            if let Some(leader) = leader.filter(|leader| wanted(*leader)) {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("somebody leads at last")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_hands_over_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = three(&folder, [""; 3]).await;
    let leader = led_by(&nodes, |_| true).await;
    assert_eq!(status(&nodes[leader]).members.len(), 3);
    let stopping = nodes.remove(leader);
    let mut seen = stopping.leadership();
    let handed_over = tokio::spawn(async move {
        let follows = seen.wait_for(|now| matches!(now, Leadership::Follows(_))).await;
        follows.is_ok()
    });
    stopping.stop().await;
    assert!(handed_over.await.unwrap(), "it followed another before it was gone");
    led_by(&nodes, |_| true).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_room_on_its_disk_hands_over() {
    let folder = tempfile::tempdir().unwrap();
    // More than any disk has free.
    let nodes = three(&folder, ["disk_reserve = 4611686018427387904", "", ""]).await;
    if led_by(&nodes, |_| true).await != 0 {
        let first = status(&nodes[0]).node;
        let leader = led_by(&nodes, |leader| leader != 0).await;
        let service = nodes[leader].service();
        service.change_cluster(&service.anonymous(), ClusterChange::Transfer { to: Some(first) }).await.unwrap();
    }
    led_by(&nodes, |leader| leader != 0).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_grows_by_one_that_joins_and_passes_commands_on() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = free_addresses::<2>();
    let node = |name: &str, peer_listen: &str, join: Option<&str>| {
        let peers = PeerWords {
            name: Some(name.to_owned()),
            listen: Some(peer_listen.to_owned()),
            join: join.map(str::to_owned),
            ..PeerWords::default()
        };
        let (listen, data) = (Some("127.0.0.1:0".to_owned()), Some(folder.path().join(name)));
        Config::load(Flags { listen, data, peers, ..Flags::default() }).unwrap()
    };
    let first = start(&node("n1", &one, None)).await.unwrap();
    let second = start(&node("n2", &two, Some(&one))).await.unwrap();
    let both_vote = async {
        while status(&second).members.iter().filter(|member| member.voter).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, both_vote).await.expect("it votes when it has caught up");
    let names: Vec<String> = status(&second).members.into_iter().map(|member| member.name).collect();
    assert_eq!(names, ["n1", "n2"]);
    let service = second.service();
    let namespace = leasehold_core::Namespace::new("default").unwrap();
    let write = leasehold_core::Command::Write(leasehold_core::Write::default());
    let done = service.execute(&service.anonymous(), &namespace, write).await.unwrap();
    assert_eq!(done.forwarded_to.as_deref(), Some("n1"));
    second.stop().await;
    first.stop().await;
}
