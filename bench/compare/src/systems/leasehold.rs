//! Leasehold over the stream of its Rust client: `lease serve`, one node, with its own settings.
//!
//! Locks and renewals go through the store under that client: its stream, without the thread that renews leases by itself,
//! so that nothing is renewed but what is measured. Every lock is a lease of its own there. Writes, grants of bare leases and
//! watches are calls of the gRPC API over one more connection, opened when it is needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use leasehold_api::grpc::cluster_client::ClusterClient;
use leasehold_api::grpc::entries_client::EntriesClient;
use leasehold_api::grpc::leases_client::LeasesClient;
use leasehold_api::grpc::watch_client::WatchClient;
use leasehold_api::grpc::{GrantRequest, InfoRequest, PutRequest, WatchDelivery, WatchRequest};
use leasehold_api::grpc::{event::Fact, watch_delivery::Delivery};
use leasehold_api::{Class, Mode};
use leasehold_client::http::new_lease_id;
use leasehold_client::store::{Leasehold as Stream, ProgressTo, Store as _, Wish};
use leasehold_client::{Span, Ttl};
use leasehold_core::Patience;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::said;
use crate::client::{
    Client, Endings, Granter, LENT, Lender, Life, Locker, Renewer, Watcher, Work, Writer, lent, number_of,
};
use crate::process::{Server, command, free_address, version};
use crate::system::{About, Running, System};

/// What all ways to this server have in common.
pub(super) const DURABILITY: &str = "fdatasync, of grants, renewals and releases alike; a crash takes nothing back";
pub(super) const FENCING: &str = "token of the claim, rising with every grant, kept by the server";
pub(super) const QUEUE: &str = "in order of arrival; the lock is theirs when they hear of it";
pub(super) const HOLDER: &str = "bench@host/4711";
pub(super) const NAMESPACE: &str = "default";
/// How long leases live, in milliseconds: longer than any measurement.
pub(super) const TTL: u64 = 600_000;

/// How many leases one message renews at most.
const RENEWED_TOGETHER: usize = 4096;

/// How many nodes there are, and how soon they notice that one is gone.
pub(super) enum Leasehold {
    One,
    /// With the usual timeouts.
    Three,
    /// With those for nodes that are close to each other.
    ThreeClose,
}

/// The settings of nodes that are close to each other.
const CLOSE: &str = "[raft]\nheartbeat = \"50ms\"\nelection_min = \"150ms\"\nelection_max = \"300ms\"\n";

impl System for Leasehold {
    fn name(&self) -> &'static str {
        match self {
            Leasehold::One => "leasehold",
            Leasehold::Three => "leasehold-3",
            Leasehold::ThreeClose => "leasehold-3-lan",
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Leasehold::One => 1,
            Leasehold::Three | Leasehold::ThreeClose => 3,
        }
    }

    fn find(&self) -> Result<(), String> {
        lease().map(drop)
    }

    fn about(&self) -> About {
        About {
            version: lease().map_or_else(|why| why, |program| version(&program)),
            durability: match self {
                Leasehold::One => DURABILITY,
                Leasehold::Three => "fdatasync on two of three nodes, of grants, renewals and releases alike",
                Leasehold::ThreeClose => {
                    "the same; heartbeat 50 ms, elections 150–300 ms, instead of 100 ms and 300–600 ms"
                }
            },
            fencing: FENCING,
            queue: QUEUE,
            client: "leasehold-client, its stream; puts, bare grants and watches by gRPC calls",
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        match self {
            Leasehold::One => serve(directory, &[]),
            Leasehold::Three => serve_three(directory, ""),
            Leasehold::ThreeClose => serve_three(directory, CLOSE),
        }
    }

    fn leader<'a>(&'a self, running: &'a Running) -> Option<Work<'a, usize>> {
        Some(Box::pin(async move {
            for (number, node) in running.endpoint.split(',').enumerate() {
                let calls = Endpoint::from_shared(node.to_owned()).map_err(said)?.connect_lazy();
                if ClusterClient::new(calls).info(InfoRequest {}).await.map_err(said)?.into_inner().leads {
                    return Ok(number);
                }
            }
            Err("nobody leads".to_owned())
        }))
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async move {
            let stream = Stream::new(running.endpoint.parse().map_err(said)?, NAMESPACE);
            stream.connect().await.map_err(said)?;
            let first = running.endpoint.split(',').next().unwrap_or_default().to_owned();
            let calls = Endpoint::from_shared(first).map_err(said)?.tcp_nodelay(true).connect_lazy();
            Ok(Box::new(Wire { stream, calls }) as Box<dyn Client>)
        })
    }
}

