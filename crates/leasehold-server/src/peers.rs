//! What the settings say about other nodes: this node's name, where it meets them, and how it comes to its cluster.
//!
//! The same words can stand on the command line, in the environment and in the file; the first that has one wins. They
//! are checked here as far as words can be: whether the others are there is found out when the node starts.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use leasehold_api::{NODE_NAME_MAX, checked_node_address, checked_node_name};
use leasehold_raft::{PeerTls, is_loopback};
use serde::Deserialize;

/// What one place says about other nodes; every word is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerWords {
    /// The name of this node.
    pub name: Option<String>,
    /// Where it listens for other nodes.
    pub listen: Option<String>,
    /// Where others reach it, if not there.
    pub advertise: Option<String>,
    /// All members of a new cluster, like `n1=HOST:PORT,n2=HOST:PORT`.
    pub members: Option<String>,
    /// Nodes of a running cluster, like `HOST:PORT,HOST:PORT`.
    pub join: Option<String>,
    /// The file of the authority that all nodes trust.
    pub ca: Option<String>,
    /// The file of this node's certificate.
    pub cert: Option<String>,
    /// The file of its key.
    pub key: Option<String>,
}

/// The section `[peer]` of the configuration file; the name stands above all sections.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PeerSection {
    listen: Option<String>,
    advertise: Option<String>,
    members: Option<String>,
    join: Option<String>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

/// A setting about other nodes: its key in the file, its flag, its variable.
pub(crate) type PeerKey = (&'static str, &'static str, &'static str);

/// All of them, in the order of [`PeerWords::all`].
pub(crate) const PEER_KEYS: [PeerKey; 8] = [
    ("name", "--name", "LEASE_NAME"),
    ("peer.listen", "--peer-listen", "LEASE_PEER_LISTEN"),
    ("peer.advertise", "--peer-advertise", "LEASE_PEER_ADVERTISE"),
    ("peer.members", "--members", "LEASE_MEMBERS"),
    ("peer.join", "--join", "LEASE_JOIN"),
    ("peer.ca", "--peer-ca", "LEASE_PEER_CA"),
    ("peer.cert", "--peer-cert", "LEASE_PEER_CERT"),
    ("peer.key", "--peer-key", "LEASE_PEER_KEY"),
];

impl PeerWords {
    /// The words of an environment; what is empty is not said.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> PeerWords {
        let said = |name| variable(name).filter(|text| !text.is_empty());
        PeerWords::from_all(PEER_KEYS.map(|(_, _, name)| said(name)))
    }

    pub(crate) fn from_file(name: Option<String>, section: PeerSection) -> PeerWords {
        let PeerSection { listen, advertise, members, join, ca, cert, key } = section;
        PeerWords { name, listen, advertise, members, join, ca, cert, key }
    }

    /// These words, and where they say nothing those of `other`.
    pub(crate) fn or(&self, other: &PeerWords) -> PeerWords {
        let (first, second) = (self.all(), other.all());
        PeerWords::from_all(std::array::from_fn(|at| first[at].or(second[at]).cloned()))
    }

    /// All words, in the order of [`PEER_KEYS`].
    pub(crate) fn all(&self) -> [Option<&String>; 8] {
        let PeerWords { name, listen, advertise, members, join, ca, cert, key } = self;
        [name, listen, advertise, members, join, ca, cert, key].map(Option::as_ref)
    }

    fn from_all([name, listen, advertise, members, join, ca, cert, key]: [Option<String>; 8]) -> PeerWords {
        PeerWords { name, listen, advertise, members, join, ca, cert, key }
    }
}

/// How this node meets others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Its name.
    pub name: String,
    /// Where it listens for them.
    pub listen: SocketAddr,
    /// Where they reach it.
    pub advertise: String,
    /// How it comes to its cluster.
    pub coming: Coming,
    /// How connections between nodes are protected; none leaves them plain.
    pub tls: Option<PeerTls>,
}

/// How a node without data comes to its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coming {
    /// It begins a cluster of one, which can grow.
    Alone,
    /// It forms one with these, by name and address.
    Members(BTreeMap<String, String>),
    /// It asks one of these nodes to let it in.
    Join(Vec<String>),
}

