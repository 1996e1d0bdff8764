//! The default store: a Leasehold server or cluster, over one stream.
//!
//! All commands of a client travel on one [`Leases.Connect`](leasehold_api::grpc) stream, numbered and many to a message;
//! losses and requests to hand over come back on it unasked. If it breaks or falls silent, or if its server has no leader
//! or is stopping, the next command goes to the next address. This file says what each operation sends; `link.rs` finds a
//! server, `stream.rs` carries commands and answers, `silence.rs` listens whether it is alive, `wire.rs` translates.

pub mod fuzzing;
mod link;
mod silence;
mod stream;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use leasehold_api::grpc::{self, answer::Outcome, command::Command};
use leasehold_api::{Code, Problem};
use leasehold_core::{Patience, Ttl};
use parking_lot::Mutex;
use tokio_stream::wrappers::BroadcastStream;

use self::link::Link;
use self::stream::{Ask, Reply};
use crate::store::{Capabilities, Granted, HandoverAsk, Incumbent, Notice, ProgressTo, Store, Wish};
use crate::{Endpoints, Error, Validity};

/// How long a command that does not wait may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A Leasehold server or cluster. Clones share their connection.
#[derive(Clone, Debug)]
pub struct Leasehold {
    link: Arc<Link>,
    /// At which revision the holder of a resource was last looked at.
    looked: Arc<Mutex<HashMap<String, u64>>>,
}

impl Leasehold {
    /// A store of `namespace` at these addresses. Nothing is sent yet.
    pub fn new(endpoints: Endpoints, namespace: impl Into<String>) -> Leasehold {
        Leasehold { link: Arc::new(Link::new(endpoints, namespace.into())), looked: Arc::default() }
    }

    /// Connects, so that a server that is not there is told now.
    pub async fn connect(&self) -> Result<(), Error> {
        self.link.open().await.map(drop)
    }

    /// Asks for a lease; `waits` tells whether the answer may take as long as the patience.
    async fn ask_for(&self, wish: &Wish, waits: bool, progress: ProgressTo) -> Result<Granted, Error> {
        let patience = if waits { wish.patience } else { Patience::None };
        let stream = self.link.open().await?;
        let command = Command::Grant(Box::new(wire::grant(wish, patience, self.link.seen_by(wish.id))));
        let reply = match patience {
            Patience::None => within(stream.ask(Ask { command, waits: None }), stream.address()).await?,
            Patience::For(_) | Patience::Endless => tokio::select! {
                reply = stream.ask(Ask { command, waits: Some(progress) }) => reply?,
                // Its server may never hear of the grant; another one finds the wait where it stands.
                () = stream.lapsed() => return Err(stream.gone("another address serves now")),
            },
        };
        if let Outcome::Granted(lease) = reply.outcome {
            self.link.attach(wish.id, &stream);
            let granted = wire::granted(&lease, wish, &[(reply.sent, reply.now), reply.pair], reply.now)?;
            return self.counted_from_now(wish, granted).await;
        }
        let error = wire::refused(stream.address(), reply.outcome);
        if !error.is_passing() {
            self.link.forget(wish.id);
        }
        Err(error)
    }

    /// Renews what was granted after a wait during which nothing else was answered: such an answer counts from before the
    /// wait, and little or nothing of it may be left.
    async fn counted_from_now(&self, wish: &Wish, granted: Granted) -> Result<Granted, Error> {
        let Ttl::For(ttl) = wish.ttl else { return Ok(granted) };
        let half = Duration::from_millis(ttl.0 / 2);
        if granted.waited.is_zero() || granted.validity.left().is_none_or(|left| left > half) {
            return Ok(granted);
        }
        let renewed = self.renew_all(&[wish.id.number()]).await?.pop();
        let validity = renewed.expect("each lease of a renewal has an answer")?;
        Ok(Granted { validity, ..granted })
    }

