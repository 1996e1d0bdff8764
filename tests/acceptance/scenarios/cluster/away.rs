//! A node that was away comes back and has everything, from the log or from a snapshot.

use std::time::Duration;

use crate::clients::{ENTRIES, LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::http::Client;
use crate::server::heavy;

fn write(client: &mut Client, from: u64, to: u64) {
    let value = "x".repeat(2000);
    for number in from..to {
        client.put(&format!("{ENTRIES}/many/{number}"), &value).expect(200);
    }
}

fn count(client: &mut Client) -> u64 {
    client.get(&format!("{ENTRIES}?prefix=many/&limit=1")).expect(200).json["count"].as_u64().unwrap()
}

#[test]
fn after_a_short_absence_a_node_catches_up_from_the_log() {
    let _alone = heavy();
    let mut cluster = Cluster::of_three();
    let (leader, away) = (cluster.leader(), cluster.followers()[0]);
    write(&mut cluster.client(leader), 0, 50);
    cluster.kill(away);
    write(&mut cluster.client(leader), 50, 150);
    cluster.restart(away);
    let took = cluster.caught_up(away, leader);
    println!("100 entries behind: caught up after {took:?}");
    assert_eq!(count(&mut cluster.client(away)), 150);
    assert_eq!(cluster.nodes[away].server.snapshots(), [""; 0], "no snapshot was needed");
}

#[test]
fn after_a_long_absence_a_node_gets_a_snapshot_and_has_everything() {
    let _alone = heavy();
    let config = "[raft]\nsnapshot_bytes = 131072\nretained_entries = 20\n".to_owned();
    let mut cluster = Cluster::with(3, Plan { config, ..Plan::default() });
    let (leader, away) = (cluster.leader(), cluster.followers()[0]);
    let held = cluster.client(leader).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    write(&mut cluster.client(leader), 0, 10);
    cluster.kill(away);
    write(&mut cluster.client(leader), 10, 400);
    assert_eq!(cluster.nodes[away].server.snapshots(), [""; 0], "it had none when it went");
    cluster.restart(away);
    let took = cluster.caught_up(away, leader);
    println!("390 entries behind: caught up after {took:?}");
    let mut client = cluster.client(away);
    assert_eq!(count(&mut client), 400);
    assert_eq!(client.get(&lease(&id_of(&held))).expect(200).token(), held.token());
    assert!(!cluster.nodes[away].server.snapshots().is_empty(), "it came by a snapshot");
    // What it got lasts: alone it knows the same after another end.
    cluster.kill(away);
    cluster.restart(away);
    cluster.kill(leader);
    let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
    cluster.leader_among(&others);
    let mut client = cluster.client(away);
    client.patience = Duration::from_secs(10);
    assert_eq!(count(&mut client), 400);
}
