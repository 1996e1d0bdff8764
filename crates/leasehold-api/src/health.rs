//! How a server is doing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SpanText;

/// A process that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alive {
    /// Always `ok`.
    pub status: String,
}

/// Whether a server can serve, and what stands in its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthInfo {
    /// Whether it can have commands committed and answer linearizable reads, by itself or through the leader.
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
