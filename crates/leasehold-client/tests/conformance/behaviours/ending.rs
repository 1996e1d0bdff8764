//! How leases end: by time and not before, or by their holder at once.

use std::time::Duration;

use leasehold_client::store::Wish;
use leasehold_client::{Error, Moment};
use leasehold_core::{Patience, Span, Ttl};

use crate::harness::{Case, assert_over, held_by};

pub(super) async fn time_frees_it_and_not_before(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let wish = case.short_wish("ann");
    let ttl = Duration::from_millis(case.short().0);
    let began = Moment::now();
    let granted = ann.grant(&wish).await.unwrap();
    let next = loop {
        if let Ok(next) = bob.grant(&case.wish("bob")).await {
            break next;
        }
        assert!(began.elapsed() < ttl + Duration::from_secs(20), "it does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let after = began.elapsed();
    assert!(after >= ttl, "free after {after:?}, its ttl is {ttl:?}");
    assert!(granted.validity.is_over(), "two believe that they hold");
    assert!(next.tokens[0] > granted.tokens[0] || next.tokens[0].is_none());
    assert_over(ann.renew(&wish).await);
}

pub(super) async fn a_release_frees_it_at_once(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    for _ in 0..5 {
        let wish = case.wish("ann");
        ann.grant(&wish).await.unwrap();
        assert_eq!(held_by(bob.grant(&case.wish("bob")).await), "ann");
        ann.release(&wish).await;
        let wish = case.wish("bob");
        bob.grant(&wish).await.unwrap();
        bob.release(&wish).await;
    }
}

pub(super) async fn a_release_may_be_repeated(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let (first, second) = (case.wish("ann"), case.wish("bob"));
    ann.grant(&first).await.unwrap();
    ann.release(&first).await;
    bob.grant(&second).await.unwrap();
    ann.release(&first).await;
    bob.renew(&second).await.unwrap();
    assert_over(ann.renew(&first).await);
}

pub(super) async fn a_fraction_of_a_second_is_kept(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let ttl = Span(300);
    let granted = ann.grant(&Wish { ttl: Ttl::For(ttl), ..case.wish("ann") }).await.unwrap();
    assert!(granted.validity.left() <= Some(Duration::from_millis(ttl.0)), "{granted:?}");
    let began = Moment::now();
    let wish = Wish { patience: Patience::For(Span::seconds(20)), ..case.wish("bob") };
    bob.grant(&wish).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "it lasted {:?}", began.elapsed());
}

pub(super) async fn a_lease_without_end_stays(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let wish = Wish { ttl: Ttl::Endless, ..case.wish("ann") };
    let first = ann.grant(&wish).await;
    if matches!(first, Err(Error::Denied(_))) {
        // It can be promised, but only to those who may ask for it.
        return assert_eq!(bob.incumbent(&case.resource).await, None);
    }
    assert_eq!(first.unwrap().validity.left(), None);
    assert_eq!(ann.grant(&wish).await.unwrap().validity.left(), None);
    assert_eq!(ann.renew(&wish).await.unwrap().left(), None);
    assert_eq!(held_by(bob.grant(&case.wish("bob")).await), "ann");
    ann.release(&wish).await;
    bob.grant(&case.wish("bob")).await.unwrap();
}
