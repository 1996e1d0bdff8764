//! Changes of who belongs to the cluster, as the leader decides and makes them.
//!
//! Every change goes through the log, one at a time. A node comes as a learner, bound to its data directory, and is made
//! a voter when it has caught up (`steward.rs`). A node id is drawn at random and never given twice: what votes a lost
//! directory gave is not known to anyone. A node that does not lead passes questions on (`cluster.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_service::ClusterChange;
use leasehold_service::log::{Leadership, Machine};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, Instant, Raft};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::timeout;

use crate::group_commit::Fatal;
use crate::machine::Applier;
use crate::peer::{Joiner, Local, Question, ask, check_address, check_name, is_loopback};
use crate::roster::Roster;
use crate::types::{Member, Types};
use crate::world;

/// How long another node may take to lead after it was asked to.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(5);
/// How often the leader looks whether another node can lead.
const LOOK: Duration = Duration::from_millis(5);
/// How long a node that wants to join may take to be reached.
const REACH_PATIENCE: Duration = Duration::from_secs(2);
/// How often and how long a removed node is told so.
const TELL_TIMES: usize = 10;
const TELL_PAUSE: Duration = Duration::from_millis(300);

/// More members than any cluster has use for; bounds what strangers can make it write.
const MEMBERS_MAX: usize = 64;

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
    /// The change cannot be made just now; nothing was changed.
    #[error("the cluster cannot be changed now: {0}")]
    NotNow(String),
    /// The change may have been made, or be made yet.
    #[error("whether the cluster was changed is not known: {0}")]
    Unknown(String),
    /// The log has stopped for good.
    #[error("the log has stopped: {0}")]
    Stopped(String),
}

/// Makes changes while this node leads.
pub(crate) struct Changes<M: Machine> {
    pub(crate) raft: Raft<Types, Applier<M>>,
    pub(crate) node: u64,
    pub(crate) roster: Arc<Roster>,
    /// How this node reaches others; none if it was started without an address for them.
    pub(crate) local: Option<Local>,
    /// Whether nodes beyond this machine may be added.
    pub(crate) leaves_machine: bool,
    /// A node that was heard of within this time is there.
    pub(crate) recent: Duration,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) fatal: Fatal,
    /// Held by the change that is being made.
    pub(crate) turn: Arc<Mutex<()>>,
}

/// The members as the leader's log has them, committed or not.
pub(crate) struct View {
    pub(crate) voters: BTreeSet<u64>,
    pub(crate) nodes: BTreeMap<u64, Member>,
    /// Whether a change of voters is half made.
    pub(crate) joint: bool,
}

impl View {
    fn find(&self, is: impl Fn(&Member) -> bool) -> Option<(u64, &Member)> {
        self.nodes.iter().find(|(_, member)| is(member)).map(|(node, member)| (*node, member))
    }

    pub(crate) fn name(&self, node: u64) -> String {
        self.nodes.get(&node).map_or(node.to_string(), |member| member.name.clone())
    }
}

type Changed = Result<u64, ChangeError>;

impl<M: Machine> Changes<M> {
    /// Looks whether something listens where a new node says it is; without that it would never catch up.
    async fn reach(&self, address: &str) -> Result<(), ChangeError> {
        let elsewhere = self.local.as_ref().and_then(|local| local.world.clone());
        match timeout(REACH_PATIENCE, world::connect(address, &elsewhere)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(refused(format!("{address} cannot be reached from the leader: {error}"))),
            Err(_) => Err(refused(format!("{address} cannot be reached from the leader: no answer in time"))),
        }
    }

    /// Decides a question if this node leads; `asker` is the node that asks, with its incarnation.
    pub(crate) async fn decide(&self, question: &Question, asker: Option<(u64, u64)>) -> Changed {
        self.lead()?;
        match question {
            Question::Join(joiner) => self.admit(joiner).await,
            Question::Change(ClusterChange::Add { name, address }) => self.reserve(name, address).await,
            Question::Change(ClusterChange::Remove { node }) => self.remove(*node).await,
            Question::Change(ClusterChange::Transfer { to }) => self.transfer(*to).await,
            Question::Moved(address) => {
                let (node, incarnation) = asker.unwrap_or_default();
                self.move_member(node, incarnation, address).await
            }
            Question::Gone => Err(refused("this is no question for a leader")),
        }
    }

