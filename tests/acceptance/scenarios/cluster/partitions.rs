//! A bad network between nodes under load: partitions, wires that carry one way only, slow ones.
//!
//! The same troubles over a proxy, everywhere, and over a real network of namespaces, where the machine allows it.

use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::clients::{LEASES, grant};
use crate::cluster::{Cluster, LAN, Plan};
use crate::load::{Load, seed};
use crate::namespaces::Namespaces;
use crate::server::heavy;
use crate::wires::Net;

/// What a trouble is.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    LeaderAlone,
    FollowerAlone,
    /// Two followers do not reach each other, both reach the leader.
    FollowersApart,
    /// The leader and one follower do not reach each other, both reach the third.
    LeaderAndOneApart,
    /// Nobody hears the leader, which hears everybody.
    LeaderMute,
    /// The leader hears nobody, and everybody hears it.
    LeaderDeaf,
    FollowerMute,
    FollowerDeaf,
    LeaderSlow,
    FollowerSlow,
}

const ALL: [Trouble; 10] = [
    Trouble::LeaderAlone,
    Trouble::FollowerAlone,
    Trouble::FollowersApart,
    Trouble::LeaderAndOneApart,
    Trouble::LeaderMute,
    Trouble::LeaderDeaf,
    Trouble::FollowerMute,
    Trouble::FollowerDeaf,
    Trouble::LeaderSlow,
    Trouble::FollowerSlow,
];

/// Slower than the load needs, faster than heartbeats do.
const SLOW: u32 = 40_000;

impl Trouble {
    fn make(self, net: &dyn Net, leader: usize) {
        let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
        let mute = |node: usize| (0..3).filter(|to| *to != node).for_each(|to| net.cut_one_way(node, to));
        let deaf = |node: usize| (0..3).filter(|from| *from != node).for_each(|from| net.cut_one_way(from, node));
        match self {
            Trouble::LeaderAlone => net.isolate(leader),
            Trouble::FollowerAlone => net.isolate(one),
            Trouble::FollowersApart => net.cut(one, other),
            Trouble::LeaderAndOneApart => net.cut(leader, one),
            Trouble::LeaderMute => mute(leader),
            Trouble::LeaderDeaf => deaf(leader),
            Trouble::FollowerMute => mute(one),
            Trouble::FollowerDeaf => deaf(one),
            Trouble::LeaderSlow => net.slow_down(leader, SLOW),
            Trouble::FollowerSlow => net.slow_down(one, SLOW),
        }
    }
}

#[test]
fn over_wires_that_are_cut_and_slow_a_cluster_keeps_its_promises() {
    let _alone = heavy();
    let mut cluster = Cluster::with(3, Plan { wired: true, ..Plan::default() });
    let wires = cluster.wires.take().unwrap();
    in_trouble(&mut cluster, &wires, |rng| match rng.random_bool(0.5) {
        true => wires.heal(),
        false => wires.heal_with_new_connections(),
    });
}

#[test]
fn over_a_real_network_that_is_cut_and_slow_a_cluster_keeps_its_promises() {
    let _alone = heavy();
    let Some(net) = Namespaces::of(3) else { return };
    let plan = Plan { places: net.places.clone(), args: vec!["--insecure".to_owned()], ..Plan::default() };
    let mut cluster = Cluster::with(3, plan);
    in_trouble(&mut cluster, &net, |_| net.heal());
}

/// Every trouble once, in a random order, under load.
fn in_trouble(cluster: &mut Cluster, net: &dyn Net, heal: impl Fn(&mut StdRng)) {
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    let load = Load::start(cluster.addresses(), seed, 6);
    let mut troubles = ALL.to_vec();
    while !troubles.is_empty() {
        thread::sleep(Duration::from_millis(rng.random_range(200..700)));
        let leader = cluster.leader();
        let trouble = troubles.remove(rng.random_range(0..troubles.len()));
        trouble.make(net, leader);
        thread::sleep(Duration::from_millis(rng.random_range(500..2500)));
        heal(&mut rng);
        let healed = Instant::now();
        let next = cluster.leader();
        println!("{trouble:?} with n{} leading; n{} led {:?} after", leader + 1, next + 1, healed.elapsed());
    }
    thread::sleep(Duration::from_millis(500));
    let history = load.end();
    assert!(history.holds.len() > 20 && history.puts.len() > 50, "there was hardly any load");
}

#[test]
fn a_majority_goes_on_whichever_way_the_leader_is_cut_off() {
    let mut cluster = Cluster::with(3, Plan { wired: true, config: LAN.to_owned(), ..Plan::default() });
    let wires = cluster.wires.take().unwrap();
    for trouble in [Trouble::LeaderAlone, Trouble::LeaderMute, Trouble::LeaderDeaf, Trouble::LeaderAndOneApart] {
        let leader = cluster.leader();
        trouble.make(&wires, leader);
        let cut = Instant::now();
        let body = grant("ann", 60_000, &format!("{trouble:?}"));
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        let mut turn = 0;
        let served = loop {
            let mut client = cluster.client(others[turn % 2]);
            turn += 1;
            client.patience = Duration::from_secs(2);
            match client.try_post(LEASES, &body) {
                Ok(answer) if answer.status == 201 || answer.code() == "held" => break Some(cut.elapsed()),
                Ok(_) | Err(_) if cut.elapsed() > Duration::from_secs(8) => break None,
                Ok(_) | Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        println!("{trouble:?}: the others serve after {served:?}");
        assert!(served.is_some(), "{trouble:?}: the others do not serve");
        wires.heal();
    }
}
