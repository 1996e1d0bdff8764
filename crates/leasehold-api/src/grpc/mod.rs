//! The gRPC contract: types generated from `proto/leasehold/v1`, and how some of them become ours and back.
//!
//! The generated types are named as in the contract; servers and clients share them, the conversions of refusals and
//! holders, and the names of metadata.

pub mod kind;
mod problem;

/// What is generated. Comments on it are in the contract.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, clippy::wildcard_enum_match_arm)]
mod generated {
    tonic::include_proto!("leasehold.v1");
}

pub use generated::*;
pub use problem::Unreadable;

/// The contract itself, for servers that describe it: an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("leasehold.v1");
/// The version of the protocol of `Leases.Connect`.
pub const PROTOCOL_VERSION: u32 = 1;
/// The metadata with the revision an answer is true at.
pub const LEASE_REVISION: &str = "lease-revision";
/// The metadata with the lease time an answer is true at, in milliseconds.
pub const LEASE_TIME: &str = "lease-time";
/// The metadata that says how old a stale answer may be.
pub const LEASE_AGE_MS: &str = "lease-age-ms";
/// The metadata with the name of the leader that a command was passed on to.
pub const LEASE_FORWARDED_TO: &str = "lease-forwarded-to";
/// The trailer of a refusal: an encoded [`Problem`].
pub const PROBLEM_TRAILER: &str = "leasehold-problem-bin";
