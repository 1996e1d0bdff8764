//! Every operation by a call.

use leasehold_api::grpc::{
    CheckRequest, ClaimRequest, Compare, Condition, Consistency, DeleteRequest, GetEntryRequest, GetLeaseRequest,
    GetResourceRequest, GrantRequest, HandoverRequest, HistoryRequest, InfoRequest, KeyRange, KeySpan, LeaseState,
    LeaveRequest, ListEntriesRequest, ListLeasesRequest, ListResourcesRequest, Mode, PutRequest, PutStep, QueueRequest,
    ReadStep, RenewRequest, ResourceState, RevokeRequest, TxnRequest, TxnStep, UnclaimRequest, WriteSession, compare,
    condition, key_range, renew_result, revoke_request, step_result, txn_step,
};

use crate::support::{Bench, grant, patient, problem, refused, release, revision};

fn prefix(text: &'static str) -> Option<KeyRange> {
    Some(KeyRange { which: Some(key_range::Which::Prefix(text.into())) })
}

fn key(text: &'static str) -> Option<KeyRange> {
    Some(KeyRange { which: Some(key_range::Which::Key(text.into())) })
}

#[tokio::test]
async fn a_lease_is_granted_seen_renewed_and_released() {
    let bench = Bench::new().await;
    let mut leases = bench.leases();
    let request = GrantRequest {
        metadata: [("reason".to_owned(), "nightly".to_owned())].into(),
        resources: vec!["a".into(), "b".into()],
        mode: Mode::Shared.into(),
        ..grant(7, "")
    };
    let granted = leases.grant(request.clone()).await.unwrap();
    assert!(revision(&granted) > 0 && granted.metadata().contains_key("lease-time"));
    let granted = granted.into_inner();
    assert_eq!((granted.id, granted.state(), granted.token, granted.held.len()), (Some(7), LeaseState::Live, None, 2));
    assert_eq!((granted.ttl_ms, granted.ttl_endless, granted.holder.as_str()), (60_000, false, "holder-7"));
    assert!(granted.digest.starts_with('~') && granted.remaining_ms > 0);
    let again = leases.grant(request).await.unwrap().into_inner();
    assert_eq!((again.held[0].token, again.id), (granted.held[0].token, Some(7)), "a repetition finds it");

    let renew = RenewRequest { leases: vec![7, 8], ttl_ms: Some(90_000), ..RenewRequest::default() };
    let results = leases.renew(renew).await.unwrap().into_inner().results;
    assert!(matches!(&results[0].result, Some(renew_result::Result::Renewed(renewed)) if renewed.ttl_ms == 90_000));
    assert!(matches!(&results[1].result, Some(renew_result::Result::Problem(why)) if why.code == "unknown_lease"));
    assert_eq!((results[0].lease, results[1].lease), (7, 8));

    let seen = leases.get(GetLeaseRequest { lease: 7, ..GetLeaseRequest::default() }).await.unwrap().into_inner();
    assert_eq!((seen.ttl_ms, seen.metadata.len()), (90_000, 1));
    leases.release(release(7)).await.unwrap();
    leases.release(release(7)).await.unwrap();
    let over = leases.get(GetLeaseRequest { lease: 7, ..GetLeaseRequest::default() }).await.unwrap_err();
    assert_eq!(problem(&over).ended.unwrap().cause, "released");
    assert_eq!(over.code(), tonic::Code::FailedPrecondition);
}

#[tokio::test]
async fn a_server_chooses_an_id_and_a_ttl_by_class() {
    let bench = Bench::new().await;
    let request = GrantRequest { id: None, ttl_ms: None, class: 2, ..grant(1, "a") };
    let lease = bench.leases().grant(request).await.unwrap().into_inner();
    assert!(lease.id.unwrap() > 0);
    assert_eq!((lease.ttl_ms, lease.token.is_some()), (10_000, true));
}

