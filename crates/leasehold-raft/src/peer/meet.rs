//! Meets every member once, so that each node knows which data directory stands behind each other node.
//!
//! Followers have nothing to say to each other until they elect. Without having met, one could take the vote of a
//! member that lost its data meanwhile. So every node introduces itself to every member it has not met, until it has.

use std::time::Duration;

use leasehold_service::log::Machine;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::time::timeout;

use super::Local;
use super::hello::Purpose;
use super::link::{CONNECT_PATIENCE, introduce};
use crate::machine::Applier;
use crate::types::Types;

/// The pause before a member that was not reached is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Runs until Raft ends.
pub(crate) async fn meet_all<M: Machine>(local: Local, raft: Raft<Types, Applier<M>>) {
    let mut server = raft.server_metrics();
    loop {
        let membership = server.borrow_and_update().membership_config.clone();
        let stranger = |node: &u64| *node != local.identity.node && !local.seen.knows(*node);
        let mut missing = false;
        for (node, member) in membership.membership().nodes().filter(|(node, _)| stranger(node)) {
            let meeting = introduce(&local, *node, &member.address, Purpose::Meeting);
            // Links tell why a node is not reached; here it is only tried again.
            missing |= !matches!(timeout(CONNECT_PATIENCE, meeting).await, Ok(Ok(_)));
        }
        let again = AGAIN.mul_f64(rand::random_range(0.5..1.0));
        tokio::select! {
            changed = server.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(again), if missing => {}
        }
    }
}
