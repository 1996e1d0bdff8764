//! Clocks that run at other rates, within the 2 % that are promised for.
//!
//! A debug build runs its clocks as `LEASE_TEST_CLOCK_RATE` says. The clients here have the machine's clocks; that one of
//! theirs is slow is counted in afterwards: its holder acts for longer in real time than it believes.

use std::thread;
use std::time::Duration;

use leasehold_sim::checkers::assert_kept;

use crate::cluster::{Cluster, Plan};
use crate::load::{Load, seed};
use crate::proxy::Proxy;
use crate::runs::{Home, STUBBORN, Supervised, lives, next_grant};
use crate::server::heavy;

const RATE: &str = "LEASE_TEST_CLOCK_RATE";

fn rates(rates: [&str; 3]) -> Plan {
    let env = rates.map(|rate| vec![(RATE.to_owned(), rate.to_owned())]).to_vec();
    Plan { env, ..Plan::default() }
}

#[test]
fn with_nodes_two_percent_fast_and_slow_nobody_holds_beside_another() {
    let _alone = heavy();
    let mut cluster = Cluster::with(3, rates(["1.02", "0.98", "1.02"]));
    let load = Load::start(cluster.addresses(), seed(), 8);
    for _ in 0..6 {
        thread::sleep(Duration::from_millis(1500));
        let next = (cluster.leader() + 1) % 3;
        cluster.transfer(next);
    }
    let mut history = load.end();
    for ack in &mut history.acks {
        ack.valid_until = ack.sent.after(ack.valid_until.since(ack.sent).div_f64(0.98));
    }
    assert_kept(&history);
}

#[test]
fn a_command_under_a_slow_clock_is_dead_before_fast_nodes_grant_to_the_next() {
    let cluster = Cluster::with(3, rates(["1.02"; 3]));
    let home = Home::new();
    let proxy = Proxy::before(cluster.nodes[1].server.address);
    let args = ["run", "a", "--ttl", "4s", "--", "sh", "-c", STUBBORN];
    let run = Supervised::with(proxy.address, &home, &args, |command| {
        command.env(RATE, "0.98");
    });
    let pids = home.stubborn();
    proxy.swallow_everything();
    let granted = next_grant(&cluster.client(0), "a");
    let (last, alive) = (home.last_tick(), pids.iter().any(|pid| lives(*pid)));
    assert!(last < granted && !alive, "last seen at {last}, granted again at {granted}");
    println!("dead {} ms before the next grant", granted - last);
    assert_eq!(run.end().0, Some(79));
}
