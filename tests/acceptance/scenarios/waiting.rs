//! Waiting in a queue with an open call.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_sim::checkers::{fifo, tokens_rise};
use leasehold_sim::history::{Change, History};
use serde_json::{Value, json};

use crate::clients::{EVERYTHING, LEASES, RESOURCES, grant, id_of, lease};
use crate::history;
use crate::http::{Answer, Client, Events, connect, span};
use crate::server::Server;

/// Asks for a lease in a thread of its own and waits for it there.
fn wait_for(address: SocketAddr, body: Value, patience: &str) -> thread::JoinHandle<Answer> {
    let path = format!("{LEASES}?wait={patience}");
    thread::spawn(move || Client::new(address).post(&path, &body))
}

/// Waits until the queue of a resource has this length.
fn queue_becomes(client: &mut Client, resource: &str, length: u64) -> Answer {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = client.get(&format!("{RESOURCES}/{resource}/queue")).expect(200);
        if answer.json["length"] == length {
            return answer;
        }
        assert!(Instant::now() < until, "the queue of {resource} does not become {length}: {}", answer.text);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let server = Server::start();
    let events = Events::open(server.address, EVERYTHING, None).unwrap().expect("a watch");
    let mut client = server.client();
    let first = id_of(&client.post(LEASES, &grant("first", 30_000, "a")).expect(201));
    let mut waiters = Vec::new();
    for number in 1..=6 {
        let body = grant(&format!("waiter-{number}"), 30_000, "a");
        waiters.push(wait_for(server.address, body, "30s"));
        queue_becomes(&mut client, "a", number);
    }
    client.delete(&lease(&first)).expect(204);
    let mut tokens = Vec::new();
    for waiter in waiters {
        let answer = waiter.join().unwrap().expect(201);
        assert_eq!(answer.json["state"], "live");
        tokens.push(answer.token());
        client.delete(&lease(&id_of(&answer))).expect(204);
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let mut changes = Vec::new();
    let last = client.get("/v1/cluster").revision();
    while changes.last().is_none_or(|change: &Change| change.revision < last) {
        changes.push(history::change(&events.change_within(Duration::from_secs(10)).expect("all is told")));
    }
    let history = History { watched: vec![history::watched("all", changes)], ..History::default() };
    assert_eq!(fifo::check(&history), []);
    assert_eq!(tokens_rise::check(&history), []);
}

#[test]
fn an_open_call_keeps_its_waiting_lease_alive_beyond_its_ttl() {
    let server = Server::start();
    let mut client = server.client();
    let first = id_of(&client.post(LEASES, &grant("first", 30_000, "a")).expect(201));
    let waiter = wait_for(server.address, grant("patient", 600, "a"), "30s");
    queue_becomes(&mut client, "a", 1);
    thread::sleep(Duration::from_secs(3));
    let queue = queue_becomes(&mut client, "a", 1);
    assert_eq!(queue.json["waiters"][0]["holder"], "patient");
    client.delete(&lease(&first)).expect(204);
    let answer = waiter.join().unwrap().expect(201);
    assert_eq!(answer.remaining(), Duration::from_millis(600), "at the grant its deadline is set anew");
    assert!(span(&answer.json["held"][0]["waited"]) >= Duration::from_secs(2), "{}", answer.text);
}

#[test]
fn a_broken_call_leaves_the_queue_at_once() {
    let server = Server::start();
    let mut client = server.client();
    client.post(LEASES, &grant("first", 60_000, "a")).expect(201);
    let body = json!({ "id": "00000000000000aa", "holder": "gone", "ttl": "60s", "resource": "a" }).to_string();
    let head = format!("POST {LEASES}?wait=forever HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    let mut socket = connect(server.address).unwrap();
    write!(socket.get_mut(), "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    queue_becomes(&mut client, "a", 1);
    drop(socket);
    queue_becomes(&mut client, "a", 0);
    let over = client.get(&lease("00000000000000aa")).refused(410, "lease_ended");
    assert_eq!(over.json["ended"]["cause"], "left");
}

#[test]
fn a_repeated_call_takes_the_wait_over_from_a_broken_one() {
    let server = Server::start();
    let mut client = server.client();
    let first = id_of(&client.post(LEASES, &grant("first", 60_000, "a")).expect(201));
    let body = json!({ "id": "00000000000000bb", "holder": "back", "ttl": "60s", "resource": "a" });
    let text = body.to_string();
    let head = format!("POST {LEASES}?wait=30s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    let mut broken = connect(server.address).unwrap();
    write!(broken.get_mut(), "{head}content-length: {}\r\n\r\n{text}", text.len()).unwrap();
    queue_becomes(&mut client, "a", 1);
    let again = wait_for(server.address, body, "30s");
    // The repetition finds the wait of the first call; there is no outside sign of it.
    thread::sleep(Duration::from_millis(500));
    drop(broken);
    thread::sleep(Duration::from_millis(500));
    queue_becomes(&mut client, "a", 1);
    client.delete(&lease(&first)).expect(204);
    let granted = again.join().unwrap().expect(201);
    thread::sleep(Duration::from_millis(500));
    let lives = client.get(&lease("00000000000000bb")).expect(200);
    assert_eq!(lives.token(), granted.token(), "what was acknowledged is not taken back");
}

#[test]
fn a_late_copy_of_an_answered_call_takes_nothing_away() {
    let server = Server::start();
    let mut client = server.client();
    let body = json!({ "id": "00000000000000cc", "holder": "ann", "ttl": "60s", "resource": "a" });
    let granted = client.post(&format!("{LEASES}?wait=30s"), &body).expect(201);
    let text = body.to_string();
    let head = format!("POST {LEASES}?wait=30s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    // Copies that the network held back, from connections that their client has long closed.
    for _ in 0..20 {
        let mut late = connect(server.address).unwrap();
        write!(late.get_mut(), "{head}content-length: {}\r\n\r\n{text}", text.len()).unwrap();
    }
    thread::sleep(Duration::from_secs(1));
    let lives = client.get(&lease("00000000000000cc")).expect(200);
    assert_eq!(lives.token(), granted.token(), "what was acknowledged is not taken back");
}

#[test]
fn a_broken_call_of_a_living_lease_leaves_the_queue_and_the_lease_lives() {
    let server = Server::start();
    let mut client = server.client();
    client.post(LEASES, &grant("first", 60_000, "a")).expect(201);
    let id = id_of(&client.post(LEASES, &json!({ "holder": "ann", "ttl": "60s" })).expect(201));
    let body = json!({ "resource": "a" }).to_string();
    let mut socket = connect(server.address).unwrap();
    let head = format!("POST {}/claims?wait=30s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n", lease(&id));
    write!(socket.get_mut(), "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    queue_becomes(&mut client, "a", 1);
    drop(socket);
    queue_becomes(&mut client, "a", 0);
    assert_eq!(client.get(&lease(&id)).expect(200).json["state"], "live");
}

#[test]
fn when_patience_is_over_the_answer_names_the_holder_and_the_place() {
    let server = Server::start();
    let mut client = server.client();
    let body = json!({ "holder": "ann", "ttl": "60s", "resource": "a", "reason": "schema 41" });
    let held = client.post(LEASES, &body).expect(201);
    let patient = wait_for(server.address, grant("patient", 30_000, "a"), "30s");
    queue_becomes(&mut client, "a", 1);
    let began = Instant::now();
    let elapsed = client.post(&format!("{LEASES}?wait=700ms"), &grant("bob", 30_000, "a"));
    let elapsed = elapsed.refused(408, "wait_elapsed");
    assert!(began.elapsed() >= Duration::from_millis(700) && began.elapsed() < Duration::from_secs(10));
    let holder = &elapsed.json["holders"][0];
    assert_eq!((&holder["holder"], &holder["reason"]), (&json!("ann"), &json!("schema 41")), "{}", elapsed.text);
    assert_eq!(holder["token"], held.token());
    assert_eq!(elapsed.json["queue"]["position"], 2, "{}", elapsed.text);
    queue_becomes(&mut client, "a", 1);
    // Not waiting at all is refused the same way, at once.
    let refused = client.post(LEASES, &grant("eve", 30_000, "a")).refused(409, "held");
    assert_eq!(refused.json["queue"]["position"], 2, "{}", refused.text);
    assert!(refused.header("retry-after").is_some());
    assert!(!refused.text.contains(&id_of(&held)), "a refusal shows nobody's lease id");
    client.delete(&lease(&id_of(&held))).expect(204);
    patient.join().unwrap().expect(201);
}

#[test]
fn a_higher_priority_goes_first() {
    let server = Server::start();
    let mut client = server.client();
    let first = id_of(&client.post(LEASES, &grant("first", 60_000, "a")).expect(201));
    let mut waiters = Vec::new();
    for (number, priority) in [(1, 0), (2, 5), (3, -1), (4, 5)] {
        let body = json!({ "holder": format!("p{priority}"), "ttl": "60s", "resource": "a", "priority": priority });
        waiters.push((priority, wait_for(server.address, body, "30s")));
        queue_becomes(&mut client, "a", number);
    }
    client.delete(&lease(&first)).expect(204);
    // A stable sort: of equals, the one that came first.
    waiters.sort_by_key(|(priority, _)| -priority);
    let mut tokens = Vec::new();
    for (_, waiter) in waiters {
        let answer = waiter.join().unwrap().expect(201);
        tokens.push(answer.token());
        client.delete(&lease(&id_of(&answer))).expect(204);
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
