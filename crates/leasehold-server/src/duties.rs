//! What a node does for its cluster on its own: it hands leadership over before it stops and when its disk is full, and
//! tells in the log who leads.
//!
//! A leader that simply stops costs an election; one that hands over costs a few milliseconds. Nothing here is needed
//! for safety: what cannot be done in time is left to the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_service::log::Leadership;
use leasehold_service::{Cluster, ClusterChange, ClusterChanged, ClusterStatus, Service};
use tokio::sync::watch;
use tracing::{info, warn};

/// How long another node may take to lead before this one stops all the same.
const HAND_OVER_WITHIN: Duration = Duration::from_secs(2);
/// How often a leader looks at its disk.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A leader with a full disk hands over once in this time: the others may have no room either.
const PAUSE: Duration = Duration::from_secs(60);

/// Hands leadership over if this node leads and another votes; tells whether it did.
pub(crate) async fn hand_over(cluster: &Arc<dyn Cluster>, why: &'static str) -> bool {
    let status = cluster.status();
    if status.leader != Some(status.node) || !has_other_voter(&status) {
        return false;
    }
    let started = Instant::now();
    let change = cluster.change(ClusterChange::Transfer { to: None });
    match tokio::time::timeout(HAND_OVER_WITHIN, change).await {
        Ok(Ok(ClusterChanged::Transferred { to })) => {
            let (to, took_ms) = (status.name_of(to), started.elapsed().as_millis());
            info!(target: "cluster", %to, took_ms, why, "leadership handed over");
            true
        }
        Ok(Ok(ClusterChanged::Added { .. } | ClusterChanged::Removed)) => false,
        Ok(Err(failure)) => {
            warn!(%failure, why, "leadership was not handed over");
            false
        }
        Err(_) => {
            warn!(why, "leadership was not handed over in time");
            false
        }
    }
}

fn has_other_voter(status: &ClusterStatus) -> bool {
    status.members.iter().any(|member| member.voter && member.node != status.node)
}

/// Hands leadership over whenever this node leads without room on its disk. Runs until the service stops.
pub(crate) async fn watch_disk(service: Service, cluster: Arc<dyn Cluster>) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY.max(pause)) => pause = Duration::ZERO,
            () = service.stopped() => return,
        }
        let health = service.health();
        if health.leads && health.disk_full && has_other_voter(&cluster.status()) {
            hand_over(&cluster, "the disk of this node is full").await;
            pause = PAUSE;
        }
    }
}

/// Tells in the log who leads, at every change. Runs until the node stops.
pub(crate) async fn tell_leaders(cluster: Arc<dyn Cluster>, mut leadership: watch::Receiver<Leadership>) {
    while leadership.changed().await.is_ok() {
        let now = *leadership.borrow_and_update();
        let standing = standing(now, &cluster.status());
        match now {
            Leadership::Leads(_) | Leadership::Follows(_) => info!(target: "cluster", "{standing}"),
            Leadership::CutOff(_) => warn!(target: "cluster", "{standing}"),
            // Between two leaders; it lasts, or another one is told at once.
            Leadership::Unknown => {}
        }
    }
}

/// How this node stands to its leader, in a few words.
pub(crate) fn standing(now: Leadership, status: &ClusterStatus) -> String {
    match now {
        Leadership::Leads(leader) => format!("this node leads, term {}", leader.term),
        Leadership::Follows(leader) => format!("following {}, term {}", status.name_of(leader.node), leader.term),
        Leadership::CutOff(_) => "cut off: this node led, and no majority answers it".to_owned(),
        Leadership::Unknown => "no leader is known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use leasehold_core::LeaderId;
    use leasehold_service::{Failure, Member};
    use parking_lot::Mutex;

    use super::*;

    /// A cluster of so many voters, led by the first, which answers or never does.
    struct Fake {
        voters: u64,
        leader: u64,
        answers: bool,
        changes: Mutex<Vec<ClusterChange>>,
    }

    impl Cluster for Fake {
        fn status(&self) -> ClusterStatus {
            let member = |node: u64| Member {
                node,
                name: format!("n{node}"),
                address: String::new(),
                voter: true,
                matched: None,
                heard_ms: None,
            };
            let members = (1..=self.voters).map(member).collect();
            ClusterStatus { node: 1, leader: Some(self.leader), members, ..ClusterStatus::default() }
        }

        fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>> {
            self.changes.lock().push(change);
            match self.answers {
                true => Box::pin(async { Ok(ClusterChanged::Transferred { to: 2 }) }),
                false => Box::pin(std::future::pending()),
            }
        }
    }

    fn fake(voters: u64, leader: u64, answers: bool) -> (Arc<Fake>, Arc<dyn Cluster>) {
        let fake = Arc::new(Fake { voters, leader, answers, changes: Mutex::default() });
        (Arc::clone(&fake), fake)
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_with_other_voters_hands_over_and_it_does_not_wait_for_ever() {
        let (one, cluster) = fake(3, 1, true);
        assert!(hand_over(&cluster, "test").await);
        assert_eq!(*one.changes.lock(), [ClusterChange::Transfer { to: None }]);
        for (voters, leader) in [(1, 1), (3, 2)] {
            let (one, cluster) = fake(voters, leader, true);
            assert!(!hand_over(&cluster, "test").await);
            assert!(one.changes.lock().is_empty(), "{voters} voters, {leader} leads");
        }
        let (_, cluster) = fake(3, 1, false);
        assert!(!hand_over(&cluster, "test").await, "nobody took it in time");
    }

    #[test]
    fn a_node_knows_where_it_stands() {
        let (_, cluster) = fake(3, 2, true);
        let status = cluster.status();
        let leader = LeaderId { term: 7, node: 2 };
        assert_eq!(standing(Leadership::Follows(leader), &status), "following n2, term 7");
        assert_eq!(standing(Leadership::Leads(leader), &status), "this node leads, term 7");
        assert!(standing(Leadership::CutOff(leader), &status).starts_with("cut off"));
    }
}
