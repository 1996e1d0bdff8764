//! Watches: ordered subscriptions to events, from a revision on.
//!
//! A watch keeps no events of its own: it reads on in the ring of recent ones, revision by revision. So a slow
//! watcher costs nothing; one that falls behind the ring is told so and cut.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::planted::{self, Bug};
use leasehold_core::{Event, Namespace, Revision};
use tokio::sync::watch;

use crate::Failure;
use crate::replica::Replica;
use crate::ring::Change;

/// How many revisions are looked through at a time.
const PIECE: usize = 512;
/// How often a watch without events tells how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// Which events a watch delivers.
#[derive(Clone, Debug, Default)]
pub struct WatchFilter {
    /// Those about resources and keys that begin so, and about leases alone only if it is empty.
    pub prefix: String,
}

/// What a watch delivers.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// The events of one revision that pass the filter.
    Change(Change),
    /// Nothing for this watch up to this revision: a point to resume from.
    Progress(Revision),
    /// The watcher was too slow and is cut; it saw everything up to this revision.
    TooSlow(Revision),
}

/// An open watch.
#[derive(Debug)]
pub struct Watch {
    replica: Arc<Replica>,
    revisions: watch::Receiver<Revision>,
    stop: watch::Receiver<bool>,
    namespace: Namespace,
    filter: WatchFilter,
    /// Everything up to here was looked through.
    seen: Revision,
    /// The watcher knows that it has everything up to here.
    told: Revision,
    ready: VecDeque<Change>,
}

impl Watch {
    pub(crate) fn open(
        replica: Arc<Replica>,
        stop: watch::Receiver<bool>,
        namespace: &Namespace,
        filter: WatchFilter,
        since: Option<Revision>,
    ) -> Result<Watch, Failure> {
        let revisions = replica.revisions();
        let present = replica.look(|state| state.revision());
        let since = since.unwrap_or(present);
        if since > present {
            return Err(Failure::FutureRevision { given: since, present });
        }
        replica.changes(since, 0).map_err(|oldest| Failure::Compacted { oldest })?;
        let namespace = namespace.clone();
        let seen = if planted::is(Bug::EventTwiceOnResume) { Revision(since.0.saturating_sub(1)) } else { since };
        Ok(Watch { replica, revisions, stop, namespace, filter, seen, told: since, ready: VecDeque::new() })
    }

    /// The revision after which the watch delivers.
    pub fn since(&self) -> Revision {
        self.told
    }

    /// The next delivery; none after the watch was cut or when the service stops.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                self.told = change.revision;
                return Some(Delivery::Change(change));
            }
            if *self.stop.borrow() {
                return None;
            }
            let newest = *self.revisions.borrow_and_update();
            if self.seen < newest {
                if let Some(cut) = self.read_on() {
                    return Some(cut);
                }
                continue;
            }
            tokio::select! {
                changed = self.revisions.changed() => if changed.is_err() { return None },
                _ = self.stop.changed() => {}
                () = tokio::time::sleep(PROGRESS), if self.told < self.seen => {
                    self.told = self.seen;
                    return Some(Delivery::Progress(self.seen));
                }
            }
        }
    }

    /// Looks through the next revisions; tells if they are gone.
    fn read_on(&mut self) -> Option<Delivery> {
        let newest = *self.revisions.borrow();
        let Ok(changes) = self.replica.changes(self.seen, PIECE) else {
            self.seen = newest;
            return Some(Delivery::TooSlow(self.told));
        };
        let complete = changes.len() < PIECE;
        self.seen = changes.last().map_or(self.seen, |change| change.revision);
        if complete {
            // The newest revision may have brought no event.
            self.seen = self.seen.max(newest);
        }
        let passing = changes.iter().filter_map(|change| self.passing(change)).collect::<Vec<_>>();
        self.ready.extend(passing);
        None
    }

    fn passing(&self, change: &Change) -> Option<Change> {
        let events: Vec<Event> = change.events.iter().filter(|event| self.passes(event)).cloned().collect();
        (!events.is_empty()).then_some(Change { revision: change.revision, events })
    }

    fn passes(&self, event: &Event) -> bool {
        let about = |subject: &[u8]| subject.starts_with(self.filter.prefix.as_bytes());
        event.namespace == self.namespace && event.fact.subject().map_or(self.filter.prefix.is_empty(), about)
    }
}
