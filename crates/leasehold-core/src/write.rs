//! Writes: compares, then one list of steps or the other, all in one revision.
//!
//! A step may be a write again. All compares are decided before the first step, on the state as it was, so what a
//! write does never depends on what it has done. Everything that can be refused is refused before anything changes.
//! How entries are kept is left to `entry.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::{ENTRY_OVERHEAD, Entry, entry_size};
use crate::lease::Lease;
use crate::{
    Answer, Binding, Bound, Caller, Compare, Event, Key, KeyRange, LeaseId, LeaseKey, Namespace, Operand, Outcome,
    Rejection, Relation, Revision, State, WRITE_DEPTH_MAX, Write, WriteOp, WriteResult, Written,
};

/// A write whose compares are decided.
struct Chosen {
    succeeded: bool,
    steps: Vec<Step>,
}

enum Step {
    Op(WriteOp),
    Nested(Chosen),
}

impl Chosen {
    /// All that is to be done, in order.
    fn ops<'a>(&'a self, ops: &mut Vec<&'a WriteOp>) {
        for step in &self.steps {
            match step {
                Step::Op(op) => ops.push(op),
                Step::Nested(chosen) => chosen.ops(ops),
            }
        }
    }
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
        self.check_shape_of(&write)?;
        self.check_ranges(namespace, &write)?;
        self.settle_entries(namespace, &write, events);
        let chosen = self.choose(namespace, write);
        let mut ops = Vec::new();
        chosen.ops(&mut ops);
        self.check_puts(caller, namespace, &ops, events)?;
        if self.changes_something(namespace, &ops) {
            self.step();
        }
        let written = self.carry_out(namespace, chosen, events);
        // A claim whose marker was deleted is over, and the next in line has it in this revision.
        let freed = std::mem::take(&mut self.freed);
        self.hand_on_freed(freed, events);
        Ok(Outcome::Written(Box::new(written)))
    }

    /// What a write that only reads would answer; none if it may change something.
    pub fn peek(&self, namespace: &Namespace, write: &Write) -> Option<Result<Written, Box<Rejection>>> {
        if !only_reads(write) {
            return None;
        }
        let checked = self.check_shape_of(write).and_then(|()| self.check_ranges(namespace, write));
        Some(checked.map(|()| self.peek_chosen(namespace, self.choose(namespace, write.clone()))))
    }

    fn peek_chosen(&self, namespace: &Namespace, chosen: Chosen) -> Written {
        let Chosen { succeeded, steps } = chosen;
        let read = |step| match step {
            Step::Op(WriteOp::Read { range, limit }) => {
                let (entries, count) = self.entries(namespace, &range, limit as usize);
                WriteResult::Read { entries, count }
            }
            Step::Nested(chosen) => WriteResult::Nested(Box::new(self.peek_chosen(namespace, chosen))),
            Step::Op(WriteOp::Put { .. } | WriteOp::Delete { .. } | WriteOp::Nested(_)) => {
                unreachable!("it only reads, and nested writes are chosen")
            }
        };
        Written { succeeded, revision: self.revision, results: steps.into_iter().map(read).collect() }
    }

    /// Refuses a write nested too deep, or with too many steps.
    fn check_shape_of(&self, write: &Write) -> Result<(), Box<Rejection>> {
        write.check_depth()?;
        self.check_ops(write)
    }

    fn check_ops(&self, write: &Write) -> Result<(), Box<Rejection>> {
        let ops_max = self.limits.write_ops as usize;
        if [write.compares.len(), write.then.len(), write.otherwise.len()].iter().any(|n| *n > ops_max) {
            return Err(Rejection::limit(Bound::WriteOps, self.limits.write_ops));
        }
        write.nested().try_for_each(|write| self.check_ops(write))
    }

    /// Refuses a write whose ranges cover too many entries, whichever way it would go.
    fn check_ranges(&self, namespace: &Namespace, write: &Write) -> Result<(), Box<Rejection>> {
        let Some(number) = self.namespaces.number(namespace) else { return Ok(()) };
        let max = self.limits.range_entries as usize;
        let mut ranges = Vec::new();
        all_ranges(write, &mut ranges);
        let covered = ranges.into_iter().flat_map(|range| self.in_range(number, range)).take(max + 1).count();
        if covered > max {
            return Err(Rejection::limit(Bound::RangeEntries, self.limits.range_entries));
        }
        Ok(())
    }

    /// Ends the leases whose time is over and whose entries the write touches.
    fn settle_entries(&mut self, namespace: &Namespace, write: &Write, events: &mut Vec<Event>) {
        let Some(number) = self.namespaces.number(namespace).filter(|_| self.has_backlog()) else { return };
        let (mut keys, mut ranges) = (Vec::new(), Vec::new());
        put_keys(write, &mut keys);
        all_ranges(write, &mut ranges);
        let put = keys.into_iter().filter_map(|key| self.entries.get(&(number, key.clone())));
        let covered = ranges.into_iter().flat_map(|range| self.in_range(number, range)).map(|(_, entry)| entry);
        let bound: BTreeSet<LeaseKey> =
            put.chain(covered).filter_map(|entry| entry.lease.map(|id| LeaseKey { namespace: number, id })).collect();
        for lease in bound {
            self.settle_lease(lease, events);
        }
    }

    /// Decides all compares of a write, those of nested ones too.
    fn choose(&self, namespace: &Namespace, write: Write) -> Chosen {
        let succeeded = write.compares.iter().all(|compare| self.holds(namespace, compare));
        let steps = if succeeded { write.then } else { write.otherwise };
        let step = |op| match op {
            WriteOp::Nested(write) => Step::Nested(self.choose(namespace, *write)),
            op @ (WriteOp::Put { .. } | WriteOp::Delete { .. } | WriteOp::Read { .. }) => Step::Op(op),
        };
        Chosen { succeeded, steps: steps.into_iter().map(step).collect() }
    }

    fn holds(&self, namespace: &Namespace, compare: &Compare) -> bool {
        let Some(number) = self.namespaces.number(namespace) else { return holds_for(compare, None) };
        let mut entries = self.in_range(number, &compare.range).peekable();
        if entries.peek().is_none() {
            return holds_for(compare, None);
        }
        entries.all(|(_, entry)| holds_for(compare, Some(entry)))
    }

    pub(crate) fn check_puts(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        ops: &[&WriteOp],
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

    fn changes_something(&self, namespace: &Namespace, ops: &[&WriteOp]) -> bool {
        let number = self.namespaces.number(namespace);
        ops.iter().any(|op| match op {
            WriteOp::Put { .. } => true,
            WriteOp::Read { .. } | WriteOp::Nested(_) => false,
            WriteOp::Delete { range } => number.is_some_and(|n| self.in_range(n, range).next().is_some()),
        })
    }

    fn carry_out(&mut self, namespace: &Namespace, chosen: Chosen, events: &mut Vec<Event>) -> Written {
        let Chosen { succeeded, steps } = chosen;
        let mut results = Vec::with_capacity(steps.len());
        for step in steps {
            results.push(match step {
                Step::Op(op) => self.write_op(namespace, op, events),
                Step::Nested(chosen) => WriteResult::Nested(Box::new(self.carry_out(namespace, chosen, events))),
            });
        }
        Written { succeeded, revision: self.revision, results }
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
                let previous = keys.into_iter().filter_map(|key| self.delete((number, key), None, events)).collect();
                WriteResult::Deleted { previous }
            }
            WriteOp::Read { range, limit } => {
                let (entries, count) = self.entries(namespace, &range, limit as usize);
                WriteResult::Read { entries, count }
            }
            WriteOp::Nested(_) => unreachable!("nested writes are chosen before anything is done"),
        }
    }
}

