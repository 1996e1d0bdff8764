//! The wire of etcd, driven by the Rust client that most programs use: the same code for every server that speaks it.
//!
//! Only the stream that keeps many leases is written out here, because that client keeps one lease on each stream.

use etcd_client::{Client as Etcd, LeaseKeepAliveStream, LeaseKeeper, LockOptions, WatchOptions, WatchStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::said;
use crate::client::{Client, Granter, Life, Locker, Renewer, Watcher, Work, Writer};

pub(super) const CLIENT: &str = "etcd-client 0.21.1";

/// How long leases live, in seconds: longer than any measurement.
const TTL: i64 = 600;

/// Whether this client was built.
pub(super) fn find() -> Result<(), String> {
    Ok(())
}

/// Opens a connection.
pub(super) fn connect(endpoint: &str) -> Work<'_, Box<dyn Client>> {
    Box::pin(async move {
        let etcd = Etcd::connect([endpoint], None).await.map_err(said)?;
        Ok(Box::new(Wire { etcd, endpoint: endpoint.to_owned() }) as Box<dyn Client>)
    })
}

struct Wire {
    etcd: Etcd,
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
            let mut ids = Vec::new();
            for _ in 0..leases {
                ids.push(self.etcd.lease_client().grant(TTL, None).await.map_err(said)?.id());
            }
            if let [id] = ids[..] {
                let (keeper, answers) = self.etcd.lease_client().keep_alive(id).await.map_err(said)?;
                return Ok(Box::new(One { keeper, answers }) as Box<dyn Renewer>);
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
        Some(Box::pin(async move {
            let options = WatchOptions::new().with_prefix();
            let stream = self.etcd.watch_client().watch(prefix, Some(options)).await.map_err(said)?;
            Ok(Box::new(Watches(stream)) as Box<dyn Watcher>)
        }))
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

struct Watches(WatchStream);

impl Watcher for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a> {
        Box::pin(async move {
            let answer = self.0.message().await.map_err(said)?.ok_or("the watch has ended")?;
            if answer.canceled() {
                return Err(format!("the watch was ended: {}", answer.cancel_reason()));
            }
            for value in answer.events().iter().filter_map(|event| event.kv()) {
                see(value.value());
            }
            Ok(())
        })
    }
}