/// The binary: the one that `LEASEHOLD_LEASE` names, or the one that was built beside this program.
pub(super) fn lease() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("LEASEHOLD_LEASE").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let this = std::env::current_exe().map_err(said)?;
    let lease = this.with_file_name("lease");
    if lease.is_file() { Ok(lease) } else { Err(format!("{} is not there; build it", lease.display())) }
}

/// Starts one node, with further words on its command line.
pub(super) fn serve(directory: &Path, more: &[&str]) -> Result<Running, String> {
    let address = free_address()?;
    let mut serve = command(&lease()?);
    serve.args(["serve", "--listen", &address]).args(more).arg("--data").arg(directory.join("data"));
    Ok(Running { endpoint: format!("http://{address}"), servers: vec![Server::start(serve, directory)?] })
}

/// Starts three nodes, all with this configuration.
fn serve_three(directory: &Path, config: &str) -> Result<Running, String> {
    let peers: Vec<String> = (0..3).map(|_| free_address()).collect::<Result<_, _>>()?;
    let members: Vec<String> = peers.iter().enumerate().map(|(number, peer)| format!("n{number}={peer}")).collect();
    let (mut endpoints, mut servers) = (Vec::new(), Vec::new());
    for (number, peer) in peers.iter().enumerate() {
        let directory = directory.join(format!("n{number}"));
        fs::create_dir_all(&directory).map_err(said)?;
        let file = directory.join("config");
        fs::write(&file, config).map_err(said)?;
        let address = free_address()?;
        let mut serve = command(&lease()?);
        serve.args(["serve", "--listen", &address, "--name", &format!("n{number}"), "--peer-listen", peer]);
        serve.args(["--members", &members.join(",")]).arg("--config").arg(&file);
        serve.arg("--data").arg(directory.join("data"));
        endpoints.push(format!("http://{address}"));
        servers.push(Server::start(serve, &directory)?);
    }
    Ok(Running { endpoint: endpoints.join(","), servers })
}

#[derive(Clone)]
struct Wire {
    stream: Stream,
    calls: Channel,
}

impl Client for Wire {
    fn share(&self) -> Box<dyn Client> {
        Box::new(self.clone())
    }

    fn greet(&self) -> Work<'_> {
        Box::pin(async { self.stream.incumbent("greeting").await.map(drop).map_err(said) })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Puts(EntriesClient::new(self.calls.clone()))))
    }

    fn granter(&self) -> Option<Box<dyn Granter>> {
        Some(Box::new(Grants(LeasesClient::new(self.calls.clone()))))
    }

    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        Some(Box::pin(async move {
            let kept = |_| wish(format!("kept/{}", new_lease_id()), TTL);
            let wishes: Vec<Arc<Wish>> = (0..leases).map(kept).collect();
            let grants = wishes.iter().map(|wish| self.stream.grant(Arc::clone(wish), ProgressTo::nobody()));
            try_join_all(grants).await.map_err(said)?;
            Ok(Box::new(Renews { stream: self.stream.clone(), wishes }) as Box<dyn Renewer>)
        }))
    }

    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        match life {
            Life::Kept => None,
            Life::PerLock => Some(Box::pin(async {
                Ok(Box::new(Locks { stream: self.stream.clone(), held: None }) as Box<dyn Locker>)
            })),
        }
    }

    fn lender(&self) -> Option<Box<dyn Lender>> {
        Some(Box::new(Lends(self.stream.clone())))
    }

    fn endings(&self) -> Option<Work<'_, Box<dyn Endings>>> {
        Some(Box::pin(async { Ok(Box::new(Watches(self.watch(LENT).await?)) as Box<dyn Endings>) }))
    }

    fn watcher<'a>(&'a self, prefix: &'a str) -> Option<Work<'a, Box<dyn Watcher>>> {
        Some(Box::pin(async move { Ok(Box::new(Watches(self.watch(prefix).await?)) as Box<dyn Watcher>) }))
    }
}

