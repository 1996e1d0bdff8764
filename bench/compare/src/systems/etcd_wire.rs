//! The wire of etcd, driven by the Rust client that most programs use: the same code for every server that speaks it.
//!
//! Only the stream that keeps many leases is written out here, because that client keeps one lease on each stream.

use std::time::{Duration, Instant};

use etcd_client::{
    Client as Etcd, Event, EventType, LeaseKeepAliveStream, LeaseKeeper, LockOptions, PutOptions, WatchOptions,
    WatchStream,
};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::said;
use crate::client::{
    Client, Endings, Granter, LENT, Lender, Life, Locker, Renewer, Watcher, Work, Writer, lent, number_of,
};

/// What the keys of leases contain.
const HOLDER: &str = "bench@host/4711";

pub(super) const CLIENT: &str = "etcd-client 0.21.1";

/// How long leases live, in seconds: longer than any measurement.
const TTL: i64 = 600;
/// How many grants are under way together where many leases are needed.
const TOGETHER: usize = 64;

/// Whether this client was built.
pub(super) fn find() -> Result<(), String> {
    Ok(())
}

/// Opens a connection to each of these nodes.
pub(super) fn connect(endpoints: &str) -> Work<'_, Box<dyn Client>> {
    Box::pin(async move {
        let nodes: Vec<&str> = endpoints.split(',').collect();
        let endpoint = nodes.first().copied().unwrap_or_default().to_owned();
        let etcd = Etcd::connect(nodes, None).await.map_err(said)?;
        Ok(Box::new(Wire { etcd, endpoint }) as Box<dyn Client>)
    })
}

/// Whether the node at this address leads.
pub(super) async fn leads(endpoint: &str) -> Result<bool, String> {
    let mut etcd = Etcd::connect([endpoint], None).await.map_err(said)?;
    let status = etcd.status().await.map_err(said)?;
    Ok(status.header().is_some_and(|header| header.member_id() == status.leader()))
}

struct Wire {
    etcd: Etcd,
    /// The first node.
    endpoint: String,
}

impl Client for Wire {
    fn share(&self) -> Box<dyn Client> {
        Box::new(Wire { etcd: self.etcd.clone(), endpoint: self.endpoint.clone() })
    }

    fn greet(&self) -> Work<'_> {
        Box::pin(async {
            let mut kv = self.etcd.kv_client();
            kv.get("greeting", None).await.map(drop).map_err(said)
        })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Caller(self.etcd.clone())))
    }

    fn granter(&self) -> Option<Box<dyn Granter>> {
        Some(Box::new(Caller(self.etcd.clone())))
    }

    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        Some(Box::pin(async move {
            let grant = async |_| self.etcd.lease_client().grant(TTL, None).await.map(|granted| granted.id());
            let grants = stream::iter(0..leases).map(grant).buffered(TOGETHER);
            let ids: Vec<i64> = grants.try_collect().await.map_err(said)?;
            if let [id] = ids[..] {
                let (keeper, answers) = self.etcd.lease_client().keep_alive(id).await.map_err(said)?;
                let etcd = self.etcd.clone();
                return Ok(Box::new(One { etcd, id, keeper, answers }) as Box<dyn Renewer>);
            }
            Ok(Box::new(Many::open(&self.endpoint, ids).await?) as Box<dyn Renewer>)
        }))
    }

    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        Some(Box::pin(async move {
            let mut etcd = self.etcd.clone();
            let kept = match life {
                Life::Kept => Some(etcd.lease_grant(TTL, None).await.map_err(said)?.id()),
                Life::PerLock => None,
            };
            Ok(Box::new(Locks { etcd, kept, held: None }) as Box<dyn Locker>)
        }))
    }

    fn watcher<'a>(&'a self, prefix: &'a str) -> Option<Work<'a, Box<dyn Watcher>>> {
        Some(Box::pin(async move { Ok(Box::new(self.watch(prefix).await?) as Box<dyn Watcher>) }))
    }

    fn lender(&self) -> Option<Box<dyn Lender>> {
        Some(Box::new(Caller(self.etcd.clone())))
    }

    fn endings(&self) -> Option<Work<'_, Box<dyn Endings>>> {
        Some(Box::pin(async { Ok(Box::new(self.watch(LENT).await?) as Box<dyn Endings>) }))
    }
}

impl Wire {
    async fn watch(&self, prefix: &str) -> Result<Watches, String> {
        let options = WatchOptions::new().with_prefix();
        self.etcd.watch_client().watch(prefix, Some(options)).await.map(Watches).map_err(said)
    }
}

struct Caller(Etcd);

impl Writer for Caller {
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a> {
        Box::pin(async move { self.0.put(key, value, None).await.map(drop).map_err(said) })
    }
}

impl Granter for Caller {
    fn grant(&mut self) -> Work<'_> {
        Box::pin(async move { self.0.lease_grant(TTL, None).await.map(drop).map_err(said) })
    }
}

