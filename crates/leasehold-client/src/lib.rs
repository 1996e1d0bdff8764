//! The client of Leasehold.
//!
//! [`store`] is the interface under the client; [`http`] has a method for each call of the HTTP API, and what travels
//! there are the types of `leasehold-api`. There is no server code here.

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
pub use leasehold_api::Class;
pub use leasehold_core::{LeaseId, Span, Ttl};
pub use lock::Lock;
pub use renewal::{Fraction, Renewal};
pub use thread::Settle;
pub use validity::Validity;
