//! Locks and guards, over the store in memory and a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_client::testing::TestServer;
use leasehold_client::{Client, Error, LeaseEvent, LostCause, Renewal};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn a_lock_is_held_alone_and_kept() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let guard = ann.lock("orders/7").ttl(secs(10)).acquire().await.unwrap();
    assert_eq!(guard.resources(), ["orders/7"]);
    assert_eq!(guard.holder(), "ann");
    let token = guard.token().unwrap();
    server.advance(secs(60)).await;
    assert_eq!(guard.token().unwrap(), token);
    guard.ensure_valid(secs(4)).unwrap();
    let refused = bob.lock("orders/7").try_acquire().await.unwrap_err();
    let Error::Held(problem) = refused else { panic!("{refused:?}") };
    assert_eq!(problem.holders.unwrap()[0].holder, "ann");
    guard.release().await.unwrap();
    let next = bob.lock("orders/7").try_acquire().await.unwrap();
    assert!(next.token().unwrap() > token);
}

#[tokio::test]
async fn a_waiter_is_served_when_the_guard_is_dropped() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let guard = ann.lock("a").acquire().await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let news = Arc::clone(&told);
    let waiting =
        tokio::spawn(bob.lock("a").on_progress(move |progress| news.lock().unwrap().push(progress)).acquire());
    server.advance(secs(40)).await;
    assert!(!waiting.is_finished());
    let first = told.lock().unwrap()[0].clone();
    assert_eq!((first.place, first.holder.unwrap().holder), (Some((1, 1)), "ann".to_owned()));
    drop(guard);
    server.settle().await;
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(next.waited(), secs(40));
    next.ensure_valid(secs(14)).unwrap();
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_over() {
    let server = TestServer::new();
    let client = server.client();
    let _guard = client.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(client.lock("a").wait(secs(5)).acquire());
    server.advance(secs(4)).await;
    assert!(!waiting.is_finished());
    server.advance(secs(2)).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { position: Some(1), .. }), "{error:?}");
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_queue() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(client.lock("a").acquire());
    server.settle().await;
    assert_eq!(server.store().lease_count(), 2);
    waiting.abort();
    server.settle().await;
    assert_eq!(server.store().lease_count(), 1);
    drop(guard);
    server.settle().await;
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_here_before_it_ends_there() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").ttl(secs(10)).renewal(Renewal::None).acquire().await.unwrap();
    let mut events = guard.events();
    assert!(matches!(events.next().await, Some(LeaseEvent::Safe { .. })));
    server.advance(Duration::from_millis(9_550)).await;
    guard.token().unwrap();
    server.advance(Duration::from_millis(20)).await;
    assert_eq!(guard.lost().await, LostCause::Expired);
    assert!(matches!(guard.token(), Err(Error::Lost { cause: LostCause::Expired, .. })));
    assert_eq!(events.next().await, Some(LeaseEvent::Lost(LostCause::Expired)));
    assert_eq!(events.next().await, None);
    assert_eq!(server.store().lease_count(), 1);
    server.advance(secs(1)).await;
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn a_revoked_lease_is_lost_at_once() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").acquire().await.unwrap();
    assert_eq!(server.store().revoke("a", "maintenance").unwrap(), 1);
    server.settle().await;
    let revoked = LostCause::Revoked { by: None, reason: "maintenance".into() };
    assert_eq!(guard.lost().await, revoked);
    assert!(matches!(guard.release().await, Err(Error::Lost { cause, .. }) if cause == revoked));
}

#[test]
fn a_client_needs_no_runtime_of_its_caller() {
    let server = TestServer::new();
    let client = server.client();
    let guard = futures_util_block_on(client.lock("a").acquire()).unwrap();
    drop(client);
    futures_util_block_on(guard.release()).unwrap();
}

fn futures_util_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}

#[tokio::test]
async fn several_resources_are_held_all_or_none() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let one = ann.lock("b").acquire().await.unwrap();
    assert!(matches!(bob.locks(["a", "b"]).try_acquire().await, Err(Error::Held(_))));
    let a = ann.lock("a").try_acquire().await.unwrap();
    drop((one, a));
    let both = bob.locks(["b", "a"]).acquire().await.unwrap();
    assert_eq!(both.resources(), ["a", "b"]);
    assert_eq!(both.token_of("b").unwrap(), both.token_of("a").unwrap());
    assert!(both.token_of("c").is_err());
    assert!(matches!(bob.locks(["a", "a"]).acquire().await, Err(Error::Invalid(_))));
    assert!(matches!(bob.locks(Vec::<String>::new()).acquire().await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn shared_holders_hold_together() {
    let server = TestServer::new();
    let client = server.client();
    let one = client.lock("a").shared().acquire().await.unwrap();
    let _two = client.lock("a").shared().try_acquire().await.unwrap();
    assert!(matches!(client.lock("a").try_acquire().await, Err(Error::Held(_))));
    drop(one);
}

#[tokio::test]
async fn the_thread_ends_with_the_last_guard() {
    let server = TestServer::new();
    let client: Client = server.client();
    let guard = client.lock("a").acquire().await.unwrap();
    drop(client);
    server.advance(secs(100)).await;
    guard.token().unwrap();
    drop(guard);
    server.settle().await;
    assert_eq!(server.store().lease_count(), 0);
}
