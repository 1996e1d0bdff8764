//! A lease: what it promises, to whom, and what it carries.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;

use crate::{
    Class, HeldClaim, Holder, Identity, Key, LeaseId, LeaseTime, Metadata, Receipt, ResourceName, Revision, Span, Ttl,
    Wait, WallTime,
};

/// A living lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) holder: Holder,
    pub(crate) identity: Option<Identity>,
    /// In milliseconds; none without end.
    ttl_ms: Option<NonZeroU64>,
    pub(crate) deadline: LeaseTime,
    pub(crate) granted: LeaseTime,
    pub(crate) granted_wall: WallTime,
    pub(crate) granted_at: Revision,
    pub(crate) renewed: LeaseTime,
    pub(crate) class: Class,
    pub(crate) metadata: Metadata,
    pub(crate) fingerprint: u64,
    pub(crate) changed: Revision,
    /// One for itself, and one for each claim, entry and child lease that ends with it.
    pub(crate) weight: u32,
    /// Sorted by resource.
    pub(crate) held: Vec<HeldClaim>,
    /// Boxed because most leases have none of it.
    pub(crate) more: Option<Box<More>>,
}

/// What only some leases carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct More {
    pub(crate) parent: Option<LeaseId>,
    /// In order of arrival.
    pub(crate) waits: Vec<Wait>,
    pub(crate) children: BTreeSet<LeaseId>,
    pub(crate) entries: BTreeSet<Key>,
    /// The markers of its claims.
    pub(crate) markers: BTreeMap<ResourceName, Key>,
    /// The highest number of a command that was done.
    pub(crate) seq: u64,
    /// By number.
    pub(crate) receipts: VecDeque<(u64, Receipt)>,
}

/// What a lease is granted with.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) holder: Holder,
    pub(crate) identity: Option<Identity>,
    pub(crate) ttl: Ttl,
    pub(crate) class: Class,
    pub(crate) metadata: Metadata,
    pub(crate) fingerprint: u64,
}

impl Lease {
    /// A lease granted at `now` and `revision`, carrying nothing.
    pub(crate) fn granted(terms: Terms, now: LeaseTime, wall: WallTime, revision: Revision) -> Self {
        let Terms { holder, identity, ttl, class, metadata, fingerprint } = terms;
        let mut lease = Lease {
            holder,
            identity,
            ttl_ms: None,
            deadline: ttl.deadline(now),
            granted: now,
            granted_wall: wall,
            granted_at: revision,
            renewed: now,
            class,
            metadata,
            fingerprint,
            changed: revision,
            weight: 1,
            held: Vec::new(),
            more: None,
        };
        lease.set_ttl(ttl);
        lease
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.ttl_ms.map_or(Ttl::Endless, |ms| Ttl::For(Span(ms.get())))
    }

    pub(crate) fn set_ttl(&mut self, ttl: Ttl) {
        self.ttl_ms = match ttl {
            Ttl::For(span) => Some(NonZeroU64::new(span.0).unwrap_or(NonZeroU64::MIN)),
            Ttl::Endless => None,
        };
    }

    pub(crate) fn parent(&self) -> Option<LeaseId> {
        self.more.as_ref().and_then(|more| more.parent)
    }

    pub(crate) fn more_mut(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(crate) fn waits(&self) -> &[Wait] {
        self.more.as_ref().map_or(&[], |more| &more.waits)
    }

    pub(crate) fn wait(&self, number: Revision) -> Option<&Wait> {
        let at = self.waits().binary_search_by_key(&number, |wait| wait.number).ok()?;
        Some(&self.waits()[at])
    }

    pub(crate) fn children(&self) -> usize {
        self.more.as_ref().map_or(0, |more| more.children.len())
    }

    pub(crate) fn entries(&self) -> usize {
        self.more.as_ref().map_or(0, |more| more.entries.len())
    }

    /// How many claims it has, held and waiting.
    pub(crate) fn claims(&self) -> usize {
        self.held.len() + self.waits().iter().map(|wait| wait.asks.len()).sum::<usize>()
    }

    pub(crate) fn held_claim(&self, resource: &ResourceName) -> Option<&HeldClaim> {
        let at = self.held.binary_search_by(|claim| claim.resource.cmp(resource)).ok()?;
        Some(&self.held[at])
    }

    pub(crate) fn add_held(&mut self, claim: HeldClaim) {
        let at = self.held.partition_point(|held| held.resource < claim.resource);
        if self.held.is_empty() {
            self.held.reserve_exact(1); // Most leases hold one resource for life.
        }
        self.held.insert(at, claim);
    }

    pub(crate) fn remove_held(&mut self, resource: &ResourceName) -> Option<HeldClaim> {
        let at = self.held.binary_search_by(|claim| claim.resource.cmp(resource)).ok()?;
        Some(self.held.remove(at))
    }

    /// Roughly how many bytes it takes, without its claims and entries.
    pub(crate) fn size(&self) -> u64 {
        (320 + self.holder.as_str().len() + self.metadata.size()) as u64
    }
}

/// Roughly how many bytes a claim on `resource` takes.
pub(crate) fn claim_size(resource: &ResourceName) -> u64 {
    (320 + resource.as_str().len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_stays_small() {
        // With its reference count it fills an allocation of 160 bytes; a million leases make every byte a megabyte.
        assert!(size_of::<Lease>() <= 144, "{}", size_of::<Lease>());
    }
}
