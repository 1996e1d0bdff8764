//! Where leases live: the one interface under the client.
//!
//! A store grants, renews and ends leases; the client above it decides when to renew, counts how long a holder may
//! act, and tells of losses. So a store makes one attempt at a time and repeats nothing by itself: a repetition with
//! the same [`Wish::id`] must find what an earlier attempt led to. What a store cannot promise is missing from
//! its [`Capabilities`], and asking for it is an error instead of less.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
mod foreign;
mod leasehold;
mod memory;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod poll;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use leasehold_api::{Class, HolderInfo, Mode};
use leasehold_core::{LeaseId, Patience, Ttl};

use crate::{Error, LostCause, Validity};

#[cfg(feature = "redis")]
pub use self::redis::Redis;
#[cfg(feature = "etcd")]
pub use etcd::Etcd;
pub use leasehold::Leasehold;
#[doc(hidden)]
pub use leasehold::fuzzing;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;

/// How soon a holder is looked at again where nothing is pushed.
const LOOK_AGAIN_MS: std::ops::Range<u64> = 30..120;

/// A store of leases. All futures run on the client's own thread, in a tokio runtime.
pub trait Store: Send + Sync + 'static {
    /// The name of the store, for messages.
    fn name(&self) -> &'static str;

    /// What it can promise.
    fn capabilities(&self) -> Capabilities;

    /// Grants a lease that holds all the resources of `wish`, or none of them: one attempt.
    ///
    /// It waits as long as the wish's patience says and tells `progress` about the queue meanwhile. A lease of the same
    /// id that an earlier attempt was granted is found and answered *as it is now*. Dropping the future may leave
    /// anything behind: [`Store::abandon`] is called then.
    fn grant(&self, wish: Arc<Wish>, progress: ProgressTo) -> BoxFuture<'static, Result<Granted, Error>>;

    /// Renews leases, each with an answer of its own and in the same order: one attempt. The outer error is the
    /// attempt's, and then nothing is known about any of them.
    fn renew(&self, leases: Vec<Arc<Wish>>) -> BoxFuture<'static, Result<Vec<Result<Validity, Error>>, Error>>;

    /// Ends a granted lease: one attempt. It is no error if it has ended already.
    fn release(&self, lease: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>>;

    /// Makes sure that nothing is left of a wish whose grant was given up at an unknown point, neither held nor
    /// waiting, not even if a copy of the grant is still on its way: one attempt.
    fn abandon(&self, wish: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>>;

    /// What the store tells by itself about leases it granted; nothing from a store without push.
    fn notices(&self) -> BoxStream<'static, Notice> {
        Box::pin(futures_util::stream::pending())
    }

    /// Who holds a resource now.
    fn incumbent(&self, resource: &str) -> BoxFuture<'static, Result<Option<Incumbent>, Error>>;

    /// Returns when the holder of a resource may have changed since it was last looked at by [`Store::incumbent`]; a
    /// store without push sleeps a little.
    fn changed(&self, _resource: &str) -> BoxFuture<'static, Result<(), Error>> {
        // Never the same for two who look.
        let pause = Duration::from_millis(rand::random_range(LOOK_AGAIN_MS));
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            Ok(())
        })
    }

    /// Asks the holders of a resource to hand it over.
    fn request_handover(&self, _ask: HandoverAsk) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.name();
        Box::pin(async move { Err(Error::Unsupported { store, wanted: Capability::Handover }) })
    }
}

/// What a lease should be: everything a store needs to grant it, keep it and end it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Chosen at random, never reused; repetitions of a grant have the same one.
    pub id: LeaseId,
    /// Whom it is granted to.
    pub holder: String,
    /// What it holds: all or none. Sorted, at least one, no name twice.
    pub resources: Vec<String>,
    /// Alone or with others.
    pub mode: Mode,
    /// For how long at a time.
    pub ttl: Ttl,
    /// What kind of use it is.
    pub class: Class,
    /// How long to wait for it.
    pub patience: Patience,
    /// Whether it must be served in order of arrival.
    pub fair: bool,
    /// Higher goes first in a queue.
    pub priority: i32,
    /// How long each resource rests if the lease expires while holding it.
    pub cooldown: Duration,
    /// What people should know about it: `reason`, `link` and others.
    pub metadata: BTreeMap<String, String>,
}

/// A granted lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// Until when its holder may act.
    pub validity: Validity,
    /// The token of each resource, in the order of the wish; none from a store without fencing.
    pub tokens: Vec<Option<u64>>,
    /// How long it had waited.
    pub waited: Duration,
}

/// How far a wait is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Which resource is waited for.
    pub resource: String,
    /// The place in its queue, from 1, and how many wait; none if the store has no queue.
    pub place: Option<(u32, u32)>,
    /// Who holds it: the first one.
    pub holder: Option<HolderInfo>,
    /// How long it may still take, by what holders took before.
    pub estimate: Option<Duration>,
}

