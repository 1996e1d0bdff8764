//! Watches: every event once and in order, or a clear word that there is a gap.

use std::io::Write;
use std::thread;
use std::time::Duration;

use crate::clients::{ENTRIES, LEASES, grant};
use crate::history;
use crate::http::{Events, Streamed, connect};
use crate::server::{Server, heavy};

const WATCH: &str = "/v1/ns/default/watch";

#[test]
fn a_watch_goes_on_after_a_kill_without_gap_or_repetition() {
    let mut server = Server::start();
    let mut seen = Vec::new();
    let mut last = None;
    for round in 0..3_u64 {
        let events =
            Events::open(server.address, &format!("{WATCH}?since=0&prefix=n/"), last).unwrap().expect("a watch");
        let mut client = server.client();
        for number in 1..=20 {
            client.put(&format!("{ENTRIES}/n/{}", round * 20 + number), "x").expect(200);
            client.put(&format!("{ENTRIES}/other/{number}"), "x").expect(200);
        }
        // The last few are left unread, as by a client that is a little behind.
        let unread = if round == 2 { 0 } else { 5 };
        while seen.len() < (round as usize + 1) * 20 - unread {
            let change = history::change(&events.change_within(Duration::from_secs(10)).expect("all is told"));
            last = Some(change.revision);
            seen.extend(change.events.into_iter().map(|event| event.key));
        }
        server.kill();
        server.restart();
    }
    let expected: Vec<String> = (1..=60).map(|number| format!("n/{number}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn the_future_and_nonsense_cannot_be_watched() {
    let server = Server::start();
    let mut client = server.client();
    client.get(&format!("{WATCH}?since=999999")).refused(422, "invalid");
    client.get(&format!("{WATCH}?since=-1")).refused(422, "invalid");
    client.get(&format!("{WATCH}?sinse=1")).refused(422, "invalid");
    let answer = client.send("GET", WATCH, &[("last-event-id", "x")], b"").unwrap();
    answer.refused(422, "invalid");
}

#[test]
fn a_slow_reader_hurts_nobody_and_what_is_too_old_is_refused() {
    let _alone = heavy();
    let server = Server::start();
    let mut slow = connect(server.address).unwrap();
    write!(slow.get_mut(), "GET {WATCH} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let events = Events::open(server.address, WATCH, None).unwrap().expect("a watch");
    let mut client = server.client();
    let first = client.post(LEASES, &grant("ann", 60_000, "a")).expect(201).revision();
    // More than the server keeps of events: 64 MiB.
    let big = "x".repeat(1 << 20);
    let (mut slowest, mut delivered) = (Duration::ZERO, 0);
    for number in 0..72 {
        let answer = client.put(&format!("{ENTRIES}/big/{}", number % 4), &big).expect(200);
        slowest = slowest.max(answer.answered - answer.sent);
        let told = loop {
            let change = events.change_within(Duration::from_secs(20)).expect("the quick reader is told");
            delivered += 1;
            if change.id >= answer.revision() {
                break change;
            }
        };
        assert_eq!(told.id, answer.revision());
    }
    println!("72 MiB past a reader that reads nothing: {delivered} changes, slowest write {slowest:?}");
    let old = Events::open(server.address, &format!("{WATCH}?since={first}"), None).unwrap();
    let Err(refused) = old else { panic!("events after {first} are still there") };
    let refused = refused.refused(410, "compacted");
    let oldest = refused.json["oldest"].as_u64().expect("it says from where one can watch");
    assert!(oldest > first);
    let next = Events::open(server.address, &format!("{WATCH}?since={oldest}"), None).unwrap().expect("a watch");
    assert_eq!(next.change_within(Duration::from_secs(10)).expect("the next one").id, oldest + 1);
    drop(slow);
    assert_eq!(client.get(&format!("{ENTRIES}?prefix=big/&limit=1")).expect(200).json["count"], 4);
}

#[test]
fn a_reader_that_falls_behind_what_is_kept_is_told_and_cut() {
    let _alone = heavy();
    let server = Server::start();
    let mut slow = connect(server.address).unwrap();
    write!(slow.get_mut(), "GET {WATCH} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut client = server.client();
    thread::sleep(Duration::from_millis(300));
    let big = "x".repeat(1 << 20);
    for number in 0..90 {
        client.put(&format!("{ENTRIES}/big/{}", number % 4), &big).expect(200);
    }
    let events = Events::from_open(slow).unwrap();
    let mut last = 0;
    let end = loop {
        match events.next_within(Duration::from_secs(20)).expect("what is buffered arrives, then a word") {
            Streamed::Message(message) if message.event == "too_slow" => break message,
            Streamed::Message(message) => last = message.id.max(last),
            other @ (Streamed::Ended | Streamed::Broke) => panic!("{other:?} without a word"),
        }
    };
    assert_eq!(end.id, last, "it says up to where everything was delivered");
    assert!(matches!(events.next_within(Duration::from_secs(10)), Some(Streamed::Ended)));
}