#[tokio::test]
async fn claims_are_added_waited_for_and_given_back() {
    let bench = Bench::new().await;
    let mut leases = bench.leases();
    bench.grant(1, "a").await;
    bench.grant(2, "b").await;
    let claim = ClaimRequest {
        lease: 1,
        resources: vec!["b".into()],
        seq: Some(1),
        wait_ms: 60_000,
        ..ClaimRequest::default()
    };
    let waiting = {
        let (mut leases, claim) = (bench.leases(), claim.clone());
        tokio::spawn(async move { leases.claim(claim).await })
    };
    let queue = QueueRequest { resource: "b".into(), ..QueueRequest::default() };
    while bench.resources().queue(queue.clone()).await.unwrap().into_inner().length == 0 {
        tokio::task::yield_now().await;
    }
    leases.release(release(2)).await.unwrap();
    let lease = waiting.await.unwrap().unwrap().into_inner();
    let token = lease.held.iter().find(|held| held.resource == "b").unwrap().token;
    let unclaim = UnclaimRequest { lease: 1, resource: "b".into(), token, seq: Some(2), ..UnclaimRequest::default() };
    leases.unclaim(unclaim.clone()).await.unwrap();
    leases.unclaim(unclaim).await.unwrap();
    let late = ClaimRequest { acked: Some(2), seq: Some(3), resources: vec![], ..claim };
    assert_eq!(refused(leases.claim(late).await), "invalid");
}

#[tokio::test]
async fn a_wait_can_be_left_by_its_number() {
    let bench = Bench::new().await;
    bench.grant(1, "a").await;
    let waiting = {
        let mut leases = bench.leases();
        tokio::spawn(async move { leases.grant(patient(2, "a")).await })
    };
    let queue = QueueRequest { resource: "a".into(), ..QueueRequest::default() };
    let waiter = loop {
        let waiters = bench.resources().queue(queue.clone()).await.unwrap().into_inner().waiters;
        if let Some(waiter) = waiters.into_iter().next() {
            break waiter;
        }
    };
    assert_eq!((waiter.position, waiter.holder.as_str(), waiter.patience_ms), (1, "holder-2", None));
    bench.leases().leave(LeaveRequest { lease: 2, wait: waiter.wait, ..LeaveRequest::default() }).await.unwrap();
    assert_eq!(problem(&waiting.await.unwrap().unwrap_err()).ended.unwrap().cause, "left");
}

#[tokio::test]
async fn leases_are_listed_in_parts_without_their_ids() {
    let bench = Bench::new().await;
    for id in 1..=5 {
        bench.grant(id, &format!("r/{id}")).await;
    }
    let mut request = ListLeasesRequest { limit: Some(2), ..ListLeasesRequest::default() };
    let mut holders = Vec::new();
    loop {
        let part = bench.leases().list(request.clone()).await.unwrap().into_inner();
        assert!(part.leases.iter().all(|lease| lease.id.is_none() && lease.digest.starts_with('~')));
        holders.extend(part.leases.into_iter().map(|lease| lease.holder));
        request.page = part.next;
        if request.page.is_none() {
            break;
        }
    }
    assert_eq!(holders, ["holder-1", "holder-2", "holder-3", "holder-4", "holder-5"]);
    let stale = ListLeasesRequest { consistency: Consistency::Stale.into(), ..ListLeasesRequest::default() };
    let stale = bench.leases().list(stale).await.unwrap();
    assert!(stale.metadata().contains_key("lease-age-ms"));
    let one = ListLeasesRequest { holder: Some("holder-3".into()), ..ListLeasesRequest::default() };
    assert_eq!(bench.leases().list(one).await.unwrap().into_inner().leases.len(), 1);
}

