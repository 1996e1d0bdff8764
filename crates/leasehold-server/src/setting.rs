//! Every setting of the server with its value and where it came from.

use std::fmt;
use std::path::PathBuf;

use crate::config::{Config, File, Flags, LimitsSection, NAMESPACE, RaftSection};
use crate::peers::{PEER_KEYS, Peers};
use crate::{ConfigError, read_file};

/// Where the value of a setting came from. The first that has one wins, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag of the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// A configuration file.
    File(PathBuf),
    /// Nobody said anything, and the log keeps what was said last; the default, if nothing ever was.
    Log,
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(name) => write!(f, "flag {name}"),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::Log => f.write_str("default, unless the log has another"),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key in the configuration file, like `raft.heartbeat`.
    pub key: String,
    /// Its value as it is written there.
    pub value: String,
    /// Where the value came from.
    pub source: Source,
}

impl Config {
    /// Every setting that a server with these flags would have, or why it would not start.
    pub fn settings(flags: &Flags) -> Result<Vec<Setting>, ConfigError> {
        let config = Config::load(flags.clone())?;
        let (file, table) = match &flags.config {
            Some(path) => (read_file::<File>(path)?, read_file::<toml::Table>(path)?),
            None => (File::default(), toml::Table::new()),
        };
        let source = |flag: Option<&'static str>, key: &str| match (flag, &flags.config) {
            (Some(name), _) => Source::Flag(name),
            (None, Some(path)) if has(&table, key) => Source::File(path.clone()),
            (None, _) if key.starts_with("limits.") && config.limits.is_none() => Source::Log,
            (None, _) => Source::Default,
        };
        let given = [
            ("listen", config.listen.to_string(), flags.listen.is_some().then_some("--listen")),
            (
                "etcd.listen",
                config.etcd.as_ref().map_or_else(not_set, |etcd| etcd.listen.to_string()),
                flags.etcd.is_some().then_some("--etcd"),
            ),
            ("data", config.data.display().to_string(), flags.data.is_some().then_some("--data")),
            ("insecure", config.insecure.to_string(), flags.insecure.then_some("--insecure")),
        ];
        let mut settings: Vec<Setting> = given
            .into_iter()
            .map(|(key, value, flag)| Setting { key: key.to_owned(), value, source: source(flag, key) })
            .collect();
        settings.extend(peer_settings(flags, &file, config.peers.as_ref()));
        settings.extend(file_settings(&config, &file).into_iter().map(|(key, value)| {
            let source = source(None, &key);
            Setting { key, value, source }
        }));
        Ok(settings)
    }
}

/// What is said about other nodes, and by whom.
fn peer_settings(flags: &Flags, file: &File, peers: Option<&Peers>) -> Vec<Setting> {
    let written = file.peers();
    let (flag, environment, written) = (flags.peers.all(), flags.environment.all(), written.all());
    let setting = |(at, (key, name, variable)): (usize, &(&str, &'static str, &'static str))| {
        let (value, source) = match (flag[at], environment[at], written[at], &flags.config) {
            (Some(value), _, _, _) => (value.clone(), Source::Flag(name)),
            (None, Some(value), _, _) => (value.clone(), Source::Environment(variable)),
            (None, None, Some(value), Some(path)) => (value.clone(), Source::File(path.clone())),
            (None, None, _, _) => (default_of(key, peers), Source::Default),
        };
        Setting { key: (*key).to_owned(), value, source }
    };
    PEER_KEYS.iter().enumerate().map(setting).collect()
}

/// What holds where nobody said anything about other nodes.
fn default_of(key: &str, peers: Option<&Peers>) -> String {
    match (key, peers) {
        ("peer.listen", Some(peers)) => peers.listen.to_string(),
        ("peer.advertise", Some(peers)) => peers.advertise.clone(),
        (_, _) => not_set(),
    }
}

fn not_set() -> String {
    "not set".to_owned()
}

