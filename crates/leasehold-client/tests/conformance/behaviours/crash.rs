//! A crash of the store's process, after everything else: clients find it again, and what was promised to last is there.

use std::time::{Duration, Instant};

use leasehold_client::Error;
use leasehold_client::store::Wish;
use leasehold_core::Patience;

use crate::harness::{Case, Client, held_by};

/// How long a store may take to come back.
const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats a grant as a client does, until the store answers.
async fn grant(client: &Client, wish: &Wish) -> Vec<Option<u64>> {
    let began = Instant::now();
    loop {
        match client.grant(wish).await {
            Ok(granted) => return granted.tokens,
            Err(Error::Unreachable { cause, .. }) => assert!(began.elapsed() < PATIENCE, "{cause}"),
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns false if the store cannot crash by itself.
pub(super) async fn clients_find_it_again(case: Case) -> bool {
    let (ann, bob) = (case.client(), case.client());
    let (mut held, free) = (case.wish("ann"), format!("{}/free", case.resource));
    let before = ann.grant(&held).await.unwrap().tokens;
    let other = Wish { resources: vec![free], ..case.wish("bob") };
    let free_before = bob.grant(&other).await.unwrap().tokens;
    bob.release(&other).await;
    if !case.crash() {
        return false;
    }
    let next = Wish { id: case.wish("bob").id, ..other };
    let free_after = grant(&bob, &next).await;
    assert!(free_after[0] > free_before[0] || free_after[0].is_none(), "{free_after:?} after {free_before:?}");
    if ann.0.capabilities().durability {
        assert_eq!(held_by(bob.grant(&case.wish("bob")).await), "ann");
        assert_eq!(grant(&ann, &held).await, before);
        ann.renew(&held).await.unwrap();
    } else {
        // It may be forgotten, but is never had twice with one token.
        held = Wish { patience: Patience::Endless, ..case.wish("bob") };
        assert!(grant(&ann, &held).await[0] > before[0]);
    }
    ann.release(&held).await;
    bob.grant(&case.wish("eve")).await.unwrap();
    true
}