#[tokio::test]
async fn resources_tell_who_holds_them_and_whether_a_token_is_current() {
    let bench = Bench::new().await;
    let mut resources = bench.resources();
    let lease = bench.grant(1, "orders/7").await;
    bench.grant(2, "orders/8").await;
    let get = GetResourceRequest { resource: "orders/7".into(), ..GetResourceRequest::default() };
    let found = resources.get(get.clone()).await.unwrap().into_inner();
    assert_eq!((found.state(), found.holder_count, found.last_token), (ResourceState::Held, 1, lease.token.unwrap()));
    assert_eq!((found.holders[0].holder.as_str(), &found.holders[0].lease), ("holder-1", &lease.digest));

    let check = CheckRequest { resource: "orders/7".into(), token: found.last_token, ..CheckRequest::default() };
    assert_eq!(resources.check(check.clone()).await.unwrap().into_inner().holder, "holder-1");
    let stale = problem(&resources.check(CheckRequest { token: 1_000, ..check }).await.unwrap_err());
    assert_eq!((stale.code.as_str(), stale.current_token), ("stale_token", lease.token));

    let list = ListResourcesRequest { prefix: "orders/".into(), limit: Some(1), ..ListResourcesRequest::default() };
    let part = resources.list(list.clone()).await.unwrap().into_inner();
    let rest = resources.list(ListResourcesRequest { page: part.next, ..list }).await.unwrap().into_inner();
    assert_eq!((part.resources[0].name.as_str(), rest.resources[0].name.as_str()), ("orders/7", "orders/8"));
    assert_eq!(rest.next, None);

    let ask = HandoverRequest {
        resource: "orders/7".into(),
        by: "zoe".into(),
        reason: Some("deploy".into()),
        ..HandoverRequest::default()
    };
    assert_eq!(resources.request_handover(ask.clone()).await.unwrap().into_inner().holders, 1);
    let nobody = HandoverRequest { resource: "free".into(), ..ask };
    assert_eq!(refused(resources.request_handover(nobody).await), "not_held");
    bench.leases().release(release(1)).await.unwrap();
    let past = HistoryRequest { resource: "orders/7".into(), ..HistoryRequest::default() };
    let history = resources.history(past).await.unwrap().into_inner().history;
    let what: Vec<&str> = history.iter().map(|past| past.what.as_str()).collect();
    assert_eq!(what, ["released", "handover_asked"]);
    assert_eq!(resources.get(get).await.unwrap().into_inner().state(), ResourceState::Free);
}

#[tokio::test]
async fn a_lease_is_revoked_by_its_id_or_its_digest() {
    let bench = Bench::new().await;
    let mut leases = bench.leases();
    bench.grant(1, "a").await;
    let digest = bench.grant(2, "b").await.digest;
    let revoke = RevokeRequest {
        which: Some(revoke_request::Which::Lease(1)),
        reason: "stuck".into(),
        now: true,
        ..RevokeRequest::default()
    };
    assert!(leases.revoke(revoke.clone()).await.unwrap().into_inner().may_act_ms > 0);
    let by_digest = RevokeRequest { which: Some(revoke_request::Which::Digest(digest)), ..revoke };
    assert_eq!(refused(leases.revoke(by_digest.clone()).await), "invalid");
    leases.revoke(RevokeRequest { resource: Some("b".into()), ..by_digest.clone() }).await.unwrap();
    let gone = RevokeRequest { resource: Some("b".into()), ..by_digest };
    assert_eq!(refused(leases.revoke(gone).await), "unknown_lease");
    let ended =
        problem(&leases.get(GetLeaseRequest { lease: 2, ..Default::default() }).await.unwrap_err()).ended.unwrap();
    assert_eq!((ended.cause.as_str(), ended.reason.as_deref()), ("revoked", Some("stuck")));
}

