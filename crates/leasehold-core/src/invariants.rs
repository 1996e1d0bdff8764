//! What is always true, checked.
//!
//! A broken invariant is a bug, and a stopped node is safer than a diverging one. The cheap ones are asserted
//! after every entry; tests and simulation sweep the whole state with [`State::check_invariants`].

use crate::deadlines::Deadlines;
use crate::handover::ASKED_SHOWN;
use crate::resource::Holders;
use crate::{LeaseKey, LeaseTime, Mode, State, Token};

impl State {
    pub(crate) fn assert_invariants(&self) {
        assert!(self.revisit.is_empty(), "every queue that may have changed was looked at");
        assert!(self.freed.is_empty(), "everything freed was handed on");
        assert!(self.emptied.is_empty(), "every namespace that may be empty was looked at");
        debug_assert!(self.tombstones.rows.len() <= self.limits.tombstones as usize, "tombstones are bounded");
    }

    /// Sweeps the whole state and tells the first thing that is not as it must be.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_leases()?;
        self.check_resources()?;
        self.check_queues()?;
        self.check_entries()?;
        self.check_markers()?;
        self.check_counts()
    }

    fn check_leases(&self) -> Result<(), String> {
        let mut deadlines = 0;
        for (key, lease) in self.leases.iter() {
            ensure(lease.deadline >= lease.renewed, || format!("{key:?} has a deadline before its renewal"))?;
            ensure(self.tombstones.get(key).is_none(), || format!("{key:?} lives and has a tombstone"))?;
            deadlines += usize::from(lease.deadline != LeaseTime::NEVER);
            deadlines += lease.waits().iter().filter(|wait| wait.deadline != LeaseTime::NEVER).count();
            for claim in &lease.held {
                let row = self.resources.get(&(key.namespace, claim.resource.clone()));
                let holds = row.is_some_and(|row| row.holders.iter().any(|id| id == key.id));
                ensure(holds, || format!("{key:?} holds {} one-sidedly", claim.resource))?;
                ensure(claim.token.0 <= self.revision.0, || format!("{key:?} has a token of the future"))?;
            }
            let sorted = lease.held.windows(2).all(|pair| pair[0].resource < pair[1].resource);
            ensure(sorted, || format!("the claims of {key:?} are out of order"))?;
            if let Some(id) = lease.parent() {
                let parent = self.leases.get(&LeaseKey { id, ..*key });
                let tied = parent.and_then(|row| row.more.as_ref()).is_some_and(|more| more.children.contains(&key.id));
                ensure(tied, || format!("{key:?} is not tied to its parent"))?;
            }
            let below: u32 = lease
                .more
                .iter()
                .flat_map(|more| &more.children)
                .map(|id| self.leases.get(&LeaseKey { id: *id, ..*key }).map_or(0, |row| row.weight))
                .sum();
            let weight = 1 + lease.claims() as u32 + lease.entries() as u32 + below;
            ensure(weight == lease.weight, || format!("{key:?} weighs {weight}, counted {}", lease.weight))?;
        }
        let rests = self.resources.iter().filter(|(_, row)| row.rests_until > LeaseTime::ZERO).count();
        let rests = rests + usize::from(self.rests_until > LeaseTime::ZERO);
        let indexed = Deadlines::len(&self.deadlines);
        ensure(indexed == deadlines + rests, || format!("{indexed} deadlines indexed, {} exist", deadlines + rests))
    }

    /// Every waiter of a queue is known to wait; so many must stand in queues as wait.
    fn check_queues(&self) -> Result<(), String> {
        let asked: usize = self.leases.iter().flat_map(|(_, row)| row.waits()).map(|wait| wait.asks.len()).sum();
        let standing: usize =
            self.resources.iter().filter_map(|(_, row)| row.queue.as_ref()).map(|queue| queue.iter().count()).sum();
        ensure(asked == standing, || format!("{asked} places in queues are asked for, {standing} are taken"))
    }

    fn check_resources(&self) -> Result<(), String> {
        for (key, row) in self.resources.iter() {
            ensure(row.last_token <= Token(self.revision.0), || format!("{key:?} has a token of the future"))?;
            for id in row.holders.iter() {
                let lease = self.leases.get(&LeaseKey { namespace: key.0, id });
                let claim = lease.and_then(|lease| lease.held_claim(&key.1));
                ensure(claim.is_some(), || format!("{key:?} is held by {id:?} one-sidedly"))?;
                let shared = matches!(row.holders, Holders::Shared(_));
                let same = claim.is_some_and(|claim| (claim.mode == Mode::Shared) == shared);
                ensure(same, || format!("{key:?} is held in two modes"))?;
            }
            for ((priority, number), waiter) in row.queue.iter().flat_map(|queue| queue.iter()) {
                let lease = self.leases.get(&LeaseKey { namespace: key.0, id: waiter.lease });
                let wait = lease.and_then(|lease| lease.wait(number));
                let same = wait.is_some_and(|wait| {
                    wait.priority == priority.0 && wait.asks.iter().any(|ask| ask.resource == key.1)
                });
                ensure(same, || format!("{:?} waits for {key:?} one-sidedly", waiter.lease))?;
            }
            ensure(row.queue.is_none() || !self.is_resting() || row.rests_until >= self.rests_until, || {
                format!("{key:?} is wanted and nothing hands it on when the rest is over")
            })?;
            ensure(row.queue.as_ref().is_none_or(|queue| !queue.is_empty()), || {
                format!("{key:?} keeps an empty queue")
            })?;
            let asks = row.history.iter().filter(|past| past.is_ask()).count();
            ensure(asks <= ASKED_SHOWN, || format!("{key:?} remembers {asks} asks"))?;
            let idle = self.idle.contains(&(row.idle_since, key.clone()));
            ensure(idle == row.is_idle(), || format!("{key:?} is idle one-sidedly"))?;
            if !self.has_backlog() {
                self.check_nobody_waits_in_vain(key)?;
            }
        }
        Ok(())
    }

    fn check_nobody_waits_in_vain(&self, key: &crate::resource::ResourceKey) -> Result<(), String> {
        let servable = self.first_in_line(key).filter(|(lease, wait)| self.lacks(*lease, wait, 0).is_none());
        ensure(servable.is_none(), || format!("the first waiter of {key:?} could be served and is not"))
    }

    fn check_entries(&self) -> Result<(), String> {
        for ((namespace, key), entry) in self.entries.iter() {
            ensure(entry.modified <= self.revision && entry.created <= entry.modified, || {
                format!("{key} is of the future")
            })?;
            let Some(id) = entry.lease else { continue };
            let lease = self.leases.get(&LeaseKey { namespace: *namespace, id });
            let tied = lease.and_then(|row| row.more.as_ref()).is_some_and(|more| more.entries.contains(key));
            ensure(tied, || format!("{key} is bound to {id:?} one-sidedly"))?;
        }
        let bound: usize = self.leases.iter().map(|(_, lease)| lease.entries()).sum();
        let entries = self.entries.iter().filter(|(_, entry)| entry.lease.is_some()).count();
        ensure(bound == entries, || format!("leases list {bound} entries, {entries} are bound"))
    }

    fn check_markers(&self) -> Result<(), String> {
        for (key, marked) in self.markers.iter() {
            let lease = LeaseKey { namespace: key.0, id: marked.lease };
            let row = self.leases.get(&lease);
            let held = row.is_some_and(|row| row.held_claim(&marked.resource).is_some());
            let claimed = held || self.wait_for(lease, &marked.resource).is_some();
            ensure(claimed && self.entries.contains(key), || format!("{} stands for nothing", key.1))?;
            let named = row.and_then(|row| row.more.as_ref()?.markers.get(&marked.resource));
            ensure(named == Some(&key.1), || format!("{} stands for a claim one-sidedly", key.1))?;
        }
        let named: usize =
            self.leases.iter().filter_map(|(_, row)| row.more.as_ref()).map(|more| more.markers.len()).sum();
        ensure(named == self.markers.len(), || format!("leases name {named} markers, {} exist", self.markers.len()))
    }

    fn check_counts(&self) -> Result<(), String> {
        for (id, usage) in self.namespaces.iter() {
            let leases = self.leases.iter().filter(|(key, _)| key.namespace == id).count();
            let resources = self.resources.iter().filter(|(key, _)| key.0 == id).count();
            let entries = self.entries.iter().filter(|(key, _)| key.0 == id).count();
            let tombstones = self.tombstones.rows.iter().filter(|(key, _)| key.namespace == id).count();
            let by_identity: u32 = usage.by_identity.values().sum();
            let counted = [usage.leases, usage.resources, usage.entries, usage.tombstones, by_identity];
            let exist = [leases, resources, entries, tombstones, leases].map(|n| n as u32);
            ensure(counted == exist, || format!("{} counts {counted:?}, {exist:?} exist", usage.name))?;
        }
        let rebuilt = State::from_records(self.view().records()).map_err(|error| error.to_string())?;
        ensure(rebuilt.bytes == self.bytes, || {
            format!("{} bytes counted, {} after a restore", self.bytes, rebuilt.bytes)
        })
    }
}

fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint()) }
}
