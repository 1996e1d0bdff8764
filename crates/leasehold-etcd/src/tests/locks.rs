//! Locks and elections are claims, beside clients that contend with plain keys.

use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Key, ResourceName, State};
use leasehold_service::{Consistency, Options};
use tokio::task::JoinHandle;
use tonic::{Request, Status};

use super::dialect;
use crate::dialect::Dialect;
use crate::proto::etcdserverpb::kv_server::Kv as _;
use crate::proto::etcdserverpb::lease_server::Lease as _;
use crate::proto::etcdserverpb::{DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest};
use crate::proto::v3electionpb::election_server::Election as _;
use crate::proto::v3electionpb::{CampaignRequest, LeaderRequest, ProclaimRequest, ResignRequest};
use crate::proto::v3lockpb::lock_server::Lock as _;
use crate::proto::v3lockpb::{LockRequest, UnlockRequest};

async fn fresh() -> Dialect {
    dialect(Options::default()).await
}

async fn grant(dialect: &Dialect) -> i64 {
    let request = LeaseGrantRequest { ttl: 60, id: 0 };
    dialect.lease_grant(Request::new(request)).await.unwrap().into_inner().id
}

async fn put(dialect: &Dialect, key: String, lease: i64) {
    let request = PutRequest { key: key.into(), lease, ..PutRequest::default() };
    dialect.put(Request::new(request)).await.unwrap();
}

async fn delete(dialect: &Dialect, key: String) {
    let request = DeleteRangeRequest { key: key.into(), ..DeleteRangeRequest::default() };
    dialect.delete_range(Request::new(request)).await.unwrap();
}

async fn lock(dialect: &Dialect, name: &'static str, lease: i64) -> Result<Bytes, Status> {
    let request = LockRequest { name: Bytes::from_static(name.as_bytes()), lease };
    dialect.lock(Request::new(request)).await.map(|response| response.into_inner().key)
}

fn locking(dialect: &Dialect, name: &'static str, lease: i64) -> JoinHandle<Result<Bytes, Status>> {
    let dialect = dialect.clone();
    tokio::spawn(async move { lock(&dialect, name, lease).await })
}

async fn look<T>(dialect: &Dialect, query: impl FnOnce(&State) -> T) -> T {
    let (caller, namespace) = (dialect.caller(), dialect.namespace());
    dialect.service().read(&caller, namespace, Consistency::Linearizable, query).await.unwrap().value
}

