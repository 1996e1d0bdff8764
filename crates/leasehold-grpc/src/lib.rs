//! The native gRPC API: a dialect that translates between calls and the service, and only that.
//!
//! [`router`] builds it without a socket, to be merged with the HTTP API on one port. A call passes `call` on its way
//! to the service, where its caller is established; every answer carries the metadata `lease-revision` and
//! `lease-time`; every refusal carries its problem. `connect` is the stream that carries everything.

mod call;
mod cluster;
mod connect;
mod entries;
mod errors;
mod health;
mod leases;
mod resources;
mod server;
mod watch;
mod wire;

pub use server::{GrpcOptions, router};
