//! What a client does when the way to its store fails: the loss is told in time, and nothing is left behind.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use leasehold_client::testing::TestServer;
use leasehold_client::{Clock, Error, LeaseEvent, LostCause, Renewal};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn loss_is_told_before_the_deadline_passes() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").ttl(secs(10)).acquire().await.unwrap();
    server.advance(secs(3)).await;
    server.freeze();
    let clock = server.clock().clone();
    let lost = guard.lost();
    let told = tokio::spawn(async move { (lost.await, clock.elapsed()) });
    server.advance(secs(20)).await;
    let (cause, at) = told.await.unwrap();
    assert!(matches!(cause, LostCause::Unreachable { .. }), "{cause:?}");
    let validity = guard.validity();
    let left = validity.left_at(leasehold_client::Moment::at(at)).unwrap();
    assert!(left > Duration::ZERO && left <= millis(50), "told {left:?} before the end");
    assert!(guard.token().is_err());
}

#[tokio::test]
async fn what_was_lost_here_is_given_back_when_the_store_answers_again() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").ttl(secs(10)).acquire().await.unwrap();
    server.advance(secs(6)).await;
    server.stop();
    server.advance(guard.valid_for().unwrap()).await;
    assert!(matches!(guard.lost().await, LostCause::Unreachable { .. }));
    assert_eq!(server.store().lease_count(), 1);
    server.start();
    // The store would count it for 0.4 s more.
    server.advance(millis(200)).await;
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn a_short_outage_is_survived_by_repetitions() {
    for (at, length) in [(0, 1), (4, 3), (5, 4)] {
        let server = TestServer::new();
        let client = server.client();
        let guard = client.lock("a").ttl(secs(10)).renewal(Renewal::THIRD).acquire().await.unwrap();
        server.advance(secs(at)).await;
        server.stop();
        server.advance(secs(length)).await;
        server.start();
        server.advance(secs(100)).await;
        guard.token().unwrap();
    }
}

#[tokio::test]
async fn a_client_that_was_cut_off_for_a_while_goes_on() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let guard = ann.lock("a").ttl(secs(10)).acquire().await.unwrap();
    let other = bob.lock("b").ttl(secs(10)).acquire().await.unwrap();
    server.advance(secs(7)).await;
    server.cut(&ann);
    server.advance(secs(4)).await;
    server.mend(&ann);
    server.advance(secs(60)).await;
    guard.token().unwrap();
    server.cut(&ann);
    server.advance(secs(10)).await;
    assert!(guard.token().is_err());
    other.token().unwrap();
}

#[tokio::test]
async fn replies_delayed_by_nearly_a_ttl_make_nobody_valid_too_long() {
    let server = TestServer::new();
    let client = server.client();
    let strategies = [Renewal::HALF, Renewal::THIRD, Renewal::Continuous];
    for (name, renewal) in ["a", "b", "c"].into_iter().zip(strategies) {
        let guard = client.lock(name).ttl(secs(10)).renewal(renewal).acquire().await.unwrap();
        server.delay_replies(secs(9));
        let mut valid = true;
        for _ in 0..300 {
            server.advance(millis(100)).await;
            let now = server.clock().now();
            let held = server.store().holders(name).unwrap();
            assert!(guard.token().is_err() || held == ["tester"], "valid here, but held by {held:?}");
            assert!(guard.token().is_err() || !guard.validity().is_over_at(now));
            assert!(valid || guard.token().is_err(), "lost for good");
            valid = guard.token().is_ok();
        }
        server.delay_replies(Duration::ZERO);
    }
}

#[tokio::test]
async fn a_grant_answered_late_is_not_handed_out_beyond_its_time() {
    let server = TestServer::new();
    let client = server.client();
    server.delay_replies(secs(9));
    let waiting = tokio::spawn(client.lock("a").ttl(secs(10)).acquire());
    server.advance(millis(9_100)).await;
    let guard = waiting.await.unwrap().unwrap();
    // The time counts from the sending, 9.1 s ago, not from the answer.
    let left = guard.valid_for().unwrap();
    assert!(left < millis(600), "{left:?}");
    server.delay_replies(Duration::ZERO);
    drop(guard);
    server.settle().await;
    server.delay_replies(secs(11));
    let waiting = tokio::spawn(client.lock("a").ttl(secs(10)).acquire());
    server.advance(secs(12)).await;
    // The answer came when its time was over: the client renews first, and is too late with that as well.
    assert!(!waiting.is_finished());
    server.delay_replies(Duration::ZERO);
    server.advance(secs(60)).await;
    let guard = waiting.await.unwrap().unwrap();
    guard.ensure_valid(secs(3)).unwrap();
}

