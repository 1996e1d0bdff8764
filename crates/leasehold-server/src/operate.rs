//! The node as the cluster that operators see and change.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_raft::{ChangeError, Node};
use leasehold_service::log::{Leadership, Log as _};
use leasehold_service::{Cluster, ClusterChange, ClusterChanged, ClusterStatus, Failure, Member, Replica};

/// A node and what it is known by.
pub(crate) struct Operated {
    pub(crate) node: Arc<Node<Replica>>,
    pub(crate) cluster: u128,
    pub(crate) id: u64,
    /// Names by address, as the list of members has them.
    pub(crate) names: BTreeMap<String, String>,
}

impl Cluster for Operated {
    fn status(&self) -> ClusterStatus {
        let metrics = self.node.metrics();
        let leader = match *self.node.leadership().borrow() {
            Leadership::Leads(leader) | Leadership::Follows(leader) => Some(leader),
            Leadership::CutOff(_) | Leadership::Unknown => None,
        };
        let members = self.node.members().into_iter().map(|member| Member {
            node: member.node,
            name: self.names.get(&member.address).cloned().unwrap_or_default(),
            matched: member.matched.or((member.node == self.id).then_some(metrics.last_log).flatten()),
            address: member.address,
            voter: member.voter,
            heard_ms: None,
        });
        ClusterStatus {
            cluster: self.cluster,
            node: self.id,
            leader: leader.map(|leader| leader.node),
            term: leader.map_or(0, |leader| leader.term),
            applied: metrics.last_applied,
            last_log: metrics.last_log,
            snapshot: metrics.last_snapshot,
            log_bytes: metrics.log_bytes,
            members: members.collect(),
        }
    }

    fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>> {
        let (node, status) = (Arc::clone(&self.node), self.status());
        Box::pin(async move {
            let done = match change {
                ClusterChange::Add { .. } => {
                    return Err(Failure::ChangeRefused("this build cannot add nodes yet".into()));
                }
                ClusterChange::Remove { node: id } => node.remove(id).await.map(|()| ClusterChanged::Removed),
                ClusterChange::Transfer { to } => {
                    let best = status.members.iter().filter(|member| member.voter && member.node != status.node);
                    let best = best.max_by_key(|member| member.matched).map(|member| member.node);
                    let Some(to) = to.or(best) else {
                        return Err(Failure::ChangeRefused("there is no other voter".into()));
                    };
                    node.transfer(to).await.map(|()| ClusterChanged::Transferred { to })
                }
            };
            done.map_err(|error| match error {
                ChangeError::NotLeader { .. } | ChangeError::Refused(_) => Failure::ChangeRefused(error.to_string()),
                ChangeError::Stopped(why) => Failure::NoQuorum { may_have_happened: true, why: why.into() },
            })
        })
    }
}
