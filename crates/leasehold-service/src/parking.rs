//! Callers that wait for something to happen to a lease.
//!
//! A parked caller is woken by every fact about its lease and then looks at the state itself, so a wake too many
//! does no harm and none is missed: it listens first and looks afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::{Event, LeaseId, Namespace};
use parking_lot::Mutex;
use tokio::sync::Notify;

type Place = (Namespace, LeaseId);

/// All parked callers, by the lease they wait for.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    bells: Mutex<HashMap<Place, Arc<Notify>>>,
    /// How many leases are waited for, so that nobody waiting costs nothing.
    count: AtomicUsize,
}

impl Parking {
    /// A bell that rings for every fact about a lease, as long as the guard lives.
    pub(crate) fn listen(&self, namespace: &Namespace, lease: LeaseId) -> Parked<'_> {
        let place = (namespace.clone(), lease);
        let mut bells = self.bells.lock();
        let bell = Arc::clone(bells.entry(place.clone()).or_default());
        self.count.store(bells.len(), Ordering::Release);
        Parked { parking: self, place, bell }
    }

    /// Wakes those whose lease the events are about.
    pub(crate) fn wake(&self, events: &[Event]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let bells = self.bells.lock();
        for event in events {
            let Some(lease) = event.fact.lease() else { continue };
            if let Some(bell) = bells.get(&(event.namespace.clone(), lease)) {
                bell.notify_waiters();
            }
        }
    }

    /// Wakes everybody, when the whole state was replaced.
    pub(crate) fn wake_all(&self) {
        for bell in self.bells.lock().values() {
            bell.notify_waiters();
        }
    }
}

/// A place in the parking.
#[derive(Debug)]
pub(crate) struct Parked<'a> {
    parking: &'a Parking,
    place: Place,
    /// Rings for every fact about the lease.
    pub(crate) bell: Arc<Notify>,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let mut bells = self.parking.bells.lock();
        // One owner is the table, one is this guard; a third is another caller that waits for the same lease.
        if Arc::strong_count(&self.bell) <= 2 {
            bells.remove(&self.place);
        }
        self.parking.count.store(bells.len(), Ordering::Release);
    }
}
