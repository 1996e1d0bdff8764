//! Read-only views of the state.
//!
//! What a query answers is true for the state it looks at and promises nothing for later. A lease whose time is
//! over but whose end is not recorded yet shows as ending, and its entries do not show.

use std::ops;

use crate::entry::entry_view;
use crate::lease::Lease;
use crate::resource::{Resource, ResourceKey};
use crate::{
    Checked, EntryView, HeldBy, HeldView, HolderView, Key, KeyRange, LeaseId, LeaseKey, LeaseTime, LeaseView,
    Namespace, Page, Past, PastFact, PlaceView, Rejection, ResourceName, ResourceView, Revision, Span, State, Token,
    WaitView, WaiterView,
};

/// How many holders a refusal or a resource shows.
const HOLDERS_SHOWN: usize = 8;
/// How many rows a page looks at.
const LOOKED_MAX: usize = 10_000;

/// Which leases a list shows.
#[derive(Clone, Debug, Default)]
pub struct LeaseFilter {
    /// Only those of this holder.
    pub holder: Option<crate::Holder>,
    /// Only those granted after this revision.
    pub after: Option<Revision>,
    /// At most this many.
    pub limit: usize,
}

impl State {
    /// A lease, or how it ended.
    pub fn lease(&self, namespace: &Namespace, id: LeaseId) -> Result<LeaseView, Box<Rejection>> {
        let number = self.namespaces.number(namespace).ok_or(Rejection::UnknownLease)?;
        let key = LeaseKey { namespace: number, id };
        if self.leases.contains(&key) { Ok(self.lease_view(key)) } else { Err(Box::new(self.ended(key))) }
    }

    /// Leases in the order of their grants. A page looks at a bounded number of them, so it may have fewer items than
    /// asked for and still be followed by another.
    pub fn leases(&self, namespace: &Namespace, filter: &LeaseFilter) -> Page<LeaseView, Revision> {
        let Some(number) = self.namespaces.number(namespace) else { return empty_page() };
        let lowest = LeaseId::new(1).expect("one is an id");
        let first = (number, Revision(filter.after.map_or(0, |after| after.0.saturating_add(1))), lowest);
        let rows = self.by_grant.range_from(&first).take_while(|(n, _, _)| *n == number).map(|(_, revision, id)| {
            let key = LeaseKey { namespace: number, id: *id };
            let lease = self.leases.get(&key).expect("the index points at living leases");
            let wanted = filter.holder.as_ref().is_none_or(|holder| lease.holder == *holder);
            (wanted.then(|| self.lease_view(key)), *revision)
        });
        page(rows, filter.limit)
    }

    /// A resource that is held, wanted, resting or remembered.
    pub fn resource(&self, namespace: &Namespace, name: &ResourceName) -> Option<ResourceView> {
        let key = (self.namespaces.number(namespace)?, name.clone());
        self.resources.get(&key).map(|row| self.resource_view(&key, row))
    }

    /// Resources by name, those that nobody holds, wants or rests left out.
    pub fn resources(
        &self,
        namespace: &Namespace,
        prefix: &str,
        after: Option<&ResourceName>,
        limit: usize,
    ) -> Page<ResourceView, ResourceName> {
        let Some(number) = self.namespaces.number(namespace) else { return empty_page() };
        let first = (number, ResourceName::range_start(prefix));
        let after = after.map(|after| (number, after.clone())).filter(|after| *after >= first);
        let start = after.as_ref().map_or(ops::Bound::Included(&first), ops::Bound::Excluded);
        let rows = self
            .resources
            .range_from(start)
            .take_while(|((n, name), _)| *n == number && name.as_str().starts_with(prefix));
        page(rows.map(|(key, row)| ((!row.is_idle()).then(|| self.resource_view(key, row)), key.1.clone())), limit)
    }

    /// The waiters of a resource, in order.
    pub fn queue(&self, namespace: &Namespace, name: &ResourceName, limit: usize) -> Vec<WaiterView> {
        let Some(number) = self.namespaces.number(namespace) else { return Vec::new() };
        let key = (number, name.clone());
        let Some(row) = self.resources.get(&key) else { return Vec::new() };
        let held = self.longest_held(&key, row);
        let waiters = row.queue.iter().flat_map(|queue| queue.iter());
        let view = |(at, ((priority, wait), waiter)): (usize, _)| {
            let (priority, wait, waiter): (std::cmp::Reverse<i32>, Revision, crate::queue::Waiter) =
                (priority, wait, waiter);
            let lease = self.leases.get(&LeaseKey { namespace: number, id: waiter.lease })?;
            let row_wait = lease.wait(wait)?;
            let position = at as u32 + 1;
            Some(WaiterView {
                lease: waiter.lease,
                holder: lease.holder.clone(),
                mode: waiter.mode,
                priority: priority.0,
                position,
                wait,
                waited: self.now.since(row_wait.since),
                patience: self.patience_left(row_wait.deadline),
                estimate: row.estimate(position, held),
                metadata: lease.metadata.clone(),
            })
        };
        waiters.take(limit).enumerate().filter_map(view).collect()
    }

