//! Watches: every event once, in order, or an explicit gap.

use std::io::Cursor;
use std::sync::Arc;

use crate::support::{Bench, grant, namespace};
use leasehold_core::{Patience, Revision};
use leasehold_service::log::{Machine, View};
use leasehold_service::{Delivery, Failure, MemoryLog, Replica, Watch, WatchFilter};

async fn watch(bench: &Bench, prefix: &str, since: Option<u64>) -> Result<Watch, Failure> {
    let filter = WatchFilter { prefix: prefix.to_owned() };
    bench.service.watch(&bench.service.anonymous(), &namespace(), filter, since.map(Revision)).await
}

/// The next `count` revisions that the watch delivers.
async fn revisions(watch: &mut Watch, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match watch.next().await {
            Some(Delivery::Change(change)) => seen.push(change.revision.0),
            Some(Delivery::Progress(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    seen
}

async fn grant_and_release(bench: &Bench, first: u64, count: u64, resource: &str) {
    for lease in first..first + count {
        bench.run(grant(lease, 60_000, &[resource], Patience::None)).await.unwrap();
        bench.release(lease).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_where_another_ended() {
    let bench = Bench::new().await;
    let mut first = watch(&bench, "", None).await.unwrap();
    grant_and_release(&bench, 1, 1_000, "a").await;
    let seen = revisions(&mut first, 700).await;
    assert_eq!(seen, (1..=700).collect::<Vec<_>>());
    let mut second = watch(&bench, "", Some(700)).await.unwrap();
    assert_eq!(revisions(&mut second, 1_300).await, (701..=2_000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn everything_a_lease_carried_ends_in_one_delivery() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a", "b", "c"], Patience::None)).await.unwrap();
    let mut watch = watch(&bench, "", None).await.unwrap();
    bench.release(1).await;
    let Some(Delivery::Change(change)) = watch.next().await else { panic!() };
    assert_eq!(change.events.len(), 4, "{change:?}");
}

#[tokio::test(start_paused = true)]
async fn a_prefix_selects_and_progress_tells_how_far_it_is() {
    let bench = Bench::new().await;
    let mut orders = watch(&bench, "orders/", None).await.unwrap();
    grant_and_release(&bench, 1, 3, "orders/7").await;
    grant_and_release(&bench, 4, 5, "others/1").await;
    assert_eq!(revisions(&mut orders, 6).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(orders.next().await, Some(Delivery::Progress(Revision(16))));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_or_not_yet_there_is_said() {
    let bench = Bench::new().await;
    let mut slow = watch(&bench, "", None).await.unwrap();
    let ahead = watch(&bench, "", Some(1)).await;
    assert!(matches!(ahead, Err(Failure::FutureRevision { present: Revision(0), .. })), "{ahead:?}");
    grant_and_release(&bench, 1, 70_000, "a").await;
    assert_eq!(slow.next().await, Some(Delivery::TooSlow(Revision(0))));
    let gone = watch(&bench, "", Some(5)).await;
    let Err(Failure::Compacted { oldest }) = gone else { panic!("{gone:?}") };
    let mut again = watch(&bench, "", Some(oldest.0)).await.unwrap();
    assert_eq!(revisions(&mut again, 1).await, [oldest.0 + 1]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_over_a_restart_from_a_snapshot() {
    let bench = Bench::new().await;
    grant_and_release(&bench, 1, 10, "a").await;
    let mut file = Vec::new();
    bench.replica.view().write(&mut file).unwrap();
    let replica = Arc::new(Replica::new());
    replica.install(&mut Cursor::new(&file)).unwrap();
    let mut again = Vec::new();
    replica.view().write(&mut again).unwrap();
    assert_eq!(file, again, "equal states write equal bytes");
    let restarted = Bench::over(MemoryLog::start(Arc::clone(&replica)), replica).await;
    let mut watch = watch(&restarted, "", Some(15)).await.unwrap();
    grant_and_release(&restarted, 11, 1, "a").await;
    assert_eq!(revisions(&mut watch, 7).await, [16, 17, 18, 19, 20, 21, 22]);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_service_ends_watches() {
    let bench = Bench::new().await;
    let mut watch = watch(&bench, "", None).await.unwrap();
    bench.service.stop().await;
    assert_eq!(watch.next().await, None);
}
