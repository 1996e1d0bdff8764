//! The recent events, for watches: bounded, the same on every node, and part of every snapshot.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold_core::planted::{self, Bug};
use leasehold_core::{Event, Fact, Previous, Revision};

/// How many revisions are kept at most.
const REVISIONS_MAX: usize = 65_536;
/// How many bytes the events may take, roughly counted.
const BYTES_MAX: usize = 32 << 20;
/// What an event counts for beside its texts. Not `size_of`: that may differ between builds, and then nodes would forget
/// at different places and their states would not be equal. Changing a bound here changes the form of a snapshot.
const EVENT_BYTES: usize = 256;

/// All events of one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which one.
    pub revision: Revision,
    /// Its events, in order.
    pub events: Vec<Event>,
}

/// The recent events by revision.
#[derive(Debug)]
pub(crate) struct Ring {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// Every event after this revision is here.
    floor: Revision,
    revisions_max: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { changes: VecDeque::new(), bytes: 0, floor: Revision(0), revisions_max: REVISIONS_MAX }
    }
}

impl Ring {
    /// An empty ring for at most so many revisions.
    pub(crate) fn of(revisions_max: usize) -> Self {
        Self { revisions_max, ..Self::default() }
    }

    /// An empty ring like this one that begins after `floor`.
    pub(crate) fn begun_after(&self, floor: Revision) -> Self {
        Self { floor, ..Self::of(self.revisions_max) }
    }

    /// Every event after this revision is here.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// Takes the events of one log entry, which may be of several revisions.
    pub(crate) fn push(&mut self, events: Vec<Event>) {
        // Each change is exactly as long as it must be: most of the ring's memory is in these.
        let lengths: Vec<usize> = events.chunk_by(|a, b| a.revision == b.revision).map(<[Event]>::len).collect();
        let mut events = events.into_iter();
        for length in lengths {
            let mut change = Vec::with_capacity(length);
            change.extend(events.by_ref().take(length));
            self.bytes += change.iter().map(size).sum::<usize>();
            let revision = change[0].revision;
            match self.changes.back_mut() {
                Some(last) if last.revision == revision => Arc::make_mut(last).events.extend(change),
                _ => self.changes.push_back(Arc::new(Change { revision, events: change })),
            }
        }
        while self.changes.len() > self.revisions_max || (self.bytes > BYTES_MAX && self.changes.len() > 1) {
            let oldest = self.changes.pop_front().expect("there are more than the bound");
            self.bytes -= oldest.events.iter().map(size).sum::<usize>();
            if !planted::is(Bug::EventDroppedAtCompaction) {
                self.floor = oldest.revision;
            }
        }
    }

    /// The changes after `revision`, oldest first.
    pub(crate) fn since(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let start = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(start..)
    }

    /// A copy that shares the events.
    pub(crate) fn frozen(&self) -> Vec<Arc<Change>> {
        self.changes.iter().cloned().collect()
    }
}

/// Roughly how many bytes an event takes.
fn size(event: &Event) -> usize {
    let variable = match &event.fact {
        Fact::EntryPut { value, key, previous, .. } => value.len() + key.as_bytes().len() + previous_size(previous),
        Fact::EntryDeleted { key, previous, .. } => key.as_bytes().len() + previous_size(previous),
        Fact::HandoverAsked { reason, .. } => reason.as_ref().map_or(0, |reason| reason.len()),
        Fact::LeaseGranted { .. }
        | Fact::LeaseEnded { .. }
        | Fact::ClaimGranted { .. }
        | Fact::ClaimEnded { .. }
        | Fact::Queued { .. }
        | Fact::Unqueued { .. } => 0,
    };
    EVENT_BYTES + variable
}

/// What an entry was is shared with the event before only until a restart: so it counts.
fn previous_size(previous: &Previous) -> usize {
    previous.0.as_ref().map_or(0, |former| former.value.len())
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Key, Namespace, WallTime};

    use super::*;

    fn put(revision: u64, bytes: usize) -> Event {
        Event {
            revision: Revision(revision),
            wall: WallTime(0),
            namespace: Namespace::new("a").unwrap(),
            fact: Fact::EntryPut {
                key: Key::new(b"k").unwrap(),
                value: vec![0; bytes].into(),
                version: 1,
                created: Revision(revision),
                lease: None,
                previous: Previous(None),
            },
        }
    }

    #[test]
    fn events_of_one_revision_stay_together() {
        let mut ring = Ring::default();
        ring.push(vec![put(3, 0), put(3, 0)]);
        ring.push(vec![put(5, 0)]);
        let revisions = |since| ring.since(Revision(since)).map(|c| (c.revision.0, c.events.len())).collect::<Vec<_>>();
        assert_eq!(revisions(0), [(3, 2), (5, 1)]);
        assert_eq!(revisions(3), [(5, 1)]);
        assert_eq!(revisions(4), [(5, 1)]);
        assert_eq!(revisions(5), []);
        assert_eq!(ring.floor(), Revision(0));
    }

    #[test]
    fn it_is_bounded_in_revisions_and_in_bytes_and_tells_from_where_it_is_complete() {
        let mut ring = Ring::default();
        for revision in 1..=(REVISIONS_MAX as u64 + 10) {
            ring.push(vec![put(revision, 0)]);
        }
        assert_eq!(ring.floor(), Revision(10));
        assert_eq!(ring.since(Revision(10)).count(), REVISIONS_MAX);
        let next = REVISIONS_MAX as u64 + 11;
        ring.push((0..40).map(|n| put(next + n, 1 << 20)).collect());
        assert!(ring.bytes <= BYTES_MAX);
        assert!(ring.floor() > Revision(next));
    }
}
