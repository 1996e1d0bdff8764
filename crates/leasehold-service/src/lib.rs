//! The seam for all APIs: authorize, check limits, pack, stamp, propose, park, watch, query.
//!
//! A dialect translates its protocol into [`Service`] calls and can do nothing that the service does not offer.
//! The service never sees a socket; it drives a [`log::Log`] and never sees what replicates it.
//!
//! | file | what it does |
//! |---|---|
//! | `service.rs` | what every API calls |
//! | `access.rs` | the one place where everything is authorized |
//! | `lanes.rs` | commands on their way into the log, bounded, in two lanes |
//! | `proposer.rs`, `clock.rs` | packs, stamps, proposes; the lease clock |
//! | `replica.rs`, `ring.rs` | this node's copy of the state, and its recent events |
//! | `feed.rs`, `watch.rs` | all events in order; subscriptions to some |
//! | `past.rs` | entries as they were at an earlier revision |
//! | `cluster.rs` | the cluster as operators see and change it |
//! | `backup.rs` | the whole state, written out while commands go on |
//! | `fingerprint.rs` | the entries of a namespace in one number |
//! | `waiting.rs`, `calls.rs`, `parking.rs`, `news.rs` | calls that wait in a queue; which of them are open; who wakes them; how far they are |
//! | `connection.rs`, `mailbox/`, `batch.rs`, `attached.rs`, `attachments.rs` | connections that carry many commands; what is delivered to them; their leases |
//! | `disk.rs` | refuses before the disk is full |
//! | `log.rs`, `memory.rs` | the seam to replication; a log in memory for tests |

mod access;
mod attached;
mod attachments;
mod backup;
mod batch;
mod bounds;
mod calls;
mod clock;
mod cluster;
mod connection;
mod disk;
mod failure;
mod feed;
mod fingerprint;
mod follow;
mod lanes;
mod lead;
pub mod log;
mod mailbox;
mod memory;
mod news;
mod parking;
mod past;
mod pending;
mod problem;
mod proposer;
mod replica;
mod ring;
mod service;
mod vitals;
mod waiting;
mod watch;

pub use access::{Access, Action};
pub use backup::Backup;
pub use batch::{Batch, Notice};
pub use clock::{Clocks, LeaseClock, MachineClocks, Reading};
pub use cluster::{Answerer, Cluster, ClusterChange, ClusterChanged, ClusterStatus, Member};
pub use connection::{Alive, Connection, Deliveries};
pub use failure::Failure;
pub use feed::{Feed, Gone};
pub use fingerprint::Fingerprint;
pub use lanes::COMMAND_BYTES_MAX;
pub use mailbox::NumberInUse;
pub use memory::MemoryLog;
pub use problem::refused;
pub use replica::{Frozen, Replica};
pub use ring::Change;
pub use service::{Answered, Consistency, Done, Options, Service, random_lease_id};
pub use vitals::Health;
pub use waiting::{Progress, Standing};
pub use watch::{Delivery, Watch, WatchFilter};
