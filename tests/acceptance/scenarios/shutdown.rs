//! SIGTERM: a clean end, soon, and nothing acknowledged is lost by it.

use std::thread;
use std::time::Duration;

use leasehold_sim::checkers::assert_kept;
use leasehold_sim::history::History;

use crate::clients::{LEASES, Run, grant, id_of, lease};
use crate::http::{Client, Events, Streamed};
use crate::server::{Server, heavy};

#[test]
fn told_to_stop_under_load_it_ends_cleanly_and_keeps_everything() {
    let _alone = heavy();
    let mut server = Server::start();
    let run = Run::new(server.address, 7);
    let watcher = run.watch();
    let mut clients: Vec<_> = (0..4).map(|number| run.contend(number)).collect();
    clients.push(run.keep(0));
    clients.extend((0..2).map(|number| run.count(number)));
    for round in 0..2 {
        thread::sleep(Duration::from_millis(1500));
        let (status, took) = server.terminate();
        println!("round {round}: ended within {took:?}");
        assert!(status.success(), "{status}: {}", server.stderr());
        assert!(took < Duration::from_secs(5), "it took {took:?}");
        server.restart();
        assert!(!server.stderr().contains("were cut"), "a clean end leaves a clean log: {}", server.stderr());
    }
    thread::sleep(Duration::from_millis(500));
    run.stop();
    let mut history = History::default();
    for client in clients {
        history.absorb(client.join().expect("the client saw what it may see"));
    }
    run.end_watches_after(server.client().get("/v1/cluster").revision());
    history.absorb(watcher.join().expect("the watch goes on"));
    assert!(history.holds.len() > 10 && history.puts.len() > 50, "there was hardly any load");
    assert_kept(&history);
}

#[test]
fn open_calls_and_watches_are_ended_with_a_word() {
    let mut server = Server::start();
    let address = server.address;
    let mut client = server.client();
    let held = id_of(&client.post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    let events = Events::open(address, "/v1/ns/default/watch", None).unwrap().expect("a watch");
    let body = grant("bob", 60_000, "a");
    let waiting = thread::spawn(move || Client::new(address).post(&format!("{LEASES}?wait=forever"), &body));
    assert!(events.change_within(Duration::from_secs(10)).is_some(), "bob is in the queue");
    let idle = crate::http::connect(address).unwrap();
    let (status, took) = server.terminate();
    assert!(status.success() && took < Duration::from_secs(5), "{status} after {took:?}: {}", server.stderr());
    let refused = waiting.join().unwrap().refused(503, "shutting_down");
    assert_eq!(refused.json["may_have_happened"], true);
    assert!(matches!(events.next_within(Duration::from_secs(5)), Some(Streamed::Ended)), "ended, not cut");
    drop(idle);
    server.restart();
    assert_eq!(server.client().get(&lease(&held)).expect(200).json["holder"], "ann");
}

#[test]
fn interrupted_it_ends_as_cleanly() {
    let mut server = Server::start();
    server.client().post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    let status = server.interrupt();
    assert!(status.success(), "{status}");
    server.restart();
    assert_eq!(server.client().get("/v1/ns/default/resources/a").expect(200).json["state"], "held");
}

#[test]
fn hangup_reloads_the_log_level_and_keeps_serving() {
    let mut server = Server::configured("[log]\nlevel = \"warn,cluster=info\"\n");
    server.client().post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    server.configure("[log]\nlevel = \"debug,cluster=info\"\n");
    server.hang_up();
    let said = server.stderr_with("SIGHUP: log level in force");
    assert!(said.contains("debug,cluster=info"), "{said}");
    server.configure("[log]\nlevel = \"garbage==\"\n");
    server.hang_up();
    let said = server.stderr_with("SIGHUP: settings stay as they are");
    assert!(said.contains("garbage=="), "{said}");
    assert_eq!(server.client().get("/v1/ns/default/resources/a").expect(200).json["state"], "held");
    let (status, _) = server.terminate();
    assert!(status.success(), "{status}");
    assert!(server.stderr().trim_end().ends_with("stopped"), "{}", server.stderr());
}