impl Write {
    /// Refuses what is nested deeper than a log may hold. It is asked before anything is logged, and again when the
    /// write is applied.
    pub fn check_depth(&self) -> Result<(), Box<Rejection>> {
        match self.is_deeper_than(WRITE_DEPTH_MAX) {
            true => Err(Rejection::limit(Bound::WriteDepth, WRITE_DEPTH_MAX as u64)),
            false => Ok(()),
        }
    }

    fn is_deeper_than(&self, levels: usize) -> bool {
        levels == 0 || self.nested().any(|write| write.is_deeper_than(levels - 1))
    }

    fn nested(&self) -> impl Iterator<Item = &Write> {
        steps(self).filter_map(|op| match op {
            WriteOp::Nested(write) => Some(&**write),
            WriteOp::Put { .. } | WriteOp::Delete { .. } | WriteOp::Read { .. } => None,
        })
    }
}

/// The steps of a write, whichever way it goes.
fn steps(write: &Write) -> impl Iterator<Item = &WriteOp> {
    write.then.iter().chain(&write.otherwise)
}

fn only_reads(write: &Write) -> bool {
    steps(write).all(|op| match op {
        WriteOp::Put { .. } | WriteOp::Delete { .. } => false,
        WriteOp::Read { .. } => true,
        WriteOp::Nested(write) => only_reads(write),
    })
}

/// The keys that a write may put.
fn put_keys<'a>(write: &'a Write, keys: &mut Vec<&'a Key>) {
    for op in steps(write) {
        match op {
            WriteOp::Put { key, .. } => keys.push(key),
            WriteOp::Nested(write) => put_keys(write, keys),
            WriteOp::Delete { .. } | WriteOp::Read { .. } => {}
        }
    }
}

/// The ranges that a write may read, compare or delete.
fn all_ranges<'a>(write: &'a Write, ranges: &mut Vec<&'a KeyRange>) {
    ranges.extend(write.compares.iter().map(|compare| &compare.range));
    for op in steps(write) {
        match op {
            WriteOp::Put { .. } => {}
            WriteOp::Delete { range } | WriteOp::Read { range, .. } => ranges.push(range),
            WriteOp::Nested(write) => all_ranges(write, ranges),
        }
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