/// Whom to tell how far a wait is.
#[derive(Clone)]
pub struct ProgressTo(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressTo {
    /// Calls this with every news. It must not block.
    pub fn new(tell: impl Fn(Progress) + Send + Sync + 'static) -> ProgressTo {
        ProgressTo(Arc::new(tell))
    }

    /// Nobody wants to know.
    pub fn nobody() -> ProgressTo {
        ProgressTo::new(|_| {})
    }

    /// Tells how far the wait is.
    pub fn tell(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressTo")
    }
}

/// What a store tells by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A lease is over.
    Ended {
        /// Which one.
        lease: LeaseId,
        /// Why.
        cause: LostCause,
    },
    /// Somebody asks the holder to hand a resource over.
    HandoverAsked {
        /// Whose lease.
        lease: LeaseId,
        /// What is asked for.
        ask: HandoverAsk,
    },
}

/// A request to hand a resource over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverAsk {
    /// What is asked for.
    pub resource: String,
    /// Who asks.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// The holder of a resource, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incumbent {
    /// In its own words.
    pub holder: String,
    /// Its token; none from a store without fencing.
    pub token: Option<u64>,
}

/// One thing that a store can promise or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Tokens that rise with every grant of a resource.
    Fencing,
    /// Waiters served in order of arrival.
    FairQueue,
    /// Losses and grants told without asking.
    Push,
    /// A ttl below or between whole seconds.
    SubSecondTtl,
    /// Several holders of one resource in shared mode.
    SharedMode,
    /// Several resources at once, all or none.
    SeveralResources,
    /// Waiters of higher priority before others.
    Priority,
    /// A rest of the resource after an expiry.
    Cooldown,
    /// Requests to hand over.
    Handover,
    /// Leases that do not end by time.
    EndlessTtl,
    /// What it acknowledged survives a crash of its process.
    Durability,
}

/// What a store can promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// See [`Capability::Fencing`].
    pub fencing: bool,
    /// See [`Capability::FairQueue`].
    pub fair_queue: bool,
    /// See [`Capability::Push`].
    pub push: bool,
    /// See [`Capability::SubSecondTtl`].
    pub sub_second_ttl: bool,
    /// See [`Capability::SharedMode`].
    pub shared_mode: bool,
    /// See [`Capability::SeveralResources`].
    pub several_resources: bool,
    /// See [`Capability::Priority`].
    pub priority: bool,
    /// See [`Capability::Cooldown`].
    pub cooldown: bool,
    /// See [`Capability::Handover`].
    pub handover: bool,
    /// See [`Capability::EndlessTtl`].
    pub endless_ttl: bool,
    /// See [`Capability::Durability`].
    pub durability: bool,
}

impl Capabilities {
    /// Everything.
    pub const ALL: Capabilities = Capabilities {
        fencing: true,
        fair_queue: true,
        push: true,
        sub_second_ttl: true,
        shared_mode: true,
        several_resources: true,
        priority: true,
        cooldown: true,
        handover: true,
        endless_ttl: true,
        durability: true,
    };

    /// Tells whether this is among them.
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Fencing => self.fencing,
            Capability::FairQueue => self.fair_queue,
            Capability::Push => self.push,
            Capability::SubSecondTtl => self.sub_second_ttl,
            Capability::SharedMode => self.shared_mode,
            Capability::SeveralResources => self.several_resources,
            Capability::Priority => self.priority,
            Capability::Cooldown => self.cooldown,
            Capability::Handover => self.handover,
            Capability::EndlessTtl => self.endless_ttl,
            Capability::Durability => self.durability,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::Fencing => "fencing tokens",
            Capability::FairQueue => "fair queue",
            Capability::Push => "push of losses",
            Capability::SubSecondTtl => "ttl of fractions of a second",
            Capability::SharedMode => "shared mode",
            Capability::SeveralResources => "way to hold several resources, all or none",
            Capability::Priority => "priorities",
            Capability::Cooldown => "cooldown",
            Capability::Handover => "hand-over",
            Capability::EndlessTtl => "leases without end",
            Capability::Durability => "durability",
        })
    }
}

impl Wish {
    /// What a store must be able to promise to grant it.
    pub fn needs(&self) -> Vec<Capability> {
        let fraction = matches!(self.ttl, Ttl::For(span) if span.0 % 1000 != 0);
        [
            (self.fair, Capability::FairQueue),
            (fraction, Capability::SubSecondTtl),
            (self.mode == Mode::Shared, Capability::SharedMode),
            (self.resources.len() > 1, Capability::SeveralResources),
            (self.priority != 0, Capability::Priority),
            (!self.cooldown.is_zero(), Capability::Cooldown),
            (self.ttl == Ttl::Endless, Capability::EndlessTtl),
        ]
        .into_iter()
        .filter_map(|(needed, capability)| needed.then_some(capability))
        .collect()
    }

    /// Refuses a wish for nothing, and one that goes beyond what `store` can promise.
    pub fn check(&self, store: &dyn Store) -> Result<(), Error> {
        if self.resources.is_empty() {
            return Err(Error::invalid("resources", "the lease would hold nothing; name at least one resource"));
        }
        let can = store.capabilities();
        match self.needs().into_iter().find(|needed| !can.has(*needed)) {
            Some(wanted) => Err(Error::Unsupported { store: store.name(), wanted }),
            None => Ok(()),
        }
    }
}
