//! A client with several addresses: it leaves a node that cannot serve or is gone, stays with one that only needs long,
//! and its callers notice no more than the delay.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod node;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_api::Code;
use leasehold_client::{Client, Error, Guard, Renewal};

use node::{Ledger, Mode, Node};

const SOON: Duration = Duration::from_secs(20);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn nodes() -> (Arc<Ledger>, Node, Node) {
    let ledger = Ledger::new();
    let (a, b) = (Node::start(&ledger), Node::start(&ledger));
    (ledger, a, b)
}

fn client(nodes: &[&Node]) -> Client {
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
    Client::connect(&addresses.join(",")).unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} takes too long"))
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    soon(what, async {
        while !is_so() {
            tokio::time::sleep(millis(5)).await;
        }
    })
    .await;
}

async fn locked(client: &Client, name: &str) -> Guard {
    soon("the grant", client.lock(name).ttl(millis(5_000)).renewal(Renewal::Continuous).acquire()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_refuses_is_left_for_the_next_with_the_same_id() {
    for code in [Code::NoQuorum, Code::ShuttingDown] {
        let (ledger, a, b) = nodes();
        a.does(Mode::Refuses(code));
        let guard = locked(&client(&[&a, &b]), "a").await;
        assert_eq!(Some(guard.token().unwrap()), ledger.token("a"));
        let (refused, served) = (a.asked.grants.lock().clone(), b.asked.grants.lock().clone());
        assert_eq!((&refused, served.len()), (&served, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_nodes_the_one_that_leads_is_asked() {
    let (_ledger, a, b) = nodes();
    a.leads(Some(false));
    b.leads(Some(true));
    let ann = client(&[&a, &b]);
    drop(locked(&ann, "a").await);
    assert_eq!((a.asked.grants.lock().len(), b.asked.grants.lock().len()), (0, 1));
    drop(locked(&client(&[&b, &a]), "b").await);
    assert_eq!((a.streams(), b.streams()), (1, 2), "who finds it first looks no further");
    drop(locked(&client(&[&a]), "c").await);
    assert_eq!(a.asked.grants.lock().len(), 1, "who knows no other asks there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_not_found_is_not_waited_for() {
    for (there, says) in [(Mode::Serves, Some(false)), (Mode::Serves, None), (Mode::Frozen, Some(true))] {
        let (_ledger, a, b) = nodes();
        a.leads(Some(false));
        b.leads(says);
        b.does(there);
        drop(locked(&client(&[&a, &b]), "a").await);
        assert_eq!((a.asked.grants.lock().len(), b.asked.grants.lock().len()), (1, 0), "{there:?} {says:?}");
    }
    let (_ledger, a, mut b) = nodes();
    a.leads(Some(false));
    b.kill();
    drop(locked(&client(&[&a, &b]), "a").await);
    assert_eq!(a.asked.grants.lock().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_address_a_refusal_is_repeated_there() {
    let ledger = Ledger::new();
    let a = Node::start(&ledger);
    a.does(Mode::Refuses(Code::NoQuorum));
    let ann = client(&[&a]);
    let waiting = tokio::spawn(ann.lock("a").try_acquire());
    until("some repetitions", || a.asked.grants.lock().len() > 3).await;
    a.does(Mode::Serves);
    let guard = soon("the grant", waiting).await.unwrap().unwrap();
    let grants = a.asked.grants.lock().clone();
    assert!(grants.iter().all(|id| *id == grants[0]), "{grants:?}");
    assert_eq!((a.streams(), Some(guard.token().unwrap())), (1, ledger.token("a")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_patience_is_told_when_nobody_can_serve() {
    let (_ledger, a, b) = nodes();
    a.does(Mode::Refuses(Code::NoQuorum));
    b.does(Mode::Refuses(Code::ShuttingDown));
    let error = soon("the refusal", client(&[&a, &b]).lock("a").try_acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable(problem) if problem.status == 503), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_needs_long_is_not_left() {
    let (_ledger, a, b) = nodes();
    let ann = client(&[&a, &b]);
    let guard = locked(&ann, "a").await;
    a.does(Mode::Holds);
    let waiting = tokio::spawn(ann.lock("b").try_acquire());
    tokio::time::sleep(millis(1_000)).await;
    assert!(!waiting.is_finished());
    a.does(Mode::Serves);
    drop(soon("the grant", waiting).await.unwrap().unwrap());
    guard.token().unwrap();
    assert_eq!((a.streams(), b.streams()), (1, 0), "the stream is still the first one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_says_nothing_is_left() {
    let (_ledger, a, b) = nodes();
    let ann = client(&[&a, &b]);
    let guard = locked(&ann, "a").await;
    a.does(Mode::Frozen);
    let asked = Instant::now();
    // Also one that would wait in a queue: that it does has yet to be said.
    let other = soon("the grant", ann.lock("b").acquire()).await.unwrap();
    assert!(asked.elapsed() >= millis(150), "{:?}", asked.elapsed());
    assert_eq!((b.streams(), b.asked.grants.lock().len()), (1, 1));
    let renewed = b.asked.renewals.load(Ordering::SeqCst);
    until("a renewal", || b.asked.renewals.load(Ordering::SeqCst) > renewed).await;
    assert!(guard.token().is_ok() && other.token().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_keeps_its_place_when_its_node_is_left() {
    let (ledger, a, b) = nodes();
    let (ann, bob, carol) = (client(&[&b]), client(&[&a, &b]), client(&[&b]));
    let first = locked(&ann, "a").await;
    let kept = locked(&bob, "kept").await;
    let second = tokio::spawn(bob.lock("a").ttl(millis(5_000)).acquire());
    until("the second place", || ledger.waiters("a") == 1).await;
    let third = tokio::spawn(carol.lock("a").ttl(millis(5_000)).acquire());
    until("the third place", || ledger.waiters("a") == 2).await;
    // The renewal of what bob keeps is refused: he goes to the other node with it, and later with his wait.
    a.does(Mode::Refuses(Code::NoQuorum));
    let wish = *a.asked.grants.lock().last().unwrap();
    until("the wait at the other node", || b.asked.grants.lock().contains(&wish)).await;
    first.release().await.unwrap();
    let second = soon("the grant", second).await.unwrap().unwrap();
    assert!(!third.is_finished());
    assert_eq!(Some(second.token().unwrap()), ledger.token("a"));
    second.release().await.unwrap();
    drop(soon("the last grant", third).await.unwrap().unwrap());
    kept.token().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_granted_on_the_stream_that_was_left_is_heard_of_on_the_new_one() {
    let (ledger, a, b) = nodes();
    let (ann, bob) = (client(&[&b]), client(&[&a, &b]));
    let first = locked(&ann, "a").await;
    let kept = locked(&bob, "kept").await;
    let second = tokio::spawn(bob.lock("a").ttl(millis(5_000)).acquire());
    until("the second place", || ledger.waiters("a") == 1).await;
    let wish = *a.asked.grants.lock().last().unwrap();
    a.does(Mode::Refuses(Code::ShuttingDown));
    until("a stream to the other node", || b.streams() == 2).await;
    first.release().await.unwrap();
    let second = soon("the grant", second).await.unwrap().unwrap();
    until("the attachment", || b.asked.attached.lock().contains(&wish)).await;
    let mut asks = second.handover_asks();
    b.ask_for_handover(wish, "a");
    assert_eq!(soon("the request", asks.next()).await.unwrap().by, "bob");
    kept.token().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_given_up_while_nobody_can_serve_leaves_nothing_behind() {
    let (ledger, a, b) = nodes();
    let (ann, bob) = (client(&[&b]), client(&[&a, &b]));
    let first = locked(&ann, "a").await;
    let second = tokio::spawn(bob.lock("a").ttl(millis(5_000)).acquire());
    until("the second place", || ledger.waiters("a") == 1).await;
    a.does(Mode::Refuses(Code::NoQuorum));
    b.does(Mode::Refuses(Code::NoQuorum));
    second.abort();
    tokio::time::sleep(millis(300)).await;
    assert_eq!(ledger.waiters("a"), 1);
    b.does(Mode::Serves);
    until("an empty queue", || ledger.waiters("a") == 0).await;
    first.token().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_replaced_one_after_the_other_cost_no_lease() {
    let (ledger, mut a, mut b) = nodes();
    let ann = client(&[&a, &b]);
    let guard = locked(&ann, "a").await;
    let lost = guard.lost();
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    tokio::spawn(async move {
        lost.await;
        told.store(true, Ordering::SeqCst);
    });
    for _ in 0..3 {
        for node in [&mut a, &mut b] {
            node.does(Mode::Refuses(Code::ShuttingDown));
            let sent = guard.validity().sent();
            until("a renewal elsewhere", || guard.validity().sent() != sent).await;
            tokio::task::block_in_place(|| node.kill());
            let sent = guard.validity().sent();
            until("a renewal without it", || guard.validity().sent() != sent).await;
            node.restart();
        }
    }
    assert!(!ended.load(Ordering::SeqCst));
    assert_eq!(Some(guard.token().unwrap()), ledger.token("a"));
    guard.release().await.unwrap();
    assert_eq!(ledger.token("a"), None);
}