impl Wire {
    async fn watch(&self, prefix: &str) -> Result<Streaming<WatchDelivery>, String> {
        let request = WatchRequest { namespace: NAMESPACE.to_owned(), prefix: prefix.to_owned(), since: None };
        Ok(WatchClient::new(self.calls.clone()).events(request).await.map_err(said)?.into_inner())
    }
}

/// A lease on one resource.
fn wish(resource: String, ttl_ms: u64) -> Arc<Wish> {
    Arc::new(Wish {
        id: new_lease_id().0,
        holder: HOLDER.to_owned(),
        resources: vec![resource],
        mode: Mode::Exclusive,
        ttl: Ttl::For(Span(ttl_ms)),
        class: Class::Lock,
        patience: Patience::Endless,
        fair: false,
        priority: 0,
        cooldown: Duration::ZERO,
        metadata: BTreeMap::new(),
    })
}

struct Locks {
    stream: Stream,
    held: Option<Arc<Wish>>,
}

impl Locker for Locks {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            let wish = wish(name.to_owned(), TTL);
            self.stream.grant(Arc::clone(&wish), ProgressTo::nobody()).await.map_err(said)?;
            self.held = Some(wish);
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let held = self.held.take().ok_or("nothing is held")?;
            self.stream.release(held).await.map_err(said)
        })
    }
}

/// Leases that are renewed together.
struct Renews {
    stream: Stream,
    wishes: Vec<Arc<Wish>>,
}

impl Renewer for Renews {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(async move {
            let messages = self.wishes.chunks(RENEWED_TOGETHER).map(|wishes| self.stream.renew(wishes.to_vec()));
            for renewed in try_join_all(messages).await.map_err(said)?.into_iter().flatten() {
                renewed.map_err(said)?;
            }
            Ok(())
        })
    }
}

struct Puts(EntriesClient<Channel>);

impl Writer for Puts {
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a> {
        Box::pin(async move {
            let key = key.as_bytes().to_vec().into();
            let request = PutRequest { key, value: value.to_vec().into(), ..PutRequest::default() };
            self.0.put(request).await.map(drop).map_err(said)
        })
    }
}

struct Grants(LeasesClient<Channel>);

impl Granter for Grants {
    fn grant(&mut self) -> Work<'_> {
        Box::pin(async move {
            let id = Some(new_lease_id().0.number());
            let request = GrantRequest { id, holder: HOLDER.to_owned(), ttl_ms: Some(TTL), ..GrantRequest::default() };
            self.0.grant(request).await.map(drop).map_err(said)
        })
    }
}

struct Lends(Stream);

impl Lender for Lends {
    fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(TTL);
        Box::pin(async move {
            let (asked, wish) = (Instant::now(), wish(lent(number), ttl_ms));
            self.0.grant(wish, ProgressTo::nobody()).await.map_err(said)?;
            Ok(asked + Duration::from_millis(ttl_ms))
        })
    }

    fn lives(&self, number: u64) -> Work<'_, bool> {
        Box::pin(async move { Ok(self.0.incumbent(&lent(number)).await.map_err(said)?.is_some()) })
    }
}

struct Watches(Streaming<WatchDelivery>);

impl Watches {
    /// What happened next.
    async fn facts(&mut self) -> Result<Vec<Fact>, String> {
        let delivery = self.0.message().await.map_err(said)?.and_then(|delivery| delivery.delivery);
        match delivery.ok_or("the watch has ended")? {
            Delivery::Change(change) => Ok(change.events.into_iter().filter_map(|event| event.fact).collect()),
            Delivery::Progress(_) => Ok(Vec::new()),
            Delivery::TooSlow(_) => Err("the watch was cut because it was too slow".to_owned()),
        }
    }
}

impl Watcher for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a> {
        Box::pin(async move {
            for fact in self.facts().await? {
                if let Fact::EntryPut(put) = fact {
                    see(&put.value);
                }
            }
            Ok(())
        })
    }
}

impl Endings for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(u64) + Send)) -> Work<'a> {
        Box::pin(async move {
            for fact in self.facts().await? {
                if let Fact::ClaimEnded(ended) = fact {
                    number_of(&ended.resource).into_iter().for_each(&mut *see);
                }
            }
            Ok(())
        })
    }
}