    async fn renew_all(&self, leases: &[u64]) -> Result<Vec<Result<Validity, Error>>, Error> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let renew = grpc::RenewRequest { leases: leases.to_vec(), ..grpc::RenewRequest::default() };
        let (reply, stream) = self.command(Command::Renew(Box::new(renew))).await?;
        if let Outcome::Renewed(renewed) = &reply.outcome
            && renewed.results.len() == leases.len()
        {
            return Ok(renewed.results.iter().map(|result| wire::renewed(result, reply.sent)).collect());
        }
        Err(wire::refused(stream.address(), reply.outcome))
    }

    async fn command(&self, command: Command) -> Result<(Reply, Arc<stream::Stream>), Error> {
        let stream = self.link.open().await?;
        let reply = within(stream.ask(Ask { command, waits: None }), stream.address()).await?;
        Ok((reply, stream))
    }

    async fn end(&self, wish: &Wish) -> Result<(), Error> {
        self.link.forget(wish.id);
        let release = grpc::ReleaseRequest { namespace: String::new(), lease: wish.id.number() };
        let (reply, stream) = self.command(Command::Release(Box::new(release))).await?;
        if let Outcome::Released(_) = reply.outcome {
            return Ok(());
        }
        let error = wire::refused(stream.address(), reply.outcome);
        match error.problem().and_then(Problem::known_code) {
            // However it ended: it is over, and that is what was asked for.
            Some(Code::LeaseEnded | Code::UnknownLease) => Ok(()),
            Some(_) | None => Err(error),
        }
    }

    /// Leaves nothing of a wish behind.
    ///
    /// A grant that is still unanswered is cancelled, and its answer says what became of it. Otherwise it is asked for
    /// again and released: the tombstone that this leaves refuses every copy that is still on its way.
    async fn give_up(&self, wish: &Wish) -> Result<(), Error> {
        if let Some(answer) = self.link.cancelled(wish.id).await {
            return match answer? {
                true => self.end(wish).await,
                false => Ok(()),
            };
        }
        match self.ask_for(wish, false, ProgressTo::nobody()).await {
            Err(error) if error.is_passing() => Err(error),
            // Granted, waiting or refused: what there is of it ends now.
            Ok(_) | Err(_) => self.end(wish).await,
        }
    }
}

/// Bounds the time of a command that does not wait.
async fn within<T>(ask: impl Future<Output = Result<T, Error>>, address: &str) -> Result<T, Error> {
    tokio::time::timeout(ANSWER_WITHIN, ask).await.unwrap_or_else(|_| {
        Err(Error::Unreachable { addr: address.to_owned(), cause: "it does not answer".to_owned() })
    })
}

impl Store for Leasehold {
    fn name(&self) -> &'static str {
        "leasehold"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn grant(&self, wish: Arc<Wish>, progress: ProgressTo) -> BoxFuture<'static, Result<Granted, Error>> {
        let store = self.clone();
        Box::pin(async move {
            wish.check(&store)?;
            store.ask_for(&wish, true, progress).await
        })
    }

    fn renew(&self, leases: Vec<Arc<Wish>>) -> BoxFuture<'static, Result<Vec<Result<Validity, Error>>, Error>> {
        let store = self.clone();
        Box::pin(async move {
            let ids: Vec<u64> = leases.iter().map(|lease| lease.id.number()).collect();
            store.renew_all(&ids).await
        })
    }

    fn release(&self, lease: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move { store.end(&lease).await })
    }

    fn abandon(&self, wish: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move { store.give_up(&wish).await })
    }

    fn notices(&self) -> BoxStream<'static, Notice> {
        // One who falls behind misses notices, and learns of its losses by renewing.
        BroadcastStream::new(self.link.notices()).filter_map(async |notice| notice.ok()).boxed()
    }

    fn incumbent(&self, resource: &str) -> BoxFuture<'static, Result<Option<Incumbent>, Error>> {
        let (store, resource) = (self.clone(), resource.to_owned());
        Box::pin(async move {
            let stream = store.link.open().await?;
            let look = stream.holder(store.link.namespace(), &resource);
            let (holder, revision) = within(look, stream.address()).await?;
            store.looked.lock().insert(resource, revision);
            Ok(holder)
        })
    }

    fn changed(&self, resource: &str) -> BoxFuture<'static, Result<(), Error>> {
        let (store, resource) = (self.clone(), resource.to_owned());
        let since = self.looked.lock().get(&resource).copied();
        Box::pin(async move {
            let stream = store.link.open().await?;
            stream.changed(store.link.namespace(), &resource, since).await
        })
    }

    fn request_handover(&self, ask: HandoverAsk) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move {
            let (reply, stream) = store.command(Command::Handover(Box::new(wire::handover(ask)))).await?;
            if let Outcome::Handover(_) = reply.outcome {
                return Ok(());
            }
            Err(wire::refused(stream.address(), reply.outcome))
        })
    }
}
