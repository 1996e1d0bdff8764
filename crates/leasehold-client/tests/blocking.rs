//! The client for threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::thread;
use std::time::{Duration, Instant};

use leasehold_client::blocking::{Client, block_on};
use leasehold_client::store::Memory;
use leasehold_client::{Error, LeaseEvent, LostCause, Renewal};

#[test]
fn threads_take_turns() {
    let client = Client::over(Memory::new());
    let counter = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (client, counter) = (client.clone(), std::sync::Arc::clone(&counter));
            thread::spawn(move || {
                for _ in 0..10 {
                    let guard = client.lock("counter").acquire().unwrap();
                    let mut seen = counter.lock().unwrap();
                    let token = guard.token().unwrap();
                    assert!(token > seen.1, "tokens rise");
                    *seen = (seen.0 + 1, token);
                    drop(seen);
                    guard.release().unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.lock().unwrap().0, 40);
}

#[test]
fn a_lock_that_is_held_is_refused_or_waited_for() {
    let client = Client::over(Memory::new());
    let guard = client.lock("a").holder("ann").acquire().unwrap();
    assert!(matches!(client.lock("a").try_acquire(), Err(Error::Held(_))));
    let wait = Duration::from_millis(50);
    assert!(matches!(client.lock("a").wait(wait).acquire(), Err(Error::TimedOut { .. })));
    assert_eq!(client.incumbent("a").unwrap().unwrap().holder, "ann");
    client.request_handover("a", None).unwrap();
    let mut asks = guard.handover_asks();
    assert!(block_on(asks.next()).is_some());
    assert_eq!(guard.wait_lost(Duration::from_millis(10)), None);
    guard.renew().unwrap();
    guard.hand_over().unwrap();
    client.locks(["a", "b"]).shared().acquire().unwrap().release().unwrap();
}

#[test]
fn a_loss_is_waited_for() {
    let client = Client::over(Memory::new());
    let guard = client.cache("a").ttl(Duration::from_millis(200)).renewal(Renewal::None).acquire().unwrap();
    let mut events = guard.events();
    assert!(matches!(block_on(events.next()), Some(LeaseEvent::Safe { .. })));
    assert_eq!(guard.wait_lost(Duration::from_secs(30)), Some(LostCause::Expired));
    assert!(guard.token().is_err());
    assert_eq!(block_on(events.next()), Some(LeaseEvent::Lost(LostCause::Expired)));
}

#[test]
fn dropping_a_guard_does_not_block() {
    let memory = Memory::new();
    let client = Client::over(memory.clone());
    let guards: Vec<_> = (0..1_000).map(|n| client.lock(format!("item/{n}")).acquire().unwrap()).collect();
    drop(client);
    let begun = Instant::now();
    drop(guards);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    // The client's thread gives them back, then ends.
    let deadline = Instant::now() + Duration::from_secs(30);
    while memory.lease_count() > 0 {
        assert!(Instant::now() < deadline, "{} leases are left", memory.lease_count());
        thread::yield_now();
    }
}
