//! A running single node grows to three and five and shrinks again, under load.

use std::thread;
use std::time::{Duration, Instant};

use crate::clients::{LEASES, grant, id_of, lease};
use crate::cluster::{Cluster, Plan};
use crate::load::{Load, seed};
use crate::runs::{Home, lease as run_lease};
use crate::server::heavy;

#[test]
fn a_single_node_grows_to_three_and_five_and_shrinks_to_three_under_load() {
    let _alone = heavy();
    let config = "[raft]\nsnapshot_bytes = 131072\nretained_entries = 50\n".to_owned();
    let mut cluster = Cluster::alone(Plan { config, ..Plan::default() });
    let held = cluster.client(0).post(LEASES, &grant("ann", 120_000, "kept")).expect(201);
    let mut load = Load::start(cluster.addresses(), seed(), 6);
    // A log that the first snapshots have already cut.
    thread::sleep(Duration::from_secs(2));
    for size in 2..=5 {
        let began = Instant::now();
        let number = cluster.join().unwrap_or_else(|refused| panic!("{refused:?}"));
        cluster.until_voters(number, size);
        println!("{} is a voter after {:?}", cluster.nodes[number].name, began.elapsed());
        load.also_at(cluster.nodes[number].server.address);
        thread::sleep(Duration::from_millis(500));
    }
    // The leader and another one leave.
    let home = Home::new();
    for size in [4, 3] {
        let leader = cluster.leader();
        let gone = if size == 4 { leader } else { (leader + 1) % cluster.nodes.len() };
        let name = cluster.nodes[gone].name.clone();
        let asked = cluster.nodes[(gone + 1) % cluster.nodes.len()].server.address;
        let (code, said) = run_lease(asked, &home, &["cluster", "remove", &name, "--yes"]);
        assert_eq!(code, Some(0), "{said}");
        println!("{name} was removed{}: {said}", if gone == leader { " while it led" } else { "" });
        cluster.forget(gone);
        let leader = cluster.leader();
        cluster.until_voters(leader, size);
        thread::sleep(Duration::from_millis(500));
    }
    for number in 0..cluster.nodes.len() {
        let read = cluster.client(number).get(&lease(&id_of(&held))).expect(200);
        assert_eq!(read.token(), held.token());
    }
    let history = load.end();
    assert!(history.holds.len() > 20 && history.puts.len() > 50, "there was hardly any load");
}
