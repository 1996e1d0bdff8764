//! A cluster of three that is not there: it tells what it was told, and remembers how it was to be changed.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use leasehold_service::{Cluster, ClusterChange, ClusterChanged, ClusterStatus, Failure, Member};

/// The nodes 1 to 3, of which the first answers and leads.
#[derive(Clone, Default)]
pub(crate) struct Three {
    pub(crate) changes: Arc<Mutex<Vec<ClusterChange>>>,
}

impl Cluster for Three {
    fn status(&self) -> ClusterStatus {
        let member = |node: u64| Member {
            node,
            name: format!("n{node}"),
            address: format!("127.0.0.1:{node}"),
            voter: node < 3,
            matched: Some(40 + node),
            heard_ms: (node > 1).then_some(12),
        };
        ClusterStatus {
            cluster: 0xabc,
            node: 1,
            leader: Some(1),
            term: 7,
            applied: Some(41),
            last_log: Some(42),
            snapshot: None,
            log_bytes: 4096,
            members: [1, 2, 3].map(member).to_vec(),
        }
    }

    fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>> {
        self.changes.lock().unwrap().push(change.clone());
        let changed = match change {
            ClusterChange::Add { name, .. } if name == "n2" => Err(Failure::ChangeRefused("n2 is a member".into())),
            ClusterChange::Add { .. } => Ok(ClusterChanged::Added { node: 0x61 }),
            ClusterChange::Remove { .. } => Ok(ClusterChanged::Removed),
            ClusterChange::Transfer { to } => Ok(ClusterChanged::Transferred { to: to.unwrap_or(2) }),
        };
        Box::pin(async { changed })
    }
}
