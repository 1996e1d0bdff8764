//! The cluster as one node sees it, and how operators change it.
//!
//! Node ids fill 63 bits, more than a JSON number holds everywhere, so they travel as 16 hex digits. Where a node is
//! meant, its name does as well as its id; a name is never digits alone.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

use crate::{Invalid, NodeName, SpanText};

/// The longest name of a node.
pub const NODE_NAME_MAX: usize = 63;

/// The id of a node, as text of 16 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<NodeId, &'static str> {
        let wrong = "the id of a node is 16 hex digits, like 619fce19f9f3b1f0";
        if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong);
        }
        u64::from_str_radix(text, 16).map(NodeId).map_err(|_| wrong)
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The cluster, as the node that answers sees it. A node of an earlier version says less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterInfo {
    /// The version of the node that answers.
    pub version: String,
    /// The id of the cluster, 32 hex digits.
    #[serde(default)]
    pub cluster: String,
    /// The node that answers.
    #[serde(default)]
    pub node: NodeInfo,
    /// The node that leads, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderInfo>,
    /// Whether the node that answers leads.
    pub leads: bool,
    /// Whether it can have commands committed and answer linearizable reads.
    pub ready: bool,
    /// All members.
    #[serde(default)]
    pub members: Vec<MemberInfo>,
    /// The last log entry that the node that answers has applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<u64>,
    /// The last log entry it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_log: Option<u64>,
    /// The last log entry covered by its newest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Bytes of its log on disk.
    #[serde(default)]
    pub log_bytes: u64,
    /// The counter of visible changes.
    pub revision: u64,
    /// Lease time, in milliseconds.
    pub lease_time: u64,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
}

/// The node that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaderInfo {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// The term in which it leads.
    pub term: u64,
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberInfo {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// Whether it votes; one that does not only follows.
    pub voter: bool,
    /// Whether it leads.
    pub leads: bool,
    /// The last log entry it is known to have; known to the leader only, and to every node of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// How long ago the leader last heard from it; known to the leader only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<SpanText>,
}

/// Admits a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddMemberRequest {
    /// Its name.
    #[schema(value_type = NodeName)]
    pub name: String,
    /// Where other nodes will reach it.
    #[schema(example = "10.0.0.4:7118", min_length = 3, max_length = 255)]
    pub address: String,
}

/// Hands leadership over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransferRequest {
    /// To this voter, by name or id; without it to the one that is most up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The name of a node, if it can be one.
pub fn checked_node_name(text: &str) -> Result<&str, Invalid> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_number = text.chars().all(|c| c.is_ascii_digit());
    if text.len() > NODE_NAME_MAX || is_number || !text.chars().all(fits) {
        let detail =
            format!("a node's name has up to {NODE_NAME_MAX} letters, digits, `-`, `_` and `.`, and not digits alone");
        return Err(Invalid::new("name", detail));
    }
    Ok(text)
}

/// The address of a node, if it has a host and a port; whether it leads anywhere is seen when it is used.
pub fn checked_node_address(text: &str) -> Result<&str, Invalid> {
    let wrong = || Invalid::new("address", "write it like 10.0.0.1:7118, [fd00::1]:7118 or node1.example:7118");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let has_host = if host.starts_with('[') { text.parse::<SocketAddr>().is_ok() } else { is_name };
    let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if has_host && has_port && text.len() <= 255 { Ok(text) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_is_sixteen_hex_digits() {
        let id = NodeId(0x61);
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"0000000000000061\"");
        assert_eq!("0000000000000061".parse(), Ok(id));
        for wrong in ["61", "", "+000000000000061", "n1"] {
            assert!(wrong.parse::<NodeId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_cannot_be_taken_for_a_number() {
        for good in ["n1", "lease-0", "a.b_c", &"x".repeat(NODE_NAME_MAX)] {
            assert_eq!(checked_node_name(good), Ok(good));
        }
        for bad in ["", "7", "123", "a b", "a/b", "ä", "n1\n", &"x".repeat(NODE_NAME_MAX + 1)] {
            assert!(checked_node_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:1", "[::1]:7", "lease-0.lease.default.svc:7118", "localhost:65535"] {
            assert_eq!(checked_node_address(good), Ok(good));
        }
        for bad in ["", "nowhere", ":7", "a:0", "a:70000", "a b:1", "::1:7", "[::1:7", "a:7/"] {
            assert!(checked_node_address(bad).is_err(), "{bad}");
        }
    }
}
