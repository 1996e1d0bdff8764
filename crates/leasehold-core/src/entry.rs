//! Entries: keys with values and versions, bound to a lease or not, written all in one revision.

use std::collections::{BTreeMap, BTreeSet};
use std::ops;
use std::sync::Arc;

use crate::lease::Lease;
use crate::{
    Answer, Binding, Bound, Caller, Compare, EntryView, Event, Fact, Key, KeyRange, LeaseId, LeaseKey, Namespace,
    NamespaceId, Operand, Outcome, Rejection, Relation, Revision, State, Write, WriteOp, WriteResult, Written,
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
        *key >= self.start() && self.reaches(key)
    }
}

/// Roughly how many bytes an entry takes.
pub(crate) fn entry_size(key: &Key, value: &[u8]) -> u64 {
    (key.as_bytes().len() + value.len()) as u64
}

/// What the puts of one write need.
#[derive(Default)]
struct Room {
    /// How many keys are new.
    keys: usize,
    /// How many bytes the new values have, with their keys.
    bytes: u64,
    /// How many bytes the values they replace have, with their keys.
    freed: u64,
    /// How many entries become bound to each lease.
    bound: BTreeMap<LeaseKey, usize>,
}

impl Room {
    fn add(&mut self, key: &Key, value: Option<&[u8]>, old: Option<&Entry>, lease: Option<LeaseKey>) {
        self.keys += usize::from(old.is_none());
        if let Some(value) = value {
            self.bytes += entry_size(key, value);
            self.freed += old.map_or(0, |old| entry_size(key, &old.value));
        }
        if let Some(lease) = lease.filter(|lease| old.and_then(|old| old.lease) != Some(lease.id)) {
            *self.bound.entry(lease).or_default() += 1;
        }
    }
}

/// Roughly how many bytes the tables need for an entry beyond its key and value.
const ENTRY_OVERHEAD: u64 = 160;

impl State {
    /// Compares entries, then does one list of steps or the other, in one revision.
    pub(crate) fn write(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        write: Write,
        events: &mut Vec<Event>,
    ) -> Answer {
        match write.session {
            None => self.write_once(caller, namespace, write, events),
            Some((session, once)) => {
                let key = self.own_lease(caller, namespace, session, events)?;
                self.once(key, Some(once), |state| state.write_once(caller, namespace, write, events))
            }
        }
    }

    fn write_once(&mut self, caller: &Caller, namespace: &Namespace, write: Write, events: &mut Vec<Event>) -> Answer {
        let ops_max = self.limits.write_ops as usize;
        if [write.compares.len(), write.then.len(), write.otherwise.len()].iter().any(|n| *n > ops_max) {
            return Err(Rejection::limit(Bound::WriteOps, self.limits.write_ops));
        }
        self.check_ranges(namespace, &write)?;
        self.settle_entries(namespace, &write, events);
        let succeeded = write.compares.iter().all(|compare| self.holds(namespace, compare));
        let ops = if succeeded { write.then } else { write.otherwise };
        self.check_puts(caller, namespace, &ops, events)?;
        if self.changes_something(namespace, &ops) {
            self.step();
        }
        let results = ops.into_iter().map(|op| self.write_op(namespace, op, events)).collect();
        Ok(Outcome::Written(Box::new(Written { succeeded, revision: self.revision, results })))
    }

    /// Refuses a write whose ranges cover too many entries, whichever way it would go.
    fn check_ranges(&self, namespace: &Namespace, write: &Write) -> Result<(), Box<Rejection>> {
        let Some(number) = self.namespaces.number(namespace) else { return Ok(()) };
        let max = self.limits.range_entries as usize;
        let covered = ranges(write).flat_map(|range| self.in_range(number, range)).take(max + 1).count();
        if covered > max {
            return Err(Rejection::limit(Bound::RangeEntries, self.limits.range_entries));
        }
        Ok(())
    }

    /// Ends the leases whose time is over and whose entries the write touches.
    fn settle_entries(&mut self, namespace: &Namespace, write: &Write, events: &mut Vec<Event>) {
        let Some(number) = self.namespaces.number(namespace).filter(|_| self.has_backlog()) else { return };
        let put = write.then.iter().chain(&write.otherwise).filter_map(|op| match op {
            WriteOp::Put { key, .. } => self.entries.get(&(number, key.clone())),
            WriteOp::Delete { .. } | WriteOp::Read { .. } => None,
        });
        let covered = ranges(write).flat_map(|range| self.in_range(number, range)).map(|(_, entry)| entry);
        let bound: BTreeSet<LeaseKey> =
            put.chain(covered).filter_map(|entry| entry.lease.map(|id| LeaseKey { namespace: number, id })).collect();
        for lease in bound {
            self.settle_lease(lease, events);
        }
    }

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

    fn holds(&self, namespace: &Namespace, compare: &Compare) -> bool {
        let Some(number) = self.namespaces.number(namespace) else { return holds_for(compare, None) };
        let mut entries = self.in_range(number, &compare.range).peekable();
        if entries.peek().is_none() {
            return holds_for(compare, None);
        }
        entries.all(|(_, entry)| holds_for(compare, Some(entry)))
    }

