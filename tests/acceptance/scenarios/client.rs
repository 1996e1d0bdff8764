//! The Rust client over its stream, against a real server that is killed, frozen and cut off.
//!
//! What needs exact times is tested in `leasehold-client` with a clock that stands still; here it is the way there and
//! back that counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold_client::{Client, Error, Guard, LostCause};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::clients::RESOURCES;
use crate::proxy::Proxy;
use crate::server::Server;

const SOON: Duration = Duration::from_secs(20);

fn client(address: SocketAddr) -> Client {
    Client::connect(&address.to_string()).unwrap()
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn resource(name: &str) -> String {
    format!("{RESOURCES}/{name}")
}

async fn locked(client: &Client, ttl: Duration) -> Guard {
    client.lock("a").ttl(ttl).acquire().await.unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} takes too long"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_told_its_place_and_gets_the_lock_with_a_higher_token() {
    let server = Server::start();
    let (ann, bob) = (client(server.address), client(server.address));
    let first = ann.lock("a").reason("backfill").acquire().await.unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let waits = bob.lock("a").on_progress(move |progress| {
        assert_eq!((progress.resource.as_str(), progress.place), ("a", Some((1, 1))));
        let holder = progress.holder.expect("somebody holds it");
        assert_eq!(holder.reason.as_deref(), Some("backfill"));
        count.fetch_add(1, Ordering::SeqCst);
    });
    let waiting = tokio::spawn(waits.acquire());
    soon("the first word of the queue", async {
        while told.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(millis(5)).await;
        }
    })
    .await;
    let token = first.token().unwrap();
    first.release().await.unwrap();
    let second = soon("the grant", waiting).await.unwrap().unwrap();
    assert!(second.token().unwrap() > token);
    assert!(second.waited() > Duration::ZERO && second.valid_for() > Some(Duration::ZERO));
    let refused = ann.lock("a").try_acquire().await.unwrap_err();
    assert!(matches!(&refused, Error::Held(problem) if problem.holders.is_some()), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_outlives_a_kill_of_the_server() {
    let mut server = Server::start();
    let ann = client(server.address);
    let guard = locked(&ann, millis(6000)).await;
    let token = guard.token().unwrap();
    server.kill();
    server.restart();
    let renewed = guard.validity().sent();
    soon("a renewal by the new process", async {
        while guard.validity().sent() == renewed {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
    assert_eq!(guard.token().unwrap(), token);
    guard.release().await.unwrap();
    assert_eq!(server.client().get(&resource("a")).expect(200).json["state"], "free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_noticed_before_the_deadline() {
    let server = Server::start();
    let ann = client(server.address);
    let guard = locked(&ann, millis(1500)).await;
    server.pause();
    let lost = soon("the loss", guard.lost()).await;
    let left = guard.validity().left();
    assert!(matches!(lost, LostCause::Unreachable { .. }), "{lost:?}");
    assert!(left > Some(Duration::ZERO), "it was told too late: {left:?}");
    assert!(matches!(guard.token(), Err(Error::Lost { .. })));
    server.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_noticed_before_the_deadline_and_nothing_stays_held() {
    let server = Server::start();
    let proxy = Proxy::before(server.address);
    let guard = locked(&client(proxy.address), millis(1500)).await;
    proxy.swallow_everything();
    soon("the loss", guard.lost()).await;
    assert!(guard.validity().left() > Some(Duration::ZERO), "it was told too late");
    proxy.heal();
    let next = soon("the next holder", client(server.address).lock("a").acquire()).await.unwrap();
    assert!(next.token().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_asked_for_again_and_gives_the_same_lease() {
    let server = Server::start();
    let proxy = Proxy::before(server.address);
    let ann = client(proxy.address);
    drop(locked(&ann, millis(10_000)).await);
    proxy.swallow_replies();
    let waiting = tokio::spawn(ann.lock("b").ttl(millis(10_000)).acquire());
    let mut direct = server.client();
    let held = loop {
        let answer = direct.get(&resource("b"));
        if answer.status == 200 {
            break answer.json["holders"][0]["token"].as_u64().unwrap();
        }
        tokio::time::sleep(millis(10)).await;
    };
    proxy.heal();
    let guard = soon("the repetition", waiting).await.unwrap().unwrap();
    assert_eq!(guard.token().unwrap(), held, "it is the same grant");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_given_up_at_any_moment_leaves_nothing_behind() {
    let server = Server::start();
    let proxy = Proxy::before(server.address);
    let (ann, bob) = (client(server.address), client(proxy.address));
    let mut rng = StdRng::seed_from_u64(7);
    let begun = Instant::now();
    for round in 0..60 {
        let held = match round % 3 {
            0 => None,
            _ => Some(locked(&ann, millis(60_000)).await),
        };
        let waiting = bob.lock("a").ttl(millis(60_000)).acquire();
        let patience = Duration::from_micros(rng.random_range(0..4000));
        let got = tokio::time::timeout(patience, waiting).await;
        if round % 10 == 9 {
            proxy.cut();
        }
        drop((got, held));
        // Free for the next: were it left behind, its ttl would be in the way.
        let next = soon("the next", ann.lock("a").wait(millis(15_000)).acquire()).await.unwrap();
        next.release().await.unwrap();
    }
    println!("60 waits given up within {:?}", begun.elapsed());
    soon("an empty queue", async {
        while server.client().get(&format!("{}/queue", resource("a"))).json["length"] != 0 {
            tokio::time::sleep(millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_and_requests_come_unasked() {
    let server = Server::start();
    let ann = client(server.address);
    let guard = locked(&ann, millis(60_000)).await;
    let mut asks = guard.handover_asks();
    let ask = json!({ "by": "bob", "reason": "urgent" });
    server.client().post(&format!("{}/handover", resource("a")), &ask).expect(202);
    let asked = soon("the request", asks.next()).await.unwrap();
    assert_eq!((asked.by.as_str(), asked.reason.as_deref()), ("bob", Some("urgent")));
    let digest = server.client().get(&resource("a")).json["holders"][0]["lease"].as_str().unwrap().to_owned();
    let revoke = json!({ "resource": "a", "reason": "stuck since noon" });
    server.client().post(&format!("{}/{digest}/revoke", crate::clients::LEASES), &revoke).expect(204);
    let lost = soon("the loss", guard.lost()).await;
    assert!(matches!(&lost, LostCause::Revoked { reason, .. } if reason == "stuck since noon"), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leads_is_told_over_the_loss_of_an_address() {
    let server = Server::start();
    let (near, far) = (Proxy::before(server.address), Proxy::before(server.address));
    let (ann, bob) = (client(server.address), client(server.address));
    let mut observe = Client::connect(&format!("{},{}", near.address, far.address)).unwrap().election("e").observe();
    assert_eq!(soon("the first look", observe.next()).await.unwrap(), None);
    let term = ann.election("e").candidate("ann").campaign().await.unwrap();
    let seen = soon("the incumbent", observe.next()).await.unwrap();
    assert_eq!(seen.map(|incumbent| incumbent.holder).as_deref(), Some("ann"));
    near.swallow_everything();
    near.cut();
    term.resign().await.unwrap();
    let _term = bob.election("e").candidate("bob").campaign().await.unwrap();
    soon("the next incumbent", async {
        while observe.next().await.unwrap().is_none_or(|incumbent| incumbent.holder != "bob") {}
    })
    .await;
    let found = soon("a look", ann.incumbent("e")).await.unwrap();
    assert_eq!(found.map(|incumbent| incumbent.holder).as_deref(), Some("bob"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_address_serves_when_the_first_does_not() {
    let server = Server::start();
    let proxy = Proxy::before(server.address);
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ann = Client::connect(&format!("{dead},{},{}", proxy.address, server.address)).unwrap();
    let guard = soon("the grant", locked(&ann, millis(3000))).await;
    proxy.swallow_everything();
    let before = guard.validity().sent();
    soon("a renewal over the last address", async {
        while guard.validity().sent() == before {
            tokio::time::sleep(millis(10)).await;
        }
    })
    .await;
    assert!(guard.token().is_ok());
    let error = Client::connect(&dead.to_string()).unwrap().lock("a").acquire().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach http://{dead}: connection refused"));
}
