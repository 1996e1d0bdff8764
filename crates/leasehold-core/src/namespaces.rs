//! Namespaces: numbers for names, and how much each one has.

use std::collections::BTreeMap;

use crate::{Bound, Identity, Limits, Namespace, NamespaceId, Rejection};

/// What a namespace has. One that has nothing is forgotten.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) name: Namespace,
    pub(crate) leases: u32,
    pub(crate) entries: u32,
    pub(crate) entry_bytes: u64,
    pub(crate) resources: u32,
    pub(crate) tombstones: u32,
    /// Leases by the identity that created them; all anonymous callers count as one.
    pub(crate) by_identity: BTreeMap<Option<Identity>, u32>,
}

impl Usage {
    fn is_empty(&self) -> bool {
        self.leases == 0 && self.entries == 0 && self.resources == 0 && self.tombstones == 0
    }
}

/// All namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces {
    numbers: BTreeMap<Namespace, NamespaceId>,
    rows: BTreeMap<NamespaceId, Usage>,
    /// The number of the next one; numbers are never used twice.
    pub(crate) next: u32,
}

impl Namespaces {
    /// The number of a namespace that has something in it.
    pub(crate) fn number(&self, name: &Namespace) -> Option<NamespaceId> {
        self.numbers.get(name).copied()
    }

    /// Tells whether the number is that of a namespace that has something in it.
    pub(crate) fn contains(&self, id: NamespaceId) -> bool {
        self.rows.contains_key(&id)
    }

    /// What a namespace has.
    pub(crate) fn usage(&self, id: NamespaceId) -> &Usage {
        self.rows.get(&id).expect("a number is used only while its namespace has something")
    }

    /// What a namespace has, to be counted.
    pub(crate) fn usage_mut(&mut self, id: NamespaceId) -> &mut Usage {
        self.rows.get_mut(&id).expect("a number is used only while its namespace has something")
    }

    /// The number of a namespace, existing or new.
    pub(crate) fn number_or_new(&mut self, name: &Namespace) -> NamespaceId {
        if let Some(id) = self.number(name) {
            return id;
        }
        let id = NamespaceId(self.next);
        self.insert(id, name.clone());
        id
    }

    /// Refuses a namespace that would be one too many.
    pub(crate) fn check_room(&self, name: &Namespace, limits: &Limits) -> Result<(), Box<Rejection>> {
        let full = self.numbers.len() >= limits.namespaces as usize || self.next == u32::MAX;
        if full && !self.numbers.contains_key(name) {
            return Err(Rejection::limit(Bound::Namespaces, limits.namespaces));
        }
        Ok(())
    }

    /// Enters a namespace under a number.
    pub(crate) fn insert(&mut self, id: NamespaceId, name: Namespace) {
        self.next = self.next.max(id.0 + 1);
        self.numbers.insert(name.clone(), id);
        let usage = Usage {
            name,
            leases: 0,
            entries: 0,
            entry_bytes: 0,
            resources: 0,
            tombstones: 0,
            by_identity: BTreeMap::new(),
        };
        self.rows.insert(id, usage);
    }

    /// Forgets a namespace that has nothing left.
    pub(crate) fn forget_if_empty(&mut self, id: NamespaceId) {
        if self.rows.get(&id).is_some_and(Usage::is_empty) {
            let usage = self.rows.remove(&id).expect("it was just found");
            self.numbers.remove(&usage.name);
        }
    }

    /// All namespaces by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceId, &Usage)> {
        self.rows.iter().map(|(id, usage)| (*id, usage))
    }
}
