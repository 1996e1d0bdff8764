//! How a node comes to its cluster, and where it meets the others.
//!
//! A cluster that is declared gives every node the same list. From it each derives the same cluster id and the same
//! node ids, and proposes the same first membership, so the cluster forms once, in whatever order they start. The ids
//! count for an empty directory only; one that has an identity keeps it, and refuses a list that gives another. One that
//! joins a running cluster gets its identity from it, see `join.rs`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};

use super::secure::PeerTls;
use crate::directory::Identity;
use crate::error::OpenError;
use crate::types::Member;

/// How an empty data directory comes to its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Formation {
    /// It begins a cluster of one, which can grow.
    #[default]
    Alone,
    /// It is one of these members, by name and address; every one of them starts with the same list.
    Members(BTreeMap<String, String>),
    /// It asks to be admitted to a running cluster, at the addresses of some of its members. A directory that has an
    /// identity keeps it, so a node may always be started like this.
    Join(Vec<String>),
}

/// How a node meets others.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The name of this node in the cluster: up to 64 letters, digits, dots, underscores and dashes.
    pub name: String,
    /// Where it listens for other nodes.
    pub listen: SocketAddr,
    /// Where others reach it, if that is not where it listens; a list of members says so itself.
    pub advertise: Option<String>,
    /// How an empty directory comes to its cluster.
    pub formation: Formation,
    /// Permits plain connections beyond this machine. Whoever can reach the port can then read and change everything.
    pub insecure: bool,
    /// Where the certificates are; without them connections are plain.
    pub tls: Option<PeerTls>,
}

impl PeerOptions {
    /// A node that listens on a loopback address and begins alone.
    pub fn new(name: impl Into<String>, listen: SocketAddr) -> PeerOptions {
        let name = name.into();
        PeerOptions { name, listen, advertise: None, formation: Formation::Alone, insecure: false, tls: None }
    }

    /// Returns the identity an empty directory gets; none if it is drawn at random, or given by a running cluster.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match &self.formation {
            Formation::Alone | Formation::Join(_) => None,
            Formation::Members(members) => Some(Identity { cluster: cluster_id(members), node: node_id(&self.name) }),
        }
    }

    /// Returns where others reach this node.
    pub(crate) fn own_address(&self) -> String {
        let declared = match &self.formation {
            Formation::Members(members) => members.get(&self.name),
            Formation::Alone | Formation::Join(_) => None,
        };
        declared.or(self.advertise.as_ref()).cloned().unwrap_or_else(|| self.listen.to_string())
    }

    /// Returns the first membership of a cluster that is declared. Every node must propose the same, so it has no
    /// incarnations; the leader writes them in when it has met the nodes.
    pub(crate) fn members(&self) -> Option<BTreeMap<u64, Member>> {
        let member = |(name, address): (&String, &String)| {
            (node_id(name), Member { name: name.clone(), address: address.clone(), incarnation: 0 })
        };
        match &self.formation {
            Formation::Members(members) => Some(members.iter().map(member).collect()),
            Formation::Alone | Formation::Join(_) => None,
        }
    }

    /// Says whether nodes may be met beyond this machine.
    pub(crate) fn leaves_machine(&self) -> bool {
        self.insecure || self.tls.is_some()
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refuse = |text: String| Err(OpenError::Options(text));
        if let Formation::Members(members) = &self.formation {
            members.keys().try_for_each(|name| check_name(name)).map_err(OpenError::Options)?;
            if !members.contains_key(&self.name) {
                return refuse(format!("{:?} is not in the list of members", self.name));
            }
            if self.members().is_some_and(|ids| ids.len() != members.len()) {
                return refuse("two names of members give the same node id; rename one".into());
            }
            let mut addresses: Vec<_> = members.values().collect();
            addresses.sort();
            if addresses.windows(2).any(|pair| pair[0] == pair[1]) {
                return refuse("two members have the same address".into());
            }
        }
        check_name(&self.name).map_err(OpenError::Options)?;
        let own = self.own_address();
        self.check_reach(&own)?;
        check_address(&own).map_err(OpenError::Options)
    }

    /// Plain connections leave this machine only if that was allowed.
    fn check_reach(&self, own: &String) -> Result<(), OpenError> {
        if self.leaves_machine() {
            return Ok(());
        }
        let (declared, listen) = (self.members().unwrap_or_default(), self.listen.to_string());
        let addresses = declared.values().map(|member| &member.address).chain([&listen, own]);
        match addresses.into_iter().find(|address| !is_loopback(address)) {
            Some(address) => Err(OpenError::Options(format!(
                "{address} is not a loopback address, and connections between nodes are plain; \
                 give the nodes certificates (`lease tls init`), use 127.0.0.1, or allow it as insecure"
            ))),
            None => Ok(()),
        }
    }
}

