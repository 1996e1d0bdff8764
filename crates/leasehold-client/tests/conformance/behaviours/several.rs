//! Several resources at once, and several holders of one resource, where they are promised.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_api::Mode;
use leasehold_client::Error;
use leasehold_client::store::Wish;
use leasehold_core::{Patience, Span};

use crate::harness::{Case, held_by};

/// A wish for these resources below the case's own.
fn wish(case: &Case, holder: &str, names: &[&str]) -> Wish {
    let resources = names.iter().map(|name| format!("{}/{name}", case.resource)).collect();
    Wish { resources, ..case.wish(holder) }
}

pub(super) async fn all_or_none(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let held = wish(&case, "ann", &["b"]);
    ann.grant(&held).await.unwrap();
    let Err(Error::Held(problem)) = bob.grant(&wish(&case, "bob", &["a", "b", "c"])).await else {
        panic!("one of them is held")
    };
    assert_eq!(problem.resource, Some(format!("{}/b", case.resource)));
    let rest = wish(&case, "eve", &["a", "c"]);
    ann.grant(&rest).await.unwrap();
    ann.release(&held).await;
    assert_eq!(held_by(bob.grant(&wish(&case, "bob", &["a", "b"])).await), "eve");
    bob.grant(&wish(&case, "bob", &["b"])).await.unwrap();
    ann.renew(&rest).await.unwrap();
}

pub(super) async fn each_has_its_token(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    // The tokens of one resource are ahead of the other's.
    for _ in 0..3 {
        let one = wish(&case, "ann", &["b"]);
        ann.grant(&one).await.unwrap();
        ann.release(&one).await;
    }
    let both = wish(&case, "ann", &["a", "b"]);
    let granted = ann.grant(&both).await.unwrap();
    assert_eq!(granted.tokens.len(), 2);
    for (name, token) in ["a", "b"].iter().zip(&granted.tokens) {
        let shown = bob.incumbent(&format!("{}/{name}", case.resource)).await;
        assert_eq!(shown, Some(("ann".to_owned(), *token)));
    }
    assert_eq!(ann.grant(&both).await.unwrap().tokens, granted.tokens);
    ann.release(&both).await;
    let again = bob.grant(&wish(&case, "bob", &["a", "b"])).await.unwrap();
    assert!(again.tokens.iter().zip(&granted.tokens).all(|(new, old)| new > old || new.is_none()));
}

pub(super) async fn a_waiter_gets_all_of_them(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let (first, second) = (wish(&case, "ann", &["a"]), wish(&case, "eve", &["b"]));
    ann.grant(&first).await.unwrap();
    ann.grant(&second).await.unwrap();
    let both = Wish { patience: Patience::For(Span::seconds(60)), ..wish(&case, "bob", &["a", "b"]) };
    let waiter = bob.clone();
    let wanted = both.clone();
    let waiting = tokio::spawn(async move { waiter.grant(&wanted).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    ann.release(&first).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "one of two is held");
    ann.release(&second).await;
    waiting.await.unwrap().unwrap();
    bob.renew(&both).await.unwrap();
    bob.release(&both).await;
    ann.grant(&wish(&case, "ann", &["a", "b"])).await.unwrap();
}

pub(super) async fn crossing_wishes_do_not_block_each_other(case: Case) {
    let clients: Vec<_> = (0..3).map(|_| case.client()).collect();
    let sets: [&[&str]; 3] = [&["a", "b"], &["b", "c"], &["a", "c"]];
    join_all(clients.iter().zip(sets).map(|(client, names)| {
        let case = &case;
        async move {
            for round in 0..5 {
                let holder = format!("{} in round {round}", names.join("+"));
                let wish = Wish { patience: Patience::For(Span::seconds(50)), ..wish(case, &holder, names) };
                client.grant(&wish).await.unwrap();
                client.release(&wish).await;
            }
        }
    }))
    .await;
}

pub(super) async fn shared_holders_keep_others_out(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let shared = |holder: &str| Wish { mode: Mode::Shared, ..case.wish(holder) };
    let (first, second) = (shared("ann"), shared("bob"));
    ann.grant(&first).await.unwrap();
    bob.grant(&second).await.unwrap();
    ann.release(&first).await;
    assert_eq!(held_by(ann.grant(&case.wish("eve")).await), "bob");
    bob.release(&second).await;
    ann.grant(&case.wish("eve")).await.unwrap();
    assert_eq!(held_by(bob.grant(&shared("bob")).await), "eve");
}
