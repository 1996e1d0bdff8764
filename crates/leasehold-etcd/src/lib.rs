//! The dialect of etcd v3: it translates between etcd's calls and the service, and only that.
//!
//! `proto` is the contract, `errors` every refusal that etcd's clients know by its text, `streams` the calls that take
//! a stream of requests, whatever carries them, `gateway` the whole as JSON over plain HTTP. [`dialect::Dialect`]
//! carries out the calls: `maintenance`, `cluster` and `auth` are those of operators.
#![allow(dead_code, reason = "the parts are put together by the listener")]

mod auth;
mod cluster;
mod dialect;
mod errors;
mod gateway;
mod maintenance;
mod proto;
mod streams;
#[cfg(test)]
mod tests;
