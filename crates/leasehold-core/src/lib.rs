//! The lease state machine: pure, deterministic, without clock, IO or randomness.

mod ids;
mod time;

pub use ids::*;
pub use time::*;

/// What applying one log entry led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// Lease time after the entry.
    pub now: LeaseTime,
    /// The revision after the entry.
    pub revision: Revision,
}
