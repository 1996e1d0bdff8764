//! The gRPC API over a real socket, with a client of tonic.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod calls;
mod cluster;
mod refusals;
mod stream;
mod support;
mod surroundings;
#[path = "../../../leasehold-http/tests/support/three.rs"]
mod three;
mod watches;
