//! The settings of the server: one documented struct; flag over environment over file over default.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use leasehold_api::SpanText;
use leasehold_core::{InvalidName, Limits, Namespace, Span};
use serde::Deserialize;

use crate::peers::{PeerError, PeerSection, PeerWords, Peers};
use crate::{read_file, telemetry};

/// The namespace of etcd's clients unless told otherwise: that of clients that name none.
pub(crate) const NAMESPACE: &str = "default";
/// Where the server listens unless told otherwise.
const LISTEN: &str = "127.0.0.1:7117";
/// Where the server keeps its data unless told otherwise.
const DATA: &str = "./leasehold-data";

/// What is logged unless told otherwise. What openraft warns of at every attempt is told once by the links to other nodes,
/// and what it calls an error while it stops is none.
const LEVEL: &str = "warn,audit=info,cluster=info,openraft=error,openraft::raft::raft_inner=off";

/// What was given on the command line or in the environment.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The address for clients.
    pub listen: Option<String>,
    /// The data directory.
    pub data: Option<PathBuf>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The address for etcd's clients.
    pub etcd: Option<String>,
    /// Permits what is otherwise refused.
    pub insecure: bool,
    /// What the command line says about other nodes.
    pub peers: PeerWords,
    /// What the environment says about them.
    pub environment: PeerWords,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that is not understood.
    #[error("{}:{line}: {what}{}", .path.display(), meant(.suggestion.as_deref()))]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// In which line.
        line: usize,
        /// What is wrong with it.
        what: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// The address to listen on is none.
    #[error("`{given}` is not an address to listen on; write it like 127.0.0.1:7117 or [::1]:7117")]
    BadAddress {
        /// What was given.
        given: String,
    },
    /// The namespace for etcd's clients is no name of one.
    #[error("`{name}` cannot be the namespace of etcd's clients: {why}")]
    BadNamespace {
        /// What was given.
        name: String,
        /// What is wrong with it.
        why: InvalidName,
    },
    /// Anyone on the network could use the server.
    #[error(
        "{address} can be reached from other machines, and this server has neither TLS nor authentication; \
         listen on 127.0.0.1, or permit it with --insecure"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The limits contradict each other.
    #[error("the limits of the configuration contradict each other: {0}")]
    Limits(&'static str),
    /// The timeouts contradict each other.
    #[error("[raft] must have 0 < heartbeat < election_min < election_max")]
    Timeouts,
    /// The log level is not one that the logging library understands.
    #[error(
        "log.level `{given}` is not understood: {why}; write a level (error, warn, info, debug, trace), \
         or directives like info,leasehold_raft=debug"
    )]
    LogLevel {
        /// The configured text.
        given: String,
        /// The parser's complaint.
        why: tracing_subscriber::filter::ParseError,
    },
    /// A server without connections serves nobody.
    #[error("connections = 0 lets no client in; give the largest number of open connections, or leave it out")]
    NoConnections,
    /// The clock of tests makes no sense here.
    #[error("LEASE_TEST_CLOCK_RATE is `{given}`: {why}")]
    TestClock {
        /// What the variable says.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What is said about other nodes makes no sense.
    #[error("{0}")]
    Peers(#[from] PeerError),
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address for clients.
    pub listen: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// Whether anonymous callers may hold leases without end.
    pub endless: bool,
    /// How many connections may be open at a time.
    pub connections: usize,
    /// How many bytes stay free on the disk of the data directory.
    pub disk_reserve: u64,
    /// The limits to put into the log, if any were given.
    pub limits: Option<Limits>,
    /// The timing of replication.
    pub raft: RaftSection,
    /// What is logged, and how.
    pub log: LogSection,
    /// How etcd's clients are served; none if they are not.
    pub etcd: Option<Etcd>,
    /// How this node meets others; none for one that stays alone.
    pub peers: Option<Peers>,
    /// Permits what is otherwise refused.
    pub insecure: bool,
}

/// How etcd's clients are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// The address for them.
    pub listen: SocketAddr,
    /// Where they reach this node, if not there.
    pub advertise: Option<String>,
    /// The namespace of their keys, leases and locks.
    pub namespace: Namespace,
}

fn meant(suggestion: Option<&str>) -> String {
    suggestion.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// The configuration file. Every key is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    listen: Option<String>,
    data: Option<PathBuf>,
    name: Option<String>,
    insecure: bool,
    connections: Option<usize>,
    disk_reserve: Option<u64>,
    access: AccessSection,
    pub(crate) etcd: EtcdSection,
    pub(crate) limits: Option<LimitsSection>,
    peer: PeerSection,
    raft: RaftSection,
    log: LogSection,
}

impl File {
    /// What the file says about other nodes.
    pub(crate) fn peers(&self) -> PeerWords {
        PeerWords::from_file(self.name.clone(), self.peer.clone())
    }
}

