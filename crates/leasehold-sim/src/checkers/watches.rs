//! Promise 7: a watch delivers every event once, in order, over reconnects and fail-overs, or says that there is a gap.
//!
//! Each stream is held against what all watchers of everything were told together: within its bounds and its filter it
//! misses no revision, repeats none, and two watchers never show different events for one revision.

use std::collections::BTreeMap;

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{Event, History, Told, Watched};

/// The stable name of this checker.
pub const NAME: &str = "watches";

/// Finds gaps nobody spoke of, repetitions, and streams that differ.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let timeline = Timeline::of(history);
    for watched in &history.watched {
        in_order(watched, &mut found);
        complete(watched, &timeline, &mut found);
    }
    found.all
}

fn in_order(watched: &Watched, found: &mut Found) {
    let name = &watched.watcher;
    let mut last = watched.since;
    for told in &watched.told {
        match told {
            Told::Change(change) if change.revision <= last => {
                found.push(format!("{name} was told of revision {} after {last}", change.revision));
            }
            Told::Progress(revision) | Told::Gap(revision) if *revision < last => {
                found.push(format!("{name} was told to be at {revision} after {last}"));
            }
            Told::Change(_) | Told::Progress(_) | Told::Gap(_) => {}
        }
        last = last.max(revision_of(told));
    }
}

fn revision_of(told: &Told) -> u64 {
    match told {
        Told::Change(change) => change.revision,
        Told::Progress(revision) | Told::Gap(revision) => *revision,
    }
}

/// Compares a stream with the timeline, from each thing that was told to the next.
fn complete(watched: &Watched, timeline: &Timeline<'_>, found: &mut Found) {
    let name = &watched.watcher;
    let own: BTreeMap<u64, &[Event]> =
        watched.changes().map(|change| (change.revision, change.events.as_slice())).collect();
    for (revision, events) in &own {
        if !timeline.covers(*revision) {
            continue;
        }
        let all = timeline.at(*revision).iter().filter(|event| watched.filter.passes(event));
        if !all.eq(events.iter()) {
            found.push(format!("{name} was told something else of revision {revision} than others"));
        }
    }
    let mut last = watched.since;
    for told in &watched.told {
        let next = revision_of(told);
        // Behind a gap nothing was promised.
        if !matches!(told, Told::Gap(_)) {
            for change in timeline.between(last, next) {
                let missed = change.events.iter().any(|event| watched.filter.passes(event));
                if missed && !own.contains_key(&change.revision) {
                    found.push(format!("{name} was not told of revision {}", change.revision));
                }
            }
        }
        last = last.max(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, change, sentences, watcher};
    use crate::history::{Change, Filter};

    fn all() -> Watched {
        let claim = change(2, &["claim_granted resource=a token=2"]);
        let put = change(4, &["entry_put key=k value=1 version=1", "entry_put key=other value=1 version=1"]);
        watcher("all", vec![claim, put, change(9, &["entry_deleted key=k"])])
    }

    fn with(other: Watched) -> Vec<Contradiction> {
        check(&History { watched: vec![all(), other], ..History::default() })
    }

    fn changes(without: usize) -> Vec<Change> {
        all().changes().enumerate().filter(|(at, _)| *at != without).map(|(_, change)| change.clone()).collect()
    }

    #[test]
    fn a_gap_that_nobody_spoke_of_is_found() {
        assert_eq!(sentences(&with(all())), NOTHING);
        assert_eq!(with(watcher("w", changes(1))).len(), 1);
        assert_eq!(sentences(&with(watcher("w", changes(2)))), NOTHING, "it was not told that far");
        let mut told = watcher("w", changes(2));
        told.told.push(Told::Progress(9));
        assert_eq!(with(told).len(), 1, "it was told that there was nothing");
        let mut late = watcher("w", changes(0));
        assert_eq!(with(late.clone()).len(), 1);
        late.since = 2;
        assert_eq!(sentences(&with(late)), NOTHING, "it began after that");
    }

    #[test]
    fn a_gap_that_was_spoken_of_is_fine() {
        let mut told = watcher("w", changes(1));
        told.told.insert(1, Told::Gap(4));
        assert_eq!(sentences(&with(told.clone())), NOTHING);
        told.told[1] = Told::Gap(3);
        assert_eq!(with(told).len(), 1, "it does not reach so far");
    }

    #[test]
    fn repetitions_and_disorder_are_found() {
        let mut twice = all();
        twice.told.push(twice.told[1].clone());
        assert_eq!(with(twice).len(), 1);
        let mut swapped = all();
        swapped.told.swap(0, 1);
        assert_eq!(with(swapped).len(), 1);
    }

    #[test]
    fn streams_that_differ_are_found() {
        let mut other = changes(3);
        other[1].events[0].value = "2".to_owned();
        assert_eq!(with(watcher("w", other)).len(), 1);
        let mut more = changes(3);
        more.insert(1, change(3, &["entry_put key=k value=7"]));
        assert_eq!(check(&History { watched: vec![all(), watcher("w", more)], ..History::default() }).len(), 1);
    }

    #[test]
    fn a_watcher_of_a_part_is_told_of_that_part() {
        let part = |prefix: &str, told: Vec<Change>| {
            with(Watched { filter: Filter::Prefix(prefix.to_owned()), ..watcher("part", told) })
        };
        let k = || change(4, &["entry_put key=k value=1 version=1"]);
        assert_eq!(sentences(&part("k", vec![k(), change(9, &["entry_deleted key=k"])])), NOTHING);
        assert_eq!(part("k", vec![change(9, &["entry_deleted key=k"])]).len(), 1);
        assert_eq!(part("k", vec![change(4, &["entry_put key=other value=1 version=1"])]).len(), 1, "not its part");
    }
}
