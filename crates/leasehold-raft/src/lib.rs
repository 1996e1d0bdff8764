//! Replication: carries the service's entries to disk and to other nodes, in one order.
//!
//! [`Node`] implements the service's `Log` over openraft (consensus) and drives its `Machine`.
//! Behind it, one concept per file: `store.rs` and `group_commit.rs` make entries durable, `files/` are the files
//! they lie in, `machine.rs` applies, `snapshot.rs` writes and installs states, `checkpoint.rs` and `agreement.rs`
//! see whether the states of the nodes are the same, `group.rs` holds all of one Raft group, `leadership.rs` tells who leads,
//! `barrier.rs` proves reads, `forward.rs` hands commands to the leader, `directory.rs` is the data directory and
//! `admission.rs` how it comes to its identity, `peer/` reaches other nodes (`network.rs` none, for a node alone). `cluster.rs`
//! tells and changes who belongs to the cluster: `change.rs` and `steward.rs` are the leader's part of that, `roster.rs` is
//! what every node knows; `restore.rs` makes a directory from a backup. No type of openraft goes to disk, to other nodes or into
//! this crate's API; what is stored is `leasehold-log`'s.

mod admission;
mod agreement;
mod barrier;
mod change;
mod checkpoint;
mod cluster;
#[cfg(all(test, feature = "planted"))]
#[path = "../../leasehold-core/tests/contrast/mod.rs"]
mod contrast;
mod convert;
mod directory;
mod error;
mod files;
mod forward;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod group_commit;
mod heard;
mod leadership;
mod machine;
mod network;
mod node;
mod options;
mod peer;
mod propose;
mod restore;
mod room;
mod roster;
mod snapshot;
mod steward;
mod store;
#[cfg(test)]
mod suite;
mod task;
mod types;
#[cfg(all(test, feature = "planted"))]
mod unsynced;
mod world;

pub use agreement::Compared;
pub use change::ChangeError;
pub use directory::Identity;
pub use error::OpenError;
pub use files::Cut;
pub use group_commit::FlushTimes;
pub use node::{Metrics, Node, Opened};
pub use options::Options;
pub use peer::{Formation, NODE_NAME, PeerOptions, PeerTls, is_loopback};
pub use restore::restore;
pub use types::PAYLOAD_MAX;
pub use world::{Connecting, Wire, World};
