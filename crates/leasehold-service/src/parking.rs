//! Callers that wait for something to happen to a lease or a resource.
//!
//! A parked caller is woken by every fact about what it waits for and then looks at the state itself, so a wake too many
//! does no harm and none is missed: it listens first and looks afterwards.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use leasehold_core::{Event, Fact, LeaseId, Namespace, ResourceName};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// All parked callers, by what they wait for.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    /// Those that wait for their lease.
    pub(crate) leases: Bells<(Namespace, LeaseId)>,
    /// Those that want to know how a queue moves.
    pub(crate) resources: Bells<(Namespace, ResourceName)>,
}

impl Parking {
    /// Wakes those whose lease or resource the events are about.
    pub(crate) fn wake(&self, events: &[Event]) {
        if !self.leases.is_empty() {
            let about = events.iter().filter_map(|event| Some((event.namespace.clone(), event.fact.lease()?)));
            self.leases.ring(about);
        }
        if !self.resources.is_empty() {
            let about = events.iter().filter_map(|event| Some((event.namespace.clone(), moved(&event.fact)?.clone())));
            self.resources.ring(about);
        }
    }

    /// Wakes everybody, when the whole state was replaced.
    pub(crate) fn wake_all(&self) {
        self.leases.ring_all();
        self.resources.ring_all();
    }
}

/// The resource whose holders or queue a fact changed.
fn moved(fact: &Fact) -> Option<&ResourceName> {
    match fact {
        Fact::ClaimGranted { resource, .. }
        | Fact::ClaimEnded { resource, .. }
        | Fact::Queued { resource, .. }
        | Fact::Unqueued { resource, .. } => Some(resource),
        Fact::LeaseGranted { .. }
        | Fact::LeaseEnded { .. }
        | Fact::HandoverAsked { .. }
        | Fact::EntryPut { .. }
        | Fact::EntryDeleted { .. } => None,
    }
}

/// Bells by what they ring for.
#[derive(Debug)]
pub(crate) struct Bells<K> {
    bells: Mutex<HashMap<K, Arc<Bell>>>,
    /// How many there are, so that nobody waiting costs nothing.
    count: AtomicUsize,
}

impl<K> Default for Bells<K> {
    fn default() -> Self {
        Self { bells: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

/// A bell for all who wait for the same.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Wakes those who listen.
    pub(crate) notify: Notify,
    rung: AtomicU64,
}

impl Bell {
    /// How often it has rung, for those who did not listen all the time.
    pub(crate) fn rung(&self) -> u64 {
        self.rung.load(Ordering::Acquire)
    }

    fn ring(&self) {
        self.rung.fetch_add(1, Ordering::AcqRel);
        self.notify.notify_waiters();
    }
}

impl<K: Clone + Eq + Hash> Bells<K> {
    /// A bell that rings for every fact about `place`, as long as the guard lives.
    pub(crate) fn listen(&self, place: K) -> Parked<'_, K> {
        let mut bells = self.bells.lock();
        let bell = Arc::clone(bells.entry(place.clone()).or_default());
        self.count.store(bells.len(), Ordering::Release);
        Parked { bells: self, place, bell }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn ring(&self, places: impl Iterator<Item = K>) {
        let bells = self.bells.lock();
        for bell in places.filter_map(|place| bells.get(&place)) {
            bell.ring();
        }
    }

    fn ring_all(&self) {
        self.bells.lock().values().for_each(|bell| bell.ring());
    }
}

/// A place in the parking.
#[derive(Debug)]
pub(crate) struct Parked<'a, K: Clone + Eq + Hash> {
    bells: &'a Bells<K>,
    place: K,
    /// Rings for every fact about the place.
    pub(crate) bell: Arc<Bell>,
}

impl<K: Clone + Eq + Hash> Drop for Parked<'_, K> {
    fn drop(&mut self) {
        let mut bells = self.bells.bells.lock();
        // One owner is the table, one is this guard; a third is another caller that waits for the same.
        if Arc::strong_count(&self.bell) <= 2 {
            bells.remove(&self.place);
        }
        self.bells.count.store(bells.len(), Ordering::Release);
    }
}
