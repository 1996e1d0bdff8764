//! The guard of a held lease: the right to act, and the news about it.
//!
//! Every question is answered here, without asking the store. Dropping a guard gives the lease back in the
//! background and never blocks; [`Guard::release`] waits until the store has acknowledged it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::planted::{self, Bug};
use leasehold_core::{LeaseId, Ttl};

use crate::events::{Events, HandoverAsks};
use crate::held::{Held, Phase};
use crate::keeper::{Errand, Handle};
use crate::store::Capability;
use crate::{Error, LostCause, Validity};

/// A held lease. Whoever has it may act on its resources, as long as it is valid.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lease back"]
pub struct Guard {
    held: Arc<Held>,
    handle: Handle,
}

impl Guard {
    pub(crate) fn new(held: Arc<Held>, handle: Handle) -> Guard {
        Guard { held, handle }
    }

    /// The id of the lease. Whoever knows it may use the lease: keep it secret.
    pub fn id(&self) -> LeaseId {
        self.held.id()
    }

    /// What it holds, by name.
    pub fn resources(&self) -> &[String] {
        &self.held.wish.resources
    }

    /// Whom it is granted to.
    pub fn holder(&self) -> &str {
        &self.held.wish.holder
    }

    /// For how long at a time.
    pub fn ttl(&self) -> Ttl {
        self.held.wish.ttl
    }

    /// How long it had waited.
    pub fn waited(&self) -> Duration {
        self.held.waited
    }

    /// The fencing token of its first resource: hand it to whatever is protected. An error once the lease is lost, or
    /// when its time is over.
    pub fn token(&self) -> Result<u64, Error> {
        self.token_at(0)
    }

    /// The fencing token of one of its resources.
    pub fn token_of(&self, resource: &str) -> Result<u64, Error> {
        match self.held.wish.resources.iter().position(|name| name == resource) {
            Some(at) => self.token_at(at),
            None => Err(Error::invalid("resource", format!("the lease does not hold {resource}"))),
        }
    }

    fn token_at(&self, at: usize) -> Result<u64, Error> {
        self.held.left()?;
        let token = self.held.tokens.get(at).copied().flatten();
        token.ok_or(Error::Unsupported { store: self.handle.store_name(), wanted: Capability::Fencing })
    }

    /// Makes sure that the lease is valid for at least this long: a look at the clock, no round trip.
    pub fn ensure_valid(&self, for_: Duration) -> Result<(), Error> {
        match self.held.left()? {
            Some(left) if left < for_ => {
                Err(Error::TooShort { resource: self.held.resource().to_owned(), left, asked: for_ })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// How long it is sure: nothing once it is lost, none if it does not end by time.
    pub fn valid_for(&self) -> Option<Duration> {
        self.held.left().unwrap_or(Some(Duration::ZERO))
    }

    /// Until when its holder may act, unless it is lost before.
    pub fn validity(&self) -> Validity {
        self.held.validity()
    }

    /// Why it was lost or given back, if it was.
    pub fn lost_cause(&self) -> Option<LostCause> {
        self.held.lost_cause()
    }

    /// Returns when the lease is lost, or given back: a little before its time is over, at the latest.
    pub fn lost(&self) -> impl Future<Output = LostCause> + Send + 'static {
        let held = Arc::clone(&self.held);
        async move {
            let mut standing = held.watch();
            loop {
                if let Phase::Lost(cause) = &standing.borrow_and_update().phase {
                    return cause.clone();
                }
                // The sender lives in `held`, so there is always another change to wait for.
                let _ = standing.changed().await;
            }
        }
    }

    /// How the lease stands, now and whenever it changes.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.held))
    }

    /// The requests to hand over what it holds, those that came before included.
    pub fn handover_asks(&self) -> HandoverAsks {
        HandoverAsks::new(Arc::clone(&self.held))
    }

    /// Notes activity: a lease with [`Renewal::OnActivity`](crate::Renewal::OnActivity) is renewed for it.
    pub fn touch(&self) {
        if self.held.touch() {
            self.handle.send(Errand::Touched(self.held.id()));
        }
    }

    /// Renews the lease now.
    pub async fn renew(&self) -> Result<(), Error> {
        let held = Arc::clone(&self.held);
        self.handle.ask(|done| Errand::Renew { held, done }).await?
    }

    /// Gives the lease back. It is no longer valid from now on; returns when the store has acknowledged it.
    ///
    /// An error tells that the lease was lost before, or that the store did not answer: then it is repeated in the
    /// background, and the lease ends by time at the latest.
    pub async fn release(self) -> Result<(), Error> {
        self.end(LostCause::Released).await
    }

    /// Gives the lease back to one who asked for it: a release that the holder's side sees as handed over.
    pub async fn hand_over(self) -> Result<(), Error> {
        self.end(LostCause::HandedOver).await
    }

    pub(crate) async fn end(&self, cause: LostCause) -> Result<(), Error> {
        if planted::is(Bug::ValidUntilReleaseAnswered) && self.held.lost_cause().is_none() {
            let held = Arc::clone(&self.held);
            let answered = self.handle.ask(|done| Errand::Release { held, done: Some(done) }).await;
            self.held.lose(cause);
            return answered?;
        }
        if !self.held.lose(cause) {
            return Err(self.held.lost_error(self.held.lost_cause().unwrap_or(LostCause::Expired)));
        }
        let held = Arc::clone(&self.held);
        self.handle.ask(|done| Errand::Release { held, done: Some(done) }).await?
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.held.lose(LostCause::Released) {
            self.handle.send(Errand::Release { held: Arc::clone(&self.held), done: None });
        }
    }
}
