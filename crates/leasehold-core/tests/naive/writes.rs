//! Entries in the naive model.

use std::collections::BTreeMap;

use leasehold_core::{Binding, Caller, Compare, KeyRange, Operand, Relation, Write, WriteOp};

use super::{Entry, Model, Ns};

impl Model {
    pub(crate) fn write(&mut self, caller: &Caller, ns: Ns, write: &Write) -> Result<String, String> {
        let succeeded = write.compares.iter().all(|compare| self.holds(&ns, compare));
        let ops = if succeeded { &write.then } else { &write.otherwise };
        self.check_ops(caller, &ns, ops)?;
        let mut text = if succeeded { "then" } else { "else" }.to_owned();
        for op in ops {
            text += &self.write_op(&ns, op);
        }
        Ok(text)
    }

    fn keys(&self, ns: &Ns, range: &KeyRange) -> Vec<Vec<u8>> {
        let inside = |key: &[u8]| match range {
            KeyRange::One(one) => key == one.as_bytes(),
            KeyRange::Prefix(prefix) => key.starts_with(prefix),
            KeyRange::Between(from, to) => key >= from.as_bytes() && key < to.as_bytes(),
            KeyRange::From(from) => key >= from.as_bytes(),
        };
        self.entries.keys().filter(|(n, key)| n == ns && inside(key)).map(|(_, key)| key.clone()).collect()
    }

    fn holds(&self, ns: &Ns, compare: &Compare) -> bool {
        let entries: Vec<&Entry> =
            self.keys(ns, &compare.range).into_iter().map(|key| &self.entries[&(ns.clone(), key)]).collect();
        let equal = |entry: Option<&Entry>| match &compare.operand {
            Operand::Version(version) => entry.map_or(0, |entry| entry.version) == *version,
            Operand::Modified(revision) => match entry {
                None => revision.0 == 0,
                Some(entry) => entry.modified == Some(*revision),
            },
            Operand::Lease(lease) => entry.and_then(|entry| entry.lease).unwrap_or(0) == *lease,
            Operand::Value(value) => entry.is_some_and(|entry| entry.value == **value),
            Operand::Created(_) => unreachable!("the model does not know it"),
        };
        let one = |entry: Option<&Entry>| match compare.relation {
            Relation::Equal => equal(entry),
            Relation::NotEqual => !equal(entry) && (entry.is_some() || !matches!(compare.operand, Operand::Value(_))),
            Relation::Less | Relation::Greater => unreachable!("the model does not know it"),
        };
        if entries.is_empty() { one(None) } else { entries.into_iter().all(|entry| one(Some(entry))) }
    }

    fn check_ops(&self, caller: &Caller, ns: &Ns, ops: &[WriteOp]) -> Result<(), String> {
        let deleted: Vec<Vec<u8>> = ops
            .iter()
            .flat_map(|op| match op {
                WriteOp::Delete { range: KeyRange::One(key) } => vec![key.as_bytes().to_vec()],
                WriteOp::Delete { .. } => all_keys(),
                WriteOp::Put { .. } | WriteOp::Read { .. } => Vec::new(),
                WriteOp::Nested(_) => unreachable!("the model does not know it"),
            })
            .collect();
        let (mut put, mut new, mut bound) = (Vec::new(), 0, BTreeMap::<u64, usize>::new());
        for op in ops {
            let WriteOp::Put { key, value, binding } = op else { continue };
            let key = key.as_bytes().to_vec();
            if deleted.contains(&key) || put.contains(&key) {
                return Err("KeyWrittenTwice".to_owned());
            }
            put.push(key.clone());
            let old = self.entries.get(&(ns.clone(), key));
            if let Binding::To(lease) = binding {
                self.own(caller, &(ns.clone(), lease.number()))?;
                let already = old.and_then(|old| old.lease) == Some(lease.number());
                *bound.entry(lease.number()).or_default() += usize::from(!already);
            }
            if (value.is_none() || *binding == Binding::Keep) && old.is_none() {
                return Err("UnknownEntry".to_owned());
            }
            new += usize::from(old.is_none());
        }
        let mut trees = BTreeMap::new();
        for (lease, more) in bound.into_iter().filter(|(_, more)| *more > 0) {
            let who = (ns.clone(), lease);
            self.check_limit(self.bound_entries(&who) + more, self.limits.entries_per_lease, "EntriesOfLease")?;
            *trees.entry(self.lineage(&who).pop().unwrap()).or_default() += more;
        }
        for (root, more) in trees {
            self.check_tree(&root, more)?;
        }
        let here = self.entries.keys().filter(|(n, _)| n == ns).count();
        if new > 0 { self.check_limit(here + new, self.limits.entries, "Entries") } else { Ok(()) }
    }

    fn write_op(&mut self, ns: &Ns, op: &WriteOp) -> String {
        match op {
            WriteOp::Put { key, value, binding } => {
                let old = self.entries.get(&(ns.clone(), key.as_bytes().to_vec())).cloned();
                let entry = Entry {
                    value: value.as_ref().map_or_else(|| old.as_ref().unwrap().value.clone(), |value| value.to_vec()),
                    version: old.as_ref().map_or(0, |old| old.version) + 1,
                    lease: match binding {
                        Binding::None => None,
                        Binding::To(lease) => Some(lease.number()),
                        Binding::Keep => old.as_ref().unwrap().lease,
                    },
                    modified: None,
                };
                let text = format!(" put over {:?}", old.map(|old| old.version));
                self.entries.insert((ns.clone(), key.as_bytes().to_vec()), entry);
                text
            }
            WriteOp::Delete { range } => {
                let keys = self.keys(ns, range);
                for key in &keys {
                    self.entries.remove(&(ns.clone(), key.clone()));
                }
                format!(" deleted {}", keys.len())
            }
            WriteOp::Read { range, .. } => format!(" read {}", self.keys(ns, range).len()),
            WriteOp::Nested(_) => unreachable!("the model does not know it"),
        }
    }
}

/// Every key that the random commands use.
pub(crate) fn all_keys() -> Vec<Vec<u8>> {
    ["k1", "k2", "k3"].map(|key| key.as_bytes().to_vec()).to_vec()
}
