//! Conformance: one list of behaviours, driven over every store through the `Store` trait.
//!
//! `behaviours/` has the list, in the words of the contract in `store/mod.rs`; a behaviour that needs a capability runs
//! where it is promised, and that it is refused elsewhere is a behaviour too. `harness.rs` says what a store must
//! bring to be tested, and each file of `servers/` starts a real server of one kind. To add a store, implement
//! `Harness` and add a test below.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod behaviours;
#[cfg(feature = "postgres")]
mod fence;
mod harness;
mod leasehold;
mod memory;
mod servers;
#[cfg(all(feature = "redis", feature = "etcd", feature = "postgres"))]
mod table;

#[test]
fn leasehold_keeps_the_contract() {
    harness::run("leasehold", leasehold::start);
}

#[test]
fn memory_keeps_the_contract() {
    harness::run("memory", memory::start);
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_the_contract() {
    harness::run("redis", servers::redis::start);
}

#[cfg(feature = "etcd")]
#[test]
fn etcd_keeps_the_contract() {
    harness::run("etcd", servers::etcd::start);
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_keeps_the_contract() {
    harness::run("postgres", servers::postgres::start);
}
