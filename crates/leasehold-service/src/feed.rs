//! All events of a node, in order, as they are applied: what watches are made of.
//!
//! A feed keeps no events of its own: it reads on in the ring of recent ones, revision by revision. So a slow reader
//! costs nothing; one that falls behind the ring is told so. What passes to whom is left to those who read it.

use std::sync::Arc;

use leasehold_core::planted::{self, Bug};
use leasehold_core::{Caller, Namespace, Revision};
use tokio::sync::watch;

use crate::access::Action;
use crate::replica::Replica;
use crate::ring::Change;
use crate::{Failure, Service};

/// How many revisions are looked through at a time.
const PIECE: usize = 512;

/// All events after a revision, in order.
#[derive(Debug)]
pub struct Feed {
    replica: Arc<Replica>,
    stop: watch::Receiver<bool>,
    /// Everything up to here was given away.
    seen: Revision,
}

/// The reader of a feed was too slow: events are gone that it has not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The oldest revision after which all events are known.
    pub oldest: Revision,
}

impl Feed {
    pub(crate) fn after(
        replica: Arc<Replica>,
        stop: watch::Receiver<bool>,
        since: Option<Revision>,
    ) -> Result<Feed, Failure> {
        let present = replica.look(|state| state.revision());
        let since = since.unwrap_or(present);
        if since > present {
            return Err(Failure::FutureRevision { given: since, present });
        }
        replica.changes(since, 0).map_err(|oldest| Failure::Compacted { oldest })?;
        let seen = if planted::is(Bug::EventTwiceOnResume) { Revision(since.0.saturating_sub(1)) } else { since };
        Ok(Feed { replica, stop, seen })
    }

    /// Everything up to this revision was given away.
    pub fn seen(&self) -> Revision {
        self.seen
    }

    /// The next changes that are already there; none if all were given away.
    pub fn ready(&mut self) -> Result<Option<Vec<Arc<Change>>>, Gone> {
        let newest = self.replica.revision();
        if self.seen >= newest {
            return Ok(None);
        }
        let changes = match self.replica.changes(self.seen, PIECE) {
            Ok(changes) => changes,
            Err(oldest) => {
                self.seen = newest;
                return Err(Gone { oldest });
            }
        };
        let complete = changes.len() < PIECE;
        self.seen = changes.last().map_or(self.seen, |change| change.revision);
        if complete {
            // The newest revision may have brought no event.
            self.seen = self.seen.max(newest);
        }
        Ok(Some(changes))
    }

    /// Returns when there is more, or the service stops; tells whether it goes on.
    pub async fn moved(&mut self) -> bool {
        loop {
            // First to be woken, then to look: what comes in between is not missed.
            let mut moved = std::pin::pin!(self.replica.moved());
            moved.as_mut().enable();
            if self.is_over() {
                return false;
            }
            if self.seen < self.replica.revision() {
                return true;
            }
            moved.await;
        }
    }

    /// Tells whether the service stops.
    pub fn is_over(&self) -> bool {
        *self.stop.borrow()
    }
}

impl Service {
    /// Opens a feed of all events after `since`, or from now on. Events of other namespaces are among them, and must
    /// not be passed on.
    pub async fn feed(&self, caller: &Caller, namespace: &Namespace, since: Option<Revision>) -> Result<Feed, Failure> {
        self.access().authorize(caller, namespace, Action::Watch)?;
        self.reached(since).await;
        Feed::after(self.shared_replica(), self.stopping(), since)
    }
}
