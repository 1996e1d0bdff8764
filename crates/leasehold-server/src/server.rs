//! The parts of a running server, put together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::Limits;
use leasehold_etcd::{ClientAddress, EtcdOptions};
use leasehold_grpc::GrpcOptions;
use leasehold_http::HttpOptions;
use leasehold_raft::{Formation, Node, OpenError, PeerOptions};
use leasehold_service::log::{Leadership, Log as _};
use leasehold_service::{Access, Cluster, Member, Options, Replica, Service};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::util::MapRequest;
use tracing::{info, warn};

use crate::clocks::ServerClocks;
use crate::config::{Config, ConfigError, Etcd};
use crate::descriptors::{self, TooFewDescriptors};
use crate::duties;
use crate::listener::Listener;
use crate::peers::{Coming, Peers};
use crate::threads::Threads;

/// Entries on their way at a time where each takes a round over the network.
const IN_FLIGHT_OF_SEVERAL: usize = 4;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("{0}")]
    Data(#[from] OpenError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; is another server running there? choose another {flag} address")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// What it was given with.
        flag: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The threads that serve clients cannot be started.
    #[error("cannot start the threads that serve clients: {0}; is there a limit on threads?")]
    Threads(std::io::Error),
    /// The process may open too few files.
    #[error("{0}")]
    Descriptors(#[from] TooFewDescriptors),
    /// The surroundings make no sense.
    #[error("{0}")]
    Config(#[from] ConfigError),
}

impl StartError {
    /// The exit code of a process that ends with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Data(_) | StartError::Listen { .. } | StartError::Threads(_) | StartError::Descriptors(_) => 69,
            StartError::Config(_) => 78,
        }
    }
}

/// A running server.
pub struct Running {
    node: Arc<Node<Replica>>,
    service: Service,
    cluster: Arc<dyn Cluster>,
    address: SocketAddr,
    etcd: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Starts a server; returns when it can be used.
pub async fn start(config: &Config) -> Result<Running, StartError> {
    let clocks = ServerClocks::from_environment()?;
    // The address first: a server that is already running is told by it, whatever the directory says.
    let connections = descriptors::connections(config, descriptors::raise_limit())?;
    let listener = bind(config.listen, connections, "--listen")?;
    let etcd = match &config.etcd {
        Some(etcd) => Some((etcd, bind(etcd.listen, connections, "--etcd")?)),
        None => None,
    };
    let replica = Arc::new(Replica::new());
    let (node, opened) = Node::open(node_options(config, listener.address), Arc::clone(&replica)).await?;
    if let Some(cut) = &opened.cut {
        eprintln!(
            "warning: the last write to the log was interrupted; {} bytes were cut from {} at offset {}. \
             Nothing acknowledged was lost.",
            cut.bytes,
            cut.file.display(),
            cut.offset
        );
    }
    info!(?opened, "data directory opened");
    let node = Arc::new(node);
    let cluster: Arc<dyn Cluster> = Arc::clone(&node) as Arc<dyn Cluster>;
    let options = Options {
        cluster: Some(Arc::clone(&cluster)),
        in_flight: if config.peers.is_some() { IN_FLIGHT_OF_SEVERAL } else { Options::default().in_flight },
        leaderless_patience: leaderless_patience(config),
        access: Access::open(config.endless),
        limits: config.limits.clone(),
        data: Some(config.data.clone()),
        disk_reserve: config.disk_reserve,
    };
    let service = Service::start(Arc::clone(&node), replica, clocks, options);
    tokio::spawn(duties::watch_disk(service.clone(), Arc::clone(&cluster)));
    tokio::spawn(duties::tell_leaders(Arc::clone(&cluster), node.leadership()));
    if let Some(limits) = &config.limits {
        wait_for_limits(&service, limits).await;
    }
    let (stop, stopped) = watch::channel(false);
    let address = listener.address;
    let router = routes(&service);
    let threads = Arc::new(Threads::start().map_err(StartError::Threads)?);
    let serving = listener.serve(move |_| router.clone(), Arc::clone(&threads), stopped.clone());
    let mut listeners = vec![tokio::spawn(serving)];
    let etcd_address = etcd.as_ref().map(|(_, listener)| listener.address);
    if let Some((etcd, listener)) = etcd {
        listeners.push(tokio::spawn(serve_etcd(service.clone(), etcd.clone(), listener, threads, stopped)));
    }
    Ok(Running { node, service, cluster, address, etcd: etcd_address, stop, listeners })
}

fn bind(address: SocketAddr, connections: usize, flag: &'static str) -> Result<Listener, StartError> {
    Listener::bind(address, connections).map_err(|source| StartError::Listen { address, flag, source })
}

/// Serves etcd's clients, once there is a revision to tell them.
async fn serve_etcd(
    service: Service,
    etcd: Etcd,
    listener: Listener,
    threads: Arc<Threads>,
    stop: watch::Receiver<bool>,
) {
    let url = etcd.advertise.unwrap_or_else(|| format!("http://{}", listener.address));
    leasehold_etcd::prepare(&service, &url).await;
    let router = leasehold_etcd::router(service, EtcdOptions { namespace: etcd.namespace, ..EtcdOptions::default() });
    let named = move |client: SocketAddr| {
        MapRequest::new(router.clone(), move |mut request: http::Request<_>| {
            request.extensions_mut().insert(ClientAddress(client));
            request
        })
    };
    listener.mending_authorities().serve(named, threads, stop).await;
}

/// As long as an election takes, and then some.
fn leaderless_patience(config: &Config) -> Duration {
    let [_, _, election_max] = config.raft.timeouts();
    (election_max * 3).max(Options::default().leaderless_patience)
}

/// Everything that is spoken on the port.
fn routes(service: &Service) -> axum::Router {
    let http = leasehold_http::router(service.clone(), HttpOptions::default());
    http.merge(leasehold_grpc::router(service.clone(), GrpcOptions::default()))
}

/// Waits until the configured limits are in force; a log that cannot take them now is no reason not to start.
async fn wait_for_limits(service: &Service, limits: &Limits) {
    let in_force = async {
        while !service.limits_are(limits) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(2), in_force).await.is_err() {
        warn!("the configured limits are not in force yet");
    }
}

fn node_options(config: &Config, address: SocketAddr) -> leasehold_raft::Options {
    let [heartbeat, election_min, election_max] = config.raft.timeouts();
    leasehold_raft::Options {
        address: address.to_string(),
        peers: config.peers.as_ref().map(|peers| peer_options(peers, config.insecure)),
        heartbeat,
        election_min,
        election_max,
        snapshot_bytes: config.raft.snapshot_bytes,
        retained_entries: config.raft.retained_entries,
        // Between the mark where new work is refused and the one where nothing is proposed any more.
        disk_floor: config.disk_reserve / 2,
        ..leasehold_raft::Options::new(&config.data)
    }
}

fn peer_options(peers: &Peers, insecure: bool) -> PeerOptions {
    let formation = match &peers.coming {
        Coming::Alone => Formation::Alone,
        Coming::Members(members) => Formation::Members(members.clone()),
        Coming::Join(addresses) => Formation::Join(addresses.clone()),
    };
    let Peers { name, listen, advertise, tls, coming: _ } = peers.clone();
    PeerOptions { name, listen, advertise: Some(advertise), formation, insecure, tls }
}

impl Running {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address it listens on for etcd's clients, if it does.
    pub fn etcd_address(&self) -> Option<SocketAddr> {
        self.etcd
    }

