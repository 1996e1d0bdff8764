//! Watches: ordered subscriptions to events, from a revision on.
//!
//! A watch is what passes of a feed; one that falls behind is told so and cut.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_core::{Event, Namespace, Revision};

use crate::feed::Feed;
use crate::ring::Change;

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
    feed: Feed,
    namespace: Namespace,
    filter: WatchFilter,
    /// The watcher knows that it has everything up to here.
    told: Revision,
    ready: VecDeque<Change>,
}

impl Watch {
    pub(crate) fn new(feed: Feed, namespace: &Namespace, filter: WatchFilter, since: Revision) -> Watch {
        Watch { feed, namespace: namespace.clone(), filter, told: since, ready: VecDeque::new() }
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
            if self.feed.is_over() {
                return None;
            }
            match self.feed.ready() {
                Err(_) => return Some(Delivery::TooSlow(self.told)),
                Ok(Some(changes)) => {
                    let passing = changes.iter().filter_map(|change| self.passing(change)).collect::<Vec<_>>();
                    self.ready.extend(passing);
                }
                Ok(None) => {
                    let seen = self.feed.seen();
                    tokio::select! {
                        goes_on = self.feed.moved() => if !goes_on { return None },
                        () = tokio::time::sleep(PROGRESS), if self.told < seen => {
                            self.told = seen;
                            return Some(Delivery::Progress(seen));
                        }
                    }
                }
            }
        }
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
