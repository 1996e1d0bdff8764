//! Each mistake of the service changes what callers see, in the way its description says. Under virtual time.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

#[path = "../../../leasehold-core/tests/contrast/mod.rs"]
mod contrast;
mod faulty;
#[allow(dead_code, reason = "the tests of the service use the rest of it")]
#[path = "../service/support.rs"]
mod support;

use std::future::Future;
use std::sync::Arc;

use contrast::contrast;
use faulty::{FaultyLog, LEADER};
use leasehold_core::planted::Bug;
use leasehold_core::{Command, LeaseTime, Patience, Renew, Revision, Stamp, WallTime};
use leasehold_log::{Origin, Pack};
use leasehold_service::log::{Committed, Leadership, Machine, Position, View};
use leasehold_service::{Consistency, Delivery, MemoryLog, Replica, WatchFilter};
use support::{Bench, grant, id, namespace, pass};

/// Runs a scenario under virtual time.
fn under_virtual_time<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(scenario)
}

/// A service over a log that can be made to fail.
async fn faulty() -> (Arc<FaultyLog>, Bench) {
    let replica = Arc::new(Replica::new());
    let log = FaultyLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    (log, bench)
}

async fn grant_and_release(bench: &Bench, leases: std::ops::Range<u64>) {
    for lease in leases {
        bench.run(grant(lease, 60_000, &["a"], Patience::None)).await.unwrap();
        bench.release(lease).await;
    }
}

/// The first revision that a watch from `since` on delivers.
async fn first_after(bench: &Bench, since: u64) -> u64 {
    let since = Some(Revision(since));
    let caller = bench.service.anonymous();
    let mut watch = bench.service.watch(&caller, &namespace(), WatchFilter::default(), since).await.unwrap();
    match watch.next().await {
        Some(Delivery::Change(change)) => change.revision.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clock_in_apply() {
    let scenario = async {
        let bench = Bench::new().await;
        for (index, stamped, later) in [(2, 0, 700), (3, 100, 0)] {
            let stamp = Stamp { leader: LEADER, now: LeaseTime(stamped), wall: WallTime(0) };
            let payload = Pack::new().seal(stamp, Origin::default());
            bench.replica.apply(Position { index, leader: LEADER }, Committed::Payload(&payload));
            pass(later).await;
        }
        bench.service.present().0
    };
    contrast(Bug::ClockInApply, || under_virtual_time(scenario), LeaseTime(100), LeaseTime(700));
}

#[test]
fn stamp_cached() {
    // A second without entries, a grant, and a look shortly before its time is over.
    let scenario = async {
        let bench = Bench::new().await;
        pass(900).await;
        bench.run(grant(1, 5_000, &["a"], Patience::None)).await.unwrap();
        pass(4_500).await;
        bench.lease(1).is_some()
    };
    contrast(Bug::StampCached, || under_virtual_time(scenario), true, false);
}

#[test]
fn clock_runs_ahead() {
    let scenario = async {
        let (log, bench) = faulty().await;
        bench.run(grant(1, 5_000, &["a"], Patience::None)).await.unwrap();
        log.stick();
        pass(60_000).await;
        log.go_on();
        pass(1_500).await;
        bench.lease(1).is_some()
    };
    contrast(Bug::ClockRunsAhead, || under_virtual_time(scenario), true, false);
}

#[test]
fn renewal_acknowledged_early() {
    let scenario = async {
        let (log, bench) = faulty().await;
        bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
        log.stick();
        bench.run(Command::Renew(Renew { leases: vec![id(1)], ttl: None })).await.is_ok()
    };
    contrast(Bug::RenewalAcknowledgedEarly, || under_virtual_time(scenario), false, true);
}

#[test]
fn parcel_sent_twice() {
    let scenario = async {
        let (log, bench) = faulty().await;
        log.lead(Leadership::Follows(faulty::OTHER));
        bench.until(|bench| !bench.service.health().leads).await;
        let service = bench.service.clone();
        let asked = tokio::spawn(async move {
            let command = grant(1, 5_000, &["a"], Patience::None);
            service.execute(&service.anonymous(), &namespace(), command).await
        });
        pass(1_000).await;
        asked.abort();
        log.forwarded()
    };
    contrast(Bug::ParcelSentTwice, || under_virtual_time(scenario), 1, 2);
}

#[test]
fn read_without_barrier() {
    let scenario = async {
        let (_log, bench) = faulty().await;
        let caller = bench.service.anonymous();
        bench.service.read(&caller, &namespace(), Consistency::Linearizable, |state| state.revision()).await.is_ok()
    };
    contrast(Bug::ReadWithoutBarrier, || under_virtual_time(scenario), false, true);
}

#[test]
fn event_dropped_at_compaction() {
    let scenario = async {
        let bench = Bench::new().await;
        grant_and_release(&bench, 1..11).await;
        let mut file = Vec::new();
        bench.replica.view().write(&mut file).unwrap();
        let replica = Arc::new(Replica::new());
        replica.install(&mut &file[..]).unwrap();
        let restarted = Bench::over(MemoryLog::start(Arc::clone(&replica)), replica).await;
        grant_and_release(&restarted, 11..12).await;
        first_after(&restarted, 15).await
    };
    contrast(Bug::EventDroppedAtCompaction, || under_virtual_time(scenario), 16, 21);
}

#[test]
fn event_twice_on_resume() {
    let scenario = async {
        let bench = Bench::new().await;
        grant_and_release(&bench, 1..5).await;
        first_after(&bench, 5).await
    };
    contrast(Bug::EventTwiceOnResume, || under_virtual_time(scenario), 6, 5);
}
