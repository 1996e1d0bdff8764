//! The cluster as operators see it: who belongs to it, how each member is doing, and how to change that.
//!
//! The log knows; this is what it must be able to tell and to do. Every node answers for itself and passes changes on to
//! the leader. Who may ask is decided in `access.rs`, as everywhere.

use std::fmt;

use futures_util::future::BoxFuture;
use leasehold_core::{Caller, Namespace};

use crate::access::Action;
use crate::{Failure, Service};

/// What is no part of any namespace is refused and audited under this name.
const SYSTEM: &str = "system";

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id; never given twice.
    pub node: u64,
    /// Its name, as the operator chose it.
    pub name: String,
    /// Where other nodes reach it; empty for a node that meets no others.
    pub address: String,
    /// Whether it votes; one that does not only follows.
    pub voter: bool,
    /// The last log entry it is known to have; known to the leader only, and to every node of itself.
    pub matched: Option<u64>,
    /// Milliseconds since the leader last heard from it; known to the leader only.
    pub heard_ms: Option<u64>,
}

/// The cluster as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The cluster's id.
    pub cluster: u128,
    /// The node that answers.
    pub node: u64,
    /// The node that leads, where it is known.
    pub leader: Option<u64>,
    /// The term of that leader.
    pub term: u64,
    /// The last log entry applied by the node that answers.
    pub applied: Option<u64>,
    /// The last log entry it has.
    pub last_log: Option<u64>,
    /// The last log entry covered by its newest snapshot.
    pub snapshot: Option<u64>,
    /// Bytes of its log on disk.
    pub log_bytes: u64,
    /// All members, by node id.
    pub members: Vec<Member>,
}

impl ClusterStatus {
    /// The member with this name, or else with this id: in 16 hex digits, or as the number it is.
    pub fn member(&self, name_or_id: &str) -> Option<&Member> {
        let is_id = |member: &&Member| {
            format!("{:016x}", member.node).eq_ignore_ascii_case(name_or_id) || member.node.to_string() == name_or_id
        };
        let named = self.members.iter().find(|member| member.name == name_or_id && !name_or_id.is_empty());
        named.or_else(|| self.members.iter().find(is_id))
    }

    /// The name of a node; its id if it is no member.
    pub fn name_of(&self, node: u64) -> String {
        let member = self.members.iter().find(|member| member.node == node && !member.name.is_empty());
        member.map_or_else(|| format!("{node:016x}"), |member| member.name.clone())
    }
}

/// A change of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// Admits a node under this name at this peer address; it becomes a voter when it is there and has caught up.
    Add {
        /// Its name.
        name: String,
        /// Where other nodes reach it.
        address: String,
    },
    /// Removes a node for good.
    Remove {
        /// Which one.
        node: u64,
    },
    /// Hands leadership to another voter: to this one, or to the one that is most up to date.
    Transfer {
        /// To which one.
        to: Option<u64>,
    },
}

/// What a change led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChanged {
    /// The node has this id; it waits to be started with `--join`.
    Added {
        /// The id of the node.
        node: u64,
    },
    /// The node is gone.
    Removed,
    /// This node leads.
    Transferred {
        /// The new leader.
        to: u64,
    },
}

/// Who answers, and under which leader: what never changes of a node, and its term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answerer {
    /// The cluster's id; 0 of a log that knows of no cluster.
    pub cluster: u128,
    /// The node; 0 of a log that knows of no cluster.
    pub node: u64,
    /// The term of the latest leader it knows of.
    pub term: u64,
}

/// The log, as far as it can tell of the cluster and change it.
pub trait Cluster: Send + Sync + 'static {
    /// The cluster as this node sees it.
    fn status(&self) -> ClusterStatus;

    /// Changes the cluster, from whichever node; returns when the change is in force.
    fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>>;
}

impl fmt::Debug for dyn Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.status()).finish()
    }
}

impl Service {
    /// The cluster as this node sees it; of a log that knows of none, nothing.
    pub fn cluster(&self, caller: &Caller) -> Result<ClusterStatus, Failure> {
        self.access().authorize(caller, &system(), Action::Query)?;
        Ok(self.operated().map(|cluster| cluster.status()).unwrap_or_default())
    }

    /// Changes the cluster, from whichever node; returns when the change is in force.
    pub async fn change_cluster(&self, caller: &Caller, change: ClusterChange) -> Result<ClusterChanged, Failure> {
        self.access().authorize(caller, &system(), Action::Operate(&change))?;
        match self.operated() {
            Some(cluster) => cluster.change(change).await,
            None => Err(Failure::ChangeRefused("this server is no node of a cluster".into())),
        }
    }
}

fn system() -> Namespace {
    Namespace::new(SYSTEM).expect("it is a well-formed name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u64, name: &str) -> Member {
        Member { node, name: name.into(), address: String::new(), voter: true, matched: None, heard_ms: None }
    }

    #[test]
    fn a_member_is_found_by_name_before_id() {
        let members = vec![member(0x61, "n1"), member(7, "0000000000000061"), member(8, "")];
        let status = ClusterStatus { members, ..ClusterStatus::default() };
        let found = |text| status.member(text).map(|member| member.node);
        assert_eq!(found("n1"), Some(0x61));
        assert_eq!(found("0000000000000061"), Some(7), "a name goes before an id");
        assert_eq!((found("97"), found("0000000000000007"), found("8")), (Some(0x61), Some(7), Some(8)));
        assert_eq!((found(""), found("n2"), found("61")), (None, None, None));
    }
}
