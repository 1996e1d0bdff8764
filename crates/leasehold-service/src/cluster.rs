//! The cluster as operators see it: who belongs to it, how each member is doing, and how to change that.
//!
//! The log knows; this is what it must be able to tell and to do. Every node answers for itself and passes changes on to
//! the leader. Who may ask is decided in `access.rs`, as everywhere.

use futures_util::future::BoxFuture;

use crate::Failure;

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

/// The log, as far as it can tell of the cluster and change it.
pub trait Cluster: Send + Sync + 'static {
    /// The cluster as this node sees it.
    fn status(&self) -> ClusterStatus;

    /// Changes the cluster, from whichever node; returns when the change is in force.
    fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>>;
}