/// Why what is said about other nodes cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Two ways to a cluster at once.
    #[error("--members forms a new cluster and --join enters a running one; give only one of them")]
    TwoWays,
    /// The node has no name.
    #[error("a node that meets others has a name; add --name, like --name n1")]
    NoName,
    /// The name cannot be one.
    #[error(
        "`{0}` is not a name of a node; use up to {NODE_NAME_MAX} letters, digits, `-`, `_` and `.`, and not digits alone"
    )]
    BadName(String),
    /// The list does not have this node.
    #[error("--name {name} is not in --members, which has {}; every node gives the same list", .members.join(", "))]
    NotInList {
        /// The name of this node.
        name: String,
        /// Those of the list.
        members: Vec<String>,
    },
    /// A part of the list cannot be read.
    #[error("`{0}` is not a member; write --members like n1=10.0.0.1:7118,n2=10.0.0.2:7118")]
    BadMember(String),
    /// A name or an address stands twice in the list.
    #[error("--members has {0} twice; every member has a name and an address of its own")]
    Twice(String),
    /// Nobody can listen for the other nodes.
    #[error("it is not said where this node meets others; add --peer-listen, like --peer-listen 10.0.0.1:7118")]
    NoListen,
    /// The own address in the list is a name.
    #[error("{address} is where others reach this node; say where it listens itself, like --peer-listen 0.0.0.0:7118")]
    ListenUnclear {
        /// The own address in the list.
        address: String,
    },
    /// An address cannot be read.
    #[error("`{given}` is not an address for {flag}; write it like 10.0.0.1:7118 or node1.example:7118")]
    BadAddress {
        /// The flag.
        flag: &'static str,
        /// What was given.
        given: String,
    },
    /// The address listens everywhere and names no place.
    #[error("others cannot reach {0}; add --peer-advertise with an address that leads here")]
    NoAdvertise(SocketAddr),
    /// The list says another address than the flag.
    #[error("--peer-advertise {given} and --members, which has {listed} for this node, contradict each other")]
    OtherAdvertise {
        /// What the flag says.
        given: String,
        /// What the list says.
        listed: String,
    },
    /// Some of the files are missing.
    #[error("--peer-ca, --peer-cert and --peer-key belong together; {0} is missing")]
    PartOfFiles(&'static str),
    /// Whoever reads the network could read and change everything.
    #[error(
        "{0} is not on this machine, and connections between nodes are plain; give --peer-ca, --peer-cert and \
         --peer-key, or permit it with --insecure"
    )]
    Exposed(String),
}

impl Peers {
    /// Reads the words; none if they do not speak of other nodes.
    pub(crate) fn read(words: &PeerWords, insecure: bool) -> Result<Option<Peers>, PeerError> {
        if let Some(name) = &words.name {
            check_name(name)?;
        }
        if words.all().iter().skip(1).all(Option::is_none) {
            return Ok(None);
        }
        let coming = match (&words.members, &words.join) {
            (Some(_), Some(_)) => return Err(PeerError::TwoWays),
            (Some(list), None) => Coming::Members(members(list)?),
            (None, Some(list)) => Coming::Join(addresses("--join", list)?),
            (None, None) => Coming::Alone,
        };
        let name = words.name.clone().ok_or(PeerError::NoName)?;
        let own = match &coming {
            Coming::Members(members) => Some(members.get(&name).ok_or_else(|| PeerError::NotInList {
                name: name.clone(),
                members: members.keys().cloned().collect(),
            })?),
            Coming::Alone | Coming::Join(_) => None,
        };
        let listen = listen(words.listen.as_deref(), own)?;
        let advertise = advertise(words.advertise.as_ref(), own, listen)?;
        let peers = Peers { name, listen, advertise, tls: files(words)?, coming };
        let elsewhere = peers.addresses().into_iter().find(|address| !is_loopback(address));
        match elsewhere {
            Some(address) if !insecure && peers.tls.is_none() => Err(PeerError::Exposed(address)),
            Some(_) | None => Ok(Some(peers)),
        }
    }

    /// Every address that connections between nodes lead to.
    fn addresses(&self) -> Vec<String> {
        let others = match &self.coming {
            Coming::Alone => Vec::new(),
            Coming::Members(members) => members.values().cloned().collect(),
            Coming::Join(addresses) => addresses.clone(),
        };
        [vec![self.listen.to_string(), self.advertise.clone()], others].concat()
    }
}

fn check_name(name: &str) -> Result<(), PeerError> {
    checked_node_name(name).map(drop).map_err(|_| PeerError::BadName(name.to_owned()))
}

fn members(list: &str) -> Result<BTreeMap<String, String>, PeerError> {
    let mut members = BTreeMap::new();
    for part in parts(list) {
        let (name, address) = part.split_once('=').ok_or_else(|| PeerError::BadMember(part.to_owned()))?;
        let (name, address) = (name.trim(), address_of("--members", address.trim())?);
        check_name(name)?;
        if members.values().any(|known| *known == address) {
            return Err(PeerError::Twice(address));
        }
        if members.insert(name.to_owned(), address).is_some() {
            return Err(PeerError::Twice(name.to_owned()));
        }
    }
    if members.is_empty() { Err(PeerError::BadMember(list.to_owned())) } else { Ok(members) }
}

