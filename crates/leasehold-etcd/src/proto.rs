//! The types of etcd's contract, generated from `proto/etcd`; comments on them are there.
//!
//! Modules are named as the packages of the contract, so a type is found under its full name. Keys and values are
//! [`bytes::Bytes`]. [`DESCRIPTORS`] describes all of it for what works on messages of any kind.

macro_rules! package {
    ($name:ident, $text:literal) => {
        #[doc = concat!("The package `", $text, "` of the contract.")]
        #[allow(
            dead_code,
            missing_docs,
            unreachable_pub,
            clippy::all,
            clippy::unwrap_used,
            clippy::wildcard_enum_match_arm,
            reason = "generated"
        )]
        pub(crate) mod $name {
            tonic::include_proto!($text);
        }
    };
}

package!(authpb, "authpb");
package!(etcdserverpb, "etcdserverpb");
package!(mvccpb, "mvccpb");
package!(v3electionpb, "v3electionpb");
package!(v3lockpb, "v3lockpb");

/// The contract itself: an encoded `FileDescriptorSet`.
pub(crate) const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("etcd");
