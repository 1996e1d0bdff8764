//! When leases are renewed: each strategy, and the presets of the five common uses.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use leasehold_client::testing::TestServer;
use leasehold_client::{Error, Guard, Lock, LostCause, Renewal, Span, Ttl};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// When the lease was renewed within `length`, in milliseconds from now, looking every `step`.
async fn renewals(server: &TestServer, guard: &Guard, length: Duration, step: Duration) -> Vec<u64> {
    let begun = server.clock().elapsed();
    let mut found = Vec::new();
    let mut sent = guard.validity().sent();
    while server.clock().elapsed() - begun < length {
        server.advance(step).await;
        if guard.validity().sent() != sent {
            sent = guard.validity().sent();
            found.push((server.clock().elapsed() - begun).as_millis() as u64);
        }
    }
    found
}

async fn acquired(server: &TestServer, lock: Lock) -> Guard {
    let guard = lock.acquire().await.unwrap();
    server.settle().await;
    guard
}

#[tokio::test]
async fn at_a_fraction_of_the_ttl_with_a_little_jitter() {
    let server = TestServer::new();
    let client = server.client();
    for (name, renewal, expected) in [("a", Renewal::HALF, 4_800), ("b", Renewal::at(1, 4).unwrap(), 2_400)] {
        let guard = acquired(&server, client.lock(name).ttl(secs(10)).renewal(renewal)).await;
        let found = renewals(&server, &guard, secs(60), millis(50)).await;
        let gaps: Vec<u64> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let fits = |gap: &u64| (expected * 85 / 100..=expected * 115 / 100).contains(gap);
        assert!(gaps.len() >= 10 && gaps.iter().all(fits), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap != gaps[0]), "jitter: {gaps:?}");
    }
}

#[tokio::test]
async fn on_activity_a_lease_lives_as_long_as_it_is_used() {
    let server = TestServer::new();
    let client = server.client();
    let guard = acquired(&server, client.session("login/ann").ttl(secs(60))).await;
    assert_eq!(renewals(&server, &guard, secs(10), secs(1)).await, [] as [u64; 0]);
    guard.touch();
    // Used early: it is renewed when a third of its time has gone by.
    let found = renewals(&server, &guard, secs(30), secs(1)).await;
    assert_eq!(found.len(), 1);
    assert!((9_000..=11_000).contains(&found[0]), "{found:?}");
    let before = guard.validity().sent();
    guard.touch();
    server.settle().await;
    assert_ne!(guard.validity().sent(), before, "used late: at once");
    assert_eq!(renewals(&server, &guard, secs(30), secs(1)).await, [] as [u64; 0], "and only once");
    for _ in 0..100 {
        guard.touch();
        server.advance(secs(5)).await;
    }
    guard.token().unwrap();
    server.advance(secs(60)).await;
    assert_eq!(guard.lost().await, LostCause::Expired);
}

#[tokio::test]
async fn by_hand_a_lease_is_renewed_when_asked() {
    let server = TestServer::new();
    let client = server.client();
    let guard = acquired(&server, client.reservation("board/3").ttl(secs(3600))).await;
    assert_eq!(renewals(&server, &guard, secs(1800), secs(10)).await, [] as [u64; 0]);
    guard.renew().await.unwrap();
    guard.ensure_valid(secs(3400)).unwrap();
    assert!(matches!(guard.ensure_valid(secs(3600)), Err(Error::TooShort { .. })));
    server.stop();
    let asked = tokio::spawn({
        let guard = std::sync::Arc::new(guard);
        let theirs = std::sync::Arc::clone(&guard);
        async move { (theirs.renew().await, guard) }
    });
    server.advance(secs(15)).await;
    let (result, guard) = asked.await.unwrap();
    assert!(matches!(result, Err(Error::Unreachable { .. })), "told soon, not when the lease ends");
    guard.token().unwrap();
    server.start();
    assert_eq!(renewals(&server, &guard, secs(600), secs(10)).await, [] as [u64; 0]);
    server.advance(secs(3600)).await;
    assert_eq!(guard.lost().await, LostCause::Expired);
    assert!(matches!(guard.renew().await, Err(Error::Lost { .. })));
}

#[tokio::test]
async fn never_renewed_a_lease_simply_ends() {
    let server = TestServer::new();
    let client = server.client();
    let guard = acquired(&server, client.cache("prices").ttl(secs(60))).await;
    assert_eq!(renewals(&server, &guard, secs(50), secs(1)).await, [] as [u64; 0]);
    guard.token().unwrap();
    server.advance(secs(10)).await;
    assert_eq!(guard.lost().await, LostCause::Expired);
    guard.renew().await.unwrap_err();
}

#[tokio::test]
async fn continuously_a_lease_is_renewed_ten_times_per_ttl() {
    let server = TestServer::new();
    let client = server.client();
    let guard = acquired(&server, client.lock("a").ttl(secs(10)).renewal(Renewal::Continuous)).await;
    let found = renewals(&server, &guard, secs(20), millis(100)).await;
    assert!((19..=21).contains(&found.len()), "{found:?}");
}

#[tokio::test]
async fn an_endless_lease_needs_no_renewal() {
    let server = TestServer::new();
    let client = server.client();
    let guard = acquired(&server, client.lock("a").endless()).await;
    server.advance(secs(1_000_000)).await;
    guard.token().unwrap();
    assert_eq!((guard.ttl(), guard.valid_for()), (Ttl::Endless, None));
    guard.release().await.unwrap();
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn every_use_has_its_defaults() {
    let server = TestServer::new();
    let client = server.client();
    let presets = [
        (client.lock("lock"), 15),
        (client.session("session"), 15 * 60),
        (client.reservation("reservation"), 8 * 3600),
        (client.cache("cache"), 10 * 60),
    ];
    for (lock, seconds) in presets {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(guard.ttl(), Ttl::For(Span::seconds(seconds)));
    }
    let term = client.election("election").campaign().await.unwrap();
    assert_eq!(term.guard().ttl(), Ttl::For(Span::seconds(10)));
}

#[tokio::test]
async fn many_leases_are_renewed_together() {
    let server = TestServer::new();
    let client = server.client();
    let mut guards = Vec::new();
    for number in 0..1_000 {
        let lock = client.lock(format!("item/{number}")).ttl(secs(10)).renewal(Renewal::THIRD);
        guards.push(lock.acquire().await.unwrap());
    }
    server.settle().await;
    let before = server.renewal_calls();
    server.advance(secs(60)).await;
    assert!(guards.iter().all(|guard| guard.token().is_ok()));
    let calls = server.renewal_calls() - before;
    // One call for each lease would be some 18,000.
    assert!(calls < 250, "{calls} calls");
}
