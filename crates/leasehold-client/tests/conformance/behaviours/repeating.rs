//! Repetitions and late copies: one lease per id, and nothing after its end.

use std::sync::Arc;
use std::time::Duration;

use leasehold_client::store::{ProgressTo, Wish};
use leasehold_core::{Patience, Span, Ttl};

use crate::harness::{Case, assert_over, held_by};

pub(super) async fn a_repeated_grant_finds_the_lease(case: Case) {
    let (ann, other_connection) = (case.client(), case.client());
    let wish = case.wish("ann");
    let first = ann.grant(&wish).await.unwrap();
    for client in [&ann, &other_connection] {
        let again = client.grant(&wish).await.unwrap();
        assert_eq!(again.tokens, first.tokens);
    }
    let patient = Wish { patience: Patience::Endless, ..wish };
    assert_eq!(ann.grant(&patient).await.unwrap().tokens, first.tokens);
}

pub(super) async fn a_repeated_grant_does_not_begin_anew(case: Case) {
    let ann = case.client();
    let seconds = 8;
    let wish = Wish { ttl: Ttl::For(Span::seconds(seconds)), ..case.wish("ann") };
    ann.grant(&wish).await.unwrap();
    tokio::time::sleep(Duration::from_secs(seconds) / 4).await;
    let again = ann.grant(&wish).await.unwrap();
    // 0.96 of what is left; the full ttl would be more.
    let left = again.validity.left_at(again.validity.sent()).unwrap();
    assert!(left <= Duration::from_secs(seconds) * 3 / 4, "{left:?} left of {seconds} s after a quarter");
}

pub(super) async fn nothing_is_left_of_an_abandoned_lease(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let wish = case.wish("ann");
    ann.grant(&wish).await.unwrap();
    ann.abandon(&wish).await;
    let next = case.wish("bob");
    bob.grant(&next).await.unwrap();
    // Once more, now that another holds it.
    ann.abandon(&wish).await;
    bob.renew(&next).await.unwrap();
    assert_over(ann.renew(&wish).await);
}

pub(super) async fn a_grant_after_its_end_does_nothing(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let (abandoned, released) = (case.wish("ann"), case.wish("ann"));
    ann.abandon(&abandoned).await;
    ann.grant(&released).await.unwrap();
    ann.release(&released).await;
    for over in [&abandoned, &released] {
        let patient = Wish { patience: Patience::For(Span::seconds(5)), ..over.clone() };
        for copy in [over, &patient] {
            assert_over(bob.grant(copy).await);
        }
    }
    assert_eq!(ann.incumbent(&case.resource).await, None);
    let next = case.wish("bob");
    bob.grant(&next).await.unwrap();
    assert_over(ann.grant(&released).await);
    bob.renew(&next).await.unwrap();
}

pub(super) async fn a_wait_given_up_leaves_the_queue(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let held = case.wish("ann");
    ann.grant(&held).await.unwrap();
    let wait = Arc::new(Wish { patience: Patience::Endless, ..case.wish("bob") });
    let waiting = tokio::spawn(bob.0.grant(wait.clone(), ProgressTo::nobody()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled(), "it was waiting");
    bob.abandon(&wait).await;
    ann.release(&held).await;
    let next = case.wish("eve");
    ann.grant(&next).await.unwrap();
    assert_over(bob.grant(&wait).await);
    assert_eq!(held_by(bob.grant(&case.wish("bob")).await), "eve");
}

pub(super) async fn given_up_at_any_moment_nothing_is_left(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    for moment in 0..25 {
        let patience = if moment % 2 == 0 { Patience::None } else { Patience::Endless };
        let wish = Arc::new(Wish { patience, ..case.wish("ann") });
        let granting = ann.0.grant(wish.clone(), ProgressTo::nobody());
        let _ = tokio::time::timeout(Duration::from_micros(moment * 150), granting).await;
        ann.abandon(&wish).await;
        // A copy that was still on its way has had time to arrive.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let next = case.wish("bob");
        bob.grant(&next).await.unwrap();
        bob.release(&next).await;
    }
}
