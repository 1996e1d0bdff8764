//! One node's disk is full: the cluster goes on, whether it follows or leads, and the node comes back with the space.

use std::thread;
use std::time::{Duration, Instant};

use crate::clients::{ENTRIES, LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::runs::soon;
use crate::scenarios::disk::{Disk, MIB};

/// Nodes on small disks of their own.
fn on_small_disks() -> Option<(Vec<Disk>, Cluster)> {
    let disks: Vec<Disk> = (0..3).map_while(|_| Disk::new(48)).collect();
    if disks.len() < 3 {
        return None;
    }
    let data = disks.iter().map(|disk| Some(disk.path().join("data"))).collect();
    let config = format!("disk_reserve = {}\n", 16 * MIB);
    let cluster = Cluster::with(3, Plan { config, data, ..Plan::default() });
    Some((disks, cluster))
}

/// Grants and renews through these nodes until one serves; returns how long that took.
fn served(cluster: &Cluster, numbers: &[usize], resource: &str) -> Duration {
    let (began, mut turn) = (Instant::now(), 0);
    soon("a grant", || {
        let mut client = cluster.client(numbers[turn % numbers.len()]);
        turn += 1;
        client.patience = Duration::from_secs(2);
        let answer = client.try_post(LEASES, &grant("served", 60_000, resource)).ok()?;
        (answer.status == 201 || answer.code() == "held").then_some(())
    });
    began.elapsed()
}

#[test]
fn with_a_follower_on_a_full_disk_the_cluster_goes_on() {
    let Some((disks, mut cluster)) = on_small_disks() else { return };
    let leader = cluster.leader();
    let (full, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let held = id_of(&cluster.client(full).post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    disks[full].fill_to(MIB);
    thread::sleep(Duration::from_millis(500));
    let value = "x".repeat(100_000);
    for number in 0..20 {
        cluster.client(other).put(&format!("{ENTRIES}/k/{number}"), &value).expect(200);
    }
    println!("served after {:?}", served(&cluster, &[leader, other], "b"));
    assert!(cluster.leads(leader), "the leader stays");
    assert!(cluster.nodes[full].server.runs(), "the full node lives: {}", cluster.nodes[full].server.stderr());
    disks[full].make_room();
    let took = cluster.caught_up(full, leader);
    println!("with room again it caught up after {took:?}");
    assert_eq!(cluster.client(full).get(&lease(&held)).expect(200).json["holder"], "ann");
    served(&cluster, &[full], "c");
}

#[test]
fn with_the_leader_on_a_full_disk_the_cluster_goes_on() {
    let Some((disks, mut cluster)) = on_small_disks() else { return };
    let full = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|number| *number != full).collect();
    let held = cluster.client(full).post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    disks[full].fill_to(MIB);
    let took = served(&cluster, &others, "b");
    println!("with the leader's disk full, others served after {took:?}");
    assert!(cluster.nodes[full].server.runs(), "the full node lives: {}", cluster.nodes[full].server.stderr());
    disks[full].make_room();
    let leader = cluster.leader();
    cluster.caught_up(full, leader);
    assert_eq!(cluster.client(full).get(&lease(&id_of(&held))).expect(200).token(), held.token());
}
