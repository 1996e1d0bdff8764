//! Messages of the contract as commands of the core, and views of the core as messages.
//!
//! What both APIs check is checked by the types they share, so that both refuse with the same words.

pub(crate) mod asked;
pub(crate) mod entries;
pub(crate) mod events;
pub(crate) mod views;
pub(crate) mod writes;
