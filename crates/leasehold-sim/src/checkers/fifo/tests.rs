//! What the order of a queue allows, and what it does not.

use super::*;
use crate::checkers::made::{NOTHING, ack, at, change, sentences, told};
use crate::history::{Ask, Attempt, Bounds, Held, Look};

fn judge(changes: Vec<Change>) -> Vec<Contradiction> {
    check(&History { watched: told(changes), ..History::default() })
}

/// One holds, two wait, `end` happens, and another entry follows.
fn with(end: &[&str]) -> Vec<Contradiction> {
    judge(vec![
        change(1, &["claim_granted lease=~1 resource=a"]),
        change(2, &["queued lease=~2 resource=a position=1"]),
        change(3, &["queued lease=~3 resource=a position=2"]),
        change(4, end),
        change(5, &["claim_granted lease=~8 resource=z at=99"]),
    ])
}

#[test]
fn the_oldest_waiter_is_next() {
    assert_eq!(sentences(&with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~2 resource=a"])), NOTHING);
    let skipped =
        ["unqueued lease=~2 resource=a", "claim_ended lease=~1 resource=a", "claim_granted lease=~3 resource=a"];
    assert_eq!(sentences(&with(&skipped)), NOTHING, "the dead are skipped");
    assert_eq!(with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~3 resource=a"]).len(), 1);
}

#[test]
fn only_the_dead_are_passed_over() {
    let passed = ["claim_ended lease=~1 resource=a at=9", "claim_granted lease=~3 resource=a at=9"];
    let then = |event: &str| with(&[passed[0], passed[1], event]).len();
    assert_eq!(then("unqueued lease=~2 resource=a at=9 cause=expired"), 0);
    assert_eq!(then("unqueued lease=~2 resource=a at=10 cause=expired"), 1, "it lived then");
    assert_eq!(then("unqueued lease=~2 resource=a at=9 cause=released"), 1);
    assert_eq!(then("queued lease=~4 resource=a position=2 at=9"), 1, "it still waits");
}

#[test]
fn in_a_mass_expiry_the_dead_leave_later() {
    let with = |sweep_piece| {
        let changes = vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["queued lease=~2 resource=a position=1"]),
            change(3, &["queued lease=~3 resource=a position=2"]),
            change(
                4,
                &[
                    "lease_ended lease=~1 cause=expired at=9",
                    "claim_ended lease=~1 resource=a cause=expired at=9",
                    "claim_granted lease=~3 resource=a at=9",
                ],
            ),
            change(5, &["unqueued lease=~2 resource=a at=10 cause=expired"]),
        ];
        let bounds = Bounds { sweep_piece, ..Bounds::default() };
        check(&History { watched: told(changes), bounds, ..History::default() })
    };
    assert_eq!(sentences(&with(2)), NOTHING);
    assert_eq!(with(3).len(), 1, "the piece was not full");
}

#[test]
fn what_is_free_may_wait_only_while_the_dead_leave() {
    let changes = |ends: &[&str]| {
        let mut changes = vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["queued lease=~2 resource=a position=1"]),
            change(3, &["claim_ended lease=~1 resource=a at=9"]),
        ];
        changes.extend((4..).zip(ends).map(|(revision, end)| change(revision, &[end])));
        changes.push(change(9, &["claim_granted lease=~8 resource=z at=99"]));
        judge(changes).len()
    };
    assert_eq!(changes(&["unqueued lease=~2 resource=a at=9 cause=expired"]), 0, "they ended together");
    assert_eq!(changes(&["unqueued lease=~2 resource=a at=9 cause=wait_elapsed"]), 0);
    assert_eq!(changes(&["unqueued lease=~2 resource=a at=10 cause=expired"]), 1, "it lived an entry longer");
    assert_eq!(changes(&["claim_granted lease=~2 resource=a at=9"]), 1, "it came too late");
    assert_eq!(changes(&[]), 1, "it never came");
}

#[test]
fn nobody_goes_past_the_queue_or_is_left_in_it() {
    let past = with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~9 resource=a"]);
    assert_eq!(past.len(), 2, "both were passed over");
    assert_eq!(with(&["claim_ended lease=~1 resource=a"]).len(), 2, "a gap, with two who wait");
    assert_eq!(with(&["claim_granted lease=~2 resource=a"]).len(), 1, "it was not free");
    assert_eq!(with(&["queued lease=~4 resource=a position=1"]).len(), 1, "a wrong place");
}