    /// Admits a node as a learner bound to its data directory, and returns its id; the same one if it asks again.
    async fn admit(&self, joiner: &Joiner) -> Changed {
        let Joiner { name, address, incarnation } = joiner;
        self.check_new(name, address)?;
        if *incarnation == 0 {
            return Err(refused("a node without a data directory cannot join"));
        }
        self.reach(address).await?;
        let turn = self.turn.clone().lock_owned().await;
        let view = self.view().await?;
        let bound = Member { name: name.clone(), address: address.clone(), incarnation: *incarnation };
        if let Some((node, member)) = view.find(|member| member.incarnation == *incarnation) {
            if member.address == *address {
                return Ok(node);
            }
            self.refuse_address(&view, address)?;
            let moved = Member { name: member.name.clone(), ..bound };
            return self.set_member(turn, node, moved).await;
        }
        match view.find(|member| member.name == *name) {
            Some((node, member)) if member.incarnation == 0 && !view.voters.contains(&node) => {
                if member.address != *address {
                    return Err(refused(format!(
                        "{name} is to join at {}, not at {address}; start it there, \
                         or remove it and add it anew: lease cluster remove {name}",
                        member.address
                    )));
                }
                self.set_member(turn, node, bound).await
            }
            Some(_) => Err(refused(format!(
                "{name} is a member already with other data; remove it first: lease cluster remove {name}"
            ))),
            None => {
                self.refuse_address(&view, address)?;
                self.add_member(turn, &view, bound).await
            }
        }
    }

    /// Keeps a place for a node that an operator announces; it is bound to the directory that comes for it first.
    async fn reserve(&self, name: &str, address: &str) -> Changed {
        self.check_new(name, address)?;
        let turn = self.turn.clone().lock_owned().await;
        let view = self.view().await?;
        match view.find(|member| member.name == name) {
            Some((node, member)) if member.incarnation == 0 && !view.voters.contains(&node) => {
                // The same request again, after its answer was lost.
                if member.address == address {
                    return Ok(node);
                }
                Err(refused(format!("{name} is to join at {} already", member.address)))
            }
            Some(_) => Err(refused(format!("{name} is a member already"))),
            None => {
                self.refuse_address(&view, address)?;
                let kept = Member { name: name.into(), address: address.into(), incarnation: 0 };
                self.add_member(turn, &view, kept).await
            }
        }
    }

    /// Removes a node, voter or learner. A leader first hands over, and its successor removes it.
    pub(crate) async fn remove(&self, node: u64) -> Changed {
        self.lead()?;
        let turn = self.turn.clone().lock_owned().await;
        let view = self.view().await?;
        let Some(member) = view.nodes.get(&node) else {
            return match self.roster.is_gone(node) {
                true => Ok(0),
                false => Err(refused(format!("node {node} is not a member"))),
            };
        };
        let name = &member.name;
        if view.voters.contains(&node) {
            if view.voters.len() == 1 {
                return Err(refused(format!("{name} is the only voter; a cluster without one is lost")));
            }
            self.refuse_without_majority(&view, node)?;
            if node == self.node {
                drop(turn);
                self.transfer(None).await?;
                return Err(ChangeError::NotNow(format!("{name} led and has handed over; ask again")));
            }
            self.commit(turn, ChangeMembers::RemoveVoters(BTreeSet::from([node]))).await?;
        } else {
            self.commit(turn, ChangeMembers::RemoveNodes(BTreeSet::from([node]))).await?;
        }
        tracing::info!(node, name, "a node was removed from the cluster");
        self.tell_gone(node, member.address.clone());
        Ok(0)
    }

    /// Hands leadership to a voter, to the most up to date one if none is named; returns when this node sees it lead.
    pub(crate) async fn transfer(&self, to: Option<u64>) -> Changed {
        self.lead()?;
        let view = self.view().await?;
        match to {
            Some(to) if to == self.node => return Ok(to),
            Some(to) if !view.voters.contains(&to) => {
                return Err(refused(format!("{} is not a voter", view.name(to))));
            }
            None if view.voters.iter().all(|voter| *voter == self.node) => return Err(nobody_else()),
            Some(_) | None => {}
        }
        self.write_something(&view).await?;
        let to = self.successor(to, &view).await?;
        if let Some(member) = view.nodes.get(&to) {
            self.reach(&member.address).await?;
        }
        let mut leadership = self.leadership.clone();
        let stopped = |error: openraft::errors::Fatal<Types>| ChangeError::Stopped(error.to_string());
        self.raft.trigger().transfer_leader(to).await.map_err(stopped)?;
        let other = |now: &Leadership| matches!(now, Leadership::Follows(leader) if leader.node == to);
        match timeout(TRANSFER_PATIENCE, leadership.wait_for(other)).await {
            Ok(Ok(_)) => Ok(to),
            Ok(Err(_)) => Err(ChangeError::Stopped("the node is stopping".into())),
            Err(_) => Err(refused(format!("{} did not take the lead in time", view.name(to)))),
        }
    }