/// One lease on a stream.
struct One {
    etcd: Etcd,
    id: i64,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

impl Renewer for One {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(async move {
            self.keeper.keep_alive().await.map_err(said)?;
            match self.answers.message().await.map_err(said)? {
                Some(answer) if answer.ttl() > 0 => Ok(()),
                Some(_) => Err("the lease is gone".to_owned()),
                None => Err("the stream has ended".to_owned()),
            }
        })
    }

    fn mend(&mut self) -> Work<'_> {
        Box::pin(async move {
            (self.keeper, self.answers) = self.etcd.lease_client().keep_alive(self.id).await.map_err(said)?;
            Ok(())
        })
    }
}

/// Many leases on a stream.
struct Many {
    ids: Vec<i64>,
    requests: UnboundedSender<Renew>,
    answers: Streaming<Renewed>,
}

/// `LeaseKeepAliveRequest`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Renew {
    #[prost(int64, tag = "1")]
    id: i64,
}

/// `LeaseKeepAliveResponse`, without its header.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Renewed {
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    ttl: i64,
}

impl Many {
    async fn open(endpoint: &str, ids: Vec<i64>) -> Result<Many, String> {
        let endpoint = Endpoint::from_shared(endpoint.to_owned()).map_err(said)?;
        let channel = endpoint.connect().await.map_err(said)?;
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(said)?;
        let (requests, taken) = unbounded_channel();
        // Servers answer the call with the first answer.
        let first = ids.first().copied().unwrap_or_default();
        requests.send(Renew { id: first }).map_err(said)?;
        let request = Request::new(UnboundedReceiverStream::new(taken));
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let answered = grpc.streaming(request, path, ProstCodec::<Renew, Renewed>::default()).await;
        let mut many = Many { ids, requests, answers: answered.map_err(said)?.into_inner() };
        many.answer().await?;
        Ok(many)
    }

    async fn answer(&mut self) -> Result<(), String> {
        match self.answers.message().await.map_err(said)? {
            Some(answer) if answer.ttl > 0 => Ok(()),
            Some(answer) => Err(format!("lease {} is gone", answer.id)),
            None => Err("the stream has ended".to_owned()),
        }
    }
}

impl Renewer for Many {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(async move {
            for id in &self.ids {
                self.requests.send(Renew { id: *id }).map_err(said)?;
            }
            for _ in 0..self.ids.len() {
                self.answer().await?;
            }
            Ok(())
        })
    }
}

/// The service of locks.
struct Locks {
    etcd: Etcd,
    /// The lease of all locks, if one is kept.
    kept: Option<i64>,
    /// The lease and the key of the lock that is held.
    held: Option<(i64, Vec<u8>)>,
}

impl Locker for Locks {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            let lease = match self.kept {
                Some(lease) => lease,
                None => self.etcd.lease_grant(TTL, None).await.map_err(said)?.id(),
            };
            let options = LockOptions::new().with_lease(lease);
            let locked = self.etcd.lock(name, Some(options)).await.map_err(said)?;
            self.held = Some((lease, locked.key().to_vec()));
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let Some((lease, key)) = self.held.take() else { return Err("nothing is held".to_owned()) };
            self.etcd.unlock(key).await.map_err(said)?;
            if self.kept.is_none() {
                self.etcd.lease_revoke(lease).await.map_err(said)?;
            }
            Ok(())
        })
    }
}

/// A key bound to a lease, which goes with it.
impl Lender for Caller {
    fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant> {
        // It knows whole seconds.
        let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(TTL);
        Box::pin(async move {
            let asked = Instant::now();
            let granted = self.0.lease_client().grant(seconds, None).await.map_err(said)?;
            let options = PutOptions::new().with_lease(granted.id());
            self.0.kv_client().put(lent(number), HOLDER, Some(options)).await.map_err(said)?;
            Ok(asked + Duration::from_secs(granted.ttl().unsigned_abs()))
        })
    }

    fn lives(&self, number: u64) -> Work<'_, bool> {
        Box::pin(async move {
            let found = self.0.kv_client().get(lent(number), None).await.map_err(said)?;
            Ok(found.kvs().first().is_some_and(|key| key.lease() != 0))
        })
    }
}

struct Watches(WatchStream);

impl Watches {
    /// Waits for what happened next, and shows each of it.
    async fn events(&mut self, mut see: impl FnMut(&Event)) -> Result<(), String> {
        let answer = self.0.message().await.map_err(said)?.ok_or("the watch has ended")?;
        if answer.canceled() {
            return Err(format!("the watch was ended: {}", answer.cancel_reason()));
        }
        answer.events().iter().for_each(&mut see);
        Ok(())
    }
}

impl Watcher for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a> {
        Box::pin(self.events(|event| {
            if let Some(key) = event.kv() {
                see(key.value());
            }
        }))
    }
}

impl Endings for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(u64) + Send)) -> Work<'a> {
        Box::pin(self.events(|event| {
            let gone = event.kv().filter(|_| event.event_type() == EventType::Delete);
            if let Some(number) = gone.and_then(|key| number_of(key.key_str().ok()?)) {
                see(number);
            }
        }))
    }
}
