//! Overload: new work is held back before what keeps leases alive.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::{LEASES, grant, id_of, lease};
use crate::server::{Server, heavy};

#[test]
fn a_flood_of_new_leases_does_not_end_those_that_are_renewed() {
    let _alone = heavy();
    let server = Server::start();
    let mut client = server.client();
    let kept: Vec<String> = (0..20)
        .map(|n| id_of(&client.post(LEASES, &grant(&format!("kept-{n}"), 2000, &format!("kept/{n}"))).expect(201)))
        .collect();
    let (stop, granted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood: Vec<_> = (0..48)
        .map(|_| {
            let (mut client, stop, granted) = (server.client(), Arc::clone(&stop), Arc::clone(&granted));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.post(LEASES, &json!({ "holder": "flood", "ttl": "500ms" }));
                    match (answer.status, answer.code()) {
                        (201, _) => granted.fetch_add(1, Ordering::Relaxed),
                        (429, "overloaded") => 0,
                        (status, _) => panic!("{status} {}", answer.text),
                    };
                }
            })
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(6);
    let (mut slowest, mut renewals) = (Duration::ZERO, 0);
    while Instant::now() < until {
        let answer = client.post(&format!("{LEASES}/renew"), &json!({ "leases": kept })).expect(200);
        slowest = slowest.max(answer.answered - answer.sent);
        renewals += kept.len();
        for result in answer.json["results"].as_array().unwrap() {
            assert!(result["renewed"].is_object(), "{result}");
        }
        thread::sleep(Duration::from_millis(300));
    }
    stop.store(true, Ordering::Relaxed);
    for thread in flood {
        thread.join().unwrap();
    }
    let granted = granted.load(Ordering::Relaxed);
    println!("{granted} grants by 48 connections in 6 s; {renewals} renewals, the slowest call took {slowest:?}");
    for id in &kept {
        client.get(&lease(id)).expect(200);
    }
}

#[test]
fn more_connections_than_there_are_places_wait_for_one() {
    let server = Server::configured("connections = 8\n");
    let mut client = server.client();
    let id = id_of(&client.post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    // Nothing, or the first byte of a request, and then silence: they are cut, and others get their places.
    let mut silent: Vec<_> = (0..16).map(|_| crate::http::connect(server.address).unwrap()).collect();
    for socket in silent.iter_mut().step_by(2) {
        socket.get_mut().write_all(b"P").unwrap();
    }
    // A connection that is in use keeps its place.
    for _ in 0..5 {
        client.get(&lease(&id)).expect(200);
    }
    let mut late = server.client();
    late.patience = Duration::from_secs(60);
    late.get(&lease(&id)).expect(200);
    drop(silent);
}
