//! The client on top: guards that renew themselves over the store, from the client's own thread.

use std::time::Duration;

use leasehold_client::{Client, Error, LostCause};

use crate::harness::{Case, held_by};

/// Whole seconds, for every store, and long enough for a busy machine to renew in time.
const TTL: Duration = Duration::from_secs(3);

fn client(case: &Case, holder: &str) -> Client {
    Client::builder().holder(holder).over_shared(case.client().0)
}

pub(super) async fn a_guard_renews_itself_and_releases(case: Case) {
    let (ann, bob) = (client(&case, "ann"), client(&case, "bob"));
    let guard = ann.lock(&case.resource).ttl(TTL).acquire().await.unwrap();
    let token = guard.token().unwrap();
    tokio::select! {
        cause = guard.lost() => panic!("lost: {cause}"),
        () = tokio::time::sleep(TTL * 2) => {}
    }
    assert!(matches!(bob.lock(&case.resource).ttl(TTL).try_acquire().await, Err(Error::Held(_))));
    assert_eq!(guard.token().unwrap(), token);
    guard.release().await.unwrap();
    let next = bob.lock(&case.resource).ttl(TTL).try_acquire().await.unwrap();
    assert!(next.token().unwrap() > token);
}

pub(super) async fn a_dropped_guard_or_wait_leaves_nothing(case: Case) {
    let (ann, bob) = (client(&case, "ann"), client(&case, "bob"));
    let hour = Duration::from_secs(3600);
    let guard = ann.lock(&case.resource).ttl(hour).acquire().await.unwrap();
    let waiting = bob.lock(&case.resource).ttl(hour).acquire();
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err(), "it is held");
    drop(guard);
    let next = ann.lock(&case.resource).ttl(hour).wait(Duration::from_secs(30)).acquire().await.unwrap();
    assert_eq!(held_by(case.client().grant(&case.wish("eve")).await), "ann");
    next.release().await.unwrap();
}

pub(super) async fn a_guard_whose_lease_was_taken_is_lost(case: Case) {
    let ann = client(&case, "ann");
    let guard = ann.lock(&case.resource).ttl(TTL).acquire().await.unwrap();
    // Who knows the id can end it; its holder learns of that.
    let wish = leasehold_client::store::Wish { id: guard.id(), ..case.wish("ann") };
    case.client().release(&wish).await;
    let cause = tokio::time::timeout(Duration::from_secs(30), guard.lost()).await.expect("it is told");
    assert!(!matches!(cause, LostCause::HandedOver), "{cause}");
    assert!(guard.token().is_err());
}
