//! The etcd dialect, proved by the clients that people use with etcd: they play the scenes of `tests/etcd/` with a real etcd
//! and with Leasehold, and must get the same answers.
//!
//! `clients.rs` knows the clients and runs them, `real.rs` starts a real etcd, `ours.rs` Leasehold, `compare.rs` holds answers
//! against each other and against the differences that are meant (`tests/etcd/differences.toml`), `page.rs` writes the result
//! into `docs/dialects/etcd.md`.

mod claims;
mod clients;
mod compare;
mod fail_over;
mod ours;
mod page;
mod played;
mod real;

pub(super) use clients::found;
