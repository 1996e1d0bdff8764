//! Entries: keys with values and versions, bound to a lease or not. What a write does to them is in `write.rs`.

use std::ops;
use std::sync::Arc;

use crate::lease::Lease;
use crate::{
    Binding, EntryView, Event, Fact, Former, Key, KeyRange, LeaseId, LeaseKey, NamespaceId, Previous, Revision, State,
};

/// An entry among all namespaces.
pub(crate) type EntryKey = (NamespaceId, Key);

/// A value under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) value: Arc<[u8]>,
    pub(crate) version: u64,
    pub(crate) created: Revision,
    pub(crate) modified: Revision,
    pub(crate) lease: Option<LeaseId>,
}

impl Entry {
    /// The entry as an event tells of it.
    fn former(&self) -> Former {
        let Entry { value, version, created, modified, lease } = self.clone();
        Former { value, version, created, modified, lease }
    }
}

impl KeyRange {
    /// The key the range begins at.
    fn start(&self) -> Key {
        match self {
            KeyRange::One(key) | KeyRange::Between(key, _) | KeyRange::From(key) => key.clone(),
            KeyRange::Prefix(prefix) => Key::new(prefix).unwrap_or_else(|_| Key::lowest()),
        }
    }

    /// Tells whether a key that is not before the start belongs to the range.
    fn reaches(&self, key: &Key) -> bool {
        match self {
            KeyRange::One(one) => key == one,
            KeyRange::Prefix(prefix) => key.as_bytes().starts_with(prefix),
            KeyRange::Between(_, end) => key < end,
            KeyRange::From(_) => true,
        }
    }

    /// Tells whether a key belongs to the range.
    pub fn contains(&self, key: &Key) -> bool {
        let begun = match self {
            KeyRange::Between(start, _) | KeyRange::From(start) => key >= start,
            // Their keys are told by what they begin with.
            KeyRange::One(_) | KeyRange::Prefix(_) => true,
        };
        begun && self.reaches(key)
    }
}

/// Roughly how many bytes an entry takes.
pub(crate) fn entry_size(key: &Key, value: &[u8]) -> u64 {
    (key.as_bytes().len() + value.len()) as u64
}

/// Roughly how many bytes the tables need for an entry beyond its key and value.
pub(crate) const ENTRY_OVERHEAD: u64 = 160;

impl State {
    pub(crate) fn in_range<'a>(
        &'a self,
        namespace: NamespaceId,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> + 'a {
        let start = (namespace, range.start());
        // The start is moved into the iterator's position at once; it need not outlive the call.
        self.entries
            .range_from(ops::Bound::Included(&start))
            .take_while(move |((number, key), _)| *number == namespace && range.reaches(key))
            .map(|((_, key), entry)| (key, entry))
    }

    pub(crate) fn put(
        &mut self,
        key: EntryKey,
        value: Option<Arc<[u8]>>,
        binding: Binding,
        events: &mut Vec<Event>,
    ) -> Option<EntryView> {
        let previous = self.entries.get(&key).cloned();
        let kept = |what: &str| previous.as_ref().unwrap_or_else(|| panic!("{what} is kept of an entry that exists"));
        let lease = match binding {
            Binding::None => None,
            Binding::To(lease) => Some(lease),
            Binding::Keep => kept("the binding").lease,
        };
        let entry = Entry {
            value: value.unwrap_or_else(|| kept("the value").value.clone()),
            version: previous.as_ref().map_or(0, |entry| entry.version) + 1,
            created: previous.as_ref().map_or(self.revision, |entry| entry.created),
            modified: self.revision,
            lease,
        };
        let fact = Fact::EntryPut {
            key: key.1.clone(),
            value: entry.value.clone(),
            version: entry.version,
            created: entry.created,
            lease,
            previous: Previous(previous.as_ref().map(|entry| Box::new(entry.former()))),
        };
        if let Some(previous) = &previous {
            self.remove_entry(&key, previous, None);
        }
        let view = previous.map(|entry| entry_view(&key.1, &entry));
        self.tell(key.0, fact, events);
        self.insert_entry(key, entry);
        view
    }

    /// Enters an entry into the tables and ties it to its lease.
    pub(crate) fn insert_entry(&mut self, key: EntryKey, entry: Entry) {
        let size = entry_size(&key.1, &entry.value);
        let usage = self.namespaces.usage_mut(key.0);
        usage.entries += 1;
        usage.entry_bytes += size;
        self.bytes += size + ENTRY_OVERHEAD;
        if let Some(id) = entry.lease {
            let lease = LeaseKey { namespace: key.0, id };
            let revision = self.revision;
            let row = self.leases.get_mut(&lease).expect("entries are bound to living leases");
            row.changed = row.changed.max(entry.modified).min(revision);
            row.more_mut().entries.insert(key.1.clone());
            self.add_weight(lease, 1);
        }
        self.entries.insert(key, entry);
    }

    /// Removes an entry, and ends the claim it stands for; none if it is gone.
    pub(crate) fn delete(
        &mut self,
        key: EntryKey,
        ended: Option<LeaseId>,
        events: &mut Vec<Event>,
    ) -> Option<EntryView> {
        let entry = self.entries.get(&key).cloned()?;
        self.remove_entry(&key, &entry, ended);
        let previous = Previous(Some(Box::new(entry.former())));
        let fact = Fact::EntryDeleted { key: key.1.clone(), ended, previous };
        self.tell(key.0, fact, events);
        self.unmark(&key, ended, events);
        Some(entry_view(&key.1, &entry))
    }

    /// Takes an entry from the tables; the ending lease `ended` needs no untying.
    fn remove_entry(&mut self, key: &EntryKey, entry: &Entry, ended: Option<LeaseId>) {
        self.entries.remove(key);
        let size = entry_size(&key.1, &entry.value);
        let usage = self.namespaces.usage_mut(key.0);
        usage.entries -= 1;
        usage.entry_bytes -= size;
        self.bytes -= size + ENTRY_OVERHEAD;
        self.emptied.insert(key.0);
        if let Some(id) = entry.lease.filter(|_| ended.is_none()) {
            let lease = LeaseKey { namespace: key.0, id };
            let revision = self.revision;
            let row = self.leases.get_mut(&lease).expect("entries are bound to living leases");
            row.changed = revision;
            row.more_mut().entries.remove(&key.1);
            self.add_weight(lease, -1);
        }
    }

    /// Removes the entries of an ending lease.
    pub(crate) fn end_entries(&mut self, key: LeaseKey, lease: &Lease, events: &mut Vec<Event>) {
        for entry in lease.more.iter().flat_map(|more| &more.entries) {
            self.delete((key.namespace, entry.clone()), Some(key.id), events);
        }
    }
}

pub(crate) fn entry_view(key: &Key, entry: &Entry) -> EntryView {
    EntryView {
        key: key.clone(),
        value: entry.value.clone(),
        version: entry.version,
        created: entry.created,
        modified: entry.modified,
        lease: entry.lease,
    }
}