#[tokio::test]
async fn a_lost_reply_followed_by_a_repetition_gives_the_same_lease() {
    let server = TestServer::new();
    let client = server.client();
    server.lose_next_reply();
    let guard = client.lock("a").ttl(secs(10)).acquire().await.unwrap();
    assert_eq!(server.store().lease_count(), 1);
    assert_eq!(server.store().token("a"), Some(guard.token().unwrap()));
    // The same on a wait: the place in the queue is kept.
    let waiting = tokio::spawn(client.lock("a").ttl(secs(10)).acquire());
    server.settle().await;
    let later = tokio::spawn(client.lock("a").ttl(secs(10)).acquire());
    server.advance(secs(2)).await;
    server.lose_next_reply(); // of the release
    server.lose_next_reply(); // of the grant, or of the release's repetition
    drop(guard);
    server.advance(secs(3)).await;
    let guard = waiting.await.unwrap().unwrap();
    assert!(!later.is_finished());
    assert_eq!(server.store().token("a"), Some(guard.token().unwrap()));
    assert_eq!(server.store().lease_count(), 2);
    later.abort();
}

#[tokio::test]
async fn a_repeated_grant_does_not_count_from_its_repetition() {
    let server = TestServer::new();
    let client = server.client();
    drop(client.lock("warm").acquire().await.unwrap());
    let waiting = tokio::spawn(client.lock("a").ttl(secs(10)).renewal(Renewal::None).wait(secs(30)).acquire());
    server.delay_replies(secs(4));
    server.advance(secs(3)).await;
    server.cut(&client);
    server.advance(secs(1)).await;
    server.delay_replies(Duration::ZERO);
    server.mend(&client); // the first answer is lost after 4 s; the repetition finds a lease of that age
    server.settle().await;
    let guard = waiting.await.unwrap().unwrap();
    let left = guard.valid_for().unwrap();
    assert!(left <= millis(6_000) && left > millis(5_000), "{left:?}");
}

#[tokio::test]
async fn a_grant_that_was_held_up_on_its_way_counts_from_its_sending() {
    let server = TestServer::new();
    let client = server.client();
    server.freeze();
    let waiting = tokio::spawn(client.lock("a").ttl(secs(10)).renewal(Renewal::None).acquire());
    server.advance(secs(4)).await;
    server.thaw();
    server.settle().await;
    let left = waiting.await.unwrap().unwrap().valid_for().unwrap();
    assert!(left < millis(5_700), "{left:?}");
}

#[tokio::test]
async fn a_place_that_was_lost_does_not_make_the_wait_longer() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let _guard = ann.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(bob.lock("a").ttl(secs(4)).wait(secs(20)).acquire());
    server.advance(secs(5)).await;
    server.cut(&bob);
    server.advance(secs(8)).await;
    assert_eq!(server.store().lease_count(), 1, "one that is cut off loses its place");
    server.mend(&bob);
    server.advance(secs(6)).await;
    assert_eq!(server.store().lease_count(), 2, "it waits again");
    assert!(!waiting.is_finished());
    server.advance(secs(2)).await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::TimedOut { .. })));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once() {
    let server = TestServer::new();
    server.stop();
    let error = server.client().lock("a").acquire().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot reach test: connection refused");
}

