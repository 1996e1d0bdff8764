//! Leases end on time and never early; time that nobody could use is forgotten.
//!
//! Wall-clock jumps are not tried here, because the machine's clock belongs to everybody. They are covered below this
//! level: the core gets its time from entries and reads no clock (its `clippy.toml` bans them), and the lease
//! clock's tests show that it follows two monotonic clocks and nothing else. Wall time is only shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_sim::checkers::never_early;
use leasehold_sim::history::{Ack, History, Moment};
use serde_json::json;

use crate::clients::{EVERYTHING, LEASES, grant, id_of, lease};
use crate::history;
use crate::http::{Client, Events};
use crate::server::{Server, heavy};

const LEASE_COUNT: u64 = 2000;
const GRANTERS: u64 = 4;

#[test]
fn thousands_of_leases_end_on_time_and_none_early() {
    let _alone = heavy();
    let server = Server::start();
    let events = Events::open(server.address, EVERYTHING, None).unwrap().expect("a watch");
    let granters: Vec<_> = (0..GRANTERS).map(|number| grant_many(server.client(), number)).collect();
    let mut history = History::default();
    let (mut changes, mut ended) = (Vec::new(), BTreeMap::new());
    while ended.len() < LEASE_COUNT as usize {
        let message = events.change_within(Duration::from_secs(30)).expect("all leases end");
        let change = history::change(&message);
        for event in change.events.iter().filter(|event| event.kind == "lease_ended") {
            assert_eq!(event.cause, "expired");
            assert!(ended.insert(event.holder.clone(), change.seen).is_none(), "{} ended twice", event.holder);
        }
        changes.push(change);
    }
    history.watched.push(history::watched("all", changes));
    let mut ids = Vec::new();
    for granter in granters {
        for (ack, id) in granter.join().unwrap() {
            ids.push((ack.lease.clone(), id));
            history.acks.push(ack);
        }
    }
    let mut client = server.client();
    for (holder, id) in ids.iter().step_by(40) {
        history.ends.push(history::end(holder, &client.get(&lease(id)).refused(410, "lease_ended")));
    }
    assert_eq!(never_early::check(&history), []);
    report_lateness(&history.acks, &ended);
}

/// Grants leases that live for 300 to 1500 ms.
fn grant_many(mut client: Client, number: u64) -> thread::JoinHandle<Vec<(Ack, String)>> {
    let grant_one = move |turn: u64| {
        let holder = format!("holder-{number}-{turn}");
        let ttl = 300 + (turn * 7919 + number * 104_729) % 1200;
        let answer = client.post(LEASES, &json!({ "holder": holder, "ttl": ttl })).expect(201);
        (history::ack(&holder, &answer), id_of(&answer))
    };
    thread::spawn(move || (0..LEASE_COUNT / GRANTERS).map(grant_one).collect())
}

/// Prints how late the ends were seen, counted from the earliest moment they were possible.
fn report_lateness(acks: &[Ack], ended: &BTreeMap<String, Moment>) {
    let late = |ack: &Ack| ended[&ack.lease].since(ack.sent.after(ack.remaining));
    let mut all: Vec<Duration> = acks.iter().map(late).collect();
    all.sort();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    println!("expiry lateness of {} leases: p50 {:?}, p99 {:?}, max {:?}", all.len(), at(0.5), at(0.99), at(1.0));
    assert!(at(1.0) < Duration::from_secs(1), "the last was {:?} late", at(1.0));
}

#[test]
fn a_restart_neither_shortens_nor_renews_the_remaining_time() {
    let mut server = Server::start();
    let mut client = server.client();
    let granted = client.post(LEASES, &grant("ann", 20_000, "a")).expect(201);
    let id = id_of(&granted);
    thread::sleep(Duration::from_secs(3));
    let lived_at_least = granted.answered.elapsed();
    server.kill();
    let lived_at_most = granted.sent.elapsed();
    thread::sleep(Duration::from_secs(3));
    let again = Instant::now();
    server.restart();
    let read = server.client().get(&lease(&id)).expect(200);
    assert_eq!(read.token(), granted.token());
    let ttl = Duration::from_secs(20);
    let floor = ttl - lived_at_most - again.elapsed();
    // Time since the last committed tick is forgotten: half a second, and a little for a busy machine.
    let ceiling = ttl - lived_at_least + Duration::from_millis(1500);
    let remaining = read.remaining();
    println!("20 s, 3 s up, 3 s down: {remaining:?} remain, between {floor:?} and {ceiling:?}");
    assert!(floor <= remaining && remaining <= ceiling, "{remaining:?} is not between {floor:?} and {ceiling:?}");
}