fn addresses(flag: &'static str, list: &str) -> Result<Vec<String>, PeerError> {
    let found: Vec<String> = parts(list).map(|part| address_of(flag, part)).collect::<Result<_, _>>()?;
    if found.is_empty() { Err(PeerError::BadAddress { flag, given: list.to_owned() }) } else { Ok(found) }
}

fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn address_of(flag: &'static str, text: &str) -> Result<String, PeerError> {
    match checked_node_address(text) {
        Ok(address) => Ok(address.to_owned()),
        Err(_) => Err(PeerError::BadAddress { flag, given: text.to_owned() }),
    }
}

/// Where this node listens; a list of members says so itself if it has an address for it.
fn listen(given: Option<&str>, own: Option<&String>) -> Result<SocketAddr, PeerError> {
    let parsed = |text: &str| -> Option<SocketAddr> {
        let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let any = text.strip_prefix(':').map(|port| format!("0.0.0.0:{port}"));
        let address = local.or(any).as_deref().unwrap_or(text).parse::<SocketAddr>().ok()?;
        // Others could not know a port that the system chooses.
        (address.port() > 0).then_some(address)
    };
    match (given, own) {
        (Some(text), _) => {
            parsed(text).ok_or_else(|| PeerError::BadAddress { flag: "--peer-listen", given: text.to_owned() })
        }
        (None, Some(own)) => parsed(own).ok_or_else(|| PeerError::ListenUnclear { address: own.clone() }),
        (None, None) => Err(PeerError::NoListen),
    }
}

/// Where others reach this node.
fn advertise(given: Option<&String>, own: Option<&String>, listen: SocketAddr) -> Result<String, PeerError> {
    let given = given.map(|text| address_of("--peer-advertise", text)).transpose()?;
    match (given, own) {
        (Some(given), Some(listed)) if given != *listed => {
            Err(PeerError::OtherAdvertise { given, listed: listed.clone() })
        }
        (Some(given), _) => Ok(given),
        (None, Some(listed)) => Ok(listed.clone()),
        (None, None) if listen.ip().is_unspecified() => Err(PeerError::NoAdvertise(listen)),
        (None, None) => Ok(listen.to_string()),
    }
}

