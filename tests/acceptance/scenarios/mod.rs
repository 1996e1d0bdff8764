//! The tests, one idea per file.

mod killed;
