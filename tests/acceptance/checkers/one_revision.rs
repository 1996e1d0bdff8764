//! Promise 6: everything a lease carries goes in one revision, and nothing of it appears later.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Change, Event, History};

/// What leases carry, as far as the events tell.
#[derive(Default)]
struct Carried<'a> {
    /// Held claims, waiting places and bound entries, by lease.
    things: BTreeMap<&'a str, BTreeSet<String>>,
    /// The lease an entry is bound to.
    bound: BTreeMap<&'a str, &'a str>,
    ended: BTreeSet<&'a str>,
}

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut carried = Carried::default();
    history.changes.iter().flat_map(|change| carried.take(change)).collect()
}

impl<'a> Carried<'a> {
    /// Takes the events of one revision; what an ended lease still carries afterwards was left behind.
    fn take(&mut self, change: &'a Change) -> Vec<String> {
        let mut found = Vec::new();
        let mut ending = BTreeSet::new();
        for event in &change.events {
            if event.kind == "lease_ended" {
                ending.insert(event.lease.as_str());
            }
            let lease = event.lease.as_str();
            if self.ended.contains(lease) {
                found.push(format!("one revision: {} of {lease} at {} after its end", event.kind, change.revision));
            }
            self.note(event);
        }
        for lease in ending {
            for left in self.things.remove(lease).unwrap_or_default() {
                found.push(format!("one revision: {lease} ended at {} and left {left}", change.revision));
            }
            self.ended.insert(lease);
        }
        found
    }

    fn note(&mut self, event: &'a Event) {
        match event.kind.as_str() {
            "claim_granted" => {
                self.drop_thing(&event.lease, &format!("its place for {}", event.resource));
                self.add_thing(&event.lease, format!("its claim on {}", event.resource));
            }
            "claim_ended" => self.drop_thing(&event.lease, &format!("its claim on {}", event.resource)),
            "queued" => self.add_thing(&event.lease, format!("its place for {}", event.resource)),
            "unqueued" => self.drop_thing(&event.lease, &format!("its place for {}", event.resource)),
            "entry_put" => {
                self.unbind(&event.key);
                if !event.lease.is_empty() {
                    self.bound.insert(&event.key, &event.lease);
                    self.add_thing(&event.lease, format!("the entry {}", event.key));
                }
            }
            "entry_deleted" => self.unbind(&event.key),
            _ => {}
        }
    }

    fn unbind(&mut self, key: &str) {
        if let Some(lease) = self.bound.remove(key) {
            self.drop_thing(lease, &format!("the entry {key}"));
        }
    }

    fn add_thing(&mut self, lease: &'a str, thing: String) {
        self.things.entry(lease).or_default().insert(thing);
    }

    fn drop_thing(&mut self, lease: &str, thing: &str) {
        if let Some(things) = self.things.get_mut(lease) {
            things.remove(thing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::change;

    fn with(end: &[&str], later: &[&str]) -> Vec<String> {
        let begin = ["lease_granted lease=~1", "claim_granted lease=~1 resource=a", "entry_put lease=~1 key=k"];
        let changes = vec![change(1, &begin), change(2, end), change(3, later)];
        check(&History { changes, ..History::default() })
    }

    #[test]
    fn what_an_ended_lease_leaves_behind_is_found() {
        let whole = ["lease_ended lease=~1", "claim_ended lease=~1 resource=a", "entry_deleted key=k ended=~1"];
        assert_eq!(with(&whole, &[]), [""; 0]);
        assert_eq!(with(&whole[..2], &["entry_deleted key=k ended=~1"]).len(), 1);
        assert_eq!(with(&whole[..1], &[]).len(), 2);
    }

    #[test]
    fn a_sign_of_life_after_the_end_is_found() {
        let whole = ["claim_ended lease=~1 resource=a", "entry_deleted key=k ended=~1", "lease_ended lease=~1"];
        assert_eq!(with(&whole, &["claim_granted lease=~1 resource=b"]).len(), 1);
    }
}
