//! The native HTTP/JSON API: a dialect that translates between requests and the service, and only that.
//!
//! [`router`] builds it without a socket. Every request passes `server` on its way out, where the headers
//! `Lease-Revision` and `Lease-Time` are put on the answer and refusals become problem+json, and `call` on its
//! way in, where its caller is established. Connection limits and timeouts are the business of
//! `leasehold-server`; body limits are enforced here.

mod backup;
mod call;
mod claims;
mod cluster;
mod conditions;
mod entries;
mod errors;
mod extract;
mod health;
mod leases;
mod openapi;
mod path;
mod reply;
mod resources;
mod server;
mod txn;
mod watch;

pub use openapi::document;
pub use server::{HttpOptions, router};