    /// Writes the new address of a member that says where it is.
    async fn move_member(&self, node: u64, incarnation: u64, address: &str) -> Changed {
        self.check_address(address)?;
        let turn = self.turn.clone().lock_owned().await;
        let view = self.view().await?;
        let Some(member) = view.nodes.get(&node) else {
            return Err(refused(format!("node {node} is not a member")));
        };
        if member.address == address {
            return Ok(node);
        }
        if member.incarnation != incarnation {
            return Err(ChangeError::NotNow(format!("the data of {} is not known yet", member.name)));
        }
        self.refuse_address(&view, address)?;
        tracing::info!(node, name = member.name, address, "a node has another address");
        self.set_member(turn, node, Member { address: address.into(), ..member.clone() }).await
    }

    pub(crate) async fn set_member(&self, turn: OwnedMutexGuard<()>, node: u64, member: Member) -> Changed {
        self.commit(turn, ChangeMembers::SetNodes(BTreeMap::from([(node, member)]))).await?;
        Ok(node)
    }

    async fn add_member(&self, turn: OwnedMutexGuard<()>, view: &View, member: Member) -> Changed {
        if view.nodes.len() >= MEMBERS_MAX {
            return Err(refused(format!("a cluster has at most {MEMBERS_MAX} members; remove some first")));
        }
        // Random, so that no id is ever given twice; neither 0 nor 1, which have a meaning.
        let node = (rand::random::<u64>() >> 1).max(2);
        let (name, address) = (member.name.clone(), member.address.clone());
        self.commit(turn, ChangeMembers::AddNodes(BTreeMap::from([(node, member)]))).await?;
        tracing::info!(node, name, address, "a node was admitted to the cluster");
        Ok(node)
    }

