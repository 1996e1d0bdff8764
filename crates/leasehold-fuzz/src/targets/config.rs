//! Configuration files: what is understood is listed so that the list, written as a file, means the same; what is not is
//! refused with the file, the line, and what it is about.

use std::path::Path;

use leasehold_server::{Config, ConfigError, Flags, Setting, Source};

pub(crate) fn run(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let path = folder.path().join("fuzzed.toml");
    match settings(&path, bytes) {
        Ok(settings) => {
            let written = text(&settings);
            let again = settings_of(&path, written.as_bytes());
            assert_eq!(values(&again), values(&settings), "what is listed means the same:\n{written}");
        }
        Err(error) => named(&error, &path, bytes),
    }
}

fn settings(path: &Path, bytes: &[u8]) -> Result<Vec<Setting>, ConfigError> {
    std::fs::write(path, bytes).expect("there is room for a file");
    Config::settings(&Flags { config: Some(path.to_path_buf()), ..Flags::default() })
}

fn settings_of(path: &Path, bytes: &[u8]) -> Vec<Setting> {
    settings(path, bytes).unwrap_or_else(|error| panic!("{error} in:\n{}", String::from_utf8_lossy(bytes)))
}

fn values(settings: &[Setting]) -> Vec<(&str, &str)> {
    settings.iter().map(|setting| (setting.key.as_str(), setting.value.as_str())).collect()
}

/// The settings that a file said, as a file.
fn text(settings: &[Setting]) -> String {
    let mut text = String::new();
    for setting in settings.iter().filter(|setting| matches!(setting.source, Source::File(_))) {
        let value = &setting.value;
        // Text and durations are quoted; numbers and flags are not.
        let plain = value.parse::<u64>().is_ok() || matches!(&**value, "true" | "false");
        let words = ["listen", "data", "name", "log.level", "log.format"];
        let quoted = !plain || words.contains(&setting.key.as_str()) || setting.key.starts_with("peer.");
        let value = if quoted { quote(value) } else { value.clone() };
        text.push_str(&format!("{} = {value}\n", setting.key));
    }
    text
}

fn quote(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("any text can be quoted");
    quoted.replace('\u{7f}', "\\u007f")
}

fn named(error: &ConfigError, path: &Path, bytes: &[u8]) {
    let told = error.to_string();
    match error {
        ConfigError::Unreadable { .. } => assert!(told.contains(&*path.to_string_lossy()), "{told}"),
        ConfigError::Invalid { line, what, .. } => {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!((1..=lines).contains(line), "line {line} of {lines}: {told}");
            assert!(told.starts_with(&format!("{}:{line}: ", path.display())) && !what.is_empty(), "{told}");
        }
        ConfigError::BadAddress { given } => assert!(told.contains(given.as_str()), "{told}"),
        ConfigError::BadNamespace { name, .. } => assert!(told.contains(name.as_str()), "{told}"),
        ConfigError::LogLevel { given, .. } => assert!(told.contains(given.as_str()), "{told}"),
        ConfigError::NoConnections => assert!(told.contains("connections"), "{told}"),
        ConfigError::Exposed { address } => assert!(told.contains(&address.to_string()), "{told}"),
        ConfigError::Limits(_) | ConfigError::Timeouts | ConfigError::TestClock { .. } | ConfigError::Peers(_) => {
            assert!(!told.is_empty());
        }
    }
}

pub(crate) const WORDS: &[&str] = &[
    "listen",
    "data",
    "etcd",
    "namespace",
    "name",
    "insecure",
    "true",
    "connections",
    "disk_reserve",
    "[access]",
    "endless",
    "[limits]",
    "ttl_min",
    "ttl_max",
    "waiters",
    "[peer]",
    "members",
    "join",
    "advertise",
    "[raft]",
    "heartbeat",
    "\"10s\"",
    "[log]",
    "level",
    "format",
    "\"json\"",
    "'''",
    "\"\"\"",
    "[[",
    "{}",
    "=",
    "0x7f",
    "1e9",
    "inf",
    "nan",
    "\n",
];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "",
        "listen = \"127.0.0.1:7117\"\ndata = '/var/lib/leasehold'\nconnections = 500\ndisk_reserve = 1000\n",
        "insecure = true\nlisten = ':7117'\n[limits]\nttl_min = '50ms'\nttl_max = \"10d\"\nwaiters = 7\nentry_bytes = 9\n",
        "name = 'n1'\n[peer]\nlisten = '127.0.0.1:7118'\nmembers = 'n1=127.0.0.1:7118,n2=127.0.0.1:7119'\n",
        "name = 'n4'\n[peer]\nlisten = '127.0.0.1:7118'\njoin = '127.0.0.1:7119'\nca = 'ca'\ncert = 'c'\nkey = 'k'\n",
        "[raft]\nheartbeat = '50ms'\nelection_min = '150ms'\nelection_max = '300ms'\nsnapshot_bytes = 1\n",
        "[log]\nlevel = 'info,leasehold_raft=debug'\nformat = 'json'\n[access]\nendless = true\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}
