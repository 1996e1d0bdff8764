//! Acceptance: the real `lease` binary as a process, over real sockets and real files, killed, stopped and starved.
//!
//! `server.rs` starts and hurts servers, `cluster.rs` several that belong together, over `wires.rs` or a network of
//! namespaces; `http.rs` talks to them, `history.rs` turns what clients saw into facts, and the checkers of
//! `leasehold-sim` hold each promise of docs/guide/failure-model.md against them. `scenarios/` has the tests, one idea per file; their names
//! state behaviour. Verdicts rest on lease time and on order, never on being quick: bounds on real
//! time are generous.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail loudly and tells what it measured")]

mod clients;
mod cluster;
mod history;
mod http;
mod load;
mod namespaces;
mod proxy;
mod runs;
mod scenarios;
mod server;
mod transcript;
mod wires;
