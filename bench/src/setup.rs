//! A service over a real node in a directory of its own.

use std::path::Path;
use std::sync::Arc;

use leasehold_core::{
    Ask, Asks, Caller, Class, Command, Grant, Holder, LeaseId, LeaseTime, Metadata, Mode, Namespace, ResourceName,
    Rights, Span, Ttl,
};
use leasehold_raft::Node;
use leasehold_service::{MachineClocks, Options, Replica, Service};
use tokio::runtime::Runtime;

/// A running service and what it runs on.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) node: Arc<Node<Replica>>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) service: Service,
}

impl Bench {
    /// Opens a directory, with as many worker threads as the server would have.
    pub(crate) fn open(directory: &Path) -> Bench {
        let runtime = runtime();
        let (node, replica, service) = runtime.block_on(async {
            let replica = Arc::new(Replica::new());
            let opened = Node::open(leasehold_raft::Options::new(directory), Arc::clone(&replica)).await;
            let node = Arc::new(opened.expect("the directory can be opened").0);
            let options = Options { data: Some(directory.to_path_buf()), ..Options::default() };
            let service = Service::start(Arc::clone(&node), Arc::clone(&replica), MachineClocks, options);
            while !service.health().ready {
                tokio::task::yield_now().await;
            }
            (node, replica, service)
        });
        Bench { runtime, node, replica, service }
    }

    /// Stops cleanly.
    pub(crate) fn close(self) {
        self.runtime.block_on(async {
            self.service.stop().await;
            self.node.shutdown().await;
        });
    }
}

/// As many worker threads as the server would have.
pub(crate) fn runtime() -> Runtime {
    let workers = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().build().expect("threads can be started")
}

/// A directory on the disk that is measured.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("leasehold-bench").tempdir_in(".").expect("the present directory can be written to")
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new("bench").expect("it is a well-formed name")
}

pub(crate) fn caller() -> Caller {
    Caller { identity: None, rights: Rights { operator: true, endless: false } }
}

pub(crate) fn random_id() -> LeaseId {
    LeaseId::new((rand::random::<u64>() >> 1).max(1)).expect("it has 63 bits and is not zero")
}

/// A grant of a lease, on a resource of its own if one is named.
pub(crate) fn grant(id: LeaseId, ttl: Span, resource: Option<&str>, seen: LeaseTime) -> Command {
    let claims = resource.map(|name| Ask {
        resource: ResourceName::new(name).expect("it is a well-formed name"),
        mode: Mode::Exclusive,
    });
    Command::Grant(Grant {
        id,
        holder: Holder::new("bench@host/4711").expect("it is a well-formed name"),
        ttl: Ttl::For(ttl),
        class: Class::Lock,
        parent: None,
        metadata: Metadata::default(),
        asks: Asks { claims: claims.into_iter().collect(), ..Asks::default() },
        seen,
    })
}
