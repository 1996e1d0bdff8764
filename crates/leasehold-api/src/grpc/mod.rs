//! The gRPC contract: types generated from `proto/leasehold/v1`, and how they become ours and back.
//!
//! The generated types are named as in the contract; servers and clients share them and these conversions.

/// What is generated. Comments on it are in the contract.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used, clippy::wildcard_enum_match_arm)]
mod generated {
    tonic::include_proto!("leasehold.v1");
}

pub use generated::*;

/// The contract itself, for servers that describe it: an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("leasehold.v1");