#[tokio::test]
async fn entries_are_put_read_listed_and_deleted() {
    let bench = Bench::new().await;
    let mut entries = bench.entries();
    bench.grant(1, "a").await;
    for name in ["x/1", "x/2", "x/3", "y"] {
        let put = PutRequest { key: name.into(), value: vec![0xff, 0].into(), ..PutRequest::default() };
        entries.put(PutRequest { lease: (name == "y").then_some(1), ..put }).await.unwrap();
    }
    let get = GetEntryRequest { key: "x/2".into(), ..GetEntryRequest::default() };
    let found = entries.get(get).await.unwrap().into_inner();
    assert_eq!((&found.value[..], found.version, found.lease), (&[0xff, 0][..], 1, None));

    let must = |must| Some(Condition { must: Some(must) });
    let put = |condition| PutRequest { key: "x/2".into(), value: "new".into(), condition, ..PutRequest::default() };
    let stale = problem(&entries.put(put(must(condition::Must::Modified(1)))).await.unwrap_err());
    assert_eq!((stale.code.as_str(), stale.current_revision), ("precondition_failed", Some(found.modified)));
    assert_eq!(
        refused(entries.put(put(must(condition::Must::Absent(Default::default())))).await),
        "precondition_failed"
    );
    let answer = entries.put(put(must(condition::Must::Modified(found.modified)))).await.unwrap().into_inner();
    assert_eq!(answer.version, Some(2));
    entries.put(put(must(condition::Must::Present(Default::default())))).await.unwrap();

    let mut list = ListEntriesRequest { range: prefix("x/"), limit: Some(2), ..ListEntriesRequest::default() };
    let part = entries.list(list.clone()).await.unwrap().into_inner();
    assert_eq!((part.entries.len(), part.count), (2, 3));
    list.page = part.next;
    let rest = entries.list(list).await.unwrap().into_inner();
    assert_eq!((&rest.entries[0].key[..], rest.next), (&b"x/3"[..], None));
    let all = entries.list(ListEntriesRequest::default()).await.unwrap().into_inner();
    assert_eq!(all.count, 4);
    assert!(all.entries[3].lease.as_ref().unwrap().starts_with('~'));

    let span = KeySpan { from: "x/1".into(), to: Some("x/3".into()) };
    let span = Some(KeyRange { which: Some(key_range::Which::Span(span)) });
    let delete = DeleteRequest { range: span, ..DeleteRequest::default() };
    assert_eq!(entries.delete(delete).await.unwrap().into_inner().deleted, Some(2));
    let delete =
        DeleteRequest { range: key("x/3"), condition: must(condition::Must::Modified(1)), ..Default::default() };
    assert_eq!(refused(entries.delete(delete).await), "precondition_failed");
    let gone = GetEntryRequest { key: "x/1".into(), ..GetEntryRequest::default() };
    assert_eq!(refused(entries.get(gone).await), "not_found");
}

#[tokio::test]
async fn transactions_compare_and_write_once() {
    let bench = Bench::new().await;
    let mut entries = bench.entries();
    bench.grant(1, "a").await;
    let put = PutStep { key: "k".into(), value: Some("v".into()), ..PutStep::default() };
    let read = ReadStep { range: key("k"), limit: None };
    let txn = TxnRequest {
        compares: vec![Compare {
            range: key("k").map(Box::new),
            operand: Some(compare::Operand::Version(0)),
            ..Compare::default()
        }],
        then: vec![TxnStep { step: Some(txn_step::Step::Put(Box::new(put))) }],
        otherwise: vec![TxnStep { step: Some(txn_step::Step::Read(Box::new(read))) }],
        session: Some(WriteSession { lease: 1, seq: 1, acked: None }),
        ..TxnRequest::default()
    };
    let done = entries.txn(txn.clone()).await.unwrap().into_inner();
    assert!(
        done.succeeded
            && matches!(&done.results[0].result, Some(step_result::Result::Put(put)) if put.previous.is_none())
    );
    let again = entries.txn(txn.clone()).await.unwrap().into_inner();
    assert_eq!((again.succeeded, again.revision, again.results.len()), (true, done.revision, 0), "a repetition");
    let other = entries.txn(TxnRequest { session: None, ..txn }).await.unwrap().into_inner();
    assert!(!other.succeeded);
    let Some(step_result::Result::Read(read)) = &other.results[0].result else { panic!("{other:?}") };
    assert_eq!((&read.entries[0].value[..], read.count), (&b"v"[..], 1));
}

#[tokio::test]
async fn the_cluster_tells_how_it_is() {
    let bench = Bench::new().await;
    bench.grant(1, "a").await;
    let info = bench.cluster().info(InfoRequest {}).await.unwrap().into_inner();
    assert!(info.ready && info.leads && !info.disk_full && !info.overloaded && info.revision > 0);
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
}
