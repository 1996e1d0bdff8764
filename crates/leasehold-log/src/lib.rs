//! The durable form of what Leasehold keeps: log records, entries with their commands, snapshot files, states.
//!
//! Everything here is versioned, and decoding never panics: any bytes give a value or a typed error. Log
//! records (`record.rs`, `membership.rs`), snapshot files (`blocks.rs`) and backups (`backup.rs`) are the containers, with checksums. What
//! is in them, log entries (`entry.rs`) and snapshot bodies (`body.rs`), is made of what `command.rs`, `state.rs`,
//! `event.rs` and `parts.rs` declare in the words of `layout.rs` and the bytes of `wire.rs`. The in-memory types of
//! other crates are free to change; what is declared here is not, and has its pages in docs/formats/.

mod backup;
mod batch;
mod blocks;
mod body;
mod command;
mod entry;
mod event;
mod layout;
mod membership;
mod parts;
mod record;
mod state;
mod wire;

pub use backup::{BackupHeader, BackupReader, write_backup};
pub use batch::{BATCH_VERSION, Base, Batch, Found, Item, SECTOR, find};
pub use blocks::{BlockError, BlockProblem, BlockReader, BlockWriter, SNAPSHOT_VERSION, SnapshotHeader};
pub use body::{BODY_VERSION, BodyError, Refusal, read_body, write_body};
pub use command::{decode_request, encode_request};
pub use entry::{ENTRY_VERSION, Opened, Origin, Pack, Requests, open};
pub use event::{decode_event, encode_event};
pub use membership::{MEMBERSHIP_VERSION, Member, Membership};
pub use record::{Kind, LogPosition, RECORD_BYTES_MAX, RECORD_VERSION, Record, RecordError, Vote, checksum};
pub use state::{decode_record, encode_record};
pub use wire::{FormatError, Reader};
