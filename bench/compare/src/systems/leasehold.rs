//! Leasehold over the stream of its Rust client: `lease serve`, one node, with its own settings.
//!
//! Locks and renewals go through the store under that client: its stream, without the thread that renews leases by itself,
//! so that nothing is renewed but what is measured. Every lock is a lease of its own there. Writes, grants of bare leases and
//! watches are calls of the gRPC API over one more connection, opened when it is needed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_api::grpc::entries_client::EntriesClient;
use leasehold_api::grpc::leases_client::LeasesClient;
use leasehold_api::grpc::watch_client::WatchClient;
use leasehold_api::grpc::{GrantRequest, PutRequest, WatchDelivery, WatchRequest};
use leasehold_api::grpc::{event::Fact, watch_delivery::Delivery};
use leasehold_api::{Class, Mode};
use leasehold_client::http::new_lease_id;
use leasehold_client::store::{Leasehold as Stream, ProgressTo, Store as _, Wish};
use leasehold_client::{Span, Ttl};
use leasehold_core::Patience;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::said;
use crate::client::{Client, Granter, Life, Locker, Renewer, Watcher, Work, Writer};
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

pub(super) struct Leasehold;

impl System for Leasehold {
    fn name(&self) -> &'static str {
        "leasehold"
    }

    fn find(&self) -> Result<(), String> {
        lease().map(drop)
    }

    fn about(&self) -> About {
        About {
            version: lease().map_or_else(|why| why, |program| version(&program)),
            durability: DURABILITY,
            fencing: FENCING,
            queue: QUEUE,
            client: "leasehold-client, its stream; puts, bare grants and watches by gRPC calls",
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        serve(directory, &[])
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async move {
            let stream = Stream::new(running.endpoint.parse().map_err(said)?, NAMESPACE);
            stream.connect().await.map_err(said)?;
            let calls = Endpoint::from_shared(running.endpoint.clone()).map_err(said)?.tcp_nodelay(true).connect_lazy();
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
            let wishes: Vec<Arc<Wish>> = (0..leases).map(|_| wish(format!("kept/{}", new_lease_id()))).collect();
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

    fn watcher<'a>(&'a self, prefix: &'a str) -> Option<Work<'a, Box<dyn Watcher>>> {
        Some(Box::pin(async move {
            let request = WatchRequest { namespace: NAMESPACE.to_owned(), prefix: prefix.to_owned(), since: None };
            let events = WatchClient::new(self.calls.clone()).events(request).await.map_err(said)?;
            Ok(Box::new(Watches(events.into_inner())) as Box<dyn Watcher>)
        }))
    }
}

/// A lease on one resource.
fn wish(resource: String) -> Arc<Wish> {
    Arc::new(Wish {
        id: new_lease_id().0,
        holder: HOLDER.to_owned(),
        resources: vec![resource],
        mode: Mode::Exclusive,
        ttl: Ttl::For(Span(TTL)),
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
            let wish = wish(name.to_owned());
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

struct Watches(Streaming<WatchDelivery>);

impl Watcher for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a> {
        Box::pin(async move {
            let delivery = self.0.message().await.map_err(said)?.and_then(|delivery| delivery.delivery);
            match delivery.ok_or("the watch has ended")? {
                Delivery::Change(change) => {
                    for event in change.events {
                        if let Some(Fact::EntryPut(put)) = event.fact {
                            see(&put.value);
                        }
                    }
                    Ok(())
                }
                Delivery::Progress(_) => Ok(()),
                Delivery::TooSlow(_) => Err("the watch was cut because it was too slow".to_owned()),
            }
        })
    }
}
