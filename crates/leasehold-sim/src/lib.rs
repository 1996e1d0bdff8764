//! A whole cluster with clients under virtual time from one seed, and what was promised to them.
//!
//! [`run`] plays a [`Plan`]: real core, service, log and Raft code on simulated hosts, whose network, disks and clocks
//! are the simulation's (docs/decisions/0019-simulation.md). What its clients saw is a [`history`], which real processes
//! can write down as well, and the [`checkers`], one promise each, say what in it contradicts the promises. Histories and
//! checkers know nothing of how the facts came about: no server code, no clock, no network.
//!
//! | file | what it does |
//! |---|---|
//! | `plan.rs`, `faults.rs` | what follows from a seed: the run as a whole, and what goes wrong in it |
//! | `run.rs` | one run: hosts in turn, faults, coming to rest |
//! | `host.rs`, `time.rs` | tasks under a clock of their own; true time |
//! | `net/`, `disk.rs` | connections and letters; files of which a crash takes what was not flushed |
//! | `restored.rs` | a cluster made from a backup |
//! | `node.rs`, `clients/`, `talk.rs` | the real node on a host; clients; what they say to each other |
//! | `trace.rs` | what happened, line by line |
//! | `history/`, `checkers/` | what clients saw, and what it is held against |

pub mod checkers;
pub mod history;

mod clients;
mod disk;
mod faults;
mod host;
mod net;
mod node;
mod plan;
mod restored;
mod run;
mod talk;
mod time;
mod trace;

pub use plan::{Kind, Plan};
pub use run::{Report, run};
