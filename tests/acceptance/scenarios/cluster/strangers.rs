//! Who may not belong to a cluster is refused in words: another cluster's data, lost data, a newer protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::clients::{LEASES, RESOURCES, grant};
use crate::cluster::{Cluster, Plan};
use crate::runs::{Home, lease, soon};
use crate::server::{Server, Setup, free_port};

#[test]
fn a_directory_of_another_cluster_is_refused_and_keeps_what_it_has() {
    let home = tempfile::TempDir::new().unwrap();
    let data = home.path().join("data");
    let mut alone = Server::with(Setup { data: Some(data.clone()), ..Setup::default() });
    alone.client().post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    alone.kill();
    let peers: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let members = format!("n1=127.0.0.1:{},n2=127.0.0.1:{},n3=127.0.0.1:{}", peers[0], peers[1], peers[2]);
    let args = ["--name", "n1", "--members", &members].map(str::to_owned).to_vec();
    let Err(refused) = Server::attempt(Setup { data: Some(data), args, ..Setup::default() }) else {
        panic!("it took the data of another cluster")
    };
    println!("{}", refused.stderr);
    assert_eq!(refused.status.code(), Some(69), "{}", refused.stderr);
    assert!(refused.stderr.contains("cluster"), "{}", refused.stderr);
    alone.restart();
    assert_eq!(alone.client().get("/v1/ns/default/resources/a").expect(200).json["state"], "held");
}

#[test]
fn a_node_of_another_cluster_is_turned_away_and_told_why() {
    let mut cluster = Cluster::of_three();
    let (leader, own) = (cluster.leader(), free_port());
    let peers: Vec<String> = cluster.nodes[1..].iter().map(|node| node.peer.to_string()).collect();
    // Two addresses of this cluster and a name of it, but another list: another cluster.
    let members = format!("n1=127.0.0.1:{own},n2={},n3={}", peers[0], peers[1]);
    let args = ["--name", "n1", "--members", &members].map(str::to_owned).to_vec();
    let stranger = Server::begin(Setup { args, ..Setup::default() });
    let said = stranger.stderr_with("belongs to cluster");
    println!("{said}");
    assert!(said.contains("cluster"), "it is not told why: {said}");
    soon("its refusal", || (stranger.client().get("/readyz").status == 503).then_some(()));
    cluster.client(leader).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    assert!(cluster.leads(leader), "nothing changed for the cluster");
}

#[test]
fn a_node_that_lost_its_data_is_refused_under_its_old_name_and_joins_anew_after_its_removal() {
    let mut cluster = Cluster::of_three();
    let followers = cluster.followers();
    let (leader, lost) = (cluster.leader(), followers[0]);
    cluster.client(lost).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    cluster.kill(lost);
    std::fs::remove_dir_all(&cluster.nodes[lost].server.data).unwrap();
    cluster.nodes[lost].server.begin_again();
    let said = cluster.nodes[lost].server.stderr_with("remove");
    println!("{said}");
    assert!(said.contains("remove"), "it is not told what to do: {said}");
    let node = &cluster.nodes[lost];
    assert_eq!(node.server.client().get("/readyz").status, 503, "it knows nothing and serves nothing");
    // Without the third vote the two must still be a quorum, and no vote of the forgetful one counts.
    cluster.client(followers[1]).post(LEASES, &grant("bob", 60_000, "b")).expect(201);
    assert!(cluster.leads(leader), "nothing changed for the others");
    cluster.kill(lost);

    let name = cluster.nodes[lost].name.clone();
    let address = cluster.nodes[followers[1]].server.address;
    let (code, said) = lease(address, &Home::new(), &["cluster", "remove", &name, "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    std::fs::remove_dir_all(&cluster.nodes[lost].server.data).unwrap();
    let peer = cluster.nodes[leader].peer.to_string();
    let own = cluster.nodes[lost].peer.to_string();
    let words = ["--name", &name, "--peer-listen", &own, "--join", &peer].map(str::to_owned);
    cluster.nodes[lost].server.change_args(words.to_vec());
    cluster.restart(lost);
    cluster.until_voters(lost, 3);
    for resource in ["a", "b"] {
        cluster.client(lost).get(&format!("{RESOURCES}/{resource}")).expect(200);
    }
}

#[test]
fn a_newer_protocol_is_refused_by_name() {
    let mut cluster = Cluster::begin(1, Plan::default(), &[0]);
    cluster.until_ready();
    let mut stream = TcpStream::connect(cluster.nodes[0].peer).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut introduction = b"LEASEHLD".to_vec();
    introduction.push(9);
    // What follows means nothing to this version.
    introduction.extend([0xa5; 200]);
    stream.write_all(&introduction).unwrap();
    let mut answer = Vec::new();
    // Whether it ends or breaks: all that is left unread there.
    let _ = stream.read_to_end(&mut answer);
    assert_eq!((&answer[..8], answer[8], answer[9]), (&b"LEASEHLD"[..], 1, 17), "{answer:?}");
    let length = usize::from(u16::from_le_bytes([answer[56], answer[57]]));
    let words = String::from_utf8_lossy(&answer[58..58 + length]);
    assert!(words.contains("version 9") && words.contains('1'), "{words}");
    cluster.client(0).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
}
