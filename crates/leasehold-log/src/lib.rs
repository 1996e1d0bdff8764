//! The durable form of commands and of state: versioned, with one encoding for each value.
//!
//! Log entries are packed and opened in `entry.rs`, snapshot bodies written and read in `body.rs`. What they
//! are made of is declared in `command.rs`, `state.rs`, `event.rs` and `parts.rs`, in the words of
//! `layout.rs` and the bytes of `wire.rs`. The types of the core are free to change; what is declared here is
//! not, and has its pages in docs/formats/. Golden files keep it so.

mod body;
mod command;
mod entry;
mod event;
mod layout;
mod parts;
mod state;
mod wire;

pub use body::{BODY_VERSION, BodyError, Refusal, read_body, write_body};
pub use command::{decode_request, encode_request};
pub use entry::{ENTRY_VERSION, Pack, Requests, open};
pub use event::{decode_event, encode_event};
pub use state::{decode_record, encode_record};
pub use wire::{FormatError, Reader};
