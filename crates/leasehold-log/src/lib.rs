//! The durable form of what Leasehold keeps: log records, snapshot files, commands and states.
//!
//! Everything here is versioned and checksummed, and decoding never panics: any bytes give a value or a typed
//! error. The in-memory types of other crates are free to change; these are not. Each form has a page in
//! `docs/formats/` and golden files under `tests/golden/`.

mod blocks;
mod membership;
mod record;

pub use blocks::{BlockError, BlockProblem, BlockReader, BlockWriter, SNAPSHOT_VERSION, SnapshotHeader};
pub use membership::Membership;
pub use record::{Kind, LogPosition, RECORD_BYTES_MAX, RECORD_VERSION, Record, RecordError, Vote, checksum};
