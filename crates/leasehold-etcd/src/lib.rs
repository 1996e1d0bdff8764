//! The dialect of etcd v3: it translates between etcd's calls and the service, and only that.
//!
//! `proto` is the contract, `errors` every refusal that etcd's clients know by its text, `streams` the calls that take
//! a stream of requests, whatever carries them.

#[allow(dead_code, reason = "the whole table is kept, also rows that no call answers with yet")]
mod errors;
#[allow(dead_code, reason = "described for the gateway")]
mod proto;
#[allow(dead_code, reason = "the seam between transports and meaning")]
mod streams;
