//! The dialect on a service with a log in memory, in a cluster of three that is not there.

mod keys;
mod locks;
mod operators;
mod port;
mod watches;

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use leasehold_core::Namespace;
use leasehold_service::{
    Cluster, ClusterChange, ClusterChanged, ClusterStatus, Failure, MachineClocks, Member, MemoryLog, Options, Replica,
    Service,
};

use crate::dialect::{Dialect, EtcdOptions};

/// The nodes 1 to 3, of which the first answers and, unless told otherwise, leads; the third does not vote. Without a
/// leader it is not changed.
#[derive(Clone)]
pub(crate) struct Three {
    pub(crate) leader: Option<u64>,
    /// How it was to be changed.
    pub(crate) changes: Arc<Mutex<Vec<ClusterChange>>>,
}

impl Default for Three {
    fn default() -> Three {
        Three { leader: Some(1), changes: Arc::default() }
    }
}

impl Cluster for Three {
    fn status(&self) -> ClusterStatus {
        let member = |node: u64| Member {
            node,
            name: format!("n{node}"),
            address: format!("10.0.0.{node}:7118"),
            voter: node < 3,
            matched: None,
            heard_ms: None,
        };
        ClusterStatus {
            cluster: (5 << 64) | 3,
            node: 1,
            leader: self.leader,
            term: 1,
            applied: Some(41),
            last_log: Some(42),
            snapshot: None,
            log_bytes: 4096,
            members: [1, 2, 3].map(member).to_vec(),
        }
    }

    fn change(&self, change: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>> {
        self.changes.lock().unwrap().push(change);
        let changed = match self.leader {
            Some(_) => Ok(ClusterChanged::Transferred { to: 2 }),
            None => Err(Failure::ChangeRefused("nobody leads".into())),
        };
        Box::pin(async { changed })
    }
}

/// The dialect on a fresh service.
pub(crate) async fn dialect(options: Options) -> Dialect {
    let replica = Arc::new(Replica::new());
    let log = MemoryLog::start(Arc::clone(&replica));
    let service = Service::start(log, replica, MachineClocks, options);
    while !service.health().leads {
        tokio::task::yield_now().await;
    }
    Dialect::new(service, EtcdOptions { namespace: Namespace::new("etcd").unwrap(), ..EtcdOptions::default() })
}

/// The dialect of the first of three nodes.
pub(crate) async fn of(three: &Three) -> Dialect {
    dialect(Options { cluster: Some(Arc::new(three.clone())), ..Options::default() }).await
}
