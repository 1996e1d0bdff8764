//! Ended leases: why each ended, kept for a while and in bounded number.
//!
//! They answer "why is it gone", and they stop late copies: a grant that was sent before the oldest remembered
//! end cannot be told from a copy of a grant whose lease is over, so it is refused.

use crate::ordered::OrderedSet;
use crate::table::Table;
use crate::{EndCause, Holder, Identity, LeaseKey, LeaseTime, Limits, Revision, Span, WallTime};

/// An ended lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) holder: Holder,
    pub(crate) identity: Option<Identity>,
    pub(crate) ended: LeaseTime,
    pub(crate) ended_wall: WallTime,
    pub(crate) revision: Revision,
    pub(crate) cause: EndCause,
}

/// How many tombstones one entry of the log may forget for their age.
const FORGET_PIECE: usize = 1024;

/// All ended leases that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    pub(crate) rows: Table<LeaseKey, Tombstone>,
    oldest: OrderedSet<(Revision, LeaseKey)>,
    /// Ends up to this lease time may be forgotten; none was yet if absent.
    pub(crate) horizon: Option<LeaseTime>,
}

impl Tombstones {
    pub(crate) fn get(&self, key: &LeaseKey) -> Option<&Tombstone> {
        self.rows.get(key)
    }

    pub(crate) fn add(&mut self, key: LeaseKey, tombstone: Tombstone) {
        self.oldest.insert((tombstone.revision, key));
        self.rows.insert(key, tombstone);
    }

    /// Forgets what is too old or too many; tells which.
    pub(crate) fn forget(&mut self, now: LeaseTime, limits: &Limits) -> Vec<LeaseKey> {
        let mut forgotten = Vec::new();
        while let Some((revision, key)) = self.oldest.first().copied() {
            let ended = self.rows.get(&key).expect("the order lists what is remembered").ended;
            let many = self.rows.len() > limits.tombstones as usize;
            let old = ended.after(limits.tombstone_age).is_due(now) && forgotten.len() < FORGET_PIECE;
            if !many && !old {
                break;
            }
            self.horizon = self.horizon.max(Some(ended));
            self.oldest.remove(&(revision, key));
            self.rows.remove(&key);
            forgotten.push(key);
        }
        forgotten
    }

    /// Forgets one that should not be told of.
    pub(crate) fn forget_one(&mut self, key: &LeaseKey) {
        if let Some(tombstone) = self.rows.remove(key) {
            self.oldest.remove(&(tombstone.revision, *key));
        }
    }

    /// Moves all ends to a later time.
    pub(crate) fn move_time(&mut self, by: Span) {
        let keys: Vec<LeaseKey> = self.rows.iter().map(|(key, _)| *key).collect();
        for key in keys {
            let tombstone = self.rows.get_mut(&key).expect("it was just listed");
            tombstone.ended = tombstone.ended.after(by);
        }
    }

    /// Tells whether the end of a lease granted after `seen` may be forgotten already.
    pub(crate) fn may_have_forgotten(&self, seen: LeaseTime) -> Option<LeaseTime> {
        self.horizon.filter(|horizon| seen <= *horizon)
    }
}
