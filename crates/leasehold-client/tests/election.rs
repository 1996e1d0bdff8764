//! Elections: terms, fail-over, resigning, observing.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use leasehold_client::testing::TestServer;
use leasehold_client::{Client, Clock, Error, LostCause};
use parking_lot::Mutex;

type Diary = Arc<Mutex<Vec<String>>>;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Leads for ever and writes down when; the drop of its future is written down too.
async fn lead(client: Client, diary: Diary) -> Result<(), Error> {
    struct Entry(Diary, String);
    impl Drop for Entry {
        fn drop(&mut self) {
            self.0.lock().push(format!("{} stops", self.1));
        }
    }
    let name = client.holder().to_owned();
    client
        .election("scheduler")
        .run(async |_term| {
            diary.lock().push(format!("{name} leads"));
            let _entry = Entry(Arc::clone(&diary), name.clone());
            std::future::pending().await
        })
        .await
}

#[tokio::test]
async fn the_next_candidate_leads_when_the_incumbent_is_cut_off() {
    let server = TestServer::new();
    let diary = Diary::default();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let mut runs = Vec::new();
    for client in [&ann, &bob] {
        runs.push(tokio::spawn(lead(client.clone(), Arc::clone(&diary))));
        server.settle().await;
    }
    server.advance(secs(60)).await;
    assert_eq!(*diary.lock(), ["ann leads"]);
    server.cut(&ann);
    server.advance(Duration::from_millis(9_600)).await;
    assert_eq!(*diary.lock(), ["ann leads", "ann stops"], "it stops before the other begins");
    server.advance(secs(1)).await;
    assert_eq!(*diary.lock(), ["ann leads", "ann stops", "bob leads"]);
    server.mend(&ann);
    server.advance(secs(60)).await;
    server.cut(&bob);
    server.advance(secs(11)).await;
    assert_eq!(diary.lock()[3..], ["bob stops", "ann leads"]);
    runs.iter().for_each(tokio::task::JoinHandle::abort);
    server.settle().await;
}

#[tokio::test]
async fn one_that_resigns_stands_again_behind_the_others() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    let diary = Diary::default();
    let (clock, notes) = (server.clock().clone(), Arc::clone(&diary));
    let run = tokio::spawn(async move {
        ann.election("scheduler")
            .run(async |term| {
                let number = notes.lock().len();
                notes.lock().push(format!("term {}", number + 1));
                if number == 0 {
                    clock.sleep(secs(30)).await;
                    term.resign().await?;
                    assert!(term.token().is_err());
                    notes.lock().push("tidied up".into());
                    return Err(Error::invalid("x", "of no interest after resigning"));
                }
                term.token()
            })
            .await
    });
    server.advance(secs(1)).await;
    let campaign = tokio::spawn(async move { bob.election("scheduler").campaign().await });
    server.advance(secs(40)).await;
    let term = campaign.await.unwrap().unwrap();
    assert_eq!(*diary.lock(), ["term 1", "tidied up"]);
    let first = term.token().unwrap();
    drop(term);
    server.settle().await;
    assert!(run.await.unwrap().unwrap() > first);
    assert_eq!(*diary.lock(), ["term 1", "tidied up", "term 3"]);
    assert_eq!(server.store().lease_count(), 0, "the term ends with the work");
}

#[tokio::test]
async fn a_failure_of_the_work_ends_the_run_and_the_term() {
    #[derive(Debug, PartialEq)]
    struct Broken;
    impl From<Error> for Broken {
        fn from(_: Error) -> Broken {
            Broken
        }
    }
    let server = TestServer::new();
    let client = server.client();
    let result: Result<(), Broken> = client.election("a").run(async |_| Err(Broken)).await;
    assert_eq!(result, Err(Broken));
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn dropping_a_run_withdraws() {
    let server = TestServer::new();
    let runs = ["ann", "bob"].map(|name| tokio::spawn(lead(server.client_of(name), Diary::default())));
    server.advance(secs(5)).await;
    assert_eq!(server.store().lease_count(), 2);
    runs.iter().for_each(tokio::task::JoinHandle::abort);
    server.settle().await;
    assert_eq!(server.store().lease_count(), 0);
}

#[tokio::test]
async fn observers_see_every_incumbent() {
    let server = TestServer::new();
    let (ann, bob, eve) = (server.client_of("ann"), server.client_of("bob"), server.client_of("eve"));
    let mut seen = eve.election("a").observe();
    assert_eq!(seen.next().await.unwrap(), None);
    let term = ann.election("a").campaign().await.unwrap();
    let incumbent = seen.next().await.unwrap().unwrap();
    assert_eq!((incumbent.holder.as_str(), incumbent.token), ("ann", Some(term.token().unwrap())));
    let waiting = tokio::spawn(async move { bob.election("a").candidate("bob").campaign().await });
    server.settle().await;
    term.resign().await.unwrap();
    assert_eq!(term.lost().await, LostCause::Released);
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(seen.next().await.unwrap().unwrap().holder, "bob");
    assert_eq!(ann.incumbent("a").await.unwrap().unwrap().token, next.token().ok());
    // An outage is waited out.
    server.stop();
    server.advance(secs(3)).await;
    server.start();
    drop(next);
    server.advance(secs(3)).await;
    assert_eq!(seen.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_holder_that_is_asked_hands_over() {
    let server = TestServer::new();
    let (ann, bob) = (server.client_of("ann"), server.client_of("bob"));
    assert!(bob.request_handover("a", None).await.is_err(), "nobody holds it");
    let guard = ann.lock("a").acquire().await.unwrap();
    bob.request_handover("a", Some("urgent".into())).await.unwrap();
    server.settle().await;
    let mut asks = guard.handover_asks();
    let ask = asks.next().await.unwrap();
    assert_eq!((ask.resource.as_str(), ask.by.as_str(), ask.reason.as_deref()), ("a", "bob", Some("urgent")));
    let waiting = tokio::spawn(bob.lock("a").acquire());
    server.settle().await;
    let lost = guard.lost();
    guard.hand_over().await.unwrap();
    assert_eq!(lost.await, LostCause::HandedOver);
    assert_eq!(asks.next().await, None);
    assert_eq!(waiting.await.unwrap().unwrap().holder(), "bob");
}