    /// The service behind the listeners.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Tells who leads, and every change of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.node.leadership()
    }

    /// How this node stands to its leader, in a few words.
    pub fn standing(&self) -> String {
        duties::standing(*self.node.leadership().borrow(), &self.cluster.status())
    }

    /// The members of the cluster, as this node knows them.
    pub fn members(&self) -> Vec<Member> {
        self.node.members()
    }

    /// Returns, with the reason, when the server cannot go on.
    pub async fn failed(&self) -> String {
        self.node.stopped().await
    }

    /// Stops cleanly: another node leads if one can, no new calls, those under way finish, everything is on disk, the
    /// directory is unlocked.
    pub async fn stop(self) {
        duties::hand_over(&self.cluster, "this node stops").await;
        self.service.stop().await;
        self.stop.send_replace(true);
        for listener in self.listeners {
            if let Err(error) = listener.await {
                warn!(%error, "a listener did not end cleanly");
            }
        }
        self.node.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::grpc::InfoRequest;
    use leasehold_api::grpc::cluster_client::ClusterClient;
    use leasehold_api::grpc::leases_client::LeasesClient;
    use tonic::transport::Channel;

    use super::*;
    use crate::Flags;

    #[tokio::test]
    async fn grpc_is_spoken_on_the_port_and_an_open_stream_does_not_delay_the_stop() {
        let folder = tempfile::tempdir().unwrap();
        let flags =
            Flags { listen: Some("127.0.0.1:0".to_owned()), data: Some(folder.path().to_owned()), ..Flags::default() };
        let running = start(&Config::load(flags).unwrap()).await.unwrap();
        let address = format!("http://{}", running.address());
        let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
        let info = ClusterClient::new(channel.clone()).info(InfoRequest {}).await.unwrap().into_inner();
        assert!(info.ready);
        let silent = futures_util::stream::pending();
        let mut down = LeasesClient::new(channel).connect(silent).await.unwrap().into_inner();
        let stopping = tokio::spawn(running.stop());
        let status = down.message().await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
        tokio::time::timeout(Duration::from_secs(4), stopping).await.expect("nothing is waited for").unwrap();
    }
}
