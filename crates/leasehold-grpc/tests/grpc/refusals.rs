//! Bad input: clean answers, with the field that is to blame.

use leasehold_api::grpc::{
    CheckRequest, ClaimRequest, Condition, DeleteRequest, GetEntryRequest, GetLeaseRequest, GetResourceRequest,
    GrantRequest, HandoverRequest, KeyRange, ListEntriesRequest, ListLeasesRequest, ListResourcesRequest, PutRequest,
    QueueRequest, RenewRequest, RevokeRequest, TxnRequest, TxnStep, UnclaimRequest, WriteSession, condition, key_range,
    revoke_request,
};
use prost::bytes::Bytes;
use tonic::{Response, Status};

use crate::support::{Bench, grant, problem};

fn blamed<T: std::fmt::Debug>(result: Result<Response<T>, Status>) -> (String, Option<String>) {
    let problem = problem(&result.unwrap_err());
    (problem.code, problem.field)
}

#[track_caller]
fn is<T: std::fmt::Debug>(result: Result<Response<T>, Status>, code: &str, field: &str) {
    assert_eq!(blamed(result), (code.to_owned(), (!field.is_empty()).then(|| field.to_owned())));
}

#[tokio::test]
async fn leases_that_make_no_sense() {
    let bench = Bench::new().await;
    let mut leases = bench.leases();
    let grants: [(GrantRequest, &str, &str); 10] = [
        (GrantRequest { holder: String::new(), ..grant(1, "a") }, "invalid_name", "holder"),
        (GrantRequest { namespace: "No Such".into(), ..grant(1, "a") }, "invalid_name", "namespace"),
        (GrantRequest { ttl_ms: Some(0), ..grant(1, "a") }, "invalid", "ttl"),
        (GrantRequest { ttl_ms: Some(1), ..grant(1, "a") }, "ttl_out_of_bounds", "ttl"),
        (GrantRequest { ttl_ms: None, ttl_endless: true, ..grant(1, "a") }, "needs_right", ""),
        (GrantRequest { id: Some(0), ..grant(1, "a") }, "invalid", "id"),
        (grant(1, "a//b"), "invalid_name", "resources[0]"),
        (GrantRequest { resources: vec!["a".into(), "a".into()], ..grant(1, "") }, "invalid", ""),
        (GrantRequest { metadata: [(String::new(), "x".into())].into(), ..grant(1, "a") }, "invalid", "metadata."),
        (GrantRequest { mode: 9, ..grant(1, "a") }, "invalid", "mode"),
    ];
    for (request, code, field) in grants {
        is(leases.grant(request).await, code, field);
    }
    is(leases.renew(RenewRequest::default()).await, "invalid", "leases");
    is(leases.renew(RenewRequest { leases: vec![7; 100_000], ..Default::default() }).await, "too_large", "");
    is(leases.claim(ClaimRequest { lease: 1, ..ClaimRequest::default() }).await, "unknown_lease", "");
    is(leases.unclaim(UnclaimRequest { lease: 1, ..UnclaimRequest::default() }).await, "invalid_name", "resource");
    is(leases.get(GetLeaseRequest::default()).await, "invalid", "lease");
    is(leases.get(GetLeaseRequest { lease: 1, consistency: 7, ..Default::default() }).await, "invalid", "consistency");
    is(leases.list(ListLeasesRequest { limit: Some(0), ..Default::default() }).await, "invalid", "limit");
    is(leases.list(ListLeasesRequest { page: Some("x".into()), ..Default::default() }).await, "invalid", "page");
    is(leases.revoke(RevokeRequest { reason: "x".into(), ..Default::default() }).await, "invalid", "lease");
    let which = Some(revoke_request::Which::Lease(1));
    is(leases.revoke(RevokeRequest { which, ..Default::default() }).await, "invalid", "reason");
}

