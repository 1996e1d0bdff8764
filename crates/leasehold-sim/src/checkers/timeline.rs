//! What all watchers of everything were told together: the events of the run in the order of their revisions.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::history::{Change, Event, Filter, History, Moment, Told};

/// The events of a run.
pub(crate) struct Timeline<'a> {
    changes: BTreeMap<u64, (&'a Change, Moment)>,
    /// Revisions that are known completely: after the first number, up to the second. Joined and sorted.
    covered: Vec<(u64, u64)>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn of(history: &'a History) -> Timeline<'a> {
        let mut changes: BTreeMap<u64, (&Change, Moment)> = BTreeMap::new();
        let mut pieces = Vec::new();
        for watched in history.watched.iter().filter(|watched| watched.filter == Filter::Everything) {
            let (mut from, mut up_to) = (watched.since, watched.since);
            for told in &watched.told {
                match told {
                    Told::Change(change) => {
                        let known = changes.entry(change.revision).or_insert((change, change.seen));
                        known.1 = known.1.min(change.seen);
                        up_to = up_to.max(change.revision);
                    }
                    Told::Progress(revision) => up_to = up_to.max(*revision),
                    Told::Gap(revision) => {
                        pieces.push((from, up_to));
                        from = up_to.max(*revision);
                        up_to = from;
                    }
                }
            }
            pieces.push((from, up_to));
        }
        Timeline { changes, covered: joined(pieces) }
    }

    /// The revision up to which everything is known from the first on.
    pub(crate) fn known_up_to(&self) -> u64 {
        self.covered.first().filter(|(from, _)| *from == 0).map_or(0, |(_, to)| *to)
    }

    /// Everything that is known without a gap from the first revision on, in order.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &'a Change> {
        self.changes.range(..=self.known_up_to()).map(|(_, (change, _))| *change)
    }

    /// All changes, in order; there may be gaps between them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Change> {
        self.changes.values().map(|(change, _)| *change)
    }

    /// The changes after one revision, up to another.
    pub(crate) fn between(&self, after: u64, up_to: u64) -> impl Iterator<Item = &'a Change> {
        let up_to = up_to.max(after);
        self.changes.range((Bound::Excluded(after), Bound::Included(up_to))).map(|(_, (change, _))| *change)
    }

    /// All events with their revision and the moment at which the first watcher saw them.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u64, Moment, &'a Event)> {
        self.changes.values().flat_map(|(change, seen)| change.events.iter().map(|e| (change.revision, *seen, e)))
    }

    /// Tells whether all events of a revision are known.
    pub(crate) fn covers(&self, revision: u64) -> bool {
        let at = self.covered.partition_point(|(_, to)| *to < revision);
        self.covered.get(at).is_some_and(|(from, _)| *from < revision)
    }

    /// The events of a revision; none if nothing happened at it that is known.
    pub(crate) fn at(&self, revision: u64) -> &'a [Event] {
        self.changes.get(&revision).map_or(&[], |(change, _)| &change.events)
    }
}

fn joined(mut pieces: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    pieces.retain(|(from, to)| from < to);
    pieces.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in pieces {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            Some(_) | None => joined.push((from, to)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{at, change, watcher};
    use crate::history::Watched;

    #[test]
    fn what_one_watcher_missed_another_may_have_seen() {
        let mut one = watcher("w1", vec![change(1, &["a"]), change(2, &["b"])]);
        one.told.push(Told::Gap(6));
        one.told.push(Told::Change(change(8, &["d"])));
        let mut two = Watched { since: 3, ..watcher("w2", vec![Change { seen: at(1), ..change(8, &["d"]) }]) };
        two.told.push(Told::Progress(9));
        let mut history = History { watched: vec![one, two], ..History::default() };
        let timeline = Timeline::of(&history);
        assert_eq!((timeline.known_up_to(), timeline.whole().count(), timeline.all().count()), (2, 2, 3));
        assert_eq!([1, 2, 3, 4, 9, 10].map(|r| timeline.covers(r)), [true, true, false, true, true, false]);
        assert_eq!(timeline.events().last().map(|(revision, seen, _)| (revision, seen)), Some((8, at(1))));
        history.watched[1].since = 2;
        assert_eq!(Timeline::of(&history).known_up_to(), 9);
    }
}