/// How etcd's clients are served, as the file says it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EtcdSection {
    pub(crate) listen: Option<String>,
    pub(crate) advertise: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl EtcdSection {
    fn read(self, flag: Option<String>) -> Result<Option<Etcd>, ConfigError> {
        let Some(given) = flag.or(self.listen) else { return Ok(None) };
        let name = self.namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        let namespace = Namespace::new(&name).map_err(|why| ConfigError::BadNamespace { name, why })?;
        Ok(Some(Etcd { listen: parse_address(&given)?, advertise: self.advertise, namespace }))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AccessSection {
    endless: bool,
}

/// The timing of replication.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RaftSection {
    pub(crate) heartbeat: SpanText,
    pub(crate) election_min: SpanText,
    pub(crate) election_max: SpanText,
    /// When the log has grown by so many bytes, nodes compare their states and write snapshots.
    pub snapshot_bytes: u64,
    /// So many entries stay in the log behind a snapshot, so that a node that was away for a short time needs none.
    pub retained_entries: u64,
}

impl Default for RaftSection {
    fn default() -> Self {
        Self {
            heartbeat: SpanText(Span(100)),
            election_min: SpanText(Span(300)),
            election_max: SpanText(Span(600)),
            snapshot_bytes: 256 << 20,
            retained_entries: 10_000,
        }
    }
}

impl RaftSection {
    /// Heartbeat, shortest and longest election timeout.
    pub fn timeouts(&self) -> [Duration; 3] {
        [self.heartbeat, self.election_min, self.election_max].map(|text| Duration::from_millis(text.0.0))
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSection {
    /// Which messages: a level, or directives as in `info,leasehold_raft=debug`.
    pub level: String,
    /// As text for people, or as JSON for machines.
    pub format: LogFormat,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: LEVEL.to_owned(), format: LogFormat::Text }
    }
}

/// How messages look.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

macro_rules! limits_section {
    ($($span:ident),* ; $($number:ident: $type:ty),*) => {
        /// Limits that differ from the defaults.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct LimitsSection {
            $($span: Option<SpanText>,)*
            $($number: Option<$type>,)*
        }

        impl LimitsSection {
            /// All limits of a state with this section.
            pub(crate) fn limits(&self) -> Limits {
                let usual = Limits::default();
                Limits {
                    $($span: self.$span.map_or(usual.$span, |text| text.0),)*
                    $($number: self.$number.unwrap_or(usual.$number),)*
                }
            }

            /// All limits by name, as they are written.
            pub(crate) fn listed(limits: &Limits) -> Vec<(&'static str, String)> {
                vec![
                    $((stringify!($span), SpanText(limits.$span).to_string()),)*
                    $((stringify!($number), limits.$number.to_string()),)*
                ]
            }
        }
    };
}

limits_section! {
    ttl_min, ttl_max, cooldown_max, grace, tombstone_age;
    tombstones: u32, namespaces: u32, leases: u32, leases_per_identity: u32, claims_per_lease: u32,
    entries_per_lease: u32, tree_weight: u32, tree_depth: u8, waiters: u32, shared_holders: u32, entries: u32,
    value_bytes: u32, entry_bytes: u64, state_bytes: u64, write_ops: u32, range_entries: u32, metadata_pairs: u32,
    metadata_bytes: u32, history: u32, idle_resources: u32, receipts: u32, renewals: u32, sweep_piece: u32
}

impl Config {
    /// Puts the settings together and refuses what cannot or should not be used.
    pub fn load(flags: Flags) -> Result<Config, ConfigError> {
        let file = match &flags.config {
            Some(path) => read_file(path)?,
            None => File::default(),
        };
        let words = flags.peers.or(&flags.environment).or(&file.peers());
        let given = flags.listen.or(file.listen).unwrap_or_else(|| LISTEN.to_owned());
        let listen = parse_address(&given)?;
        let insecure = flags.insecure || file.insecure;
        let etcd = file.etcd.read(flags.etcd)?;
        let mut addresses = std::iter::once(listen).chain(etcd.as_ref().map(|etcd| etcd.listen));
        if let Some(address) = addresses.find(|address| !address.ip().is_loopback() && !insecure) {
            return Err(ConfigError::Exposed { address });
        }
        let peers = Peers::read(&words, insecure)?;
        let limits = file.limits.map(|section| section.limits());
        if let Some(contradiction) = limits.as_ref().and_then(Limits::contradiction) {
            return Err(ConfigError::Limits(contradiction));
        }
        let [heartbeat, min, max] = file.raft.timeouts();
        if heartbeat.is_zero() || heartbeat >= min || min >= max {
            return Err(ConfigError::Timeouts);
        }
        telemetry::filter(&file.log.level)
            .map_err(|why| ConfigError::LogLevel { given: file.log.level.clone(), why })?;
        if file.connections == Some(0) {
            return Err(ConfigError::NoConnections);
        }
        Ok(Config {
            listen,
            data: flags.data.or(file.data).unwrap_or_else(|| PathBuf::from(DATA)),
            endless: file.access.endless,
            connections: file.connections.unwrap_or(10_000),
            disk_reserve: file.disk_reserve.unwrap_or(64 << 20),
            limits,
            raft: file.raft,
            log: file.log,
            etcd,
            peers,
            insecure,
        })
    }
}

