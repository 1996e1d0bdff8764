//! Granting a lease: repetitions first, then every check, then the change.

use crate::lease::{Lease, Terms};
use crate::planted::{self, Bug};
use crate::{
    Answer, Bound, Caller, Event, Fact, Grant, LeaseId, LeaseKey, LeaseTime, LeaseView, Metadata, Namespace, Outcome,
    Rejection, Span, State, Ttl, fingerprint,
};

impl State {
    /// Grants a lease with its claims, all or none; a repetition finds the lease as it is.
    pub(crate) fn grant(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        mut grant: Grant,
        events: &mut Vec<Event>,
    ) -> Answer {
        grant.asks.sort();
        if let Some(answer) = self.repeated_grant(caller, namespace, &grant, events) {
            return answer;
        }
        self.grant_checked(caller, namespace, grant, events)
    }

    /// Grants a lease whose id was perhaps used before by the same identity; a living one is in its way.
    pub(crate) fn grant_anew(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        mut grant: Grant,
        events: &mut Vec<Event>,
    ) -> Answer {
        grant.asks.sort();
        let number = self.namespaces.number(namespace);
        if let Some(key) = number.map(|namespace| LeaseKey { namespace, id: grant.id }) {
            self.settle_lease(key, events);
            let buried = self.tombstones.get(&key);
            if self.leases.contains(&key) || buried.is_some_and(|buried| buried.identity != caller.identity) {
                return Err(Box::new(Rejection::IdInUse));
            }
        }
        self.grant_checked(caller, namespace, grant, events)
    }

    fn grant_checked(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        grant: Grant,
        events: &mut Vec<Event>,
    ) -> Answer {
        self.check_grant(caller, namespace, &grant, events)?;
        let waits = self.check_asks(namespace, &grant.asks, None, events)?;

        let key = LeaseKey { namespace: self.namespaces.number_or_new(namespace), id: grant.id };
        if self.tombstones.get(&key).is_some() {
            self.tombstones.forget_one(&key);
            self.namespaces.usage_mut(key.namespace).tombstones -= 1;
        }
        self.step();
        self.insert_granted(key, caller, &grant, events);
        if waits {
            self.queue_up(key, grant.asks, true, events);
        } else {
            self.take_all(key, &grant.asks, events);
        }
        Ok(Outcome::Granted(Box::new(self.lease_view(key))))
    }

    /// The answer to a grant whose id is or was in use, or that may be a late copy of such a one.
    fn repeated_grant(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        grant: &Grant,
        events: &mut Vec<Event>,
    ) -> Option<Answer> {
        if let Some(number) = self.namespaces.number(namespace) {
            let key = LeaseKey { namespace: number, id: grant.id };
            self.settle_lease(key, events);
            if let Some(lease) = self.leases.get(&key) {
                let same = lease.identity == caller.identity && lease.fingerprint == fingerprint::of_grant(grant);
                return Some(match same {
                    true if planted::is(Bug::RetriedGrantFullTtl) => {
                        let remaining = planted::whole(lease.ttl());
                        Ok(Outcome::Granted(Box::new(LeaseView { remaining, ..self.lease_view(key) })))
                    }
                    true => Ok(Outcome::Granted(Box::new(self.lease_view(key)))),
                    false => Err(Box::new(Rejection::IdInUse)),
                });
            }
            if planted::is(Bug::LateCopyRunsAgain) {
                let remembered = self.tombstones.get(&key).is_some();
                self.tombstones.forget_one(&key);
                self.namespaces.usage_mut(number).tombstones -= u32::from(remembered);
                return None;
            }
            if let Some(tombstone) = self.tombstones.get(&key) {
                let own = tombstone.identity == caller.identity;
                return Some(Err(Box::new(if own { self.ended(key) } else { Rejection::IdInUse })));
            }
        }
        let horizon = self.tombstones.may_have_forgotten(grant.seen)?;
        Some(Err(Box::new(Rejection::TooOld { seen: grant.seen, horizon })))
    }

