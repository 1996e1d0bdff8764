//! Leases that are attached to connections: whom to tell when one ends.
//!
//! The table only knows which mailboxes a lease belongs to; what is told, and when, is the mailbox's business. Without
//! attached leases it costs one look at a counter per entry. It is locked before a mailbox, never after.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::{Event, Fact, LeaseId, Namespace};
use parking_lot::Mutex;

use crate::batch::Notice;
use crate::mailbox::Mailbox;

/// A lease and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) lease: LeaseId,
    pub(crate) namespace: Namespace,
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Ids are random: the namespace would tell nothing more.
        self.lease.hash(state);
    }
}

/// All attached leases.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    mailboxes: Mutex<HashMap<Place, Vec<Arc<Mailbox>>>>,
    count: AtomicUsize,
}

impl Attached {
    /// Attaches a lease to a mailbox.
    pub(crate) fn add(&self, place: Place, mailbox: &Arc<Mailbox>) {
        let mut all = self.mailboxes.lock();
        let of_lease = all.entry(place).or_default();
        if !of_lease.iter().any(|other| Arc::ptr_eq(other, mailbox)) {
            of_lease.reserve_exact(1); // Most leases belong to one connection.
            of_lease.push(Arc::clone(mailbox));
        }
        self.count.store(all.len(), Ordering::Release);
    }

    /// Detaches leases from a mailbox.
    pub(crate) fn remove(&self, places: impl IntoIterator<Item = Place>, mailbox: &Arc<Mailbox>) {
        let mut all = self.mailboxes.lock();
        for place in places {
            let Entry::Occupied(mut of_lease) = all.entry(place) else { continue };
            of_lease.get_mut().retain(|other| !Arc::ptr_eq(other, mailbox));
            if of_lease.get().is_empty() {
                of_lease.remove();
            }
        }
        self.count.store(all.len(), Ordering::Release);
    }

    /// Tells the mailboxes of the leases that the events are about.
    pub(crate) fn tell(&self, events: &[Event]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut all = self.mailboxes.lock();
        for event in events {
            match &event.fact {
                Fact::LeaseEnded { lease, cause, .. } => {
                    let place = Place { lease: *lease, namespace: event.namespace.clone() };
                    for mailbox in all.remove(&place).unwrap_or_default() {
                        mailbox.lease_ended(&place, cause, event.revision);
                    }
                }
                Fact::HandoverAsked { lease, resource, by, reason, .. } => {
                    let place = Place { lease: *lease, namespace: event.namespace.clone() };
                    let Some(mailboxes) = all.get(&place) else { continue };
                    let notice = Notice::HandoverAsked {
                        namespace: event.namespace.clone(),
                        lease: *lease,
                        resource: resource.clone(),
                        by: by.clone(),
                        reason: reason.clone(),
                        revision: event.revision,
                    };
                    mailboxes.iter().for_each(|mailbox| mailbox.handover_asked(&place, &notice));
                }
                Fact::LeaseGranted { .. }
                | Fact::ClaimGranted { .. }
                | Fact::ClaimEnded { .. }
                | Fact::Queued { .. }
                | Fact::Unqueued { .. }
                | Fact::EntryPut { .. }
                | Fact::EntryDeleted { .. } => {}
            }
        }
        self.count.store(all.len(), Ordering::Release);
    }

    /// Tells every mailbox that it may have missed something, when the whole state was replaced.
    pub(crate) fn tell_gap(&self) {
        self.mailboxes.lock().values().flatten().for_each(|mailbox| mailbox.gap());
    }
}
