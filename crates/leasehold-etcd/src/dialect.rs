//! What all calls of the dialect share.

/// The version of etcd that this dialect speaks like; clients choose their ways by it.
pub(crate) const SERVER_VERSION: &str = "3.5.1";
/// The same as a cluster of such servers would say.
pub(crate) const CLUSTER_VERSION: &str = "3.5.0";