/// Waits until so many contenders wait in the queue of a name.
async fn until_queued(dialect: &Dialect, name: &str, count: u32) {
    let resource = ResourceName::new(name).unwrap();
    let queue = |state: &State| state.resource(dialect.namespace(), &resource).map_or(0, |view| view.queue);
    while look(dialect, queue).await != count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn exists(dialect: &Dialect, key: &str) -> bool {
    let key = Key::new(key.as_bytes()).unwrap();
    look(dialect, |state| state.entry(dialect.namespace(), &key).is_some()).await
}

#[tokio::test]
async fn a_lock_is_a_claim_with_its_key_as_marker() {
    let dialect = fresh().await;
    let lease = grant(&dialect).await;
    let key = lock(&dialect, "nightly", lease).await.unwrap();
    assert_eq!(key, format!("nightly/{lease:x}"));
    assert_eq!(lock(&dialect, "nightly", lease).await.unwrap(), key, "once more is the same lock");
    let resource = ResourceName::new("nightly").unwrap();
    let view = look(&dialect, |state| state.resource(dialect.namespace(), &resource)).await.unwrap();
    let created = look(&dialect, |state| state.entry(dialect.namespace(), &Key::new(&key).unwrap()).unwrap().created);
    assert_eq!(view.holders[0].token.0, created.await.0, "the token is the revision of the key");
    assert_eq!(view.holders[0].holder.as_str(), "etcd client");
    dialect.unlock(Request::new(UnlockRequest { key: key.clone() })).await.unwrap();
    let view = look(&dialect, |state| state.resource(dialect.namespace(), &resource)).await.unwrap();
    assert_eq!((view.holder_count, exists(&dialect, std::str::from_utf8(&key).unwrap()).await), (0, false));
    dialect.unlock(Request::new(UnlockRequest { key })).await.unwrap();
}

#[tokio::test]
async fn whoever_contends_with_a_plain_key_and_came_first_is_waited_for() {
    let dialect = fresh().await;
    let (first, second) = (grant(&dialect).await, grant(&dialect).await);
    // The recipe that libraries of clients know: a key under the name, the oldest holds.
    put(&dialect, format!("jobs/{first:x}"), first).await;
    let waiting = locking(&dialect, "jobs", second);
    while !exists(&dialect, &format!("jobs/{second:x}")).await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "the plain key holds the lock");
    // One that comes later waits for the lock, so the lock must not wait for it.
    put(&dialect, "jobs/later".to_owned(), 0).await;
    delete(&dialect, format!("jobs/{first:x}")).await;
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn whoever_deletes_the_key_of_the_holder_breaks_the_lock() {
    let dialect = fresh().await;
    let (first, second, third) = (grant(&dialect).await, grant(&dialect).await, grant(&dialect).await);
    lock(&dialect, "jobs", first).await.unwrap();
    let waiting = locking(&dialect, "jobs", second);
    until_queued(&dialect, "jobs", 1).await;
    let last = locking(&dialect, "jobs", third);
    until_queued(&dialect, "jobs", 2).await;
    // A waiter whose key is deleted is out of the queue.
    delete(&dialect, format!("jobs/{second:x}")).await;
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!((status.code() as i32, status.message()), (2, "etcdserver: requested lease not found"));
    delete(&dialect, format!("jobs/{first:x}")).await;
    last.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_leaves_nothing_behind() {
    let dialect = fresh().await;
    let (first, second) = (grant(&dialect).await, grant(&dialect).await);
    let key = lock(&dialect, "jobs", first).await.unwrap();
    let waiting = locking(&dialect, "jobs", second);
    until_queued(&dialect, "jobs", 1).await;
    assert!(exists(&dialect, &format!("jobs/{second:x}")).await, "those who wait are seen");
    waiting.abort();
    until_queued(&dialect, "jobs", 0).await;
    while exists(&dialect, &format!("jobs/{second:x}")).await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    dialect.unlock(Request::new(UnlockRequest { key })).await.unwrap();
    lock(&dialect, "jobs", second).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_ends_in_the_queue_is_never_given_the_lock() {
    let dialect = fresh().await;
    let (first, second, third) = (grant(&dialect).await, grant(&dialect).await, grant(&dialect).await);
    let key = lock(&dialect, "jobs", first).await.unwrap();
    let dead = locking(&dialect, "jobs", second);
    until_queued(&dialect, "jobs", 1).await;
    let living = locking(&dialect, "jobs", third);
    until_queued(&dialect, "jobs", 2).await;
    dialect.lease_revoke(Request::new(LeaseRevokeRequest { id: second })).await.unwrap();
    let status = dead.await.unwrap().unwrap_err();
    assert_eq!(status.message(), "etcdserver: requested lease not found");
    dialect.unlock(Request::new(UnlockRequest { key })).await.unwrap();
    living.await.unwrap().unwrap();
    let unknown = lock(&dialect, "jobs", 7).await.unwrap_err();
    assert_eq!((unknown.code() as i32, unknown.message()), (2, "etcdserver: requested lease not found"));
}

#[tokio::test]
async fn a_lock_without_a_lease_gets_one_that_nobody_renews() {
    let dialect = fresh().await;
    let key = lock(&dialect, "jobs", 0).await.unwrap();
    let key = Key::new(&key).unwrap();
    let entry = look(&dialect, |state| state.entry(dialect.namespace(), &key)).await.unwrap();
    let lease = look(&dialect, |state| state.lease(dialect.namespace(), entry.lease.unwrap())).await.unwrap();
    assert_eq!(lease.ttl, leasehold_core::Ttl::For(leasehold_core::Span::seconds(60)));
}

#[tokio::test]
async fn an_election_is_won_in_order_and_only_the_winner_proclaims() {
    let dialect = fresh().await;
    let (first, second) = (grant(&dialect).await, grant(&dialect).await);
    let campaign = |lease, value: &'static str| {
        let request = CampaignRequest { name: "boss".into(), lease, value: value.into() };
        let dialect = dialect.clone();
        async move { dialect.campaign(Request::new(request)).await.unwrap().into_inner().leader.unwrap() }
    };
    let name = || Request::new(LeaderRequest { name: "boss".into() });
    let nobody = dialect.leader(name()).await.unwrap_err();
    assert_eq!((nobody.code() as i32, nobody.message()), (2, "election: no leader"));
    let ann = campaign(first, "ann").await;
    let bob = tokio::spawn(campaign(second, "bob"));
    until_queued(&dialect, "boss", 1).await;
    let leads = async || dialect.leader(name()).await.unwrap().into_inner().kv.unwrap().value;
    assert_eq!(leads().await, "ann");
    assert_eq!(campaign(first, "anna").await.rev, ann.rev, "once more says something else");
    assert_eq!(leads().await, "anna");
    dialect.resign(Request::new(ResignRequest { leader: Some(ann.clone()) })).await.unwrap();
    let bob = bob.await.unwrap();
    assert!(bob.rev > ann.rev);
    assert_eq!(leads().await, "bob");
    let late = ProclaimRequest { leader: Some(ann.clone()), value: "late".into() };
    let refused = dialect.proclaim(Request::new(late)).await.unwrap_err();
    assert_eq!((refused.code() as i32, refused.message()), (2, "election: not leader"));
    dialect.resign(Request::new(ResignRequest { leader: Some(ann) })).await.unwrap();
    assert_eq!(leads().await, "bob", "who has resigned before takes nothing from others");
}
