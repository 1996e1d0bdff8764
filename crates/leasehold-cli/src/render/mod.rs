//! What people read, made from the answers alone: no IO, no clock.

pub(crate) mod cluster;
pub(crate) mod describe;
pub(crate) mod event;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod refusal;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod waiting;
