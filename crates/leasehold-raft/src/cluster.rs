//! Who belongs to the cluster: asking, growing, shrinking, and handing leadership over.
//!
//! A new node first learns the log as a learner and then becomes a voter. Every change goes through the log, so only the
//! leader makes it. A node id is never given twice: what votes a lost directory gave is not known to anyone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_service::log::{Leadership, Machine};
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};

use crate::node::Node;
use crate::peer::is_loopback;
use crate::types::{Member, Types};

/// How long another node may take to lead after it was asked to.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(5);
/// A learner that lacks no more entries than this will have them in a moment.
const NEARLY: u64 = 256;

/// One node of the cluster, as its membership has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its id.
    pub node: u64,
    /// Where others reach it.
    pub address: String,
    /// Whether it votes; a learner only follows.
    pub voter: bool,
    /// The last entry it is known to have; known on the leader only.
    pub matched: Option<u64>,
}

/// Why the cluster was not changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChangeError {
    /// Another node leads, or none.
    #[error("this node does not lead the cluster{}", .leader.map_or(String::new(), |l| format!("; {l} does")))]
    NotLeader {
        /// The leader, where it is known.
        leader: Option<LeaderId>,
    },
    /// The change cannot be made as things are.
    #[error("the cluster was not changed: {0}")]
    Refused(String),
    /// The log has stopped for good.
    #[error("the log has stopped: {0}")]
    Stopped(String),
}

impl<M: Machine> Node<M> {
    /// Returns the members as this node knows them.
    pub fn members(&self) -> Vec<MemberStatus> {
        let metrics = self.group.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let matched = |node: &u64| {
            let replication = metrics.replication.as_ref()?;
            replication.get(node).copied().flatten().map(|matched| matched.index)
        };
        let status = |(node, member): (&u64, &Member)| MemberStatus {
            node: *node,
            address: member.address.clone(),
            voter: voters.contains(node),
            matched: matched(node),
        };
        membership.nodes().map(status).collect()
    }

    /// Returns an id for a new node that no node of this cluster has: a random one, so none is given twice.
    pub fn new_node_id(&self) -> u64 {
        let members = self.members();
        loop {
            let id = rand::random::<u64>() >> 1;
            if id > 1 && members.iter().all(|member| member.node != id) {
                return id;
            }
        }
    }

    /// Adds a node that follows without a vote; returns when it has nearly all of the log. Dropping the future ends the
    /// waiting; the node stays added.
    pub async fn add_learner(&self, node: u64, address: impl Into<String>) -> Result<(), ChangeError> {
        let address = address.into();
        match self.leaves_machine {
            None => return Err(ChangeError::Refused("this node was started without an address for others".into())),
            Some(false) if !is_loopback(&address) => {
                let text = format!(
                    "{address} is not a loopback address, and connections between nodes are plain; \
                     start them with certificates (`lease tls init`)"
                );
                return Err(ChangeError::Refused(text));
            }
            Some(_) => {}
        }
        if self.members().iter().any(|member| member.node == node && member.address != address) {
            return Err(ChangeError::Refused(format!("node {node} is a member at another address")));
        }
        let raft = self.group.raft.clone();
        let change = async move { raft.add_learner(node, Member { address }, false).await.map(drop) };
        self.make(change).await?;
        self.catches_up(node).await
    }

    /// Waits until a node has nearly all of the log.
    async fn catches_up(&self, node: u64) -> Result<(), ChangeError> {
        let mut metrics = self.group.raft.metrics();
        loop {
            {
                let metrics = metrics.borrow_and_update();
                let Some(replication) = &metrics.replication else { return Err(self.not_leader()) };
                let matched = replication.get(&node).copied().flatten().map(|matched| matched.index + NEARLY);
                if matched >= metrics.last_log_index {
                    return Ok(());
                }
            }
            if metrics.changed().await.is_err() {
                return Err(ChangeError::Stopped("the node is stopping".into()));
            }
        }
    }

    /// Makes exactly these nodes the voters; all must be members already. A voter left out leaves the cluster.
    pub async fn change_voters(&self, voters: BTreeSet<u64>) -> Result<(), ChangeError> {
        let raft = self.group.raft.clone();
        self.make(async move { raft.change_membership(voters, false).await.map(drop) }).await
    }

    /// Removes a node, voter or learner, from the cluster; its id is not to be used again.
    pub async fn remove(&self, node: u64) -> Result<(), ChangeError> {
        let members: BTreeMap<u64, bool> =
            self.members().into_iter().map(|member| (member.node, member.voter)).collect();
        match members.get(&node) {
            None => Err(ChangeError::Refused(format!("node {node} is not a member"))),
            Some(true) => {
                let voters = members.into_iter().filter(|(id, voter)| *voter && *id != node).map(|(id, _)| id);
                self.change_voters(voters.collect()).await
            }
            Some(false) => {
                let (raft, change) = (self.group.raft.clone(), ChangeMembers::RemoveNodes(BTreeSet::from([node])));
                self.make(async move { raft.change_membership(change, false).await.map(drop) }).await
            }
        }
    }

    /// Hands leadership to another voter; returns when this node sees it lead.
    pub async fn transfer(&self, to: u64) -> Result<(), ChangeError> {
        let mut leadership = self.group.leadership.clone();
        let now = *leadership.borrow();
        match now {
            Leadership::Leads(leader) if leader.node == to => return Ok(()),
            Leadership::Leads(_) => {}
            Leadership::Follows(_) | Leadership::CutOff(_) | Leadership::Unknown => return Err(self.not_leader()),
        }
        if !self.members().iter().any(|member| member.node == to && member.voter) {
            return Err(ChangeError::Refused(format!("node {to} is not a voter")));
        }
        let stopped = |error: openraft::errors::Fatal<Types>| ChangeError::Stopped(error.to_string());
        self.group.raft.trigger().transfer_leader(to).await.map_err(stopped)?;
        let other = |now: &Leadership| matches!(now, Leadership::Follows(leader) if leader.node == to);
        match tokio::time::timeout(TRANSFER_PATIENCE, leadership.wait_for(other)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(ChangeError::Stopped("the node is stopping".into())),
            Err(_) => Err(ChangeError::Refused(format!("node {to} did not take the lead in time"))),
        }
    }

    /// Runs a change on the runtime of the log.
    async fn make(
        &self,
        change: impl Future<Output = Result<(), RaftError<Types, ClientWriteError<Types>>>> + Send + 'static,
    ) -> Result<(), ChangeError> {
        let done = self.handle.spawn(change).await.map_err(|error| ChangeError::Stopped(error.to_string()))?;
        done.map_err(|error| match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => self.not_leader(),
            RaftError::APIError(error) => ChangeError::Refused(error.to_string()),
            RaftError::Fatal(error) => {
                ChangeError::Stopped(self.group.files.fatal.reason().unwrap_or_else(|| error.to_string()))
            }
        })
    }

    fn not_leader(&self) -> ChangeError {
        let leader = match *self.group.leadership.borrow() {
            Leadership::Follows(leader) => Some(leader),
            Leadership::Unknown | Leadership::Leads(_) | Leadership::CutOff(_) => None,
        };
        ChangeError::NotLeader { leader }
    }
}
