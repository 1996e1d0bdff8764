//! The seam for all APIs: authorize, check limits, pack, stamp, propose, park, watch, query.

pub mod log;
mod service;
pub use service::*;