#[test]
fn after_a_pause_leases_do_not_all_end_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let granted: Vec<_> = (0..50)
        .map(|n| id_of(&client.post(LEASES, &grant(&format!("holder-{n}"), 3500, &format!("r/{n}"))).expect(201)))
        .collect();
    let before = client.get(&lease(&granted[0])).expect(200);
    server.pause();
    // Longer than every ttl; were the pause counted, all would be over.
    thread::sleep(Duration::from_secs(4));
    server.resume();
    let resumed = Instant::now();
    let renewed = client.post(&format!("{LEASES}/renew"), &json!({ "leases": granted })).expect(200);
    let running = before.answered.elapsed() - Duration::from_secs(4) + resumed.elapsed();
    let gone = renewed.time() - before.time();
    println!("{gone} ms of lease time went by over a pause of 4 s");
    assert!(gone <= 1000 + running.as_millis() as u64 + 500, "{gone} ms went by, only a second may");
    for result in renewed.json["results"].as_array().unwrap() {
        assert!(result["renewed"].is_object(), "{result}");
    }
}

#[test]
fn a_lease_that_is_renewed_outlives_its_ttl_many_times() {
    let server = Server::start();
    let mut client = server.client();
    let id = id_of(&client.post(LEASES, &grant("ann", 1000, "a")).expect(201));
    let until = Instant::now() + Duration::from_secs(4);
    let mut history = History::default();
    while Instant::now() < until {
        thread::sleep(Duration::from_millis(200));
        let answer = client.post(&format!("{}/renew", lease(&id)), &json!({})).expect(200);
        history.acks.push(history::ack("ann", &answer));
    }
    thread::sleep(Duration::from_millis(1600));
    let over = client.get(&lease(&id)).refused(410, "lease_ended");
    assert_eq!(over.json["ended"]["cause"], "expired");
    history.ends.push(history::end("ann", &over));
    assert_eq!(never_early::check(&history), []);
}

#[test]
fn everything_of_a_lease_goes_in_one_revision_and_the_next_waiter_is_served_in_it() {
    let server = Server::start();
    let address = server.address;
    let events = Events::open(address, EVERYTHING, None).unwrap().expect("a watch");
    let mut client = server.client();
    let body = json!({ "holder": "parent", "ttl": "1200ms", "resources": ["a", "b"] });
    let parent = id_of(&client.post(LEASES, &body).expect(201));
    let body = json!({ "holder": "child", "ttl": "30s", "resource": "c", "parent": parent });
    client.post(LEASES, &body).expect(201);
    client.put(&format!("{}/bound?lease={parent}", crate::clients::ENTRIES), "x").expect(200);
    let next = Arc::new(grant("next", 10_000, "a"));
    let waiter = thread::spawn(move || Client::new(address).post(&format!("{LEASES}?wait=20s"), &next));
    let granted = waiter.join().unwrap().expect(201);
    let end = loop {
        let change = history::change(&events.change_within(Duration::from_secs(10)).expect("the end is told"));
        if change.events.iter().any(|event| event.kind == "lease_ended") {
            break change;
        }
    };
    let mut kinds: Vec<_> = end.events.iter().map(|event| event.kind.as_str()).collect();
    kinds.sort_unstable();
    let all =
        ["claim_ended", "claim_ended", "claim_ended", "claim_granted", "entry_deleted", "lease_ended", "lease_ended"];
    assert_eq!(kinds, all);
    assert_eq!(granted.token(), end.revision, "the waiter was served in the same revision");
}
