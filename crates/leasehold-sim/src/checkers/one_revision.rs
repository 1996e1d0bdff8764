//! Promise 6: everything a lease carries goes in one revision, nothing of it appears later, and what it frees goes to the
//! next waiter in that same revision.
//!
//! Judged on what is known without a gap from the first revision on.

use std::collections::{BTreeMap, BTreeSet};

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{Change, Event, History};

/// The stable name of this checker.
pub const NAME: &str = "one_revision";

/// What leases carry, as far as the events tell.
#[derive(Default)]
struct Carried<'a> {
    /// Held claims, waiting places, bound entries and child leases, by lease.
    things: BTreeMap<&'a str, BTreeSet<String>>,
    /// The lease an entry is bound to.
    bound: BTreeMap<&'a str, &'a str>,
    ended: BTreeSet<&'a str>,
    /// The parent of each child, by their names.
    parents: BTreeMap<&'a str, &'a str>,
    /// The digest of each lease, by its name.
    digests: BTreeMap<&'a str, &'a str>,
    resources: BTreeMap<&'a str, Resource<'a>>,
}

#[derive(Default)]
struct Resource<'a> {
    holders: usize,
    /// Who waits for it and nothing else, and since which revision.
    waiters: BTreeMap<&'a str, u64>,
    /// The revision that freed it without a rest, if nothing happened to it since.
    freed: Option<u64>,
}

/// Finds what ended leases left behind, and resources that were handed on late.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let parents = history.kinships.iter().map(|kinship| (kinship.child.as_str(), kinship.parent.as_str())).collect();
    let mut carried = Carried { parents, ..Carried::default() };
    for change in Timeline::of(history).whole() {
        carried.take(change, &mut found);
        carried.hand_on(change, &mut found);
    }
    found.all
}

impl<'a> Carried<'a> {
    /// Takes the events of one revision; what an ended lease still carries afterwards was left behind.
    fn take(&mut self, change: &'a Change, found: &mut Found) {
        let mut ending = BTreeSet::new();
        for event in &change.events {
            let lease = event.lease.as_str();
            if event.kind == "lease_ended" {
                ending.insert(lease);
            }
            if self.ended.contains(lease) {
                found.push(format!("{} of {lease} at {} after its end", event.kind, change.revision));
            }
            self.note(event);
        }
        for lease in ending {
            for left in self.things.remove(lease).unwrap_or_default() {
                found.push(format!("{lease} ended at {} and left {left}", change.revision));
            }
            self.ended.insert(lease);
        }
    }

    fn note(&mut self, event: &'a Event) {
        let lease = event.lease.as_str();
        match event.kind.as_str() {
            "lease_granted" => {
                self.digests.insert(&event.holder, lease);
                if let Some(parent) = self.parent_of(event) {
                    self.add_thing(parent, format!("its child {lease}"));
                }
            }
            "lease_ended" => {
                if let Some(parent) = self.parent_of(event) {
                    self.drop_thing(parent, &format!("its child {lease}"));
                }
            }
            "claim_granted" => {
                self.drop_thing(lease, &format!("its place for {}", event.resource));
                self.add_thing(lease, format!("its claim on {}", event.resource));
            }
            "claim_ended" => self.drop_thing(lease, &format!("its claim on {}", event.resource)),
            "queued" => self.add_thing(lease, format!("its place for {}", event.resource)),
            "unqueued" => self.drop_thing(lease, &format!("its place for {}", event.resource)),
            "entry_put" => {
                self.unbind(&event.key);
                if !lease.is_empty() {
                    self.bound.insert(&event.key, lease);
                    self.add_thing(lease, format!("the entry {}", event.key));
                }
            }
            "entry_deleted" => self.unbind(&event.key),
            _ => {}
        }
    }

    fn parent_of(&self, event: &Event) -> Option<&'a str> {
        self.parents.get(event.holder.as_str()).and_then(|parent| self.digests.get(parent)).copied()
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

