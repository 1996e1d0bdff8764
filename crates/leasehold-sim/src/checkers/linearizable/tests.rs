//! Orders that exist and orders that do not.

use super::*;
use crate::checkers::made::{NOTHING, ack, at, change, hold, release, sentences, told};
use crate::history::{Call, KeyCall, KeyOutcome, KeyWhat, Outcome, What};

fn call(what: What, span: (u64, u64), outcome: Outcome) -> Call {
    let answered = (span.1 > 0).then(|| at(span.1));
    Call { client: "c".into(), resource: "a".into(), what, sent: at(span.0), answered, outcome }
}

fn acquire(lease: &str, span: (u64, u64), token: u64) -> Call {
    call(What::TryAcquire { lease: lease.into() }, span, Outcome::Granted { token })
}

fn refused(span: (u64, u64), token: u64) -> Call {
    call(What::TryAcquire { lease: "eve".into() }, span, Outcome::HeldBy { token })
}

fn unanswered(lease: &str, sent: u64) -> Call {
    call(What::TryAcquire { lease: lease.into() }, (sent, 0), Outcome::Unknown)
}

fn gives_back(lease: &str, span: (u64, u64)) -> Call {
    let outcome = if span.1 > 0 { Outcome::Released } else { Outcome::Unknown };
    call(What::Release { lease: lease.into(), token: None }, span, outcome)
}

fn looks(span: (u64, u64), holder: Option<u64>) -> Call {
    call(What::Look, span, Outcome::Seen { holder })
}

/// Ann is promised the resource until 1000, Bob nothing.
fn judge(calls: Vec<Call>) -> Vec<Contradiction> {
    check(&History { calls, acks: vec![ack("ann", 0, 1041)], ..History::default() })
}

#[test]
fn one_after_the_other_fits() {
    let calls = vec![
        acquire("ann", (0, 10), 1),
        refused((20, 30), 1),
        gives_back("ann", (40, 50)),
        looks((60, 70), None),
        acquire("bob", (80, 90), 5),
        looks((100, 110), Some(5)),
    ];
    assert_eq!(sentences(&judge(calls)), NOTHING);
}

#[test]
fn a_promised_resource_is_not_free_and_not_anothers() {
    assert_eq!(judge(vec![acquire("ann", (0, 10), 1), looks((20, 30), None)]).len(), 1);
    assert_eq!(judge(vec![acquire("ann", (0, 10), 1), acquire("bob", (20, 30), 2)]).len(), 1);
    let later = vec![acquire("ann", (0, 10), 1), acquire("bob", (1000, 1010), 2)];
    assert_eq!(sentences(&judge(later)), NOTHING, "her time was over");
    let overlap = vec![acquire("ann", (0, 10), 1), looks((5, 30), None)];
    assert_eq!(sentences(&judge(overlap)), NOTHING, "it looked before she got it");
}

#[test]
fn what_was_given_back_is_not_held() {
    let calls = |seen| vec![acquire("ann", (0, 10), 1), gives_back("ann", (20, 30)), looks((40, 50), seen)];
    assert_eq!(sentences(&judge(calls(None))), NOTHING);
    assert_eq!(judge(calls(Some(1))).len(), 1);
    let mut unsure = calls(Some(1));
    unsure[1] = gives_back("ann", (20, 0));
    assert_eq!(sentences(&judge(unsure.clone())), NOTHING, "nobody knows whether it arrived");
    unsure.push(looks((60, 70), None));
    assert_eq!(sentences(&judge(unsure.clone())), NOTHING, "it arrived between");
    unsure.push(looks((80, 90), Some(1)));
    assert_eq!(judge(unsure).len(), 1, "it cannot come back");
}

#[test]
fn a_call_without_an_answer_may_have_happened() {
    let calls = vec![unanswered("bob", 0), looks((20, 30), Some(3)), looks((40, 50), None)];
    assert_eq!(sentences(&judge(calls)), NOTHING, "it was granted and ended, nobody promised anything");
    let fallen = vec![unanswered("bob", 0), looks((20, 30), Some(3)), acquire("ann", (40, 50), 2)];
    assert_eq!(judge(fallen).len(), 1, "tokens rise");
}

