//! The cluster as operators see it, on any node: who belongs to it, how each member is doing, and changing that.
//!
//! A node that leads makes a change itself (`change.rs`); any other passes it on to the leader and waits for the answer.
//! A change is tried again while leadership moves, for a bounded time; each kind of change can be asked for twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_service::log::{Leadership, Machine};
use leasehold_service::{Cluster, ClusterChange, ClusterChanged, ClusterStatus, Failure, Member};
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::time::Instant;

use crate::change::{ChangeError, Changes};
use crate::node::Node;
use crate::peer::{LinkError, Question, Verdict, ask};

/// How long a change may take altogether.
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);
/// The pause before a change is tried again.
const AGAIN: Duration = Duration::from_millis(100);

impl<M: Machine> Node<M> {
    /// Returns the members as this node knows them.
    pub fn members(&self) -> Vec<Member> {
        let changes = &self.group.changes;
        let metrics = changes.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let matched = |node: u64| match node == changes.node {
            true => metrics.last_log_index,
            false => metrics.replication.as_ref()?.get(&node).copied().flatten().map(|matched| matched.index),
        };
        let heard = |node: u64| match node == changes.node {
            true => metrics.heartbeat.as_ref().map(|_| Duration::ZERO),
            false => metrics.heartbeat.as_ref()?.get(&node).copied().flatten().map(|heard| heard.elapsed()),
        };
        let status = |(node, member): (&u64, &crate::types::Member)| Member {
            node: *node,
            name: member.name.clone(),
            address: member.address.clone(),
            voter: voters.contains(node),
            matched: matched(*node),
            heard_ms: heard(*node).map(|heard| heard.as_millis() as u64),
        };
        membership.nodes().map(status).collect()
    }

    /// Returns the data directory that the membership names for each node, 0 while it is not known. For tests.
    #[doc(hidden)]
    pub fn incarnations(&self) -> BTreeMap<u64, u64> {
        self.group.changes.roster.incarnations()
    }

    /// Hands leadership to another voter if this node leads; returns when it sees the other lead.
    pub async fn transfer(&self, to: u64) -> Result<(), ChangeError> {
        let changes = self.group.changes.clone();
        let done = self.handle.spawn(async move { changes.transfer(Some(to)).await }).await;
        done.unwrap_or_else(|error| Err(ChangeError::Stopped(error.to_string()))).map(drop)
    }
}

impl<M: Machine> Cluster for Node<M> {
    fn status(&self) -> ClusterStatus {
        let leader = match *self.group.leadership.borrow() {
            Leadership::Leads(leader) | Leadership::Follows(leader) | Leadership::CutOff(leader) => Some(leader),
            Leadership::Unknown => None,
        };
        let (progress, files) = (&self.group.progress, &self.group.files);
        ClusterStatus {
            cluster: self.identity.cluster,
            node: self.identity.node,
            leader: leader.map(|leader| leader.node),
            term: leader.map_or_else(|| self.group.raft.metrics().borrow_watched().current_term, |leader| leader.term),
            applied: progress.next().checked_sub(1),
            last_log: files.store.last_index(),
            snapshot: files.snapshots.last_index(),
            log_bytes: files.store.bytes(),
            members: self.members(),
        }
    }

    fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>> {
        let (changes, handle) = (self.group.changes.clone(), self.handle.clone());
        Box::pin(async move {
            let made = handle.spawn(changes.change(change)).await;
            made.unwrap_or(Err(Failure::ShuttingDown { may_have_happened: true }))
        })
    }
}

impl<M: Machine> Changes<M> {
    async fn change(self: Arc<Self>, change: ClusterChange) -> Result<ClusterChanged, Failure> {
        let question = Question::Change(change.clone());
        let started = Instant::now();
        let mut may_have_happened = false;
        loop {
            let left = CHANGE_PATIENCE.saturating_sub(started.elapsed());
            let late = || ChangeError::Unknown("no majority has confirmed the change in time".into());
            let tried = tokio::time::timeout(left, self.attempt(&question)).await.unwrap_or_else(|_| Err(late()));
            let why = match tried {
                Ok(node) => return Ok(changed(&change, node)),
                Err(ChangeError::Refused(words)) => return Err(Failure::ChangeRefused(words)),
                Err(ChangeError::Stopped(_)) => return Err(Failure::ShuttingDown { may_have_happened: true }),
                Err(error @ ChangeError::NotLeader { .. }) => error.to_string(),
                Err(ChangeError::NotNow(words)) => words,
                Err(ChangeError::Unknown(words)) => {
                    may_have_happened = true;
                    words
                }
            };
            if started.elapsed() + AGAIN >= CHANGE_PATIENCE {
                return Err(Failure::NoQuorum { may_have_happened, why: why.into() });
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Decides a question here if this node leads, or passes it on to the node that does.
    pub(crate) async fn attempt(&self, question: &Question) -> Result<u64, ChangeError> {
        if let Some(reason) = self.roster.removed().borrow().clone() {
            return Err(ChangeError::Refused(reason));
        }
        let now = *self.leadership.borrow();
        let leader = match now {
            Leadership::Leads(_) => {
                let own = self.local.as_ref().map(|local| (self.node, local.seen.incarnation()));
                return self.decide(question, own).await;
            }
            Leadership::Follows(leader) => leader.node,
            Leadership::CutOff(_) => return Err(ChangeError::NotNow("the leader is cut off from a majority".into())),
            Leadership::Unknown => return Err(ChangeError::NotNow("nobody is known to lead the cluster".into())),
        };
        let address = self.roster.address(leader).filter(|address| !address.is_empty());
        let (Some(local), Some(address)) = (&self.local, address) else {
            return Err(ChangeError::NotNow(format!("the address of the leader, node {leader}, is not known yet")));
        };
        match ask(local, leader, &address, question).await {
            Ok(Verdict::Done(node)) => Ok(node),
            Ok(Verdict::Refused(words)) => Err(ChangeError::Refused(words)),
            Ok(Verdict::NotNow(words)) => Err(ChangeError::NotNow(words)),
            Ok(Verdict::Unknown(words)) => Err(ChangeError::Unknown(words)),
            Err(LinkError::Unreachable(words)) => Err(ChangeError::NotNow(words)),
            Err(LinkError::Broken(words)) => Err(ChangeError::Unknown(words)),
        }
    }
}

fn changed(change: &ClusterChange, node: u64) -> ClusterChanged {
    match change {
        ClusterChange::Add { .. } => ClusterChanged::Added { node },
        ClusterChange::Remove { .. } => ClusterChanged::Removed,
        ClusterChange::Transfer { .. } => ClusterChanged::Transferred { to: node },
    }
}