fn parse_address(given: &str) -> Result<SocketAddr, ConfigError> {
    let local = given.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let text = local.as_deref().unwrap_or(given);
    let any = text.strip_prefix(':').and_then(|port| port.parse().ok());
    match any {
        Some(port) => Ok(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port)),
        None => text.parse().map_err(|_| ConfigError::BadAddress { given: given.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, flags: Flags) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::load(Flags { config: Some(file.path().to_path_buf()), ..flags })
    }

    #[test]
    fn etcds_clients_are_served_where_it_is_said_and_on_loopback_unless_permitted() {
        assert_eq!(load("", Flags::default()).unwrap().etcd, None);
        let file = "[etcd]\nlisten = \"127.0.0.1:1\"\nnamespace = \"shop\"\nadvertise = \"http://box1:2379\"";
        let etcd = load(file, Flags::default()).unwrap().etcd.unwrap();
        assert_eq!((etcd.listen.port(), etcd.namespace.as_str()), (1, "shop"));
        assert_eq!(etcd.advertise.as_deref(), Some("http://box1:2379"));
        let flag = |address: &str| Flags { etcd: Some(address.to_owned()), ..Flags::default() };
        let etcd = load(file, flag("127.0.0.1:2")).unwrap().etcd.unwrap();
        assert_eq!(etcd.listen.port(), 2, "a flag goes before the file");
        assert!(matches!(load("", flag("0.0.0.0:2379")), Err(ConfigError::Exposed { .. })));
        assert!(load("", Flags { insecure: true, ..flag("0.0.0.0:2379") }).is_ok());
        let error = load("[etcd]\nlisten = \"127.0.0.1:1\"\nnamespace = \"Shop\"", Flags::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`Shop` cannot be the namespace of etcd's clients: the character 'S' is not allowed"
        );
    }

    #[test]
    fn without_anything_it_listens_on_loopback() {
        let config = Config::load(Flags::default()).unwrap();
        assert_eq!(config.listen.to_string(), LISTEN);
        assert_eq!(config.data, PathBuf::from(DATA));
        assert!(config.limits.is_none() && !config.endless);
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let flags = Flags { listen: Some("127.0.0.1:1".into()), ..Flags::default() };
        let config = load("listen = \"127.0.0.1:2\"\ndata = \"/tmp/x\"", flags).unwrap();
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.data, PathBuf::from("/tmp/x"));
    }

    #[test]
    fn other_machines_are_let_in_only_by_permission() {
        for listen in ["0.0.0.0:7117", "[::]:7117", "192.168.1.5:7117", ":7117"] {
            let flags = Flags { listen: Some(listen.into()), ..Flags::default() };
            assert!(matches!(Config::load(flags.clone()), Err(ConfigError::Exposed { .. })), "{listen}");
            assert!(Config::load(Flags { insecure: true, ..flags }).is_ok(), "{listen}");
        }
        for listen in ["127.0.0.1:0", "[::1]:7117", "localhost:7117", "127.1.2.3:80"] {
            assert!(Config::load(Flags { listen: Some(listen.into()), ..Flags::default() }).is_ok(), "{listen}");
        }
    }

    #[test]
    fn limits_are_given_one_by_one() {
        let config = load("[limits]\nttl_min = \"50ms\"\nwaiters = 7", Flags::default()).unwrap();
        let limits = config.limits.unwrap();
        assert_eq!((limits.ttl_min, limits.waiters, limits.leases), (Span(50), 7, Limits::default().leases));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_name() {
        let error = load("lisen = \"127.0.0.1:2\"", Flags::default()).unwrap_err().to_string();
        assert!(error.ends_with(":1: unknown key `lisen`; did you mean `listen`?"), "{error}");
        assert!(matches!(load("[limits]\nttl_min = \"31d\"", Flags::default()), Err(ConfigError::Limits(_))));
        assert!(matches!(load("[raft]\nheartbeat = \"2s\"", Flags::default()), Err(ConfigError::Timeouts)));
        let error = load("[raft]\nheartbeat = 5", Flags::default()).unwrap_err().to_string();
        assert!(error.ends_with(":2: `5` has no unit; write it like 5s or 5ms"), "{error}");
        let error = load("[log]\nlevel = \"garbage==\"", Flags::default()).unwrap_err().to_string();
        assert!(error.starts_with("log.level `garbage==` is not understood: "), "{error}");
        assert!(matches!(load("connections = 0", Flags::default()), Err(ConfigError::NoConnections)));
        let flags = Flags { listen: Some("nowhere".into()), ..Flags::default() };
        assert!(matches!(Config::load(flags), Err(ConfigError::BadAddress { .. })));
        let flags = Flags { config: Some("/nonexistent/x.toml".into()), ..Flags::default() };
        assert!(matches!(Config::load(flags), Err(ConfigError::Unreadable { .. })));
    }
}
