//! How stale this node's state may be: the time since it last had all that the leader had committed.
//!
//! Every append and heartbeat tells how far the leader has committed. The moment it came counts once this node has applied
//! that far; a node that hears its leader but lags behind is as stale as it is behind. One that hears nobody follows nobody.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::machine::Progress;

/// What was heard from leaders.
#[derive(Debug)]
pub(crate) struct Heard {
    progress: Arc<Progress>,
    marks: Mutex<Marks>,
    came: Notify,
}

#[derive(Debug)]
struct Marks {
    /// When this node is known to have had everything.
    up_to_date: Instant,
    /// A later moment at which it had everything, if it has applied all before this index meanwhile.
    next: Option<(Instant, u64)>,
    /// When the last message came.
    last: Option<Instant>,
}

impl Heard {
    /// Before anything is heard, the start of the node counts.
    pub(crate) fn new(progress: Arc<Progress>) -> Heard {
        let marks = Marks { up_to_date: Instant::now(), next: None, last: None };
        Heard { progress, marks: Mutex::new(marks), came: Notify::new() }
    }

    /// Notes that a message of the leader came at `came` and told of `committed` as the last entry committed.
    pub(crate) fn note(&self, came: Instant, committed: Option<u64>) {
        let applied = self.progress.next();
        let mut marks = self.marks.lock();
        marks.settle(applied);
        // An older mark that is not reached yet stays: under load the newest one would never be.
        marks.next.get_or_insert((came, committed.map_or(0, |last| last + 1)));
        marks.settle(applied);
        marks.last = marks.last.max(Some(came));
        drop(marks);
        self.came.notify_one();
    }

    /// Returns how long ago a leader was heard; none if this process never heard one.
    pub(crate) fn silence(&self) -> Option<Duration> {
        self.marks.lock().last.map(|last| last.elapsed())
    }

    /// Returns when a leader is heard; for one listener, and at once if one was heard since it last listened.
    pub(crate) async fn came(&self) {
        self.came.notified().await;
    }

    /// Notes that this node led at `when`, acknowledged by a majority.
    pub(crate) fn led(&self, when: Instant) {
        let mut marks = self.marks.lock();
        marks.up_to_date = marks.up_to_date.max(when);
    }

    /// Returns how long ago this node had everything.
    pub(crate) fn age(&self) -> Duration {
        let mut marks = self.marks.lock();
        marks.settle(self.progress.next());
        marks.up_to_date.elapsed()
    }
}

impl Marks {
    fn settle(&mut self, applied: u64) {
        if let Some((came, _)) = self.next.take_if(|(_, wanted)| *wanted <= applied) {
            self.up_to_date = self.up_to_date.max(came);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_counts_from_when_it_came_once_its_commits_are_applied() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut marks = Marks { up_to_date: start, next: None, last: None };
        let mut hear = |came, wanted, applied| {
            marks.settle(applied);
            marks.next.get_or_insert((came, wanted));
            marks.settle(applied);
            marks.up_to_date
        };
        assert_eq!(hear(at(1), 5, 5), at(1), "everything was there already");
        assert_eq!(hear(at(2), 9, 5), at(1), "something is missing");
        assert_eq!(hear(at(3), 12, 8), at(1), "and still is");
        assert_eq!(hear(at(4), 15, 9), at(2), "what was missing at 2 s is there");
        assert_eq!(hear(at(5), 15, 15), at(5), "and now everything");
    }
}