    fn check_grant(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        grant: &Grant,
        events: &mut Vec<Event>,
    ) -> Result<(), Box<Rejection>> {
        self.check_ttl(caller, grant.ttl)?;
        self.check_metadata(&grant.metadata)?;
        self.namespaces.check_room(namespace, &self.limits)?;
        if let Some(number) = self.namespaces.number(namespace) {
            let usage = self.namespaces.usage(number);
            if usage.leases >= self.limits.leases {
                return Err(Rejection::limit(Bound::Leases, self.limits.leases));
            }
            if usage.by_identity.get(&caller.identity).is_some_and(|n| *n >= self.limits.leases_per_identity) {
                return Err(Rejection::limit(Bound::LeasesOfIdentity, self.limits.leases_per_identity));
            }
        }
        if let Some(parent) = grant.parent {
            let parent = self.own_lease(caller, namespace, parent, events)?;
            if self.depth(parent) >= usize::from(self.limits.tree_depth) {
                return Err(Rejection::limit(Bound::TreeDepth, self.limits.tree_depth));
            }
            self.check_weight(parent, 1 + grant.asks.claims.len())?;
        }
        self.check_bytes((512 + grant.metadata.size()) as u64)
    }

    /// Refuses a ttl outside the bounds, and one without end for callers without that right.
    pub(crate) fn check_ttl(&self, caller: &Caller, ttl: Ttl) -> Result<(), Box<Rejection>> {
        let (min, max) = (self.limits.ttl_min, self.limits.ttl_max);
        match ttl {
            Ttl::Endless if !caller.rights.endless => Err(Box::new(Rejection::NeedsRight("endless"))),
            Ttl::For(given) if given < min || given > max => {
                Err(Box::new(Rejection::TtlOutOfBounds { given, min, max }))
            }
            Ttl::Endless | Ttl::For(_) => Ok(()),
        }
    }

    fn check_metadata(&self, metadata: &Metadata) -> Result<(), Box<Rejection>> {
        if metadata.iter().len() > self.limits.metadata_pairs as usize {
            return Err(Rejection::limit(Bound::MetadataPairs, self.limits.metadata_pairs));
        }
        if metadata.size() > self.limits.metadata_bytes as usize {
            return Err(Rejection::limit(Bound::MetadataBytes, self.limits.metadata_bytes));
        }
        Ok(())
    }

    /// Refuses what would take the whole state beyond its size.
    pub(crate) fn check_bytes(&self, more: u64) -> Result<(), Box<Rejection>> {
        if more > 0 && self.bytes.saturating_add(more) > self.limits.state_bytes {
            return Err(Rejection::limit(Bound::StateBytes, self.limits.state_bytes));
        }
        Ok(())
    }

    /// Refuses what would make more end together with a lease than one revision may carry.
    pub(crate) fn check_weight(&self, lease: LeaseKey, more: usize) -> Result<(), Box<Rejection>> {
        let root = self.ancestors(lease).last().unwrap_or(lease);
        let weight = self.leases.get(&root).map_or(0, |row| row.weight as usize);
        if weight + more > self.limits.tree_weight as usize {
            return Err(Rejection::limit(Bound::TreeWeight, self.limits.tree_weight));
        }
        Ok(())
    }

    /// How many leases stand above this one, itself included.
    fn depth(&self, lease: LeaseKey) -> usize {
        1 + self.ancestors(lease).count()
    }

    fn insert_granted(&mut self, key: LeaseKey, caller: &Caller, grant: &Grant, events: &mut Vec<Event>) {
        let terms = Terms {
            holder: self.holders.share(grant.holder.clone()),
            identity: caller.identity.clone(),
            ttl: grant.ttl,
            class: grant.class,
            metadata: grant.metadata.clone(),
            fingerprint: fingerprint::of_grant(grant),
        };
        let mut lease = Lease::granted(terms, self.now, self.wall, self.revision);
        if grant.parent.is_some() {
            lease.more_mut().parent = grant.parent;
        }
        self.note_ttl(grant.ttl);
        let fact = Fact::LeaseGranted { lease: key.id, holder: lease.holder.clone(), ttl: grant.ttl };
        self.index_lease(key, &lease);
        self.insert_lease(key, lease);
        self.tell(key.namespace, fact, events);
    }