/// What only the file can say.
fn file_settings(config: &Config, file: &File) -> Vec<(String, String)> {
    let RaftSection { heartbeat, election_min, election_max, snapshot_bytes, retained_entries } = &config.raft;
    let mut settings = vec![
        ("etcd.advertise".to_owned(), file.etcd.advertise.clone().unwrap_or_else(not_set)),
        ("etcd.namespace".to_owned(), file.etcd.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned())),
        ("connections".to_owned(), config.connections.to_string()),
        ("disk_reserve".to_owned(), config.disk_reserve.to_string()),
        ("access.endless".to_owned(), config.endless.to_string()),
        ("raft.heartbeat".to_owned(), heartbeat.to_string()),
        ("raft.election_min".to_owned(), election_min.to_string()),
        ("raft.election_max".to_owned(), election_max.to_string()),
        ("raft.snapshot_bytes".to_owned(), snapshot_bytes.to_string()),
        ("raft.retained_entries".to_owned(), retained_entries.to_string()),
        ("log.level".to_owned(), config.log.level.clone()),
        ("log.format".to_owned(), config.log.format.to_string()),
    ];
    let limits = file.limits.as_ref().map(LimitsSection::limits).unwrap_or_default();
    let limits = LimitsSection::listed(&limits).into_iter();
    settings.extend(limits.map(|(name, value)| (format!("limits.{name}"), value)));
    settings
}

/// Whether the file has this key.
fn has(table: &toml::Table, key: &str) -> bool {
    match key.split_once('.') {
        Some((section, key)) => table.get(section).and_then(toml::Value::as_table).is_some_and(|part| has(part, key)),
        None => table.contains_key(key),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::PeerWords;
    use crate::file::parse;

    fn with_file(text: &str, flags: Flags) -> Vec<Setting> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::settings(&Flags { config: Some(file.path().to_path_buf()), ..flags }).unwrap()
    }

    fn found<'a>(settings: &'a [Setting], key: &str) -> &'a Setting {
        settings.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("{key} is listed"))
    }

    #[test]
    fn each_setting_tells_where_it_came_from() {
        let flags = Flags { listen: Some("127.0.0.1:1".into()), ..Flags::default() };
        let settings = with_file("data = '/x'\n[limits]\nwaiters = 7\n[raft]\nheartbeat = '50ms'", flags);
        let of = |key| (found(&settings, key).value.as_str(), found(&settings, key).source.clone());
        assert_eq!(of("listen"), ("127.0.0.1:1", Source::Flag("--listen")));
        assert_eq!(of("data").0, "/x");
        assert!(matches!(of("data").1, Source::File(_)));
        assert!(matches!(of("limits.waiters"), ("7", Source::File(_))));
        assert!(matches!(of("raft.heartbeat"), ("50ms", Source::File(_))));
        assert_eq!(of("limits.ttl_min"), ("100ms", Source::Default));
        assert_eq!(of("log.format"), ("text", Source::Default));
        assert_eq!(found(&with_file("", Flags::default()), "limits.waiters").source, Source::Log);
    }

    #[test]
    fn what_is_said_about_other_nodes_tells_where_it_came_from_too() {
        let words = |name: Option<&str>, listen: Option<&str>| PeerWords {
            name: name.map(str::to_owned),
            listen: listen.map(str::to_owned),
            ..PeerWords::default()
        };
        let flags = Flags {
            peers: words(None, Some("127.0.0.1:7")),
            environment: words(Some("n1"), Some("127.0.0.1:8")),
            ..Flags::default()
        };
        let settings = with_file("name = 'n2'\n[peer]\nmembers = 'n1=127.0.0.1:9'", flags);
        let of = |key| (found(&settings, key).value.as_str(), found(&settings, key).source.clone());
        assert_eq!(of("name"), ("n1", Source::Environment("LEASE_NAME")));
        assert_eq!(of("peer.listen"), ("127.0.0.1:7", Source::Flag("--peer-listen")));
        assert!(matches!(of("peer.members"), ("n1=127.0.0.1:9", Source::File(_))));
        assert_eq!(of("peer.advertise"), ("127.0.0.1:9", Source::Default));
        assert_eq!(of("peer.join"), ("not set", Source::Default));
    }

    /// A key that can be written but is not listed would be a secret.
    #[test]
    fn every_key_of_the_file_is_listed() {
        let settings = Config::settings(&Flags::default()).unwrap();
        for section in ["", "access", "etcd", "limits", "peer", "raft", "log"] {
            let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
            let error = parse::<File>(&format!("{header}zzzz = 1"), Path::new("a")).unwrap_err().to_string();
            let keys: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
            assert!(!keys.is_empty(), "{error}");
            let is_section = |key: &str| matches!(key, "access" | "etcd" | "limits" | "peer" | "raft" | "log");
            for key in keys.into_iter().filter(|key| !is_section(key)) {
                let dotted = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
                found(&settings, &dotted);
            }
        }
    }
}
