//! Leases that renew themselves: locks, sessions, reservations, caches and elections.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use leasehold_client::{Client, Error};
//!
//! # async fn migrate(_step: u32, _token: u64) {}
//! # async fn example() -> Result<(), Error> {
//! let client = Client::from_env().await?; // LEASE_ADDR, LEASE_NAMESPACE, LEASE_HOLDER
//! let lock = client.lock("prod/db/migrate").reason("schema 41").wait(Duration::from_secs(30));
//! let guard = lock.acquire().await?;
//! for step in 1..=3 {
//!     guard.ensure_valid(Duration::from_secs(2))?; // a look at the clock, no round trip
//!     migrate(step, guard.token()?).await; // an error once the lease is lost
//! }
//! guard.release().await?; // a plain drop gives back in the background
//! # Ok(())
//! # }
//! ```
//!
//! | use | preset | ttl | renewed |
//! |---|---|---|---|
//! | a job that must not run twice at a time | [`Client::lock`] | 15 s | at half of it |
//! | a user that is present | [`Client::session`] | 15 min | on activity ([`Guard::touch`]) |
//! | something set aside | [`Client::reservation`] | 8 h | by hand ([`Guard::renew`]) |
//! | a copy that may be used for a while | [`Client::cache`] | 10 min | never |
//! | leadership | [`Client::election`] | 10 s | continuously |
//!
//! A [`Guard`] knows until when its holder may act, by its own clock, and tells of a loss before that time is over. One
//! thread per client keeps all its leases; callers need no runtime ([`blocking`] has the client for threads). Under the
//! client is a [`Store`](store::Store): a Leasehold server, or [`Memory`](store::Memory) in this process. [`fence`] is for
//! the side that is protected, [`testing`] for tests without sleeping, and [`http`] has a method for each call of the
//! HTTP API. There is no server code here.

mod acquire;
pub mod blocking;
mod client;
mod clock;
mod connect;
mod election;
mod endpoints;
mod error;
mod events;
pub mod fence;
mod guard;
mod held;
mod holder;
pub mod http;
mod keeper;
mod lock;
mod renewal;
pub mod store;
pub mod testing;
mod thread;
mod validity;

pub use client::{Client, ClientBuilder};
pub use clock::{Clock, MachineClock, Moment};
pub use election::{Election, Observe, Term};
pub use endpoints::{Endpoints, InvalidEndpoints};
pub use error::{Error, LostCause};
pub use events::{Events, HandoverAsks, LeaseEvent};
pub use fence::Fence;
pub use guard::Guard;
pub use holder::default_holder_prefix;
pub use leasehold_api::Class;
pub use leasehold_core::{LeaseId, Span, Ttl};
pub use lock::Lock;
pub use renewal::{Fraction, Renewal};
pub use thread::Settle;
pub use validity::Validity;
