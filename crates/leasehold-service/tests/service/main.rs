//! The service over logs in memory, under virtual time.

mod support;
mod time;
mod waiting;
mod watches;
