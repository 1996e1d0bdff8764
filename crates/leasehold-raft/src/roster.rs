//! Who belongs to the cluster, as far as this node has applied the log: for handshakes, links and people.
//!
//! Only what is committed gets here, so what the roster says holds for good: a node that was in it and is no more was
//! removed, and its id is never given again. Who is removed is also kept in `DIR/peers` (`peer/seen.rs`), because a log
//! forgets. What is being changed right now is the leader's to know (`change.rs`).

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::types::{Member, StoredMembership};

/// The members applied last, and those that were removed.
#[derive(Debug)]
pub(crate) struct Roster {
    node: u64,
    members: RwLock<BTreeMap<u64, Member>>,
    gone: watch::Sender<BTreeSet<u64>>,
    /// Why this node is no member any more.
    removed: watch::Sender<Option<String>>,
}

impl Roster {
    /// Begins without members; `gone` are the nodes that are known to be removed.
    pub(crate) fn new(node: u64, gone: BTreeSet<u64>) -> Roster {
        Roster { node, members: RwLock::default(), gone: watch::Sender::new(gone), removed: watch::Sender::new(None) }
    }

    /// Takes over a membership that was applied.
    pub(crate) fn applied(&self, membership: &StoredMembership) {
        let now: BTreeMap<u64, Member> =
            membership.membership().nodes().map(|(node, member)| (*node, member.clone())).collect();
        let gone: Vec<u64> = {
            let mut members = self.members.write();
            let before = std::mem::replace(&mut *members, now);
            before.into_keys().filter(|node| !members.contains_key(node)).collect()
        };
        if gone.contains(&self.node) {
            self.note_removed("the log says so");
        }
        if !gone.is_empty() {
            self.gone.send_modify(|all| all.extend(gone));
        }
    }

    pub(crate) fn incarnations(&self) -> BTreeMap<u64, u64> {
        self.members.read().iter().map(|(node, member)| (*node, member.incarnation)).collect()
    }

    pub(crate) fn address(&self, node: u64) -> Option<String> {
        self.members.read().get(&node).map(|member| member.address.clone())
    }

    /// Returns the name of a node, or its id as the API shows it where it has none.
    pub(crate) fn name(&self, node: u64) -> String {
        let named = self.members.read().get(&node).map(|member| member.name.clone());
        named.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("{node:016x}"))
    }

    /// Compares the data directory behind a node with the one its membership names.
    pub(crate) fn check(&self, node: u64, incarnation: u64) -> Result<(), String> {
        match self.members.read().get(&node) {
            Some(member) if member.incarnation != 0 && member.incarnation != incarnation => Err(format!(
                "{} is a member with other data; a node without its data must join anew: \
                 remove it first (lease cluster remove {}), or start it under another name",
                member.name, member.name
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The nodes that were removed, and every change of that.
    pub(crate) fn gone(&self) -> watch::Receiver<BTreeSet<u64>> {
        self.gone.subscribe()
    }

    pub(crate) fn is_gone(&self, node: u64) -> bool {
        self.gone.borrow().contains(&node)
    }

    /// Notes that this node was removed from its cluster.
    pub(crate) fn note_removed(&self, how: &str) {
        self.removed.send_if_modified(|known| {
            let new = known.is_none();
            known.get_or_insert_with(|| format!("this node was removed from the cluster: {how}"));
            new
        });
    }

    /// Why this node is no member any more, once it is so.
    pub(crate) fn removed(&self) -> watch::Receiver<Option<String>> {
        self.removed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(nodes: &[u64]) -> StoredMembership {
        let member = |node: u64| Member { name: format!("n{node}"), address: String::new(), incarnation: node };
        let nodes: BTreeMap<u64, Member> = nodes.iter().map(|node| (*node, member(*node))).collect();
        let voters = nodes.keys().copied().collect();
        StoredMembership::new(None, openraft::Membership::new(vec![voters], nodes).unwrap())
    }

    #[test]
    fn a_node_that_was_a_member_and_is_no_more_was_removed() {
        let roster = Roster::new(1, BTreeSet::from([9]));
        roster.applied(&membership(&[2, 3]));
        assert!(!roster.is_gone(2) && roster.is_gone(9));
        roster.applied(&membership(&[1, 3]));
        assert!(roster.is_gone(2) && !roster.is_gone(1));
        assert_eq!(*roster.removed().borrow(), None);
        roster.applied(&membership(&[3]));
        assert!(roster.removed().borrow().is_some());
    }

    #[test]
    fn a_member_is_known_by_its_data() {
        let roster = Roster::new(1, BTreeSet::new());
        roster.check(2, 77).unwrap();
        roster.applied(&membership(&[1, 2]));
        roster.check(2, 2).unwrap();
        let refusal = roster.check(2, 77).unwrap_err();
        assert!(refusal.contains("lease cluster remove n2"), "{refusal}");
    }
}