#[tokio::test]
async fn a_server_that_was_there_is_waited_for() {
    let server = TestServer::new();
    let client = server.client();
    drop(client.lock("a").acquire().await.unwrap());
    server.settle().await;
    server.stop();
    let waiting = tokio::spawn(client.lock("a").acquire());
    let hurried = tokio::spawn(client.lock("b").wait(secs(5)).acquire());
    server.advance(secs(10)).await;
    assert!(!waiting.is_finished());
    assert!(matches!(hurried.await.unwrap(), Err(Error::Unreachable { .. })));
    server.start();
    server.advance(secs(3)).await;
    let _guard = waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_waited_for_without_end() {
    let server = TestServer::new();
    let client = server.client();
    server.freeze();
    let asked = tokio::spawn(client.lock("a").try_acquire());
    server.advance(secs(30)).await;
    assert!(matches!(asked.await.unwrap(), Err(Error::Unreachable { .. })));
    server.thaw();
    server.advance(secs(1)).await;
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn a_late_copy_of_a_grant_does_nothing_after_its_release() {
    let server = TestServer::new();
    let client = server.client();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let waiting = {
        let _guard = client.lock("b").acquire().await.unwrap();
        let waiting = tokio::spawn(client.lock("b").acquire());
        server.settle().await;
        waiting.abort();
        server.settle().await;
        waiting
    };
    assert!(waiting.await.unwrap_err().is_cancelled());
    server.settle().await;
    assert_eq!(server.store().lease_count(), 0);
    assert_eq!(server.deliver_late_copies(), 3);
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn a_grant_given_up_before_it_arrived_does_nothing_when_it_arrives() {
    let server = TestServer::new();
    let client = server.client();
    server.freeze();
    let waiting = tokio::spawn(client.lock("a").acquire());
    server.settle().await;
    waiting.abort();
    server.advance(secs(1)).await;
    server.thaw();
    server.advance(secs(1)).await;
    server.deliver_late_copies();
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn after_a_jump_of_the_clock_the_first_thing_told_is_the_loss() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").ttl(secs(10)).acquire().await.unwrap();
    let mut events = guard.events();
    assert!(matches!(events.next().await, Some(LeaseEvent::Safe { .. })));
    server.advance(secs(2)).await;
    server.clock().jump(secs(20));
    assert!(matches!(guard.token(), Err(Error::Lost { .. })), "nobody needs to be awake for that");
    assert!(guard.ensure_valid(Duration::ZERO).is_err());
    assert_eq!(guard.valid_for(), Some(Duration::ZERO));
    server.advance(Duration::ZERO).await;
    assert!(matches!(events.next().await, Some(LeaseEvent::Lost(_))));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_release_ends_validity_when_it_is_sent() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").acquire().await.unwrap();
    let (lost, mut events) = (guard.lost(), guard.events());
    server.freeze();
    let released = tokio::spawn(guard.release());
    server.settle().await;
    assert_eq!(events.next().await, Some(LeaseEvent::Lost(LostCause::Released)));
    assert_eq!(lost.await, LostCause::Released);
    assert!(!released.is_finished());
    server.advance(secs(3)).await;
    server.thaw();
    server.settle().await;
    released.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_release_is_repeated_until_it_is_acknowledged() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").acquire().await.unwrap();
    server.stop();
    drop(guard);
    server.advance(secs(5)).await;
    assert_eq!(server.store().lease_count(), 1);
    server.start();
    server.advance(secs(2)).await;
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn a_lease_in_jeopardy_may_be_saved() {
    let server = TestServer::new();
    let client = server.client();
    let guard = client.lock("a").ttl(secs(10)).keep_in_jeopardy().acquire().await.unwrap();
    server.advance(secs(1)).await;
    let mut events = guard.events();
    events.next().await;
    // Its renewal arrives, but the answer does not: the store counts it as held for longer than its holder knows.
    server.advance(millis(3_000)).await;
    server.delay_replies(secs(7));
    server.advance(millis(6_200)).await;
    assert_eq!(events.next().await, Some(LeaseEvent::Jeopardy));
    assert!(guard.token().is_err() && guard.ensure_valid(Duration::ZERO).is_err());
    server.delay_replies(Duration::ZERO);
    server.advance(secs(5)).await;
    assert!(matches!(events.next().await, Some(LeaseEvent::Safe { .. })));
    guard.token().unwrap();
    server.freeze();
    server.advance(secs(30)).await;
    assert_eq!(events.next().await, Some(LeaseEvent::Jeopardy));
    server.thaw();
    server.advance(secs(1)).await;
    assert_eq!(events.next().await, Some(LeaseEvent::Lost(LostCause::Expired)));
}

/// Callers come and go at any moment, replies are lost and delayed: in the end nothing is held that nobody holds.
#[tokio::test]
async fn giving_up_at_any_moment_leaves_nothing_behind() {
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let server = TestServer::new();
        let clients = [server.client_of("ann"), server.client_of("bob")];
        let mut calls = Vec::new();
        let mut guards = Vec::new();
        for _ in 0..random.random_range(1..12) {
            let client = &clients[random.random_range(0..2)];
            match random.random_range(0..8) {
                0 => server.lose_next_reply(),
                1 => server.delay_replies(millis(random.random_range(0..3_000))),
                2 => server.advance(millis(random.random_range(0..5_000))).await,
                3 if !calls.is_empty() => {
                    let call: tokio::task::JoinHandle<_> = calls.swap_remove(random.random_range(0..calls.len()));
                    call.abort();
                }
                4 => drop(guards.pop()),
                5 => tokio::task::yield_now().await,
                _ => calls.push(tokio::spawn(client.lock("a").ttl(secs(4)).acquire())),
            }
            let (done, rest) = calls.into_iter().partition::<Vec<_>, _>(tokio::task::JoinHandle::is_finished);
            calls = rest;
            for call in done {
                guards.extend(call.await.unwrap());
            }
        }
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        drop((calls, guards));
        server.delay_replies(Duration::ZERO);
        // Far less than a ttl: it was given back, not timed out.
        server.advance(millis(3_500)).await;
        assert_eq!(server.store().lease_count(), 0, "seed {seed}");
        server.deliver_late_copies();
        assert_eq!(server.store().lease_count(), 0, "late copies, seed {seed}");
    }
}