    /// What happened to a resource, oldest first: claims that ended, those that are held, and the latest ask for them.
    pub fn history(&self, namespace: &Namespace, name: &ResourceName) -> Vec<Past> {
        let Some(number) = self.namespaces.number(namespace) else { return Vec::new() };
        let Some(row) = self.resources.get(&(number, name.clone())) else { return Vec::new() };
        let present = row.holders.iter().take(HOLDERS_SHOWN).filter_map(|id| {
            let lease = self.leases.get(&LeaseKey { namespace: number, id })?;
            let claim = lease.held_claim(name)?;
            Some(Past {
                at: claim.since_wall,
                revision: Revision(claim.token.0),
                holder: lease.holder.clone(),
                token: claim.token,
                what: PastFact::Granted { waited: claim.waited },
            })
        });
        let mut history: Vec<Past> = row.history.iter().cloned().chain(present).collect();
        history.sort_by_key(|past| past.revision);
        history
    }

    /// Tells whether a token is that of a present holder.
    pub fn check(&self, namespace: &Namespace, name: &ResourceName, given: Token) -> Result<Checked, Box<Rejection>> {
        let number = self.namespaces.number(namespace);
        let row = number.and_then(|number| self.resources.get(&(number, name.clone())));
        let claims = row.iter().flat_map(|row| row.holders.iter()).filter_map(|id| {
            let key = LeaseKey { namespace: number?, id };
            let lease = self.leases.get(&key).filter(|_| !self.is_due(key))?;
            Some((key, lease, lease.held_claim(name)?.token))
        });
        let mut current = None;
        for (key, lease, token) in claims {
            if token == given {
                return Ok(Checked { holder: lease.holder.clone(), remaining: self.remaining(key) });
            }
            current = current.max(Some(token));
        }
        Err(Box::new(Rejection::StaleToken { resource: name.clone(), given, current }))
    }

    /// The entry under a key.
    pub fn entry(&self, namespace: &Namespace, key: &Key) -> Option<EntryView> {
        let number = self.namespaces.number(namespace)?;
        let entry = self.entries.get(&(number, key.clone()))?;
        self.shows(number, entry).then(|| entry_view(key, entry))
    }

    /// At most `limit` entries of a range, and how many there are in all.
    pub fn entries(&self, namespace: &Namespace, range: &KeyRange, limit: usize) -> (Vec<EntryView>, u64) {
        let Some(number) = self.namespaces.number(namespace) else { return (Vec::new(), 0) };
        let (mut shown, mut count) = (Vec::new(), 0);
        for (key, entry) in self.in_range(number, range).filter(|(_, entry)| self.shows(number, entry)) {
            count += 1;
            if shown.len() < limit {
                shown.push(entry_view(key, entry));
            }
        }
        (shown, count)
    }

    /// The lease and the resource of the claim that an entry stands for.
    pub fn marked(&self, namespace: &Namespace, key: &Key) -> Option<(LeaseId, ResourceName)> {
        let number = self.namespaces.number(namespace)?;
        let marked = self.markers.get(&(number, key.clone()))?;
        Some((marked.lease, marked.resource.clone()))
    }

    /// The keys of the entries that are bound to a lease, in order.
    pub fn bound_keys(&self, namespace: &Namespace, lease: LeaseId) -> Vec<Key> {
        let key = self.namespaces.number(namespace).map(|namespace| LeaseKey { namespace, id: lease });
        let more = key.and_then(|key| self.leases.get(&key)?.more.as_deref());
        more.map(|more| more.entries.iter().cloned().collect()).unwrap_or_default()
    }

    /// How many leases, resources and entries there are, in all namespaces.
    pub fn counts(&self) -> Counts {
        Counts {
            leases: self.leases.len(),
            resources: self.resources.len(),
            entries: self.entries.len(),
            tombstones: self.tombstones.rows.len(),
            deadlines: self.deadlines.len(),
        }
    }

    fn shows(&self, namespace: crate::NamespaceId, entry: &crate::entry::Entry) -> bool {
        entry.lease.is_none_or(|id| !self.is_due(LeaseKey { namespace, id }))
    }

    pub(crate) fn lease_view(&self, key: LeaseKey) -> LeaseView {
        let lease = self.leases.get(&key).expect("only living leases are shown");
        LeaseView {
            id: key.id,
            holder: lease.holder.clone(),
            ttl: lease.ttl(),
            remaining: self.remaining(key),
            class: lease.class,
            parent: lease.parent(),
            metadata: lease.metadata.clone(),
            granted: lease.granted_wall,
            age: self.now.since(lease.granted),
            renewed_ago: self.now.since(lease.renewed),
            ending: self.is_due(key),
            changed: lease.changed,
            held: lease.held.iter().map(|claim| self.held_view(claim)).collect(),
            waits: lease.waits().iter().map(|wait| self.wait_view(key, wait)).collect(),
            entries: lease.entries() as u32,
            children: lease.children() as u32,
        }
    }

