//! What is due next: an ordered index of everything that ends by time.

use std::collections::BTreeSet;

use crate::ordered::OrderedSet;
use crate::{LeaseKey, LeaseTime, ResourceKey, Revision};

/// Something that ends by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A lease.
    Lease(LeaseKey),
    /// The patience of a wait.
    Wait(LeaseKey, Revision),
    /// The rest of all resources after a restore.
    AllRest,
    /// The rest of a resource.
    Rest(ResourceKey),
}

/// An ordered index of everything that ends by time. What never ends is not in it.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    // One set per kind keeps the rows of the largest, the leases, small.
    leases: OrderedSet<(LeaseTime, LeaseKey)>,
    waits: BTreeSet<(LeaseTime, LeaseKey, Revision)>,
    rests: BTreeSet<(LeaseTime, ResourceKey)>,
    all_rest: Option<LeaseTime>,
}

impl Deadlines {
    /// Sets all leases at once, with their deadlines, in any order.
    pub(crate) fn set_leases(&mut self, mut leases: Vec<(LeaseTime, LeaseKey)>) {
        leases.retain(|(at, _)| *at != LeaseTime::NEVER);
        self.leases = OrderedSet::of(leases);
    }

    /// Adds something that ends at `at`.
    pub(crate) fn add(&mut self, at: LeaseTime, due: Due) {
        if at == LeaseTime::NEVER {
            return;
        }
        match due {
            Due::Lease(lease) => self.leases.insert((at, lease)),
            Due::Wait(lease, number) => drop(self.waits.insert((at, lease, number))),
            Due::AllRest => self.all_rest = Some(at),
            Due::Rest(resource) => drop(self.rests.insert((at, resource))),
        }
    }

    /// Takes something away that would have ended at `at`.
    pub(crate) fn remove(&mut self, at: LeaseTime, due: Due) {
        match due {
            Due::Lease(lease) => self.leases.remove(&(at, lease)),
            Due::Wait(lease, number) => drop(self.waits.remove(&(at, lease, number))),
            Due::AllRest => self.all_rest = None,
            Due::Rest(resource) => drop(self.rests.remove(&(at, resource))),
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<LeaseTime> {
        let leases = self.leases.first().map(|row| row.0);
        let waits = self.waits.first().map(|row| row.0);
        let rests = self.rests.first().map(|row| row.0);
        [leases, waits, self.all_rest, rests].into_iter().flatten().min()
    }

    /// What is over at `now` and has the earliest deadline; leases before waits before rests.
    pub(crate) fn first_due(&self, now: LeaseTime) -> Option<(LeaseTime, Due)> {
        let leases = self.leases.first().map(|(at, lease)| (*at, 0, Due::Lease(*lease)));
        let waits = self.waits.first().map(|(at, lease, number)| (*at, 1, Due::Wait(*lease, *number)));
        let all_rest = self.all_rest.map(|at| (at, 2, Due::AllRest));
        let rests = self.rests.first().map(|(at, resource)| (*at, 3, Due::Rest(resource.clone())));
        let (at, _, due) =
            [leases, waits, all_rest, rests].into_iter().flatten().min_by_key(|(at, kind, _)| (*at, *kind))?;
        at.is_due(now).then_some((at, due))
    }

    /// How many things end by time.
    pub(crate) fn len(&self) -> usize {
        self.leases.len() + self.waits.len() + self.rests.len() + usize::from(self.all_rest.is_some())
    }
}
