//! Leasehold with its etcd dialect: one node, or three of which any may be killed.

use crate::cluster::{Cluster, Plan};
use crate::server::{Server, Setup, free_port};

/// A single node.
pub(super) struct One {
    pub(super) server: Server,
    pub(super) endpoint: String,
}

impl One {
    pub(super) fn start() -> One {
        let address = format!("127.0.0.1:{}", free_port());
        let args = vec!["--etcd".to_owned(), address.clone()];
        One { server: Server::with(Setup { args, ..Setup::default() }), endpoint: format!("http://{address}") }
    }
}

/// Three nodes.
pub(super) struct Three {
    pub(super) cluster: Cluster,
    pub(super) endpoints: Vec<String>,
}

impl Three {
    pub(super) fn start() -> Three {
        let addresses: Vec<String> = (0..3).map(|_| format!("127.0.0.1:{}", free_port())).collect();
        let own_args = addresses.iter().map(|address| vec!["--etcd".to_owned(), address.clone()]).collect();
        let cluster = Cluster::with(3, Plan { own_args, ..Plan::default() });
        Three { cluster, endpoints: addresses.iter().map(|address| format!("http://{address}")).collect() }
    }

    /// The endpoint of a node that does not lead.
    pub(super) fn follower(&mut self) -> String {
        let number = self.cluster.followers()[0];
        self.endpoints[number].clone()
    }

    /// All endpoints, the leader's first, and its number.
    pub(super) fn leader_first(&mut self) -> (usize, Vec<String>) {
        let leader = self.cluster.leader();
        let others = (0..3).filter(|number| *number != leader).map(|number| self.endpoints[number].clone());
        (leader, std::iter::once(self.endpoints[leader].clone()).chain(others).collect())
    }
}
