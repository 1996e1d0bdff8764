//! What a leader does by itself for the members of its cluster, whichever node leads.
//!
//! It finishes a change of voters that an earlier leader began, writes down which data directory stands behind each
//! member it has met, and makes learners voters, one at a time, when they have caught up. Beside it are two tasks of every
//! node: one that says where the node is to be found if that has changed, one that draws the consequence of its removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_service::log::{Leadership, Machine};
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver;

use crate::change::{ChangeError, Changes, View};
use crate::peer::{Local, Question, Verdict, ask};
use crate::types::Member;

/// A learner that lacks no more entries than this will have them in a moment.
const NEARLY: u64 = 256;
/// How often the steward looks again while something is to be done.
const AGAIN: Duration = Duration::from_millis(100);
/// How often a node says its new address.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// Tends the members whenever this node leads; runs until Raft ends.
pub(crate) async fn tend<M: Machine>(changes: Arc<Changes<M>>) {
    let mut leadership = changes.leadership.clone();
    let mut server = changes.raft.server_metrics();
    let mut said = None;
    loop {
        let leads = leadership.wait_for(|now| matches!(now, Leadership::Leads(_))).await.is_ok();
        if !leads {
            return;
        }
        server.borrow_and_update();
        let outstanding = match changes.tend_once().await {
            Ok(outstanding) => outstanding,
            Err(ChangeError::Refused(text)) => {
                if said.as_ref() != Some(&text) {
                    tracing::warn!("a member could not be looked after: {text}");
                    said = Some(text);
                }
                true
            }
            // Leadership moves, or another change is under way.
            Err(error) => {
                tracing::debug!(%error, "the members are looked after later");
                true
            }
        };
        tokio::select! {
            changed = server.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(AGAIN), if outstanding => {}
        }
    }
}

impl<M: Machine> Changes<M> {
    /// Makes at most one change; says whether there is, or will be, another to make.
    async fn tend_once(&self) -> Result<bool, ChangeError> {
        let turn = self.turn.clone().lock_owned().await;
        let view = self.view().await?;
        if view.joint {
            // Nothing to add: it goes on to the newer of the two sets.
            self.commit(turn, ChangeMembers::AddVoterIds(BTreeSet::new())).await?;
            return Ok(true);
        }
        let met = self.newly_met(&view);
        if !met.is_empty() {
            self.commit(turn, ChangeMembers::SetNodes(met)).await?;
            return Ok(true);
        }
        if let Some(node) = self.caught_up(&view) {
            self.commit(turn, ChangeMembers::AddVoterIds(BTreeSet::from([node]))).await?;
            tracing::info!(node, name = view.name(node), "a node has caught up and votes from now on");
            return Ok(true);
        }
        let waits = |(node, member): (&u64, &Member)| match view.voters.contains(node) {
            true => member.incarnation == 0,
            false => member.incarnation != 0,
        };
        Ok(view.nodes.iter().any(waits))
    }

    /// Members whose data directory is not written down yet, though this node knows it. A place that is kept for a
    /// node is not among them: nobody has its id before it is bound.
    fn newly_met(&self, view: &View) -> BTreeMap<u64, Member> {
        let Some(local) = &self.local else { return BTreeMap::new() };
        let incarnation = |node| match node == self.node {
            true => Some(local.seen.incarnation()),
            false => local.seen.of(node),
        };
        let unknown = view.nodes.iter().filter(|(_, member)| member.incarnation == 0);
        let met = |(node, member): (&u64, &Member)| {
            Some((*node, Member { incarnation: incarnation(*node)?, ..member.clone() }))
        };
        unknown.filter_map(met).collect()
    }

    /// A learner that is there and has nearly all of the log.
    fn caught_up(&self, view: &View) -> Option<u64> {
        let learners = view
            .nodes
            .iter()
            .filter(|(node, member)| !view.voters.contains(node) && member.incarnation != 0 && self.is_there(**node));
        let mut learners = learners.map(|(node, _)| *node);
        learners.find(|node| {
            let (last, matched) = self.matched(*node);
            matched.is_some_and(|matched| Some(matched + NEARLY) >= last)
        })
    }

    /// Says where this node is to be found whenever the members know it under another address.
    pub(crate) async fn say_address(self: Arc<Self>, local: Local, address: String) {
        let server = self.raft.server_metrics();
        while self.roster.removed().borrow().is_none() {
            // What it has in its log, not only what it knows to be committed: nobody may have found it since its start.
            let membership = server.borrow_watched().membership_config.clone();
            let known = membership.membership().get_node(&self.node).map(|member| &member.address);
            if known.is_some_and(|known| *known != address) {
                let others = membership.membership().nodes().filter(|(node, _)| **node != self.node);
                let others = others.map(|(node, member)| (*node, member.address.clone())).collect();
                if let Err(text) = self.say_address_to(&local, others, &address).await {
                    return tracing::warn!("the cluster does not take the new address {address}: {text}");
                }
            }
            tokio::time::sleep(SAY_AGAIN).await;
        }
    }

    /// Tells every member, since it may not know who leads; fails if the leader refuses.
    async fn say_address_to(&self, local: &Local, others: Vec<(u64, String)>, address: &str) -> Result<(), String> {
        let question = Question::Moved(address.into());
        match self.attempt(&question).await {
            Ok(_) => return Ok(()),
            Err(ChangeError::Refused(words)) => return Err(words),
            Err(error) => tracing::debug!(%error, "the new address is not known to the cluster yet"),
        }
        for (node, at) in others {
            match ask(local, node, &at, &question).await {
                Ok(Verdict::Done(_)) => return Ok(()),
                Ok(Verdict::Refused(words)) => return Err(words),
                Ok(Verdict::NotNow(_) | Verdict::Unknown(_)) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Waits until this node is removed: then it says so once and asks for no votes any more.
    pub(crate) async fn leave_when_removed(self: Arc<Self>) {
        let mut removed = self.roster.removed();
        let Ok(reason) = removed.wait_for(Option::is_some).await.map(|reason| reason.clone()) else { return };
        let reason = reason.unwrap_or_default();
        tracing::error!("{reason}; stop it, and start it with an empty data directory if it is to join again");
        self.raft.runtime_config().elect(false);
    }
}

/// Keeps the list of removed nodes on disk; runs as long as the node.
pub(crate) async fn remember_gone(local: Local) {
    let mut gone = local.roster.gone();
    while gone.changed().await.is_ok() {
        let (seen, all) = (local.seen.clone(), gone.borrow_and_update().clone());
        let kept = crate::world::blocking(move || seen.remember_gone(&all)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "that a node was removed could not be written down");
        }
    }
}
