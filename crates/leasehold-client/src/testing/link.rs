//! The way from one client to the server of a test: it can be cut, held up, and lose replies.
//!
//! A call goes there, is carried out, and its reply comes back; each part meets the state of the way at that
//! moment. What the server did is done, whether or not the reply arrives. Validity counts from when the
//! client sent the call, not from when it arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::VirtualClock;
use crate::store::{Capabilities, Granted, HandoverAsk, Incumbent, Memory, Notice, ProgressTo, Store, Wish};
use crate::{Clock, Error, Validity};

/// How many grants are remembered for late copies.
const GRANTS_MAX: usize = 1024;

/// How the way to the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Road {
    /// Nothing is answered for now.
    pub(super) frozen: bool,
    /// What is sent is lost.
    pub(super) cut: bool,
    /// Nobody is there: every call fails at once.
    pub(super) stopped: bool,
    /// How long a reply takes.
    pub(super) delay: Duration,
}

/// What concerns all ways to a server.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// How many of the next replies are lost.
    pub(super) losses: AtomicU32,
    /// How many calls renewed something.
    pub(super) renewals: AtomicU32,
    /// The grants that were sent, in order.
    pub(super) grants: Mutex<Vec<Arc<Wish>>>,
}

/// The way from one client to the server.
#[derive(Clone, Debug)]
pub(super) struct Link {
    server: Memory,
    clock: VirtualClock,
    common: Arc<Common>,
    road: Arc<watch::Sender<Road>>,
}

impl Link {
    pub(super) fn new(server: Memory, clock: VirtualClock, common: Arc<Common>, road: Road) -> Link {
        Link { server, clock, common, road: Arc::new(watch::Sender::new(road)) }
    }

    /// Changes how the way is.
    pub(super) fn change(&self, change: impl FnOnce(&mut Road)) {
        self.road.send_modify(change);
    }

    /// Carries a call to the server and its reply back. Tells how long it was held up on its way there.
    async fn carry<T>(
        self,
        call: impl FnOnce(&Memory) -> BoxFuture<'static, Result<T, Error>>,
    ) -> Result<(T, Duration), Error> {
        let mut road = self.road.subscribe();
        let sent = self.clock.now();
        pass(&mut road).await?;
        let held_up = self.clock.now().since(sent);
        let mut call = call(&self.server);
        let result = loop {
            // A call that waits at the server is kept there by its connection.
            pass(&mut road).await?;
            tokio::select! {
                biased;
                result = &mut call => break result,
                changed = road.changed() => changed.map_err(|_| broken())?,
            }
        };
        if self.common.losses.try_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok() {
            return Err(broken());
        }
        let delay = road.borrow().delay;
        if !delay.is_zero() {
            self.clock.sleep(delay).await;
        }
        pass(&mut road).await?;
        result.map(|answer| (answer, held_up))
    }
}

/// Returns when the way is open; an error if what was on it is lost.
async fn pass(road: &mut watch::Receiver<Road>) -> Result<(), Error> {
    let mut lost = false;
    loop {
        let now = *road.borrow_and_update();
        match now {
            Road { stopped: true, .. } => {
                return Err(Error::Unreachable { addr: "test".to_owned(), cause: "connection refused".to_owned() });
            }
            Road { cut: true, .. } => lost = true,
            _ if lost => return Err(broken()),
            Road { frozen: true, .. } => {}
            Road { .. } => return Ok(()),
        }
        road.changed().await.map_err(|_| broken())?;
    }
}

fn broken() -> Error {
    Error::Unreachable { addr: "test".to_owned(), cause: "the connection broke".to_owned() }
}

impl Store for Link {
    fn name(&self) -> &'static str {
        "test"
    }

    fn capabilities(&self) -> Capabilities {
        self.server.capabilities()
    }

    fn grant(&self, wish: Arc<Wish>, progress: ProgressTo) -> BoxFuture<'static, Result<Granted, Error>> {
        {
            let mut grants = self.common.grants.lock();
            if grants.len() < GRANTS_MAX {
                grants.push(Arc::clone(&wish));
            }
        }
        let link = self.clone();
        Box::pin(async move {
            let (granted, held_up) = link.carry(|server| server.grant(wish, progress)).await?;
            Ok(Granted { validity: granted.validity.earlier_by(held_up), ..granted })
        })
    }

    fn renew(&self, leases: Vec<Arc<Wish>>) -> BoxFuture<'static, Result<Vec<Result<Validity, Error>>, Error>> {
        self.common.renewals.fetch_add(1, Ordering::AcqRel);
        let link = self.clone();
        Box::pin(async move {
            let (results, held_up) = link.carry(|server| server.renew(leases)).await?;
            Ok(results.into_iter().map(|result| result.map(|validity| validity.earlier_by(held_up))).collect())
        })
    }

    fn release(&self, lease: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let link = self.clone();
        Box::pin(async move { link.carry(|server| server.release(lease)).await.map(|_| ()) })
    }

    fn abandon(&self, wish: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let link = self.clone();
        Box::pin(async move { link.carry(|server| server.abandon(wish)).await.map(|_| ()) })
    }

    fn notices(&self) -> BoxStream<'static, Notice> {
        let road = self.road.subscribe();
        let arrived = move |notice| {
            let mut road = road.clone();
            async move { pass(&mut road).await.ok().map(|()| notice) }
        };
        self.server.notices().filter_map(arrived).boxed()
    }

    fn incumbent(&self, resource: &str) -> BoxFuture<'static, Result<Option<Incumbent>, Error>> {
        let (link, resource) = (self.clone(), resource.to_owned());
        Box::pin(async move { Ok(link.carry(|server| server.incumbent(&resource)).await?.0) })
    }

    fn changed(&self, resource: &str) -> BoxFuture<'static, Result<(), Error>> {
        let link = self.clone();
        // Made now, so that nothing is missed from now on.
        let changed = self.server.changed(resource);
        Box::pin(async move { link.carry(|_| changed).await.map(|_| ()) })
    }

    fn request_handover(&self, ask: HandoverAsk) -> BoxFuture<'static, Result<(), Error>> {
        let link = self.clone();
        Box::pin(async move { link.carry(|server| server.request_handover(ask)).await.map(|_| ()) })
    }
}
