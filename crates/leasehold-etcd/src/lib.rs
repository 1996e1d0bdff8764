//! The dialect of etcd v3: it translates between etcd's calls and the service, and only that.
//!
//! | file | what it does |
//! |---|---|
//! | `proto.rs` | the contract |
//! | `errors.rs`, `refusal.rs` | every refusal that etcd's clients know by its text; what the service refuses, in these words |
//! | `dialect.rs` | what all calls share: namespace, header, who calls |
//! | `kv.rs`, `range.rs`, `txn.rs`, `keys.rs` | keys: ranges, writes, transactions |
//! | `compaction.rs` | from when on the past may be told |
//! | `lease.rs` | leases and streams of renewals |
//! | `watch/` | any number of watches on one stream |
//! | `contest.rs`, `names.rs`, `lock.rs`, `election.rs` | claims with markers: locks and elections |
//! | `maintenance.rs`, `cluster.rs`, `auth.rs` | what operators ask |
//! | `gateway/` | the whole as JSON over plain HTTP |
//! | `urls.rs` | where each node serves etcd's clients |
//! | `streams.rs` | the calls that take a stream of requests, whatever carries them |
//! | `server.rs` | the router |

mod auth;
mod cluster;
mod compaction;
mod contest;
mod dialect;
mod election;
mod errors;
mod gateway;
mod keys;
mod kv;
mod lease;
mod lock;
mod maintenance;
mod names;
mod proto;
mod range;
mod refusal;
mod server;
mod streams;
mod txn;
mod urls;
mod watch;

#[cfg(test)]
mod tests;

pub use dialect::{ClientAddress, EtcdOptions};
pub use server::{prepare, router};
