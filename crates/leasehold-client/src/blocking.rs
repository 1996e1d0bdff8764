//! The client for threads: the same without `async`.
//!
//! A call blocks its thread until it is done; renewals go on in the client's own thread meanwhile. Do not call it
//! from a task of an async runtime, nor from a callback of the client.
//!
//! ```
//! use leasehold_client::blocking::Client;
//! use leasehold_client::store::Memory;
//!
//! let client = Client::over(Memory::new());
//! let guard = client.lock("orders/7").reason("nightly export").acquire()?;
//! println!("the token is {}", guard.token()?);
//! guard.release()?;
//! # Ok::<(), leasehold_client::Error>(())
//! ```

use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use leasehold_api::Class;

use crate::store::{Incumbent, Progress, Store};
use crate::{Error, LostCause, Renewal};

/// A client of a store of leases, for threads; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

/// A lease on its way, for threads; see [`crate::Lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for before `acquire` or `try_acquire`"]
pub struct Lock(crate::Lock);

/// A held lease, for threads: it has all that [`crate::Guard`] tells without waiting, and blocks for the rest.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lease back"]
pub struct Guard(crate::Guard);

impl Client {
    /// A client of this store, by the machine's clock, for the holder `user@host/pid`.
    pub fn over(store: impl Store) -> Client {
        Client(crate::Client::over(store))
    }

    /// A client as the environment says: `LEASE_ADDR`, `LEASE_NAMESPACE` and `LEASE_HOLDER`.
    pub fn from_env() -> Result<Client, Error> {
        block_on(crate::Client::from_env()).map(Client)
    }

    /// A client of the servers at these addresses, separated by commas.
    pub fn connect(addresses: &str) -> Result<Client, Error> {
        crate::Client::connect(addresses).map(Client)
    }

    /// A lock: 15 s, renewed at half of it.
    pub fn lock(&self, resource: impl Into<String>) -> Lock {
        Lock(self.0.lock(resource))
    }

    /// A lock on several resources: all or none of them.
    pub fn locks<I>(&self, resources: I) -> Lock
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Lock(self.0.locks(resources))
    }

    /// A session: 15 min, renewed on activity.
    pub fn session(&self, name: impl Into<String>) -> Lock {
        Lock(self.0.session(name))
    }

    /// A reservation: 8 h, renewed by hand.
    pub fn reservation(&self, name: impl Into<String>) -> Lock {
        Lock(self.0.reservation(name))
    }

    /// A copy that may be used for a while: 10 min, never renewed.
    pub fn cache(&self, name: impl Into<String>) -> Lock {
        Lock(self.0.cache(name))
    }

    /// Who holds a resource now.
    pub fn incumbent(&self, resource: impl Into<String>) -> Result<Option<Incumbent>, Error> {
        block_on(self.0.incumbent(resource))
    }

    /// Asks the holders of a resource to hand it over; they decide.
    pub fn request_handover(&self, resource: impl Into<String>, reason: Option<String>) -> Result<(), Error> {
        block_on(self.0.request_handover(resource, reason))
    }
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Client {
        Client(client)
    }
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*);)*) => {
        impl Lock {
            $($(#[$doc])*
            pub fn $name(self, $($argument: $kind),*) -> Lock {
                Lock(self.0.$name($($argument),*))
            })*
        }
    };
}

steps! {
    /// For how long at a time it is granted.
    ttl(ttl: Duration);
    /// Grants it without an end by time. Needs a right.
    endless();
    /// What kind of use it is.
    class(class: Class);
    /// Whom it is granted to, instead of the client's holder.
    holder(holder: impl Into<String>);
    /// Holds together with others that hold in this mode too.
    shared();
    /// Why it is held, for people who wait.
    reason(reason: impl Into<String>);
    /// Where to read more.
    link(link: impl Into<String>);
    /// Something else that people should know.
    metadata(name: impl Into<String>, text: impl Into<String>);
    /// Higher goes first in the queue; 0 unless given.
    priority(priority: i32);
    /// How long the resource rests if the lease expires.
    cooldown(cooldown: Duration);
    /// Demands to be served in order of arrival.
    fair();
    /// How long it waits at most.
    wait(wait: Duration);
    /// Waits as long as it takes: the default.
    wait_forever();
    /// When it is renewed.
    renewal(renewal: Renewal);
    /// Calls this, on the client's thread, whenever the wait changes.
    on_progress(tell: impl Fn(Progress) + Send + Sync + 'static);
    /// Does not give the lease up when its time is over here, but goes on renewing.
    keep_in_jeopardy();
}

impl Lock {
    /// Gets the lease, waiting for it.
    pub fn acquire(self) -> Result<Guard, Error> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// Gets the lease if it is free; [`Error::Held`] tells who has it.
    pub fn try_acquire(self) -> Result<Guard, Error> {
        block_on(self.0.try_acquire()).map(Guard)
    }
}

impl Guard {
    /// Waits until the lease is lost or given back, at most this long by the machine's clock: none if it is not.
    pub fn wait_lost(&self, at_most: Duration) -> Option<LostCause> {
        block_at_most(self.0.lost(), at_most)
    }

    /// Renews the lease now.
    pub fn renew(&self) -> Result<(), Error> {
        block_on(self.0.renew())
    }

    /// Gives the lease back and waits until the store has acknowledged it.
    pub fn release(self) -> Result<(), Error> {
        block_on(self.0.release())
    }

    /// Gives the lease back to one who asked for it.
    pub fn hand_over(self) -> Result<(), Error> {
        block_on(self.0.hand_over())
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until a future of this crate is done, such as the next of [`crate::Events`].
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

fn block_at_most<F: Future>(future: F, at_most: Duration) -> Option<F::Output> {
    let begun = Instant::now();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
        let left = at_most.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
        thread::park_timeout(left);
    }
}
