//! The targets: what each reads, and what it asserts about it.

pub(crate) mod apply;
pub(crate) mod client;
mod commands;
pub(crate) mod config;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod snapshots;
pub(crate) mod words;