    fn check_puts(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        ops: &[WriteOp],
        events: &mut Vec<Event>,
    ) -> Result<(), Box<Rejection>> {
        let (mut keys, mut room) = (BTreeSet::new(), Room::default());
        for op in ops {
            let WriteOp::Put { key, value, binding } = op else { continue };
            let deleted = ops.iter().any(|op| matches!(op, WriteOp::Delete { range } if range.contains(key)));
            if deleted || !keys.insert(key) {
                return Err(Box::new(Rejection::KeyWrittenTwice { key: key.clone() }));
            }
            if value.as_ref().is_some_and(|value| value.len() > self.limits.value_bytes as usize) {
                return Err(Rejection::limit(Bound::ValueBytes, self.limits.value_bytes));
            }
            let lease = match binding {
                Binding::To(id) => Some(self.own_lease(caller, namespace, *id, events)?),
                Binding::None | Binding::Keep => None,
            };
            let number = self.namespaces.number(namespace);
            let old = number.and_then(|number| self.entries.get(&(number, key.clone())));
            if (value.is_none() || *binding == Binding::Keep) && old.is_none() {
                return Err(Box::new(Rejection::UnknownEntry { key: key.clone() }));
            }
            room.add(key, value.as_deref(), old, lease);
        }
        if keys.is_empty() { Ok(()) } else { self.check_room(namespace, room) }
    }

    /// Refuses puts for which there is no room; what they replace makes room.
    fn check_room(&self, namespace: &Namespace, room: Room) -> Result<(), Box<Rejection>> {
        let mut trees = BTreeMap::<LeaseKey, usize>::new();
        for (lease, more) in room.bound {
            let entries = self.leases.get(&lease).map_or(0, Lease::entries);
            if entries + more > self.limits.entries_per_lease as usize {
                return Err(Rejection::limit(Bound::EntriesOfLease, self.limits.entries_per_lease));
            }
            *trees.entry(self.ancestors(lease).last().unwrap_or(lease)).or_default() += more;
        }
        for (root, more) in trees {
            self.check_weight(root, more)?;
        }
        self.namespaces.check_room(namespace, &self.limits)?;
        self.check_bytes(room.bytes.saturating_sub(room.freed) + room.keys as u64 * ENTRY_OVERHEAD)?;
        let usage = self.namespaces.number(namespace).map(|number| self.namespaces.usage(number));
        let (entries, bytes) = usage.map_or((0, 0), |usage| (usage.entries as usize, usage.entry_bytes));
        if room.keys > 0 && entries + room.keys > self.limits.entries as usize {
            return Err(Rejection::limit(Bound::Entries, self.limits.entries));
        }
        if room.bytes > room.freed && bytes + room.bytes - room.freed > self.limits.entry_bytes {
            return Err(Rejection::limit(Bound::EntryBytes, self.limits.entry_bytes));
        }
        Ok(())
    }

    fn changes_something(&self, namespace: &Namespace, ops: &[WriteOp]) -> bool {
        let number = self.namespaces.number(namespace);
        ops.iter().any(|op| match op {
            WriteOp::Put { .. } => true,
            WriteOp::Read { .. } => false,
            WriteOp::Delete { range } => number.is_some_and(|n| self.in_range(n, range).next().is_some()),
        })
    }

    fn write_op(&mut self, namespace: &Namespace, op: WriteOp, events: &mut Vec<Event>) -> WriteResult {
        match op {
            WriteOp::Put { key, value, binding } => {
                let number = self.namespaces.number_or_new(namespace);
                WriteResult::Put { previous: self.put((number, key), value, binding, events) }
            }
            WriteOp::Delete { range } => {
                let Some(number) = self.namespaces.number(namespace) else {
                    return WriteResult::Deleted { previous: Vec::new() };
                };
                let keys: Vec<Key> = self.in_range(number, &range).map(|(key, _)| key.clone()).collect();
                let previous = keys.into_iter().map(|key| self.delete((number, key), None, events)).collect();
                WriteResult::Deleted { previous }
            }
            WriteOp::Read { range, limit } => {
                let (entries, count) = self.entries(namespace, &range, limit as usize);
                WriteResult::Read { entries, count }
            }
        }
    }

    fn put(
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

    fn delete(&mut self, key: EntryKey, ended: Option<LeaseId>, events: &mut Vec<Event>) -> EntryView {
        let entry = self.entries.get(&key).cloned().expect("only existing entries are deleted");
        self.remove_entry(&key, &entry, ended);
        let fact = Fact::EntryDeleted { key: key.1.clone(), ended };
        self.tell(key.0, fact, events);
        entry_view(&key.1, &entry)
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

/// The ranges that a write reads, compares or deletes.
fn ranges(write: &Write) -> impl Iterator<Item = &KeyRange> {
    let steps = write.then.iter().chain(&write.otherwise).filter_map(|op| match op {
        WriteOp::Put { .. } => None,
        WriteOp::Delete { range } | WriteOp::Read { range, .. } => Some(range),
    });
    write.compares.iter().map(|compare| &compare.range).chain(steps)
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

fn holds_for(compare: &Compare, entry: Option<&Entry>) -> bool {
    let order = match &compare.operand {
        Operand::Version(n) => entry.map_or(0, |entry| entry.version).cmp(n),
        Operand::Created(revision) => entry.map_or(Revision(0), |entry| entry.created).cmp(revision),
        Operand::Modified(revision) => entry.map_or(Revision(0), |entry| entry.modified).cmp(revision),
        Operand::Lease(lease) => entry.and_then(|entry| entry.lease).map_or(0, LeaseId::number).cmp(lease),
        Operand::Value(value) => match entry {
            Some(entry) => entry.value.as_ref().cmp(value.as_ref()),
            None => return false,
        },
    };
    match compare.relation {
        Relation::Equal => order.is_eq(),
        Relation::NotEqual => order.is_ne(),
        Relation::Less => order.is_lt(),
        Relation::Greater => order.is_gt(),
    }
}
