//! The durable formats as their users see them: what is written comes back, damage is found, old files stay
//! readable.
//!
//! `generators.rs` makes any value of the core, `examples.rs` fixed ones for the golden files.

mod backups;
mod damage;
mod examples;
mod generators;
mod golden;
mod round_trips;