    /// Enters a lease into the indices by deadline and by grant.
    fn index_lease(&mut self, key: LeaseKey, lease: &Lease) {
        self.deadlines.add(lease.deadline, crate::deadlines::Due::Lease(key));
        self.by_grant.insert((key.namespace, lease.granted_at, key.id));
    }

    /// Enters a lease into the tables and ties it to its parent.
    pub(crate) fn insert_lease(&mut self, key: LeaseKey, lease: Lease) {
        let usage = self.namespaces.usage_mut(key.namespace);
        usage.leases += 1;
        *usage.by_identity.entry(lease.identity.clone()).or_default() += 1;
        self.bytes += lease.size();
        let (parent, weight) = (lease.parent(), lease.weight);
        self.leases.insert(key, lease);
        if let Some(id) = parent {
            self.tie_to_parent(key.id, LeaseKey { id, ..key }, weight);
        }
    }

    fn tie_to_parent(&mut self, child: LeaseId, parent: LeaseKey, weight: u32) {
        let row = self.leases.get_mut(&parent).expect("the parent was checked");
        row.more_mut().children.insert(child);
        row.changed = self.revision;
        self.add_weight(parent, i64::from(weight));
    }

    /// Notes the longest ttl ever granted: after a restore, resources rest that long.
    pub(crate) fn note_ttl(&mut self, ttl: Ttl) {
        if let Ttl::For(span) = ttl {
            self.longest_ttl = self.longest_ttl.max(span);
        }
    }

    /// Counts what a lease carries, up to its root.
    pub(crate) fn add_weight(&mut self, lease: LeaseKey, more: i64) {
        let mut next = Some(lease);
        while let Some(key) = next {
            let row = self.leases.get_mut(&key).expect("a living lease has living ancestors");
            row.weight = (i64::from(row.weight) + more).max(0) as u32;
            next = row.parent().map(|id| LeaseKey { id, ..key });
        }
    }

    /// The leases that this one ends with, nearest first.
    pub(crate) fn ancestors(&self, lease: LeaseKey) -> impl Iterator<Item = LeaseKey> + '_ {
        let parent = move |key: LeaseKey| self.leases.get(&key)?.parent().map(|id| LeaseKey { id, ..key });
        std::iter::successors(parent(lease), move |key| parent(*key))
    }

    /// When a lease ends unless renewed: the earliest deadline of its own and its ancestors'.
    pub(crate) fn effective_deadline(&self, lease: LeaseKey) -> LeaseTime {
        let (mut earliest, mut next) = (LeaseTime::NEVER, Some(lease));
        while let Some((key, row)) = next.and_then(|key| Some((key, self.leases.get(&key)?))) {
            earliest = earliest.min(row.deadline);
            next = row.parent().map(|id| LeaseKey { id, ..key });
        }
        earliest
    }

    /// Tells whether the time of a lease or of one of its ancestors is over.
    pub(crate) fn is_due(&self, lease: LeaseKey) -> bool {
        self.effective_deadline(lease).is_due(self.now)
    }

    /// The time a lease has left, for answers.
    pub(crate) fn remaining(&self, lease: LeaseKey) -> crate::Remaining {
        match self.effective_deadline(lease) {
            LeaseTime::NEVER => crate::Remaining::Endless,
            deadline => crate::Remaining::For(deadline.since(self.now)),
        }
    }

    /// The span by which `later` lies ahead of lease time.
    pub(crate) fn until(&self, later: LeaseTime) -> Span {
        later.since(self.now)
    }
}
