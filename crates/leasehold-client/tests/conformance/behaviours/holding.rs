//! Who holds, and that nobody else does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_client::Error;
use leasehold_client::store::Wish;
use leasehold_core::{Patience, Span};

use crate::harness::{Case, assert_over, held_by};

pub(super) async fn one_holder_at_a_time(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let granted = ann.grant(&case.wish("ann")).await.unwrap();
    assert!(granted.validity.left() > Some(Duration::from_secs(60)), "{granted:?}");
    assert_eq!(granted.waited, Duration::ZERO);
    assert_eq!(held_by(bob.grant(&case.wish("bob")).await), "ann");
    assert_eq!(held_by(ann.grant(&case.wish("ann again")).await), "ann");
}

pub(super) async fn one_of_many_at_once_gets_it(case: Case) {
    let clients: Vec<_> = (0..4).map(|_| case.client()).collect();
    for round in 0..5 {
        let wishes: Vec<Wish> = (0..16).map(|number| case.wish(&format!("{round}/{number}"))).collect();
        let answers = join_all(wishes.iter().enumerate().map(|(at, wish)| clients[at % 4].grant(wish))).await;
        let winners: Vec<usize> = (0..16).filter(|at| answers[*at].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        clients[0].release(&wishes[winners[0]]).await;
    }
}

pub(super) async fn a_refusal_tells_who_and_why(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let granted = ann.grant(&case.wish("ann")).await.unwrap();
    let Err(Error::Held(problem)) = bob.grant(&case.wish("bob")).await else { panic!("it is held") };
    assert_eq!(problem.code, "held");
    assert_eq!(problem.resource.as_deref(), Some(case.resource.as_str()));
    assert!(problem.detail.contains("ann") && problem.detail.contains(&case.resource), "{}", problem.detail);
    let holder = &problem.holders.as_ref().unwrap()[0];
    assert_eq!(Some(holder.token), granted.tokens[0].or(Some(holder.token)));
    assert_eq!(holder.reason.as_deref(), Some("ann has a reason"));
    let leasehold_core::Remaining::For(left) = holder.remaining.0 else { panic!("it has an end") };
    assert!(left > Span::seconds(60) && left <= Span::seconds(120), "{left}");
}

pub(super) async fn tokens_rise_with_every_grant(case: Case) {
    let clients = [case.client(), case.client()];
    let mut last = 0;
    for round in 0..6 {
        // Every other lease is released; the rest expire.
        let wish = if round % 3 == 0 { case.short_wish("ann") } else { case.wish("ann") };
        let patient = Wish { patience: Patience::Endless, ..wish };
        let granted = clients[round % 2].grant(&patient).await.unwrap();
        let token = granted.tokens[0].unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        if round % 3 != 0 {
            clients[round % 2].release(&patient).await;
        }
    }
}

pub(super) async fn renewals_keep_it(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let wish = case.short_wish("ann");
    let granted = ann.grant(&wish).await.unwrap();
    let mut validity = granted.validity;
    let pause = Duration::from_millis(case.short().0 / 8);
    for _ in 0..20 {
        tokio::time::sleep(pause).await;
        let left_before = validity.left();
        // A machine too busy to renew in time proves nothing here.
        match ann.renew(&wish).await {
            Ok(renewed) => {
                let full = renewed.left_at(renewed.sent()).unwrap();
                assert!(full >= Duration::from_millis(case.short().0 * 9 / 10), "renewed for {full:?} only");
                validity = renewed;
            }
            Err(error) => {
                assert!(validity.is_over(), "with {left_before:?} left: {error}");
                return;
            }
        }
    }
    let refused = bob.grant(&case.wish("bob")).await;
    if !validity.is_over() {
        assert_eq!(held_by(refused), "ann");
        assert_eq!(ann.grant(&wish).await.unwrap().tokens, granted.tokens);
    }
}

pub(super) async fn only_its_holder_renews_or_releases_it(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let (mine, other) = (case.wish("ann"), case.wish("bob"));
    ann.grant(&mine).await.unwrap();
    assert_over(bob.renew(&other).await);
    // The name of the holder opens nothing either: the id counts.
    assert_over(bob.renew(&Wish { holder: "ann".to_owned(), ..other.clone() }).await);
    bob.release(&other).await;
    bob.abandon(&case.wish("ann")).await;
    ann.renew(&mine).await.unwrap();
    assert_eq!(held_by(bob.grant(&case.wish("bob")).await), "ann");
}

pub(super) async fn each_renewal_has_its_own_answer(case: Case) {
    let ann = case.client();
    let wishes: Vec<Arc<Wish>> = (0..5)
        .map(|number| Arc::new(Wish { resources: vec![format!("{}/{number}", case.resource)], ..case.wish("ann") }))
        .collect();
    for wish in &wishes {
        ann.grant(wish).await.unwrap();
    }
    ann.release(&wishes[1]).await;
    ann.release(&wishes[3]).await;
    case.client().grant(&Wish { id: case.wish("bob").id, ..(*wishes[3]).clone() }).await.unwrap();
    let answers = ann.0.renew(wishes.clone()).await.unwrap();
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, false, true], "{answers:?}");
    assert_eq!(ann.0.renew(Vec::new()).await.unwrap(), []);
}

pub(super) async fn the_incumbent_is_shown(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    assert_eq!(bob.incumbent(&case.resource).await, None);
    let wish = case.wish("ann");
    let granted = ann.grant(&wish).await.unwrap();
    assert_eq!(bob.incumbent(&case.resource).await, Some(("ann".to_owned(), granted.tokens[0])));
    ann.release(&wish).await;
    assert_eq!(bob.incumbent(&case.resource).await, None);
}

pub(super) async fn names_are_kept_apart(case: Case) {
    let ann = case.client();
    let base = &case.resource;
    let names = ["", "/0", "/0/0", "/a b", "/*", "/it's \"%s\" {x}", "/größe", "/A", "/a"];
    for name in names {
        let wish = Wish { resources: vec![format!("{base}{name}")], ..case.wish(name.trim_start()) };
        let wish = Wish { holder: format!("of {name}"), ..wish };
        ann.grant(&wish).await.unwrap();
    }
    for name in names {
        let shown = ann.incumbent(&format!("{base}{name}")).await.unwrap();
        assert_eq!(shown.0, format!("of {name}"));
    }
}
