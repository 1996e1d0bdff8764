//! A client of the HTTP API.
//!
//! [`Client`] has a method for each call of the API; what travels are the types of `leasehold-api`.
//! [`Acquire`] gets a lease however often the connection breaks, [`Watch`] delivers events over reconnects.
//! The client chooses lease ids, so that repeating a grant is safe, and it never repeats a command that could
//! take effect twice. There is no server code here, and nothing renews by itself: that is up to the caller.

mod acquire;
mod client;
mod endpoints;
mod entries;
mod error;
mod sse;
mod transport;
mod url;
mod validity;
mod watch;

pub use acquire::{Acquire, Granted};
pub use client::{Client, LeaseQuery, new_lease_id};
pub use endpoints::{Endpoints, InvalidEndpoints};
pub use entries::Condition;
pub use error::Error;
pub use sse::{Parser, ServerEvent};
pub use validity::{Moment, Validity};
pub use watch::{Delivery, Watch};
