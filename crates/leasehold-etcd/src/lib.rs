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
//! | `urls.rs` | where each node serves etcd's clients |
//! | `streams.rs` | the calls that take a stream of requests, whatever carries them |
//! | `server.rs` | the router |

mod compaction;
mod contest;
mod dialect;
mod election;
#[allow(dead_code, reason = "the whole table is kept, also rows that no call answers with yet")]
mod errors;
mod keys;
mod kv;
mod lease;
mod lock;
mod names;
#[allow(dead_code, reason = "described for the gateway")]
mod proto;
mod range;
mod refusal;
mod server;
mod streams;
mod txn;
mod urls;
mod watch;

pub use dialect::{ClientAddress, EtcdOptions};
pub use server::{prepare, router};
