//! Promise 4: no lease ends by time before its promised time, over leader changes, restarts, pauses and clock jumps.
//!
//! In lease time the promise is exact. In true time an end is early if any watcher saw it before the holder's own
//! deadline, and lease time itself runs no faster than the fastest clock that is promised for.

use std::collections::{BTreeMap, BTreeSet};

use super::lives::Lives;
use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{Answered, Event, History};

/// The stable name of this checker.
pub const NAME: &str = "never_early";

/// By how much the lease clock may be ahead of the lease time that answers tell, in milliseconds: an entry is at most a
/// second ahead of the one before it, two may be stuck behind each other, and a little for clocks
/// that tell whole milliseconds.
const AHEAD_MAX: f64 = 2050.0;

/// Finds leases that ended by time too early.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let lives = Lives::of(history);
    for end in history.ends.iter().filter(|end| end.cause == "expired") {
        let promised = lives.get(&end.lease).and_then(|life| life.promised());
        if let Some(deadline) = promised.filter(|deadline| end.ended_by <= *deadline) {
            let (lease, by) = (&end.lease, end.ended_by);
            found.push(format!("{lease} expired by {by}, promised until {deadline} (lease time)"));
        }
    }
    let timeline = Timeline::of(history);
    let mut seen_at = BTreeMap::new();
    timeline.events().for_each(|(revision, seen, _)| {
        seen_at.insert(revision, seen);
    });
    for change in timeline.all() {
        let seen = seen_at[&change.revision];
        for event in ended_by_time(&change.events, &lives) {
            let acks = lives.get(&event.holder).into_iter().flat_map(|life| &life.acks);
            let Some(until) = acks.map(|ack| ack.valid_until).max().filter(|until| seen < *until) else { continue };
            let early = until.since(seen);
            found.push(format!("{} expired {early:?} before its holder's deadline at {until}", event.holder));
        }
    }
    pace(&history.answers, history.bounds.drift, &mut found);
    found.all
}

/// The leases that ended by time in one revision: by their own, or with a parent whose time was over.
fn ended_by_time<'a>(events: &'a [Event], lives: &Lives<'_>) -> Vec<&'a Event> {
    let ended = || events.iter().filter(|event| event.kind == "lease_ended");
    let expired: BTreeSet<&str> = ended().filter(|e| e.cause == "expired").map(|e| e.holder.as_str()).collect();
    let with_parent = |event: &Event| {
        let mut parents = lives.line(&event.holder).filter_map(|life| life.parent);
        event.cause == "parent_ended" && parents.any(|parent| expired.contains(parent))
    };
    ended().filter(|event| event.cause == "expired" || with_parent(event)).collect()
}

/// Finds two answers between which more lease time went by than any allowed clock could have counted.
fn pace(answers: &[Answered], drift: f64, found: &mut Found) {
    let rate = 1.0 + drift;
    let lead = |time: u64, at: crate::history::Moment| time as f64 - rate * at.0.as_secs_f64() * 1000.0;
    // Lease time at the sending of a call is at least what is left after its answer's clock lag; the later call may
    // only have gained what a fast clock counts until it was answered.
    let timed = || answers.iter().filter_map(|answer| answer.time.map(|time| (answer, time)));
    let mut sent: Vec<(&Answered, f64)> = timed().map(|(answer, time)| (answer, lead(time, answer.sent))).collect();
    sent.sort_by_key(|(answer, _)| answer.sent);
    let mut heard: Vec<(&Answered, f64)> =
        timed().map(|(answer, time)| (answer, lead(time, answer.answered))).collect();
    heard.sort_by_key(|(answer, _)| answer.answered);
    let mut before = sent.into_iter().peekable();
    let mut least: Option<(&Answered, f64)> = None;
    for (later, gained) in heard {
        while let Some(next) = before.next_if(|(earlier, _)| earlier.sent <= later.answered) {
            least = Some(least.filter(|known| known.1 <= next.1).unwrap_or(next));
        }
        if let Some((earlier, lead)) = least.filter(|(_, lead)| gained > lead + AHEAD_MAX) {
            let (went, ahead) = (later.answered.since(earlier.sent), gained - lead);
            found.push(format!(
                "lease time ran {ahead:.0} ms ahead of the fastest clock within {went:?}, from {} on",
                earlier.sent
            ));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, ack, at, change, sentences, told};
    use crate::history::{End, Kinship};

    #[test]
    fn an_early_end_is_found_in_answers() {
        let end = |ended_by| End { lease: "ann".into(), cause: "expired".into(), ended_by, answered: at(0) };
        let with = |end| check(&History { acks: vec![ack("ann", 0, 1000)], ends: vec![end], ..History::default() });
        assert_eq!(sentences(&with(end(1001))), NOTHING);
        assert_eq!(with(end(1000)).len(), 1);
        assert_eq!(sentences(&with(End { cause: "released".into(), ..end(5) })), NOTHING);
    }

    #[test]
    fn an_early_end_is_found_in_events() {
        let with = |moment| {
            check(&History {
                acks: vec![ack("ann", 0, 1000), ack("ann", 500, 1000)],
                watched: told(vec![change(moment, &["lease_ended holder=ann cause=expired"])]),
                ..History::default()
            })
        };
        assert_eq!(with(1400).len(), 1);
        assert_eq!(sentences(&with(1500)), NOTHING);
    }

    #[test]
    fn a_child_lives_as_long_as_it_was_told_unless_its_parent_is_ended() {
        let with = |cause| {
            check(&History {
                acks: vec![ack("child", 0, 1000)],
                kinships: vec![Kinship { child: "child".into(), parent: "eve".into() }],
                watched: told(vec![change(
                    500,
                    &[&format!("lease_ended holder=eve cause={cause}"), "lease_ended holder=child cause=parent_ended"],
                )]),
                ..History::default()
            })
        };
        assert_eq!(with("expired").len(), 1, "its remaining time is the least of its own and its ancestors'");
        assert_eq!(sentences(&with("released")), NOTHING);
    }

    #[test]
    fn lease_time_that_runs_too_fast_is_found() {
        let answer = |sent, time| Answered {
            client: "c".into(),
            sent: at(sent),
            answered: at(sent + 10),
            revision: 1,
            time: Some(time),
        };
        let with = |time| check(&History { answers: vec![answer(0, 100), answer(5000, time)], ..History::default() });
        assert_eq!(sentences(&with(5200)), NOTHING, "two percent fast");
        assert_eq!(sentences(&with(6200)), NOTHING, "the first answer may have lagged by a second");
        assert_eq!(with(7300).len(), 1);
        assert_eq!(sentences(&with(100)), NOTHING, "it may stand still");
    }
}
