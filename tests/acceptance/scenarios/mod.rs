//! The tests, one idea per file.

mod bad_bytes;
mod bad_input;
mod client;
mod directory;
mod disk;
mod killed;
mod overload;

mod shutdown;
mod time;
mod waiting;
mod watching;
