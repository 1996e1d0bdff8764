//! The waiters of one resource: by priority, then in the order they came.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{LeaseId, Mode, Revision};

/// The place of a waiter: higher priority first, then the earlier one.
pub(crate) type Place = (Reverse<i32>, Revision);

/// A waiter: a wait of a lease, and the mode it wants this resource in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) lease: LeaseId,
    pub(crate) mode: Mode,
}

/// The waiters of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue(BTreeMap<Place, Waiter>);

impl Queue {
    pub(crate) fn join(&mut self, priority: i32, number: Revision, waiter: Waiter) {
        self.0.insert((Reverse(priority), number), waiter);
    }

    pub(crate) fn leave(&mut self, priority: i32, number: Revision) {
        self.0.remove(&(Reverse(priority), number));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The waiters in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, Waiter)> + '_ {
        self.0.iter().map(|(place, waiter)| (*place, *waiter))
    }

    /// The place of a waiter, from 1.
    pub(crate) fn position(&self, priority: i32, number: Revision) -> u32 {
        let place = (Reverse(priority), number);
        // The newest of the lowest priority is the usual question and needs no count.
        let ahead = match self.0.last_key_value() {
            Some((last, _)) if *last == place => self.0.len() - 1,
            _ => self.0.range(..place).count(),
        };
        ahead as u32 + 1
    }

    /// The place that a newcomer of this priority would have, from 1.
    pub(crate) fn next_position(&self, priority: i32) -> u32 {
        let place = (Reverse(priority), Revision(u64::MAX));
        // Most newcomers have the lowest priority and need no count.
        let ahead = match self.0.last_key_value() {
            Some((last, _)) if *last < place => self.0.len(),
            _ => self.0.range(..=place).count(),
        };
        ahead as u32 + 1
    }
}
