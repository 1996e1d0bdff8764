//! The client: the way to a store, and the thread that keeps what it was granted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use leasehold_api::Class;
use tokio::sync::mpsc;

use crate::holder::default_holder;
use crate::keeper::{self, Handle, Office};
use crate::store::{Capability, HandoverAsk, Incumbent, Store};
use crate::{Clock, Election, Error, Lock, MachineClock, thread};

/// A client of a store of leases. Clones share one thread, which ends with the last of them and of their guards.
#[derive(Clone)]
pub struct Client {
    handle: Handle,
    holder: Arc<str>,
    clock: Arc<dyn Clock>,
}

/// What a client should be like.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    holder: Option<String>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client of this store, by the machine's clock, for the holder `user@host/pid`.
    pub fn over(store: impl Store) -> Client {
        Client::builder().over(store)
    }

    /// A client that differs from the default.
    pub fn builder() -> ClientBuilder {
        ClientBuilder { holder: None, clock: Arc::new(MachineClock) }
    }

    /// A lock: 15 s, renewed at half of it.
    pub fn lock(&self, resource: impl Into<String>) -> Lock {
        Lock::new(self.clone(), vec![resource.into()], Class::Lock)
    }

    /// A lock on several resources: all or none of them.
    pub fn locks<I>(&self, resources: I) -> Lock
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Lock::new(self.clone(), resources.into_iter().map(Into::into).collect(), Class::Lock)
    }

    /// A session: 15 min, renewed on activity ([`Guard::touch`](crate::Guard::touch)).
    pub fn session(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), vec![name.into()], Class::Session)
    }

    /// A reservation: 8 h, renewed by hand ([`Guard::renew`](crate::Guard::renew)).
    pub fn reservation(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), vec![name.into()], Class::Reservation)
    }

    /// A copy that may be used for a while: 10 min, never renewed.
    pub fn cache(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), vec![name.into()], Class::Cache)
    }

    /// An election: terms of 10 s, renewed continuously.
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.clone(), name.into())
    }

    /// Who holds a resource now.
    pub async fn incumbent(&self, resource: impl Into<String>) -> Result<Option<Incumbent>, Error> {
        let resource = resource.into();
        self.handle.call(move |store| store.incumbent(&resource)).await
    }

    /// Asks the holders of a resource to hand it over; they decide.
    pub async fn request_handover(&self, resource: impl Into<String>, reason: Option<String>) -> Result<(), Error> {
        let ask = HandoverAsk { resource: resource.into(), by: self.holder.to_string(), reason };
        if !self.store().capabilities().handover {
            return Err(Error::Unsupported { store: self.store().name(), wanted: Capability::Handover });
        }
        self.handle.call(move |store| store.request_handover(ask.clone())).await
    }

    /// The store under the client.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.handle.store
    }

    /// Whom leases are granted to unless they say otherwise.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// The clock it lives by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} over {})", self.holder, self.handle.store_name())
    }
}

impl ClientBuilder {
    /// Whom leases are granted to unless they say otherwise.
    pub fn holder(mut self, holder: impl Into<String>) -> ClientBuilder {
        self.holder = Some(holder.into());
        self
    }

    /// The clock to live by.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> ClientBuilder {
        self.clock = clock;
        self
    }

    /// The client of this store.
    pub fn over(self, store: impl Store) -> Client {
        self.over_shared(Arc::new(store))
    }

    /// The client of a store that others use too.
    pub fn over_shared(self, store: Arc<dyn Store>) -> Client {
        let (errands, todo) = mpsc::unbounded_channel();
        let (weak, clock) = (errands.downgrade(), Arc::clone(&self.clock));
        let shared = Arc::clone(&store);
        let settle = thread::start(move |pulse| {
            let contact = Arc::new(AtomicBool::new(false));
            keeper::keep(Office { store: shared, clock, pulse, contact, errands: weak }, todo)
        });
        self.clock.attach(settle);
        let holder = self.holder.unwrap_or_else(default_holder).into();
        Client { handle: Handle { errands, store }, holder, clock: self.clock }
    }
}
