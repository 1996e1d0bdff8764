//! Mutual TLS between nodes, with certificates from `lease tls init`.

use std::process::Command;
use std::time::Duration;

use crate::clients::{LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::runs::Home;

/// Makes certificates for three nodes; returns the words each node is told of them.
fn certificates(home: &Home) -> Vec<Vec<String>> {
    let folder = home.path("certs");
    let made = Command::new(env!("CARGO_BIN_EXE_lease"))
        .args(["tls", "init", "--node", "n1", "--node", "n2", "--node", "n3", "--dir"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: String| folder.join(name).to_string_lossy().into_owned();
    let words = |node: usize| {
        [
            ("--peer-ca", "ca.pem".to_owned()),
            ("--peer-cert", format!("n{node}.pem")),
            ("--peer-key", format!("n{node}-key.pem")),
        ]
        .into_iter()
        .flat_map(|(flag, name)| [flag.to_owned(), file(name)])
        .collect()
    };
    (1..=3).map(words).collect()
}

#[test]
fn nodes_with_certificates_of_one_authority_form_a_cluster() {
    let home = Home::new();
    let mut cluster = Cluster::with(3, Plan { own_args: certificates(&home), ..Plan::default() });
    let leader = cluster.leader();
    let follower = (leader + 1) % 3;
    let held = cluster.client(follower).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    cluster.kill(leader);
    let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
    cluster.leader_among(&others);
    assert_eq!(cluster.client(follower).get(&lease(&id_of(&held))).expect(200).token(), held.token());
    cluster.restart(leader);
}

#[test]
fn a_node_without_certificates_is_refused_by_those_that_have_them() {
    let home = Home::new();
    let mut own_args = certificates(&home);
    let theirs = std::mem::take(&mut own_args[2]);
    let mut cluster = Cluster::begin(3, Plan { own_args, ..Plan::default() }, &[0, 1, 2]);
    for node in &mut cluster.nodes[..2] {
        node.server.until_ready().unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(cluster.nodes[2].server.client().get("/readyz").status, 503, "it is left alone");
    let leader = cluster.leader_among(&[0, 1]);
    cluster.client(leader).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    let said = [cluster.nodes[2].server.stderr(), cluster.nodes[0].server.stderr()];
    println!("plain: {}\nwith certificates: {}", said[0], said[1]);
    assert!(said.iter().any(|text| text.to_lowercase().contains("tls")), "nobody says why");
    cluster.kill(2);
    let args = cluster.nodes[2].server.args().into_iter().chain(theirs).collect();
    cluster.nodes[2].server.change_args(args);
    cluster.restart(2);
    cluster.client(2).get("/v1/ns/default/resources/a").expect(200);
}
