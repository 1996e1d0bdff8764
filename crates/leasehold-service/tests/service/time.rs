//! Lease time as the service drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{self, Bench, grant, pass};
use bytes::Bytes;
use leasehold_core::{Applied, LeaderId, LeaseTime, Patience};
use leasehold_service::log::{Answered, Committed, Delivered, Leadership, Log, Machine, Parcel, Position, Unavailable};
use leasehold_service::{Failure, Replica};
use tokio::sync::{Notify, mpsc, watch};

#[tokio::test(start_paused = true)]
async fn an_unrenewed_lease_ends_within_milliseconds_of_its_deadline_without_any_traffic() {
    let bench = Bench::new().await;
    bench.run(grant(1, 3_000, &["a"], Patience::None)).await.unwrap();
    pass(2_995).await;
    assert!(bench.lease(1).is_some());
    pass(15).await;
    assert!(bench.lease(1).is_none());
}

#[tokio::test(start_paused = true)]
async fn while_anything_has_a_deadline_time_is_committed_at_least_every_half_second() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &[], Patience::None)).await.unwrap();
    for _ in 0..20 {
        let before = bench.service.present().0;
        pass(510).await;
        assert!(bench.service.present().0.since(before).0 >= 490, "{before:?} {:?}", bench.service.present().0);
    }
}

#[tokio::test(start_paused = true)]
async fn with_nothing_to_end_nothing_is_written() {
    let bench = Bench::new().await;
    pass(60_000).await;
    assert_eq!(bench.service.present().0, LeaseTime::ZERO);
}

/// A log that can be stopped from committing, and that can append under another leader than it was told.
pub(crate) struct StubbornLog {
    replica: Arc<Replica>,
    pub(crate) stuck: AtomicBool,
    pub(crate) freed: Notify,
    appended_by_another: AtomicBool,
    /// It refuses, as a leader does that hands its leadership over.
    hands_over: AtomicBool,
    proposed: AtomicUsize,
    leadership: watch::Sender<Leadership>,
}

const LEADER: LeaderId = LeaderId { term: 1, node: 1 };

impl StubbornLog {
    pub(crate) fn new(replica: Arc<Replica>) -> Arc<Self> {
        replica.apply(Position { index: 1, leader: LEADER }, Committed::TakeOver);
        Arc::new(Self {
            replica,
            stuck: AtomicBool::new(false),
            freed: Notify::new(),
            appended_by_another: AtomicBool::new(false),
            hands_over: AtomicBool::new(false),
            proposed: AtomicUsize::new(0),
            leadership: watch::Sender::new(Leadership::Leads(LEADER)),
        })
    }
}

impl Log for StubbornLog {
    async fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) {
        self.proposed.fetch_add(1, Ordering::SeqCst);
        if self.hands_over.load(Ordering::SeqCst) {
            return done(Err(Unavailable::NotLeader { leader: None }));
        }
        while self.stuck.load(Ordering::SeqCst) {
            self.freed.notified().await;
        }
        let term = if self.appended_by_another.load(Ordering::SeqCst) { leader.term + 1 } else { leader.term };
        let at = Position { index: 2, leader: LeaderId { term, ..leader } };
        let applied: Applied = self.replica.apply(at, Committed::Payload(&payload));
        done(Ok(applied));
    }

    async fn forward(&self, _: LeaderId, _: Bytes, done: Delivered) {
        done(Err(Unavailable::Unreachable("this log has one node".to_owned())));
    }

    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>> {
        None
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }

    fn name_of(&self, node: u64) -> String {
        node.to_string()
    }

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }
}

#[tokio::test(start_paused = true)]
async fn time_that_nobody_could_use_is_forgotten() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    bench.run(grant(1, 5_000, &["a"], Patience::None)).await.unwrap();
    pass(1_000).await;
    log.stuck.store(true, Ordering::SeqCst);
    pass(60_000).await;
    log.stuck.store(false, Ordering::SeqCst);
    log.freed.notify_waiters();
    bench.until(|b| b.service.present().0 > LeaseTime(1_000)).await;
    assert!(bench.service.present().0 <= LeaseTime(2_100), "{:?}", bench.service.present().0);
    assert!(bench.lease(1).is_some(), "a minute without a commit ends nothing");
    pass(4_200).await;
    assert!(bench.lease(1).is_none(), "and then its time goes on");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_refuses_while_leadership_is_handed_over_is_not_asked_without_pause() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    log.hands_over.store(true, Ordering::SeqCst);
    let before = log.proposed.load(Ordering::SeqCst);
    let waits = tokio::spawn({
        let service = bench.service.clone();
        let grant = grant(2, 60_000, &["b"], Patience::None);
        async move { service.execute(&service.anonymous(), &support::namespace(), grant).await }
    });
    pass(1_000).await;
    let asked = log.proposed.load(Ordering::SeqCst) - before;
    assert!((1..=250).contains(&asked), "it was asked {asked} times in a second");
    log.hands_over.store(false, Ordering::SeqCst);
    waits.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn commands_of_a_void_entry_are_not_done_and_may_be_repeated() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    log.appended_by_another.store(true, Ordering::SeqCst);
    let void = bench.run(grant(1, 5_000, &["a"], Patience::None)).await;
    assert!(matches!(void, Err(Failure::NoQuorum { may_have_happened: false, .. })), "{void:?}");
    assert!(bench.lease(1).is_none());
    log.appended_by_another.store(false, Ordering::SeqCst);
    bench.run(grant(1, 5_000, &["a"], Patience::None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_commands_are_refused() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    log.leadership.send_replace(Leadership::Unknown);
    bench.until(|b| !b.service.health().leads).await;
    let refused = bench.run(grant(1, 5_000, &["a"], Patience::None)).await;
    assert!(matches!(refused, Err(Failure::NoQuorum { may_have_happened: false, .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_said_to_be_unknown() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    log.stuck.store(true, Ordering::SeqCst);
    let unknown = bench.run(grant(1, 5_000, &["a"], Patience::None)).await;
    assert!(matches!(unknown, Err(Failure::NoQuorum { may_have_happened: true, .. })), "{unknown:?}");
}