fn files(words: &PeerWords) -> Result<Option<PeerTls>, PeerError> {
    match (&words.ca, &words.cert, &words.key) {
        (None, None, None) => Ok(None),
        (Some(ca), Some(cert), Some(key)) => Ok(Some(PeerTls { ca: ca.into(), cert: cert.into(), key: key.into() })),
        (None, _, _) => Err(PeerError::PartOfFiles("--peer-ca")),
        (_, None, _) => Err(PeerError::PartOfFiles("--peer-cert")),
        (_, _, None) => Err(PeerError::PartOfFiles("--peer-key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "n1=127.0.0.1:1,n2=127.0.0.1:2,n3=127.0.0.1:3";

    fn words(given: &[(&str, &str)]) -> PeerWords {
        for (flag, _) in given {
            assert!(PEER_KEYS.iter().any(|(_, known, _)| known == flag), "{flag}");
        }
        let said = |flag: &str| given.iter().find(|(name, _)| *name == flag).map(|(_, text)| (*text).to_owned());
        PeerWords::from_all(PEER_KEYS.map(|(_, flag, _)| said(flag)))
    }

    fn read(given: &[(&str, &str)]) -> Result<Option<Peers>, PeerError> {
        Peers::read(&words(given), false)
    }

    fn complaint(given: &[(&str, &str)]) -> String {
        read(given).unwrap_err().to_string()
    }

    #[test]
    fn a_node_that_is_told_nothing_meets_nobody() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("--name", "n1")]), Ok(None));
    }

    #[test]
    fn a_list_says_where_a_member_listens() {
        let peers = read(&[("--name", "n2"), ("--members", LIST)]).unwrap().unwrap();
        assert_eq!((peers.listen.to_string(), peers.advertise.as_str()), ("127.0.0.1:2".into(), "127.0.0.1:2"));
        assert!(matches!(peers.coming, Coming::Members(members) if members.len() == 3));
        let far = [("--name", "n1"), ("--members", "n1=a.example:1,n2=b.example:1")];
        assert!(complaint(&far).contains("--peer-listen 0.0.0.0:7118"), "{}", complaint(&far));
        let far = words(&[far[0], far[1], ("--peer-listen", ":1")]);
        let peers = Peers::read(&far, true).unwrap().unwrap();
        assert_eq!((peers.listen.to_string(), peers.advertise.as_str()), ("0.0.0.0:1".into(), "a.example:1"));
    }

    #[test]
    fn a_list_must_have_this_node_once() {
        assert_eq!(read(&[("--members", LIST)]), Err(PeerError::NoName));
        let other = complaint(&[("--name", "n4"), ("--members", LIST)]);
        assert!(other.starts_with("--name n4 is not in --members, which has n1, n2, n3"), "{other}");
        for twice in ["n1=127.0.0.1:1,n1=127.0.0.1:2", "n1=127.0.0.1:1,n2=127.0.0.1:1"] {
            let refused = read(&[("--name", "n1"), ("--members", twice)]);
            assert!(matches!(refused, Err(PeerError::Twice(_))), "{refused:?}");
        }
        for bad in ["n1", "", "n1=127.0.0.1", "n1=:7", "n1=127.0.0.1:0", "=127.0.0.1:1", "7=127.0.0.1:1"] {
            assert!(read(&[("--name", "n1"), ("--members", bad)]).is_err(), "{bad}");
        }
    }

    #[test]
    fn there_is_one_way_into_a_cluster_and_a_place_to_meet() {
        let both = [("--name", "n1"), ("--members", LIST), ("--join", "127.0.0.1:2")];
        assert_eq!(read(&both), Err(PeerError::TwoWays));
        assert_eq!(read(&[("--name", "n4"), ("--join", "127.0.0.1:2")]), Err(PeerError::NoListen));
        let joins = [("--name", "n4"), ("--join", "127.0.0.1:2, [::1]:3"), ("--peer-listen", "localhost:4")];
        let peers = read(&joins).unwrap().unwrap();
        assert_eq!(peers.coming, Coming::Join(vec!["127.0.0.1:2".into(), "[::1]:3".into()]));
        assert_eq!(peers.advertise, "127.0.0.1:4");
        assert_eq!(read(&[("--peer-listen", "127.0.0.1:4")]), Err(PeerError::NoName));
        assert_eq!(read(&[("--name", "n1"), ("--peer-advertise", "127.0.0.1:4")]), Err(PeerError::NoListen));
    }

    #[test]
    fn other_machines_need_certificates_or_permission() {
        let open = [("--name", "n1"), ("--peer-listen", "10.0.0.1:7118")];
        assert_eq!(read(&open), Err(PeerError::Exposed("10.0.0.1:7118".into())));
        assert!(Peers::read(&words(&open), true).is_ok());
        let files = [("--peer-ca", "a"), ("--peer-cert", "b"), ("--peer-key", "c")];
        assert!(read(&[&open[..], &files].concat()).unwrap().unwrap().tls.is_some());
        assert_eq!(read(&[&open[..], &files[..2]].concat()), Err(PeerError::PartOfFiles("--peer-key")));
        let joins = [("--name", "n1"), ("--peer-listen", "127.0.0.1:1"), ("--join", "n2.example:1")];
        assert_eq!(read(&joins), Err(PeerError::Exposed("n2.example:1".into())));
    }

    #[test]
    fn an_address_that_leads_nowhere_is_not_told_to_others() {
        let everywhere = words(&[("--name", "n1"), ("--peer-listen", "0.0.0.0:7118")]);
        assert!(matches!(Peers::read(&everywhere, true), Err(PeerError::NoAdvertise(_))));
        let said = PeerWords { advertise: Some("n1.example:7118".into()), ..everywhere };
        assert_eq!(Peers::read(&said, true).unwrap().unwrap().advertise, "n1.example:7118");
        for bad in ["nowhere", "127.0.0.1:0", "127.0.0.1:99999", "a b:1"] {
            let refused = read(&[("--name", "n1"), ("--peer-listen", bad)]);
            assert!(matches!(refused, Err(PeerError::BadAddress { .. })), "{bad}: {refused:?}");
        }
        let other = [("--name", "n1"), ("--members", LIST), ("--peer-advertise", "127.0.0.1:9")];
        assert!(matches!(read(&other), Err(PeerError::OtherAdvertise { .. })));
    }

    #[test]
    fn the_first_place_that_says_something_wins() {
        let flags = words(&[("--name", "flag")]);
        let variables = [("LEASE_NAME", "env"), ("LEASE_PEER_LISTEN", "127.0.0.1:1"), ("LEASE_JOIN", "")];
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, it)| (*it).to_owned());
        let found = flags.or(&PeerWords::from_environment(variable));
        assert_eq!((found.name.as_deref(), found.listen.as_deref()), (Some("flag"), Some("127.0.0.1:1")));
        assert_eq!(found.join, None);
    }
}
