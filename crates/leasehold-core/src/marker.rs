//! Markers: entries that stand for a claim.
//!
//! Some protocols know a lock by a key: it stands in a queue while its key is there, and to delete the key is to leave.
//! A marker is such a key. It comes in the revision in which its claim is held or queued, and both go in one: the claim
//! when its marker is deleted, the marker when its claim ends, whatever the cause. What is written to it meanwhile, or
//! to which lease it is bound, changes nothing of that.

use crate::entry::EntryKey;
use crate::{
    Answer, Binding, Caller, ClaimMarked, EndCause, Event, Key, LeaseId, LeaseKey, LeaseTime, Marker, Namespace,
    Outcome, Rejection, ResourceName, Revision, State, WriteOp,
};

/// The claim that a marker stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) lease: LeaseId,
    pub(crate) resource: ResourceName,
}

impl State {
    /// Asks for a resource on a living lease and puts the marker of the claim, in one revision.
    pub(crate) fn claim_marked(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        marked: ClaimMarked,
        events: &mut Vec<Event>,
    ) -> Answer {
        let ClaimMarked { claim, marker: Marker { key: name, value } } = marked;
        let lease = self.own_lease(caller, namespace, claim.lease, events)?;
        self.once(lease, claim.once, |state| {
            let [ask] = &claim.asks.claims[..] else { return Err(Box::new(Rejection::OneMarkerOneClaim)) };
            let resource = ask.resource.clone();
            let waits = state.check_asks(namespace, &claim.asks, Some(lease), events)?;
            let put = WriteOp::Put { key: name.clone(), value: Some(value.clone()), binding: Binding::To(claim.lease) };
            state.check_puts(caller, namespace, &[&put], events)?;
            let key = (lease.namespace, name);
            if state.markers.contains(&key) {
                return Err(Box::new(Rejection::AlreadyMarker { key: key.1 }));
            }
            state.step();
            state.put(key.clone(), Some(value), Binding::To(claim.lease), events);
            if waits {
                state.queue_up(lease, claim.asks, false, events);
            } else {
                state.take_all(lease, &claim.asks, events);
            }
            state.insert_marker(key, Marked { lease: lease.id, resource });
            Ok(Outcome::Claimed(Box::new(state.lease_view(lease))))
        })
    }

    /// Ties a marker to its claim.
    pub(crate) fn insert_marker(&mut self, key: EntryKey, marked: Marked) {
        let lease = LeaseKey { namespace: key.0, id: marked.lease };
        let row = self.leases.get_mut(&lease).expect("only claims of living leases have markers");
        row.more_mut().markers.insert(marked.resource.clone(), key.1.clone());
        self.markers.insert(key, marked);
    }

    /// Deletes the marker of a claim that ends while its lease lives, in the present step.
    pub(crate) fn end_marker(&mut self, lease: LeaseKey, resource: &ResourceName, events: &mut Vec<Event>) {
        let row = self.leases.get_mut(&lease).expect("the lease of the claim lives");
        let Some(key) = row.more.as_mut().and_then(|more| more.markers.remove(resource)) else { return };
        let key = (lease.namespace, key);
        // Gone already if it was the deletion of the marker that ended the claim.
        if self.markers.remove(&key).is_some() {
            self.delete(key, None, events);
        }
    }

    /// Deletes the markers of an ending lease that are bound to another one, or to none; its own go with its entries.
    pub(crate) fn end_markers(&mut self, lease: LeaseKey, markers: impl Iterator<Item = Key>, events: &mut Vec<Event>) {
        for key in markers {
            let key = (lease.namespace, key);
            self.markers.remove(&key);
            if self.entries.contains(&key) {
                self.delete(key, None, events);
            }
        }
    }

    /// Ends the claim that a deleted marker stood for, in the present step, unless its whole lease ends. What becomes free
    /// is handed on when the step is done.
    pub(crate) fn unmark(&mut self, key: &EntryKey, ended: Option<LeaseId>, events: &mut Vec<Event>) {
        let Some(marked) = self.markers.remove(key).filter(|marked| ended != Some(marked.lease)) else { return };
        let lease = LeaseKey { namespace: key.0, id: marked.lease };
        let row = self.leases.get_mut(&lease).expect("the lease of a marked claim lives");
        row.more_mut().markers.remove(&marked.resource);
        if row.held_claim(&marked.resource).is_some() {
            let freed = self.give_back(lease, &marked.resource, events);
            self.freed.push(((key.0, marked.resource), freed));
        } else if let Some(number) = self.wait_for(lease, &marked.resource) {
            self.drop_wait(lease, number, EndCause::Left, events);
        }
    }

    /// The number of the wait of a lease for a resource.
    pub(crate) fn wait_for(&self, lease: LeaseKey, resource: &ResourceName) -> Option<Revision> {
        let mut waits = self.leases.get(&lease)?.waits().iter();
        waits.find(|wait| wait.asks.iter().any(|ask| ask.resource == *resource)).map(|wait| wait.number)
    }

    /// Takes a held claim from a living lease, in the present step.
    pub(crate) fn give_back(
        &mut self,
        key: LeaseKey,
        resource: &ResourceName,
        events: &mut Vec<Event>,
    ) -> crate::hand_on::Freed {
        let revision = self.revision;
        let lease = self.leases.get_mut(&key).expect("it was just found");
        let held = lease.remove_held(resource).expect("it was just found");
        lease.changed = revision;
        let holder = lease.holder.clone();
        let freed = self.end_claim(key, &holder, &held, &EndCause::Released, LeaseTime::ZERO, events);
        self.add_weight(key, -1);
        freed
    }
}