#[test]
fn what_a_watcher_saw_has_happened() {
    let with = |events: Vec<crate::history::Change>| {
        let calls = vec![unanswered("bob", 0), looks((500, 510), None)];
        check(&History { calls, watched: told(events), acks: vec![ack("bob", 0, 1041)], ..History::default() })
    };
    assert_eq!(sentences(&with(vec![])), NOTHING, "it never happened");
    let granted = || change(300, &["claim_granted holder=bob resource=a token=3"]);
    assert_eq!(with(vec![granted()]).len(), 1, "it was seen to happen, and he was promised it");
    let ended = change(400, &["claim_ended holder=bob resource=a token=3"]);
    assert_eq!(with(vec![granted(), ended]).len(), 1, "and should not have ended so early");
}

#[test]
fn an_end_that_was_seen_is_not_undone() {
    let with = |look| {
        let events = vec![
            change(300, &["claim_granted holder=bob resource=a token=3"]),
            change(400, &["claim_ended holder=bob resource=a token=3"]),
        ];
        let calls = vec![acquire("bob", (0, 10), 3), look];
        check(&History { calls, watched: told(events), ..History::default() })
    };
    assert_eq!(sentences(&with(looks((350, 360), Some(3)))), NOTHING);
    assert_eq!(sentences(&with(looks((500, 510), None))), NOTHING);
    assert_eq!(with(looks((500, 510), Some(3))).len(), 1);
}

#[test]
fn releases_and_claims_noted_elsewhere_count() {
    let mut history = History {
        calls: vec![looks((20, 30), None)],
        holds: vec![hold("ann", "a", 1, 0)],
        acks: vec![ack("ann", 0, 1041)],
        ..History::default()
    };
    assert_eq!(check(&history).len(), 1);
    history.releases = vec![release("ann", 5, None)];
    assert_eq!(sentences(&check(&history)), NOTHING);
}

#[test]
fn the_shortest_beginning_that_fits_no_order_is_told() {
    let mut calls = vec![acquire("ann", (0, 10), 1), looks((20, 30), None)];
    calls.extend((0..40).map(|n| looks((100 + n, 200 + n), Some(1))));
    let found = judge(calls);
    let text = &found[0].sentence;
    assert!(text.contains("after 1 calls that fit, [0.020s to 0.030s] c saw a free"), "{text}");
    assert!(text.contains("ann got a with token 1"), "{text}");
    assert!(!text.contains("0.100s"), "what came later is not told: {text}");
}

fn key(what: KeyWhat, span: (u64, u64), outcome: KeyOutcome) -> KeyCall {
    let answered = (span.1 > 0).then(|| at(span.1));
    KeyCall { client: "c".into(), key: "k".into(), what, sent: at(span.0), answered, outcome }
}

fn put(number: u64, span: (u64, u64)) -> KeyCall {
    key(KeyWhat::Put { number }, span, if span.1 > 0 { KeyOutcome::Done } else { KeyOutcome::Unknown })
}

fn swap(expected: Option<u64>, number: u64, span: (u64, u64), done: bool) -> KeyCall {
    let outcome = if done { KeyOutcome::Done } else { KeyOutcome::NotAsExpected };
    key(KeyWhat::CompareAndSet { expected, number }, span, outcome)
}

fn read(number: Option<u64>, span: (u64, u64)) -> KeyCall {
    key(KeyWhat::Read, span, KeyOutcome::Read { number })
}

fn keys(key_calls: Vec<KeyCall>) -> Vec<Contradiction> {
    check(&History { key_calls, ..History::default() })
}

#[test]
fn reads_see_the_newest_write() {
    assert_eq!(sentences(&keys(vec![put(1, (0, 10)), read(Some(1), (20, 30))])), NOTHING);
    assert_eq!(keys(vec![put(1, (0, 10)), read(None, (20, 30))]).len(), 1);
    assert_eq!(sentences(&keys(vec![put(1, (0, 10)), read(None, (5, 30))])), NOTHING, "they overlap");
    assert_eq!(keys(vec![put(1, (0, 10)), put(2, (20, 30)), read(Some(1), (40, 50))]).len(), 1);
    let back = vec![put(1, (0, 10)), put(2, (20, 99)), read(Some(2), (30, 40)), read(Some(1), (50, 60))];
    assert_eq!(keys(back).len(), 1, "two readers saw the same write in another order");
}

