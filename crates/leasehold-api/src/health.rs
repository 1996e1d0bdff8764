//! How a server is doing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SpanText;

/// Whether a server can serve, and what stands in its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthInfo {
    /// Whether it can commit and answer linearizable reads.
    pub ready: bool,
    /// Whether it leads its cluster.
    pub leads: bool,
    /// Whether its disk is too full for new work.
    pub disk_full: bool,
    /// Whether it refuses work because too much is waiting.
    pub overloaded: bool,
    /// How far lease time lies behind the server's clock.
    pub lease_time_lag: SpanText,
}

/// The cluster, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterInfo {
    /// The version of this node.
    pub version: String,
    /// Whether this node leads.
    pub leads: bool,
    /// Whether it can commit and answer linearizable reads.
    pub ready: bool,
    /// The counter of visible changes.
    pub revision: u64,
    /// Lease time, in milliseconds.
    pub lease_time: u64,
}