/// Names are shown, typed and put into certificates and metrics, so they are plain.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!("{name:?} is no name for a node: it has 1 to 64 letters, digits, dots, underscores and dashes"))
}

/// An address that others can connect to: a host and a port, and not all addresses of a machine.
pub(crate) fn check_address(address: &str) -> Result<(), String> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let plain = !host.is_empty() && address.len() <= 256 && address.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain || !port.parse::<u16>().is_ok_and(|port| port != 0) {
        return Err(format!("{address:?} is no address of a node: it is HOST:PORT"));
    }
    if address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified()) {
        return Err(format!("{address} cannot be reached by other nodes; say where they find this one (advertise)"));
    }
    Ok(())
}

/// Says whether an address stays on this machine. A name could lead anywhere, `localhost` excepted.
pub fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Names alone would give every cluster of `n1`, `n2`, `n3` the same id; addresses tell them apart.
fn cluster_id(members: &BTreeMap<String, String>) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update(b"leasehold cluster 1\0");
    for part in members.iter().flat_map(|(name, address)| [name, address]) {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    u128::from_le_bytes(first(hasher))
}

/// Not 0 and not 1, which is the node that began alone.
fn node_id(name: &str) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(b"leasehold node 1\0");
    hasher.update(name.as_bytes());
    (u64::from_le_bytes(first(hasher)) >> 1).max(2)
}

fn first<const N: usize>(hasher: Sha256) -> [u8; N] {
    hasher.finalize()[..N].try_into().expect("a digest has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(name: &str, members: &[(&str, &str)]) -> PeerOptions {
        let members = members.iter().map(|(name, address)| (name.to_string(), address.to_string())).collect();
        PeerOptions { formation: Formation::Members(members), ..PeerOptions::new(name, "127.0.0.1:1".parse().unwrap()) }
    }

    #[test]
    fn one_list_gives_one_cluster_and_another_list_another() {
        let list = [("n1", "127.0.0.1:1"), ("n2", "127.0.0.1:2")];
        let moved = [("n1", "127.0.0.1:1"), ("n2", "127.0.0.1:3")];
        let (one, two) = (options("n1", &list).identity().unwrap(), options("n2", &list).identity().unwrap());
        assert_eq!(one.cluster, two.cluster);
        assert_ne!(one.node, two.node);
        let other = options("n1", &moved).identity().unwrap();
        assert_eq!(other.node, one.node);
        assert_ne!(other.cluster, one.cluster);
        // For ever: what one release derived, the next must derive again.
        assert_eq!(one, Identity { cluster: 0xd4951ec58c328eda14fc5f392fe1cc57, node: 0x619fce19f9f3b1f0 });
    }

    #[test]
    fn plain_connections_stay_on_this_machine_unless_allowed() {
        for address in ["127.0.0.1:1", "localhost:7", "[::1]:4", "127.9.9.9:1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["10.0.0.1:1", "0.0.0.0:7", "[::]:4", "n1.example:1", "127.0.0.1.example:1", ""] {
            assert!(!is_loopback(address), "{address}");
        }
        let mut away = options("n1", &[("n1", "127.0.0.1:1"), ("n2", "10.0.0.1:1")]);
        let refusal = away.check().unwrap_err().to_string();
        assert!(refusal.contains("10.0.0.1:1 is not a loopback address"), "{refusal}");
        away.insecure = true;
        away.check().unwrap();
        away.insecure = false;
        away.tls = Some(PeerTls { ca: "ca.pem".into(), cert: "n1.pem".into(), key: "n1-key.pem".into() });
        away.check().unwrap();
    }

    #[test]
    fn a_list_without_this_node_or_with_an_address_twice_is_refused() {
        options("n3", &[("n1", "127.0.0.1:1")]).check().unwrap_err();
        options("n1", &[("n1", "127.0.0.1:1"), ("n2", "127.0.0.1:1")]).check().unwrap_err();
        options("n1", &[("n1", "127.0.0.1:1"), ("n2", "127.0.0.1:2")]).check().unwrap();
    }

    #[test]
    fn names_and_addresses_are_plain() {
        for name in ["n1", "a", "db-1.eu_west", &"x".repeat(64)] {
            check_name(name).unwrap();
        }
        for name in ["", "a b", "n/1", "é", &"x".repeat(65)] {
            check_name(name).unwrap_err();
        }
        for address in ["127.0.0.1:1", "n1.example:7118", "[::1]:4"] {
            check_address(address).unwrap();
        }
        for address in ["", ":1", "host", "host:", "host:99999", "host:0", "a b:1", "0.0.0.0:1", "[::]:1"] {
            check_address(address).unwrap_err();
        }
    }
}
