//! Waiting: as long as the patience lasts, and then the resource or a clear no.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_client::store::{Progress, ProgressTo, Wish};
use leasehold_client::{Error, Moment};
use leasehold_core::{Patience, Span};

use crate::harness::{Case, Client};

/// Waits in the background and remembers what it was told.
fn wait(client: &Client, wish: &Wish) -> (tokio::task::JoinHandle<Waited>, Arc<Mutex<Vec<Progress>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let progress = ProgressTo::new(move |progress| tell.lock().unwrap().push(progress));
    (tokio::spawn(client.0.grant(Arc::new(wish.clone()), progress)), told)
}

type Waited = Result<leasehold_client::store::Granted, Error>;

/// Returns when a waiter was told something.
async fn told_something(told: &Mutex<Vec<Progress>>) -> Progress {
    loop {
        if let Some(progress) = told.lock().unwrap().last() {
            return progress.clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) async fn a_wait_ends_when_its_patience_does(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let held = case.wish("ann");
    ann.grant(&held).await.unwrap();
    let patience = Span(700);
    let wish = Wish { patience: Patience::For(patience), ..case.wish("bob") };
    let began = Moment::now();
    let Err(Error::TimedOut { problem, .. }) = bob.grant(&wish).await else { panic!("it was held all the time") };
    assert!(began.elapsed() >= Duration::from_millis(patience.0), "{:?}", began.elapsed());
    assert_eq!(problem.code, "wait_elapsed");
    assert_eq!(problem.holders.unwrap()[0].holder, "ann");
    // Nothing of it is left in a queue.
    ann.release(&held).await;
    ann.grant(&case.wish("ann")).await.unwrap();
}

pub(super) async fn a_waiter_gets_it_after_a_release(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let held = case.wish("ann");
    let first = ann.grant(&held).await.unwrap();
    let (waiting, told) = wait(&bob, &Wish { patience: Patience::For(Span::seconds(60)), ..case.wish("bob") });
    told_something(&told).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let released = Moment::now();
    ann.release(&held).await;
    let granted = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() < Duration::from_secs(10), "{:?}", released.elapsed());
    assert!(granted.waited >= Duration::from_millis(100), "{:?}", granted.waited);
    assert!(granted.validity.left() > Some(Duration::from_secs(60)), "{granted:?}");
    assert!(granted.tokens[0] > first.tokens[0] || granted.tokens[0].is_none());
}

pub(super) async fn a_waiter_gets_it_after_an_expiry(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let ttl = Duration::from_millis(case.short().0);
    let began = Moment::now();
    let first = ann.grant(&case.short_wish("ann")).await.unwrap();
    let patient = Wish { patience: Patience::For(Span::seconds(60)), ..case.wish("bob") };
    bob.grant(&patient).await.unwrap();
    assert!(began.elapsed() >= ttl && first.validity.is_over(), "{:?}", began.elapsed());
}

pub(super) async fn a_waiter_outlives_its_ttl(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let held = case.wish("ann");
    ann.grant(&held).await.unwrap();
    let wish = Wish { patience: Patience::For(Span::seconds(60)), ..case.short_wish("bob") };
    let (waiting, told) = wait(&bob, &wish);
    told_something(&told).await;
    let ttl = Duration::from_millis(case.short().0);
    tokio::time::sleep(ttl * 2).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    let released = Moment::now();
    ann.release(&held).await;
    let granted = waiting.await.unwrap().unwrap();
    let over = granted.validity.is_over();
    // A machine too busy to look in time proves nothing here.
    assert!(!over || released.elapsed() > ttl / 2, "it is over as soon as it is granted");
}

pub(super) async fn a_waiter_is_told_who_holds(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    let held = case.wish("ann");
    ann.grant(&held).await.unwrap();
    let (waiting, told) = wait(&bob, &Wish { patience: Patience::For(Span::seconds(60)), ..case.wish("bob") });
    let progress = told_something(&told).await;
    assert_eq!(progress.resource, case.resource);
    let holder = progress.holder.unwrap();
    assert_eq!((holder.holder.as_str(), holder.reason.as_deref()), ("ann", Some("ann has a reason")));
    ann.release(&held).await;
    waiting.await.unwrap().unwrap();
}

pub(super) async fn waiters_are_served_in_order(case: Case) {
    let ann = case.client();
    let held = case.wish("ann");
    ann.grant(&held).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 1..=4_u32 {
        let wish =
            Wish { patience: Patience::For(Span::seconds(60)), fair: true, ..case.wish(&format!("waiter {number}")) };
        let client = case.client();
        let (task, told) = wait(&client, &wish);
        let progress = told_something(&told).await;
        assert_eq!(progress.place, Some((number, number)));
        let order = order.clone();
        waiting.push(tokio::spawn(async move {
            let granted = task.await.unwrap().unwrap();
            order.lock().unwrap().push((number, granted.tokens[0]));
            client.release(&wish).await;
        }));
    }
    ann.release(&held).await;
    for waiter in waiting {
        waiter.await.unwrap();
    }
    let order = order.lock().unwrap().clone();
    assert_eq!(order.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(order.windows(2).all(|pair| pair[0].1 < pair[1].1 || pair[0].1.is_none()), "{order:?}");
}

pub(super) async fn a_change_of_holder_is_noticed(case: Case) {
    let (ann, bob) = (case.client(), case.client());
    assert_eq!(bob.incumbent(&case.resource).await, None);
    let changed = bob.0.changed(&case.resource);
    ann.grant(&case.wish("ann")).await.unwrap();
    // What happened before it was awaited counts too.
    tokio::time::timeout(Duration::from_secs(20), changed).await.expect("the holder has changed").unwrap();
}
