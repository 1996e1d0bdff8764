//! A connection whose commands take long hears that the service is there; one that has nothing to hear costs nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::Patience;
use leasehold_service::{Batch, Deliveries, Failure, Replica};
use tokio::time::{Instant, timeout};

use crate::support::{Bench, grant, id, namespace};
use crate::time::StubbornLog;

fn is_empty(batch: &Batch) -> bool {
    batch.answers.is_empty() && batch.progress.is_empty() && batch.notices.is_empty()
}

/// How long it takes until something is delivered, if it is nothing.
async fn empty_after(deliveries: &mut Deliveries) -> Duration {
    let begun = Instant::now();
    let batch = deliveries.next().await.unwrap();
    assert!(is_empty(&batch), "{batch:?}");
    begun.elapsed()
}

async fn stuck() -> (Arc<StubbornLog>, Bench) {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    log.stuck.store(true, Ordering::SeqCst);
    (Arc::clone(&log), Bench::over(log, replica).await)
}

#[tokio::test(start_paused = true)]
async fn while_a_command_is_unanswered_the_service_shows_that_it_is_there() {
    let (log, bench) = stuck().await;
    let (connection, mut deliveries) = bench.service.connect(bench.service.anonymous());
    // It has been listening for long when the command comes.
    let long = timeout(Duration::from_secs(5), deliveries.next()).await;
    assert!(long.is_err(), "without a command nothing is said: {long:?}");
    connection.submit(1, &namespace(), grant(1, 60_000, &["a"], Patience::None)).unwrap();
    for _ in 0..20 {
        let quiet = empty_after(&mut deliveries).await;
        assert!((70..=100).contains(&quiet.as_millis()), "{quiet:?}");
    }
    log.stuck.store(false, Ordering::SeqCst);
    log.freed.notify_waiters();
    let batch = deliveries.next().await.unwrap();
    assert_eq!(batch.answers.len(), 1);
    let long = timeout(Duration::from_secs(60), deliveries.next()).await;
    assert!(long.is_err(), "everything is answered: {long:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lone_command_without_an_answer_is_told_so_in_the_end() {
    let (_log, bench) = stuck().await;
    let (connection, mut deliveries) = bench.service.connect(bench.service.anonymous());
    assert!(timeout(Duration::from_secs(1), deliveries.next()).await.is_err());
    let listening = tokio::spawn(async move {
        loop {
            let batch = deliveries.next().await.unwrap();
            if !is_empty(&batch) {
                return batch;
            }
        }
    });
    tokio::task::yield_now().await;
    connection.submit(1, &namespace(), grant(1, 60_000, &["a"], Patience::None)).unwrap();
    let batch = timeout(Duration::from_secs(12), listening).await.expect("it is not forgotten").unwrap();
    let [(1, Err(Failure::NoQuorum { may_have_happened: true, .. }))] = &batch.answers[..] else { panic!("{batch:?}") };
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_a_queue_is_silent() {
    let bench = Bench::new().await;
    bench.run(grant(1, 600_000, &["a"], Patience::None)).await.unwrap();
    let (connection, mut deliveries) = bench.service.connect(bench.service.anonymous());
    connection.submit(1, &namespace(), grant(2, 600_000, &["a"], Patience::Endless)).unwrap();
    let batch = deliveries.next().await.unwrap();
    assert_eq!(batch.progress.len(), 1, "{batch:?}");
    let long = timeout(Duration::from_secs(60), deliveries.next()).await;
    assert!(long.is_err(), "{long:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_is_to_be_answered_soon() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    bench.run(grant(1, 600_000, &["a"], Patience::None)).await.unwrap();
    let (connection, mut deliveries) = bench.service.connect(bench.service.anonymous());
    connection.submit(1, &namespace(), grant(2, 600_000, &["a"], Patience::Endless)).unwrap();
    assert_eq!(deliveries.next().await.unwrap().progress.len(), 1);
    assert!(timeout(Duration::from_secs(30), deliveries.next()).await.is_err());
    log.stuck.store(true, Ordering::SeqCst);
    connection.give_up(1);
    for _ in 0..20 {
        empty_after(&mut deliveries).await;
    }
    log.stuck.store(false, Ordering::SeqCst);
    log.freed.notify_waiters();
    let batch = deliveries.next().await.unwrap();
    assert!(matches!(&batch.answers[..], [(1, Err(Failure::WaitLeft))]), "{batch:?}");
    assert!(bench.lease(2).is_none() && bench.lease(1).is_some_and(|lease| lease.id == id(1)));
}