#[tokio::test]
async fn resources_that_make_no_sense() {
    let bench = Bench::new().await;
    let mut resources = bench.resources();
    is(resources.get(GetResourceRequest::default()).await, "invalid_name", "resource");
    is(resources.get(GetResourceRequest { resource: "a".into(), ..Default::default() }).await, "not_found", "");
    is(
        resources.queue(QueueRequest { resource: "a".into(), limit: Some(5000), ..Default::default() }).await,
        "invalid",
        "limit",
    );
    is(
        resources.list(ListResourcesRequest { page: Some("/".into()), ..Default::default() }).await,
        "invalid_name",
        "page",
    );
    is(resources.check(CheckRequest { resource: "a".into(), token: 9, ..Default::default() }).await, "stale_token", "");
    is(
        resources.request_handover(HandoverRequest { resource: "a".into(), ..Default::default() }).await,
        "invalid_name",
        "by",
    );
}

#[tokio::test]
async fn entries_that_make_no_sense() {
    let bench = Bench::new().await;
    let mut entries = bench.entries();
    let key = || Bytes::from_static(b"k");
    is(entries.get(GetEntryRequest::default()).await, "invalid_name", "key");
    is(entries.put(PutRequest { lease: Some(0), key: key(), ..Default::default() }).await, "invalid", "lease");
    let nothing = Some(Condition { must: None });
    is(entries.put(PutRequest { key: key(), condition: nothing, ..Default::default() }).await, "invalid", "condition");
    let session = Some(WriteSession { lease: 1, seq: 0, acked: None });
    is(entries.put(PutRequest { key: key(), session, ..Default::default() }).await, "invalid", "seq");
    is(entries.delete(DeleteRequest::default()).await, "invalid", "range");
    let all = Some(KeyRange { which: Some(key_range::Which::Prefix(Bytes::new())) });
    let condition = Some(Condition { must: Some(condition::Must::Modified(1)) });
    is(entries.delete(DeleteRequest { range: all, condition, ..Default::default() }).await, "invalid", "condition");
    is(entries.list(ListEntriesRequest { page: Some("zz".into()), ..Default::default() }).await, "invalid", "page");
    let then = vec![TxnStep { step: None }];
    is(entries.txn(TxnRequest { then, ..Default::default() }).await, "invalid", "then[0].step");
    let large = vec![0; (1 << 20) + 1].into();
    is(entries.put(PutRequest { key: key(), value: large, ..Default::default() }).await, "too_large", "");
}

#[tokio::test]
async fn a_held_resource_tells_the_same_as_over_http() {
    let bench = Bench::new().await;
    let mut held = grant(1, "orders/7");
    held.metadata = [("reason".to_owned(), "nightly".to_owned()), ("link".to_owned(), "https://x/1".to_owned())].into();
    let lease = bench.leases().grant(held).await.unwrap().into_inner();
    let status = bench.leases().grant(grant(2, "orders/7")).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Aborted);
    assert!(status.metadata().contains_key("lease-revision") && status.metadata().contains_key("lease-time"));
    let refusal = problem(&status);
    let holder = &refusal.holders.as_ref().unwrap()[0];
    assert_eq!((refusal.code.as_str(), refusal.status, refusal.retry.as_str()), ("held", 409, "later"));
    assert_eq!(
        (holder.holder.as_str(), Some(holder.token), holder.reason.as_deref()),
        ("holder-1", lease.token, Some("nightly"))
    );
    assert_eq!((holder.lease.to_string(), holder.link.as_deref()), (lease.digest, Some("https://x/1")));
    assert_eq!(refusal.queue.unwrap().position, Some(1));
    assert!(refusal.retry_after.is_some());
    let waited = GrantRequest { wait_ms: 30, ..grant(3, "orders/7") };
    let elapsed = bench.leases().grant(waited).await.unwrap_err();
    assert_eq!((elapsed.code(), problem(&elapsed).code.as_str()), (tonic::Code::DeadlineExceeded, "wait_elapsed"));
}
