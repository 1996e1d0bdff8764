//! The aspects: small models that share the building blocks, each with its bounds and its plants.

pub mod durability;
pub mod family;
pub mod leader_memory;
pub mod queue;
pub mod retry;
pub mod time;
