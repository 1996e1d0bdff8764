//! The service over logs in memory, under virtual time.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod alive;
mod backups;
mod connections;
mod fingerprints;
mod forwarding;
mod replicas;
mod support;
mod time;
mod waiting;
mod watches;