    /// Commits a change. It goes on to its end even if nobody waits for it any more: half of it would be worse.
    pub(crate) async fn commit(
        &self,
        turn: OwnedMutexGuard<()>,
        change: ChangeMembers<u64, Member>,
    ) -> Result<(), ChangeError> {
        let raft = self.raft.clone();
        let made = tokio::spawn(async move {
            let made = raft.change_membership(change, false).await.map(drop);
            drop(turn);
            made
        });
        let made = made.await.map_err(|error| ChangeError::Stopped(error.to_string()))?;
        made.map_err(|error| match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => self.not_leader(),
            RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => match error {
                ChangeMembershipError::InProgress(_) | ChangeMembershipError::UncommittedLeaderLog(_) => {
                    ChangeError::NotNow("another change is not finished yet".into())
                }
                other @ (ChangeMembershipError::EmptyMembership(_)
                | ChangeMembershipError::LearnerNotFound(_)
                | ChangeMembershipError::UnsupportedMembershipTransition(_)
                | ChangeMembershipError::NodeMetadataChanged(_)) => refused(other.to_string()),
            },
            RaftError::APIError(error) => ChangeError::Unknown(error.to_string()),
            RaftError::Fatal(error) => ChangeError::Stopped(self.fatal.reason().unwrap_or_else(|| error.to_string())),
        })
    }

    /// Tells a node that it was removed, as far as it can be reached.
    fn tell_gone(&self, node: u64, address: String) {
        let Some(local) = self.local.clone() else { return };
        tokio::spawn(async move {
            for _ in 0..TELL_TIMES {
                if ask(&local, node, &address, &Question::Gone).await.is_ok() {
                    return;
                }
                tokio::time::sleep(TELL_PAUSE).await;
            }
        });
    }

    pub(crate) async fn view(&self) -> Result<View, ChangeError> {
        let read = self.raft.with_raft_state(|state| state.membership_state.effective().membership().clone());
        let membership = read.await.map_err(|error| ChangeError::Stopped(error.to_string()))?;
        Ok(View {
            voters: membership.voter_ids().collect(),
            nodes: membership.nodes().map(|(node, member)| (*node, member.clone())).collect(),
            joint: membership.get_joint_config().len() > 1,
        })
    }

    fn lead(&self) -> Result<(), ChangeError> {
        let now = *self.leadership.borrow();
        match now {
            Leadership::Leads(_) => Ok(()),
            Leadership::Follows(_) | Leadership::CutOff(_) | Leadership::Unknown => Err(self.not_leader()),
        }
    }

    pub(crate) fn not_leader(&self) -> ChangeError {
        let leader = match *self.leadership.borrow() {
            Leadership::Follows(leader) => Some(leader),
            Leadership::Unknown | Leadership::Leads(_) | Leadership::CutOff(_) => None,
        };
        ChangeError::NotLeader { leader }
    }

    fn check_new(&self, name: &str, address: &str) -> Result<(), ChangeError> {
        check_name(name).map_err(ChangeError::Refused)?;
        self.check_address(address)
    }

    fn check_address(&self, address: &str) -> Result<(), ChangeError> {
        check_address(address).map_err(ChangeError::Refused)?;
        if self.local.is_none() {
            return Err(refused("this node was started without an address for others (--peer-listen)"));
        }
        if !self.leaves_machine && !is_loopback(address) {
            return Err(refused(format!(
                "{address} is not a loopback address, and connections between nodes are plain; \
                 start them with certificates (`lease tls init`)"
            )));
        }
        Ok(())
    }

    fn refuse_address(&self, view: &View, address: &str) -> Result<(), ChangeError> {
        match view.find(|member| member.address == address) {
            Some((_, member)) => Err(refused(format!("{address} is the address of {}, a member already", member.name))),
            None => Ok(()),
        }
    }

    fn refuse_without_majority(&self, view: &View, without: u64) -> Result<(), ChangeError> {
        let left = || view.voters.iter().filter(|voter| **voter != without);
        let (there, missing): (Vec<u64>, Vec<u64>) = left().partition(|voter| self.is_there(**voter));
        if there.len() > left().count() / 2 {
            return Ok(());
        }
        let missing: Vec<String> = missing.into_iter().map(|node| view.name(node)).collect();
        Err(refused(format!(
            "without {} no majority would be left: {} cannot be reached; start or remove those first",
            view.name(without),
            missing.join(" and ")
        )))
    }

    /// Says whether the leader has heard of a node lately.
    pub(crate) fn is_there(&self, node: u64) -> bool {
        node == self.node || self.heard(node).is_some_and(|heard| heard <= self.recent)
    }

    /// How long ago the leader last heard of a node.
    pub(crate) fn heard(&self, node: u64) -> Option<Duration> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.heartbeat.as_ref()?.get(&node).copied().flatten().map(|heard| heard.elapsed())
    }

    /// Returns how many entries the leader has, and a node is known to have.
    pub(crate) fn matched(&self, node: u64) -> (Option<u64>, Option<u64>) {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = metrics.replication.as_ref().and_then(|all| all.get(&node).copied().flatten());
        (metrics.last_log_index, matched.map(|matched| matched.index))
    }

    /// Commits an entry that changes nothing: openraft lets a node take over only when it has written one since its start. While
    /// another change is being made there is one anyway.
    async fn write_something(&self, view: &View) -> Result<(), ChangeError> {
        let (Ok(turn), Some(own)) = (self.turn.clone().try_lock_owned(), view.nodes.get(&self.node)) else {
            return Ok(());
        };
        match timeout(self.recent, self.set_member(turn, self.node, own.clone())).await {
            Ok(Ok(_) | Err(ChangeError::NotNow(_))) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(refused("no majority answers the leader")),
        }
    }

    /// Waits a moment for a voter, this one or any, that is heard and has all that this leader has now. Whoever hands over stops
    /// leading: if the other cannot lead at once, nobody leads until an election.
    async fn successor(&self, to: Option<u64>, view: &View) -> Changed {
        let others =
            || view.voters.iter().copied().filter(|voter| *voter != self.node && to.is_none_or(|to| to == *voter));
        let goal = self.matched(self.node).0;
        let waited = tokio::time::Instant::now();
        loop {
            let close = others().filter(|voter| self.is_there(*voter) && self.matched(*voter).1 >= goal);
            if let Some(closest) = close.max_by_key(|voter| self.matched(*voter).1) {
                return Ok(closest);
            }
            if waited.elapsed() > self.recent {
                let far = |to| refused(format!("the leader does not hear {}, or it is far behind", view.name(to)));
                return Err(to.map_or_else(nobody_else, far));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn nobody_else() -> ChangeError {
    refused("no other voter can be reached")
}

fn refused(text: impl Into<String>) -> ChangeError {
    ChangeError::Refused(text.into())
}
