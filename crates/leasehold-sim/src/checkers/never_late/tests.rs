//! How long a lease may live, in calm and in trouble.

use super::*;
use crate::checkers::made::{NOTHING, ack, at, change, release, sentences, told};
use crate::history::{Answered, Attempt, Look};

/// A lease of one second, acknowledged at 1 ms, in a run that is calm until 10 s.
fn lease() -> History {
    History { acks: vec![ack("ann", 0, 1000)], calm: vec![Span { from: at(0), to: at(10_000) }], ..History::default() }
}

fn look(sent: u64) -> Look {
    Look { lease: "ann".into(), sent: at(sent), answered: at(sent + 1), lives: true, held: Vec::new() }
}

fn answer(sent: u64, revision: u64) -> Answered {
    Answered { client: "c".into(), sent: at(sent), answered: at(sent + 1), revision, time: None }
}

#[test]
fn in_calm_a_lease_ends_at_its_deadline() {
    let with = |sent| check(&History { looks: vec![look(sent)], ..lease() });
    assert_eq!(sentences(&with(1100)), NOTHING, "a slow clock and a hundred milliseconds");
    assert_eq!(with(1130).len(), 1);
}

#[test]
fn a_state_before_its_end_proves_that_it_lived() {
    let with = |end: u64, sent, revision| {
        let watched = told(vec![
            change(1, &["lease_granted holder=ann"]),
            change(end, &["lease_ended holder=ann cause=expired"]),
        ]);
        check(&History { watched, answers: vec![answer(sent, revision)], ..lease() })
    };
    assert_eq!(sentences(&with(50, 1200, 50)), NOTHING);
    assert_eq!(with(50, 1200, 49).len(), 1);
    assert_eq!(sentences(&with(50, 900, 49)), NOTHING, "then it was alive by right");
}

#[test]
fn an_immortal_lease_is_found() {
    let with = |up_to: u64| {
        let watched = told(vec![change(1, &["lease_granted holder=ann"]), change(up_to, &["entry_put key=k"])]);
        check(&History { watched, answers: vec![answer(9000, 70)], ..lease() })
    };
    assert_eq!(with(70).len(), 1);
    assert_eq!(sentences(&with(69)), NOTHING, "its end may be in what nobody was told");
}

#[test]
fn what_may_have_been_renewed_is_not_late() {
    let with = |over_by: Option<u64>| {
        let attempt = Attempt { lease: "ann".into(), sent: at(500), over_by: over_by.map(at) };
        check(&History { attempts: vec![attempt], looks: vec![look(2000)], ..lease() })
    };
    assert_eq!(sentences(&with(Some(1200))), NOTHING);
    assert_eq!(sentences(&with(None)), NOTHING);
    assert_eq!(with(Some(600)).len(), 1);
    let released = History { releases: vec![release("ann", 900, None)], looks: vec![look(2000)], ..lease() };
    assert_eq!(sentences(&check(&released)), NOTHING, "that is an end by command");
}

#[test]
fn a_lease_that_waits_or_was_just_served_is_not_late() {
    let with = |events: &[&str]| {
        let watched = told(vec![change(900, events)]);
        check(&History { watched, looks: vec![look(1500)], ..lease() })
    };
    assert_eq!(sentences(&with(&["queued holder=ann resource=a"])), NOTHING);
    assert_eq!(sentences(&with(&["claim_granted holder=ann resource=a"])), NOTHING);
    assert_eq!(with(&["queued holder=bob resource=a"]).len(), 1);
}

#[test]
fn in_trouble_it_ends_within_two_ttls_grace_and_outages() {
    let with = |sent, outages: &[(u64, u64)]| {
        let outages = outages.iter().map(|(from, to)| Span { from: at(*from), to: at(*to) }).collect();
        let calm = Vec::new();
        check(&History { looks: vec![look(sent)], outages: Some(outages), calm, ..lease() })
    };
    // 1 ms and 2 s by a slow clock, half a second of grace, 100 ms, a second forgotten: 3.64 s.
    assert_eq!(sentences(&with(3600, &[])), NOTHING);
    assert_eq!(with(3700, &[]).len(), 1);
    assert_eq!(sentences(&with(5500, &[(100, 1100)])), NOTHING, "a second without a leader, and what it forgot");
    assert_eq!(with(5700, &[(100, 1100)]).len(), 1);
    assert_eq!(with(3700, &[(3650, 9000)]).len(), 1, "it began too late to matter");
    let unknown = History { looks: vec![look(99_000)], calm: Vec::new(), ..lease() };
    assert_eq!(sentences(&check(&unknown)), NOTHING, "nobody noted outages");
}

#[test]
fn a_leader_that_follows_at_once_forgets_only_what_passed_since_the_last_entry() {
    let with = |sent, changes: &[(u64, u64)]| {
        let changes = changes.iter().map(|(from, to)| Span { from: at(*from), to: at(*to) }).collect();
        let (outages, calm) = (Some(Vec::new()), Vec::new());
        check(&History { looks: vec![look(sent)], outages, changes, calm, ..lease() })
    };
    assert_eq!(sentences(&with(3700, &[(500, 540), (600, 640)])), NOTHING, "3.64 s and twice 40 ms");
    assert_eq!(with(3740, &[(500, 540), (600, 640)]).len(), 1);
    assert_eq!(with(3700, &[(3650, 3900)]).len(), 1, "it came too late to matter");
}

#[test]
fn an_end_that_is_seen_late_is_found_if_delivery_is_quick() {
    let with = |seen, delivery| {
        let mut history = lease();
        history.watched = told(vec![change(seen, &["lease_ended holder=ann cause=expired"])]);
        history.bounds.delivery = delivery;
        check(&history)
    };
    let quick = Some(Duration::from_millis(50));
    assert_eq!(sentences(&with(1160, quick)), NOTHING);
    assert_eq!(with(1180, quick).len(), 1);
    assert_eq!(sentences(&with(1180, None)), NOTHING);
}

#[test]
fn of_many_that_end_together_each_may_wait_for_those_before_it() {
    let with = |count: u64, sent| {
        let acks = std::iter::once(ack("ann", 0, 1000)).chain((1..count).map(|n| ack(&format!("c{n}"), 0, 1000)));
        let bounds = Bounds { sweep_piece: 8, entry: Duration::from_millis(10), ..Bounds::default() };
        check(&History { acks: acks.collect(), looks: vec![look(sent)], bounds, ..lease() })
    };
    assert_eq!(sentences(&with(21, 1200)), NOTHING, "two of them with each entry: a tenth of a second more");
    assert_eq!(with(21, 1230).len(), 1);
    assert_eq!(with(1, 1130).len(), 1);
}
