//! Watches over a real socket.

use leasehold_api::grpc::{
    Change, PutStep, TxnRequest, TxnStep, WatchDelivery, WatchRequest, event, txn_step, watch_delivery,
};
use tonic::Streaming;

use crate::support::{Bench, problem, refused, release, revision};

async fn change(stream: &mut Streaming<WatchDelivery>) -> Change {
    let delivered = stream.message().await.unwrap().expect("the watch goes on").delivery.unwrap();
    let watch_delivery::Delivery::Change(change) = delivered else { panic!("{delivered:?}") };
    change
}

#[tokio::test]
async fn a_watch_delivers_what_happens_and_is_resumed_after_any_revision() {
    let bench = Bench::new().await;
    let opened = bench.watches().events(WatchRequest::default()).await.unwrap();
    let since = revision(&opened);
    let mut watch = opened.into_inner();
    let lease = bench.grant(1, "orders/7").await;
    let granted = change(&mut watch).await;
    assert!(granted.revision > since);
    let facts: Vec<_> = granted.events.into_iter().map(|event| event.fact.unwrap()).collect();
    assert!(
        matches!(&facts[0], event::Fact::LeaseGranted(fact) if fact.lease == lease.digest && fact.ttl_ms == 60_000)
    );
    assert!(matches!(&facts[1], event::Fact::ClaimGranted(fact) if Some(fact.token) == lease.token));
    bench.leases().release(release(1)).await.unwrap();
    let ended = change(&mut watch).await;
    drop(watch);

    let again = WatchRequest { since: Some(granted.revision), ..WatchRequest::default() };
    let mut watch = bench.watches().events(again).await.unwrap().into_inner();
    assert_eq!(change(&mut watch).await, ended);
    let orders = WatchRequest { prefix: "orders/".into(), since: Some(since), ..WatchRequest::default() };
    let mut watch = bench.watches().events(orders).await.unwrap().into_inner();
    assert_eq!(change(&mut watch).await.events.len(), 1, "only what is about the resource");
    let ahead = WatchRequest { since: Some(1_000_000), ..WatchRequest::default() };
    assert_eq!(refused(bench.watches().events(ahead).await), "invalid");
}

#[tokio::test]
async fn what_is_no_longer_kept_is_refused_with_the_oldest_revision() {
    let bench = Bench::new().await;
    // Each write is one revision with a value of 1 MiB: the events that are kept have a bound in bytes.
    for i in 0..40 {
        let put =
            PutStep { key: format!("k/{}", i % 4).into(), value: Some(vec![7; 1 << 20].into()), ..PutStep::default() };
        let then = vec![TxnStep { step: Some(txn_step::Step::Put(Box::new(put))) }];
        bench.entries().txn(TxnRequest { then, ..TxnRequest::default() }).await.unwrap();
    }
    let old = WatchRequest { since: Some(0), ..WatchRequest::default() };
    let refusal = problem(&bench.watches().events(old).await.unwrap_err());
    assert_eq!(refusal.code, "compacted");
    let oldest = WatchRequest { since: refusal.oldest, ..WatchRequest::default() };
    bench.watches().events(oldest).await.unwrap();
}

#[tokio::test]
async fn a_watch_ends_with_the_server_and_says_so() {
    let bench = Bench::new().await;
    let mut watch = bench.watches().events(WatchRequest::default()).await.unwrap().into_inner();
    bench.service.stop().await;
    assert_eq!(problem(&watch.message().await.unwrap_err()).code, "shutting_down");
}
