//! The client of Leasehold.
//!
//! [`store`] is the interface under the client; [`http`] has a method for each call of the HTTP API, and what travels
//! there are the types of `leasehold-api`. There is no server code here.

mod clock;
mod endpoints;
mod error;
pub mod http;
pub mod store;
mod validity;

pub use clock::{Clock, MachineClock, Moment};
pub use endpoints::{Endpoints, InvalidEndpoints};
pub use error::{Error, LostCause};
pub use validity::Validity;