#[test]
fn what_rests_is_given_later_and_in_order() {
    let with = |next: &str| {
        judge(vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["queued lease=~2 resource=a position=1"]),
            change(3, &["queued lease=~3 resource=a position=2"]),
            change(4, &["claim_ended lease=~1 resource=a rests=500 at=4"]),
            change(5, &[&format!("claim_granted lease={next} resource=a at=900")]),
            change(6, &["claim_granted lease=~8 resource=z at=999"]),
        ])
    };
    assert_eq!(sentences(&with("~2")), NOTHING);
    assert_eq!(with("~3").len(), 1);
}

#[test]
fn a_higher_priority_goes_first_and_equal_ones_in_order() {
    let ask = |lease: &str, priority| Ask { lease: lease.into(), resource: "a".into(), priority };
    let with = |place: u64, next: &str| {
        let changes = vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["queued lease=~2 holder=p0 resource=a position=1"]),
            change(3, &["queued lease=~3 holder=p5 resource=a position=1"]),
            change(4, &[&format!("queued lease=~4 holder=q5 resource=a position={place}")]),
            change(5, &["claim_ended lease=~1 resource=a", &format!("claim_granted lease={next} resource=a")]),
            change(6, &["claim_granted lease=~8 resource=z at=99"]),
        ];
        let asks = vec![ask("p5", 5), ask("q5", 5)];
        check(&History { watched: told(changes), asks, ..History::default() })
    };
    assert_eq!(sentences(&with(2, "~3")), NOTHING);
    assert_eq!(with(1, "~3").len(), 1, "behind its equals");
    assert_eq!(with(2, "~4").len(), 1, "not before its equals");
    assert_eq!(with(2, "~2").len(), 2, "not before those above it");
}

#[test]
fn whoever_wants_several_resources_may_leave_one_free_but_is_not_passed() {
    let with = |last: &str| {
        judge(vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["claim_granted lease=~2 resource=b"]),
            change(3, &["queued lease=~3 resource=a position=1", "queued lease=~3 resource=b position=1"]),
            change(4, &["queued lease=~4 resource=a position=2"]),
            change(5, &["claim_ended lease=~1 resource=a at=5"]),
            change(6, &[last]),
            change(7, &["claim_granted lease=~4 resource=a at=6"]),
            change(8, &["claim_granted lease=~8 resource=z at=99"]),
        ])
    };
    assert_eq!(sentences(&with("unqueued lease=~3 resource=a at=6 cause=left")), NOTHING, "served in the same entry");
    assert_eq!(with("unqueued lease=~3 resource=a at=5 cause=left").len(), 1, "it came an entry late");
    assert_eq!(with("entry_put key=k at=6").len(), 1, "it was passed");
}

#[test]
fn those_who_share_hold_together() {
    let with = |mode: &str| {
        judge(vec![
            change(1, &["claim_granted lease=~1 resource=a shared"]),
            change(2, &[&format!("claim_granted lease=~2 resource=a{mode}")]),
        ])
    };
    assert_eq!(sentences(&with(" shared")), NOTHING);
    assert_eq!(with("").len(), 1);
}

#[test]
fn a_waiter_that_was_given_something_after_its_time_is_found() {
    let look = |since| Look {
        lease: "ann".into(),
        sent: at(3000),
        answered: at(3001),
        lives: true,
        held: vec![Held { resource: "a".into(), token: 7, since: Some(since) }],
    };
    // Told at lease time 0 that it lives until 1000, while it waited; the second one after it was served.
    let acks = vec![ack("ann", 0, 1000), ack("ann", 1200, 1000)];
    let with = |since| check(&History { acks: acks.clone(), looks: vec![look(since)], ..History::default() });
    assert_eq!(sentences(&with(900)), NOTHING);
    assert_eq!(with(1100).len(), 1);
    let attempts = vec![Attempt { lease: "ann".into(), sent: at(500), over_by: None }];
    let unsure = History { acks: acks.clone(), looks: vec![look(1100)], attempts, ..History::default() };
    assert_eq!(sentences(&check(&unsure)), NOTHING, "it may have been renewed");
}
