//! Each mistake of the core changes what a script leads to, in the way its description says.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod contrast;
mod script;

use contrast::contrast;
use leasehold_core::planted::Bug;
use script::Session;

/// The last line that a script leads to. A complaint of the invariants is what some mistakes are found by; it is passed
/// over here.
fn last_line(text: &str) -> String {
    let mut session = Session::new(false);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let _ = session.run(line);
    }
    session.take_output().lines().last().unwrap().to_owned()
}

fn compare(bug: Bug, text: &str, well: &str, mistaken: &str) {
    contrast(bug, || last_line(text), well.to_owned(), mistaken.to_owned());
}

#[test]
fn foreign_entry_counts() {
    let script = "
        grant ttl=1s
        at 500ms
        stamp 1s400ms
        entry leader=2/1 stamped-by=1/1
        show time";
    compare(Bug::ForeignEntryCounts, script, "now=500ms next=1s", "now=1400ms next=none");
}

#[test]
fn clock_runs_ahead() {
    let script = "
        grant ttl=10s
        stamp 30s
        tick
        show time";
    compare(Bug::ClockRunsAhead, script, "now=0ms next=10s", "now=30s next=none");
}

#[test]
fn renewal_shortens() {
    let script = "
        grant ttl=10s
        renew 1 ttl=2s";
    let renewed = |remaining| format!("-> renewed remaining={remaining} ttl=2s changed=r1");
    compare(Bug::RenewalShortens, script, &renewed("10s"), &renewed("2s"));
}

#[test]
fn retried_grant_full_ttl() {
    let script = "
        claim a id=5 ttl=10s
        at 3s
        claim a id=5 ttl=10s";
    let granted = |remaining| format!("-> granted lease=5 ann ttl=10s remaining={remaining} changed=r1 holds a:1");
    compare(Bug::RetriedGrantFullTtl, script, &granted("7s"), &granted("10s"));
}

#[test]
fn dead_waiter_granted() {
    let script = "
        claim a holder=ann ttl=5s
        claim a holder=dead ttl=5s patience=1m
        claim a holder=zoe ttl=1m patience=1m
        at 5s
        stamp 5s500ms
        tick
        check a 4";
    compare(Bug::DeadWaiterGranted, script, "current: zoe remaining=1m", "current: dead remaining=5s");
}

#[test]
fn entry_left_behind() {
    let script = "
        grant ttl=5s
        put k v lease=1
        at 6s
        show entries";
    compare(Bug::EntryLeftBehind, script, "0 in all", "1 in all");
}

#[test]
fn token_reset_by_restore() {
    let script = "
        claim a ttl=1m
        release 1
        restore revision=1000 now=1h
        claim a ttl=1m
        show resource a";
    let shown = |token| format!("a holders=1 (ann token={token} remaining=1m) queue=0 last={token}");
    compare(Bug::TokenResetByRestore, script, &shown(1001), &shown(3));
}

#[test]
fn grace_at_every_take_over() {
    let script = "
        at 2s
        takeover
        takeover";
    compare(Bug::GraceAtEveryTakeOver, script, "took over, grace=0ms", "took over, grace=500ms");
}

#[test]
fn late_copy_runs_again() {
    let script = "
        claim a id=5 ttl=10s
        release 5
        claim a id=5 ttl=10s";
    compare(
        Bug::LateCopyRunsAgain,
        script,
        "-> refused: the lease of ann ended 0ms ago: released; stop acting on it and grant a new one",
        "-> granted lease=5 ann ttl=10s remaining=10s changed=r3 holds a:3",
    );
}

#[test]
fn snapshot_forgets_waiters() {
    let script = "
        claim a holder=ann ttl=1m
        claim a holder=bob ttl=1m patience=1m
        restart
        release 1
        show resource a";
    compare(
        Bug::SnapshotForgetsWaiters,
        script,
        "a holders=1 (bob token=3 remaining=1m) queue=0 last=3",
        "a holders=0 queue=0 last=1",
    );
}

#[test]
fn queue_not_fifo() {
    let script = "
        claim a holder=ann
        claim a holder=high patience=1m priority=1
        claim a holder=higher patience=1m priority=1
        claim a holder=low patience=1m
        release 1
        check a 5";
    compare(Bug::QueueNotFifo, script, "current: high remaining=10s", "current: higher remaining=10s");
}

#[test]
fn child_outlives_parent() {
    let script = "
        grant holder=parent ttl=5s
        grant holder=child ttl=1m parent=1
        at 6s
        show counts";
    let counts = |leases, ended| format!("leases={leases} resources=0 entries=0 tombstones={ended}");
    compare(Bug::ChildOutlivesParent, script, &counts(0, 2), &counts(1, 1));
}

#[test]
fn revoke_without_rest() {
    let script = "
        claim a holder=ann ttl=10s
        claim a holder=bob ttl=1m patience=1m
        as root operator
        revoke 1
        show resource a";
    let (well, mistaken) =
        ("a holders=0 queue=1 last=1 rests=10s", "a holders=1 (bob token=3 remaining=1m) queue=0 last=3");
    compare(Bug::RevokeWithoutRest, script, well, mistaken);
}

#[test]
fn receipt_forgotten() {
    let script = "
        grant ttl=1m
        put k v session=1 seq=1
        put k v session=1 seq=1";
    let again = "-> written then r3; put over k=v v1 created=r2 modified=r2";
    compare(Bug::ReceiptForgotten, script, "-> written then r2", again);
}