    fn held_view(&self, claim: &crate::HeldClaim) -> HeldView {
        HeldView {
            resource: claim.resource.clone(),
            mode: claim.mode,
            token: claim.token,
            held: self.now.since(claim.since),
            waited: claim.waited,
        }
    }

    fn wait_view(&self, key: LeaseKey, wait: &crate::Wait) -> WaitView {
        let place = |ask: &crate::Ask| {
            let resource = (key.namespace, ask.resource.clone());
            let row = self.resources.get(&resource).expect("a wanted resource exists");
            let queue = row.queue.as_ref().expect("a waiter stands in a queue");
            let position = queue.position(wait.priority, wait.number);
            PlaceView {
                resource: ask.resource.clone(),
                mode: ask.mode,
                position,
                length: queue.len() as u32,
                estimate: row.estimate(position, self.longest_held(&resource, row)),
            }
        };
        WaitView {
            wait: wait.number,
            patience: self.patience_left(wait.deadline),
            waited: self.now.since(wait.since),
            places: wait.asks.iter().map(place).collect(),
        }
    }

    fn patience_left(&self, deadline: LeaseTime) -> Option<Span> {
        (deadline != LeaseTime::NEVER).then(|| self.until(deadline))
    }

    fn resource_view(&self, key: &ResourceKey, row: &Resource) -> ResourceView {
        ResourceView {
            name: key.1.clone(),
            holders: self.holder_views(key, row),
            holder_count: row.holders.len() as u32,
            queue: row.queue_len() as u32,
            rests: self.rest_of(row),
            last_token: row.last_token,
            usual_hold: (row.usual_hold > Span::ZERO).then_some(row.usual_hold),
        }
    }

    /// Who and what stands between a newcomer of this priority and a resource.
    pub(crate) fn held_by(&self, key: &ResourceKey, priority: i32) -> HeldBy {
        let Some(row) = self.resources.get(key) else { return self.resting(&key.1) };
        let position = row.queue.as_ref().map_or(1, |queue| queue.next_position(priority));
        HeldBy {
            resource: key.1.clone(),
            holders: self.holder_views(key, row),
            holder_count: row.holders.len() as u32,
            queue: row.queue_len() as u32,
            rests: self.rest_of(row),
            estimate: row.estimate(position, self.longest_held(key, row)),
        }
    }

    /// What stands between a newcomer and a resource that nobody knows, while everything rests.
    pub(crate) fn resting(&self, name: &ResourceName) -> HeldBy {
        HeldBy {
            resource: name.clone(),
            holders: Vec::new(),
            holder_count: 0,
            queue: 0,
            rests: self.rests(),
            estimate: None,
        }
    }

    /// Who and what stands between a newcomer and a resource that exists.
    pub fn obstacle(&self, namespace: &Namespace, name: &ResourceName, priority: i32) -> Option<HeldBy> {
        let key = (self.namespaces.number(namespace)?, name.clone());
        self.resources.contains(&key).then(|| self.held_by(&key, priority))
    }

    fn holder_views(&self, key: &ResourceKey, row: &Resource) -> Vec<HolderView> {
        row.holders.iter().take(HOLDERS_SHOWN).map(|id| self.holder_view(key, id)).collect()
    }

    fn holder_view(&self, key: &ResourceKey, id: LeaseId) -> HolderView {
        let lease_key = LeaseKey { namespace: key.0, id };
        let lease: &Lease = self.leases.get(&lease_key).expect("a holder is a living lease");
        let claim = lease.held_claim(&key.1).expect("a holder has a claim");
        HolderView {
            lease: id,
            holder: lease.holder.clone(),
            token: claim.token,
            mode: claim.mode,
            since: claim.since_wall,
            held: self.now.since(claim.since),
            remaining: self.remaining(lease_key),
            renewed_ago: self.now.since(lease.renewed),
            ending: self.is_due(lease_key),
            metadata: lease.metadata.clone(),
        }
    }

    /// How long the first holder has held a resource.
    fn longest_held(&self, key: &ResourceKey, row: &Resource) -> Span {
        let first = row.holders.iter().next();
        first.map_or(Span::ZERO, |id| self.holder_view(key, id).held)
    }
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Living leases.
    pub leases: usize,
    /// Resources, held, wanted, resting or remembered.
    pub resources: usize,
    /// Entries.
    pub entries: usize,
    /// Ended leases that are remembered.
    pub tombstones: usize,
    /// Things that end by time.
    pub deadlines: usize,
}

fn empty_page<T, K>() -> Page<T, K> {
    Page { items: Vec::new(), next: None }
}

/// Takes a page from rows that are wanted or not; commands wait while it is put together, so it looks at a bounded number.
fn page<T, K>(rows: impl Iterator<Item = (Option<T>, K)>, limit: usize) -> Page<T, K> {
    let mut rows = rows.peekable();
    let (mut items, mut last, mut looked) = (Vec::new(), None, 0);
    while items.len() < limit && looked < LOOKED_MAX {
        let Some((item, key)) = rows.next() else { return Page { items, next: None } };
        items.extend(item);
        last = Some(key);
        looked += 1;
    }
    Page { items, next: last.filter(|_| rows.peek().is_some()) }
}
