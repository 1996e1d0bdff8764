//! The HTTP API, call by call.
//!
//! [`HttpClient`] has a method for each call of the API; what travels are the types of `leasehold-api`.
//! [`Acquire`] gets a lease however often the connection breaks, [`Watch`] delivers events over reconnects.
//! With several addresses, one that cannot serve is left for the next.
//! The client chooses lease ids, so that repeating a grant is safe, and it never repeats a command that could
//! take effect twice. Nothing renews by itself here: that is what the rest of this crate is for.

mod acquire;
mod backup;
mod client;
mod cluster;
mod entries;
mod error;
mod sse;
mod transport;
mod trouble;
mod url;
mod watch;

pub use acquire::{Acquire, Granted};
pub use backup::Download;
pub use client::{HttpClient, LeaseQuery, new_lease_id};
pub use entries::Condition;
pub use error::Error;
pub(crate) use error::cause_of;
pub use sse::{Parser, ServerEvent};
pub use watch::{Delivery, Watch};