    /// Follows who holds and wants each resource. A waiter that gets it later than it became free, with nothing else
    /// between, should have got it then.
    fn hand_on(&mut self, change: &'a Change, found: &mut Found) {
        let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
        for event in change.events.iter().filter(|event| event.kind == "queued") {
            *asked.entry(&event.lease).or_default() += 1;
        }
        let mut ended: BTreeMap<&str, bool> = BTreeMap::new();
        for event in change.events.iter().filter(|event| !event.resource.is_empty()) {
            let (lease, name, revision) = (event.lease.as_str(), event.resource.as_str(), change.revision);
            let resource = self.resources.entry(name).or_default();
            let freed = resource.freed.take();
            match event.kind.as_str() {
                "queued" if asked.get(lease) == Some(&1) => drop(resource.waiters.insert(lease, revision)),
                "unqueued" => drop(resource.waiters.remove(lease)),
                "claim_granted" => {
                    let waited = resource.waiters.remove(lease);
                    resource.holders += 1;
                    if let Some(free) = freed.filter(|free| waited.is_some_and(|since| since < *free)) {
                        found.push(format!(
                            "{name} was free from {free} on, and {lease}, which waited, got it at {revision}"
                        ));
                    }
                }
                "claim_ended" => {
                    resource.holders = resource.holders.saturating_sub(1);
                    *ended.entry(name).or_default() |= event.may_rest();
                }
                _ => {}
            }
        }
        for (name, _) in ended.into_iter().filter(|(_, rests)| !rests) {
            let resource = self.resources.entry(name).or_default();
            resource.freed = (resource.holders == 0).then_some(change.revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, change, sentences, told};
    use crate::history::Kinship;

    fn with(end: &[&str], later: &[&str]) -> Vec<Contradiction> {
        let begin = ["lease_granted lease=~1", "claim_granted lease=~1 resource=a", "entry_put lease=~1 key=k"];
        let watched = told(vec![change(1, &begin), change(2, end), change(3, later)]);
        check(&History { watched, ..History::default() })
    }

    #[test]
    fn what_an_ended_lease_leaves_behind_is_found() {
        let whole = ["lease_ended lease=~1", "claim_ended lease=~1 resource=a", "entry_deleted key=k ended=~1"];
        assert_eq!(sentences(&with(&whole, &[])), NOTHING);
        assert_eq!(with(&whole[..2], &["entry_deleted key=k ended=~1"]).len(), 1);
        assert_eq!(with(&whole[..1], &[]).len(), 2);
    }

    #[test]
    fn a_sign_of_life_after_the_end_is_found() {
        let whole = ["claim_ended lease=~1 resource=a", "entry_deleted key=k ended=~1", "lease_ended lease=~1"];
        assert_eq!(with(&whole, &["claim_granted lease=~1 resource=b"]).len(), 1);
    }

    #[test]
    fn a_child_that_outlives_its_parent_is_found() {
        let with = |ends: &[&str]| {
            let born = ["lease_granted lease=~1 holder=eve", "lease_granted lease=~2 holder=child"];
            let changes = vec![change(1, &born[..1]), change(2, &born[1..]), change(3, ends)];
            let kinships = vec![Kinship { child: "child".into(), parent: "eve".into() }];
            check(&History { watched: told(changes), kinships, ..History::default() })
        };
        assert_eq!(
            sentences(&with(&["lease_ended lease=~1 holder=eve", "lease_ended lease=~2 holder=child"])),
            NOTHING
        );
        assert_eq!(sentences(&with(&["lease_ended lease=~2 holder=child"])), NOTHING, "it may go before");
        assert_eq!(with(&["lease_ended lease=~1 holder=eve"]).len(), 1);
    }

    fn handed_on(end: &str, between: &str) -> Vec<Contradiction> {
        let watched = told(vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["queued lease=~2 resource=a position=1"]),
            change(3, &[end]),
            change(4, &[between]),
            change(5, &["claim_granted lease=~2 resource=a"]),
        ]);
        check(&History { watched, ..History::default() })
    }

    #[test]
    fn a_successor_that_waits_for_what_is_free_is_found() {
        assert_eq!(handed_on("claim_ended lease=~1 resource=a", "entry_put key=k").len(), 1);
        let rests = handed_on("claim_ended lease=~1 resource=a rests=500", "entry_put key=k");
        assert_eq!(sentences(&rests), NOTHING, "it rested");
        let other = handed_on("claim_ended lease=~1 resource=a", "claim_granted lease=~3 resource=a");
        assert_eq!(sentences(&other), NOTHING, "that is for the order of the queue to judge");
    }
}