#[test]
fn writes_without_an_answer_may_happen_later_or_never() {
    let with = |last| keys(vec![put(1, (0, 0)), put(2, (10, 20)), read(Some(2), (30, 40)), last]);
    assert_eq!(sentences(&with(read(Some(1), (50, 60)))), NOTHING);
    assert_eq!(sentences(&with(read(Some(2), (50, 60)))), NOTHING);
    assert_eq!(with(read(Some(3), (50, 60))).len(), 1, "nobody wrote that");
}

#[test]
fn only_what_is_as_expected_is_replaced() {
    assert_eq!(sentences(&keys(vec![swap(None, 1, (0, 10), true), swap(Some(1), 2, (20, 30), true)])), NOTHING);
    assert_eq!(keys(vec![swap(None, 1, (0, 10), true), swap(None, 2, (20, 30), true)]).len(), 1);
    assert_eq!(keys(vec![swap(None, 1, (0, 10), true), swap(Some(1), 2, (20, 30), false)]).len(), 1);
    let both = vec![swap(None, 1, (0, 30), true), swap(None, 2, (0, 30), false)];
    assert_eq!(sentences(&keys(both)), NOTHING, "one of two");
}

#[test]
fn hundreds_of_overlapping_calls_are_judged_quickly() {
    let mut calls = Vec::new();
    for n in 0..400_u64 {
        calls.push(put(n + 1, (n * 10, n * 10 + 45)));
        calls.push(read(Some(n + 1), (n * 10 + 40, n * 10 + 60)));
        if n % 40 == 0 {
            calls.push(put(10_000 + n, (n * 10, 0)));
        }
    }
    let fine = History { key_calls: calls.clone(), ..History::default() };
    assert_eq!((sentences(&check(&fine)), undecided(&fine)), (vec![], vec![]));
    calls.push(read(Some(1), (3900, 3950)));
    let wrong = History { key_calls: calls, ..History::default() };
    assert_eq!((check(&wrong).len(), undecided(&wrong)), (1, vec![]));
}

/// Tries every order of every choice of calls, as slowly and plainly as possible.
fn fits_plainly(ops: &[Op<key::Access>], taken: &mut Vec<usize>, state: Option<u64>) -> bool {
    if ops.iter().enumerate().all(|(number, op)| op.to.is_none() || taken.contains(&number)) {
        return true;
    }
    for (number, op) in ops.iter().enumerate().filter(|(number, _)| !taken.contains(number)).collect::<Vec<_>>() {
        let left = ops.iter().enumerate().filter(|(other, _)| !taken.contains(other));
        let in_time = left.filter_map(|(_, other)| other.to).all(|to| op.from <= to);
        let Some(after) = op.step.apply(&state).filter(|_| in_time) else { continue };
        taken.push(number);
        if fits_plainly(ops, taken, after) {
            return true;
        }
        taken.pop();
    }
    false
}

#[test]
fn the_search_finds_what_trying_everything_finds() {
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut fit, mut misfit) = (0, 0);
    for _ in 0..4000 {
        let mut ops = Vec::new();
        for number in 0..random(6) + 1 {
            let some = random(4);
            let some = (some > 0).then_some(some);
            let step = match random(5) {
                0 => key::Access::Put(some),
                1 => key::Access::Put(Some(number + 1)),
                2 => key::Access::Swap(some, number + 1),
                3 => key::Access::Unlike(some),
                _ => key::Access::Seen(some),
            };
            let from = random(20);
            let to = (random(4) > 0).then(|| at(from + random(15)));
            ops.push(Op { step, from: at(from), to, words: String::new() });
        }
        let plainly = fits_plainly(&ops, &mut Vec::new(), None);
        let found = search::search(&ops, Moment::NEVER);
        assert_eq!(found, if plainly { Verdict::Fits } else { Verdict::Never }, "{ops:?}");
        *(if plainly { &mut fit } else { &mut misfit }) += 1;
        if !plainly {
            let until = search::first_misfit(&ops);
            assert_eq!(search::search(&ops, until), Verdict::Never, "{ops:?}");
            let sooner = ops.iter().filter_map(|op| op.to).filter(|to| *to < until).max();
            assert!(sooner.is_none_or(|sooner| search::search(&ops, sooner) == Verdict::Fits), "{ops:?}");
        }
    }
    assert!(fit > 500 && misfit > 500, "{fit} fit, {misfit} do not");
}
