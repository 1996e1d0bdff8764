//! Nodes killed and stopped at random under contending clients: every promise holds over it.

use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cluster::{Cluster, LAN, Plan};
use crate::load::{Load, seed};
use crate::server::heavy;

/// What happened to the nodes.
#[derive(Debug, Default)]
struct Blows {
    leaders_killed: u32,
    followers_killed: u32,
    leaders_stopped: u32,
    followers_stopped: u32,
    all_killed: u32,
}

#[test]
fn killed_and_stopped_at_random_under_load_a_cluster_keeps_its_promises() {
    hurt(Plan { config: "[raft]\nsnapshot_bytes = 65536\n".to_owned(), ..Plan::default() }, 22);
}

#[test]
fn killed_and_stopped_at_random_close_nodes_keep_their_promises() {
    hurt(Plan { config: LAN.to_owned(), ..Plan::default() }, 14);
}

fn hurt(plan: Plan, seconds: u64) {
    let _alone = heavy();
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::with(3, plan);
    let load = Load::start(cluster.addresses(), seed, 8);
    let (began, mut blows) = (Instant::now(), Blows::default());
    while began.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(Duration::from_millis(rng.random_range(300..1500)));
        blow(&mut cluster, &mut rng, &mut blows);
    }
    thread::sleep(Duration::from_millis(500));
    println!("{blows:?}");
    let history = load.end();
    assert!(history.holds.len() > 20 && history.puts.len() > 50, "there was hardly any load");
}

fn blow(cluster: &mut Cluster, rng: &mut StdRng, blows: &mut Blows) {
    let leader = cluster.leader();
    let target = if rng.random_bool(0.6) { leader } else { (leader + rng.random_range(1..3)) % 3 };
    match rng.random_range(0..10) {
        0..5 => {
            *(if target == leader { &mut blows.leaders_killed } else { &mut blows.followers_killed }) += 1;
            cluster.kill(target);
            thread::sleep(Duration::from_millis(rng.random_range(0..1500)));
            cluster.restart(target);
        }
        5 => {
            blows.all_killed += 1;
            for number in 0..3 {
                cluster.kill(number);
            }
            cluster.restart_all();
        }
        _ => {
            *(if target == leader { &mut blows.leaders_stopped } else { &mut blows.followers_stopped }) += 1;
            cluster.pause(target);
            thread::sleep(Duration::from_millis(rng.random_range(50..2200)));
            cluster.resume(target);
        }
    }
}
