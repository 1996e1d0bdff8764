//! What can be chosen about a node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::OpenError;
use crate::files::FileLimits;
use crate::peer::PeerOptions;
use crate::world::World;

/// The flush thread asks for its next flush through a queue of 1024 requests, and every new log file takes three: files
/// so small that hundreds are begun during one flush would make it wait for itself.
const LOG_FILE_BYTES_MIN: usize = 64 * 1024;
const LOG_FILE_RECORDS_MIN: usize = 16;

/// What can be chosen about a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory; made if it is not there.
    pub data: PathBuf,
    /// The address kept in the membership by a node that meets no others; with `peers` their own counts.
    pub address: String,
    /// How this node meets others; none for a node that stays alone.
    pub peers: Option<PeerOptions>,
    /// How often a leader shows that it is alive.
    pub heartbeat: Duration,
    /// How long a node waits for that before it asks for votes, at least.
    pub election_min: Duration,
    /// And at most; also the length of the leader's lease.
    pub election_max: Duration,
    /// When the log has grown by so many bytes, nodes compare their states and write snapshots.
    pub snapshot_bytes: u64,
    /// A snapshot must leave so many bytes free on the disk; one that cannot is put off.
    pub disk_floor: u64,
    /// So many entries stay in the log behind a snapshot, so that a short absence of a node needs no snapshot.
    pub retained_entries: u64,
    /// The size of one log file. Disk is freed, and payloads are kept in memory, by whole files.
    pub log_file_bytes: usize,
    /// The most records in one log file.
    pub log_file_records: usize,
    /// What the node stands on; none is the machine. With one, the node lives on the runtime of one thread that opens it.
    pub world: Option<Arc<dyn World>>,
}

impl Options {
    /// The defaults for a data directory.
    pub fn new(data: impl Into<PathBuf>) -> Options {
        let limits = FileLimits::default();
        Options {
            data: data.into(),
            address: String::new(),
            peers: None,
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(600),
            snapshot_bytes: 256 * 1024 * 1024,
            disk_floor: 0,
            retained_entries: 10_000,
            log_file_bytes: limits.bytes,
            log_file_records: limits.records,
            world: None,
        }
    }

    pub(crate) fn file_limits(&self) -> FileLimits {
        FileLimits { bytes: self.log_file_bytes, records: self.log_file_records }
    }

    /// Translates to openraft's settings, and checks all options.
    pub(crate) fn raft_config(&self, cluster: u128) -> Result<Config, OpenError> {
        if self.log_file_bytes < LOG_FILE_BYTES_MIN || self.log_file_records < LOG_FILE_RECORDS_MIN {
            let text =
                format!("a log file holds {LOG_FILE_RECORDS_MIN} records and {LOG_FILE_BYTES_MIN} bytes at least");
            return Err(OpenError::Options(text));
        }
        if let Some(peers) = &self.peers {
            peers.check()?;
        }
        let config = Config {
            cluster_name: format!("{cluster:032x}"),
            heartbeat_interval: self.heartbeat.as_millis() as u64,
            election_timeout_min: self.election_min.as_millis() as u64,
            election_timeout_max: self.election_max.as_millis() as u64,
            // Snapshots go by bytes, see `Progress`; openraft counts entries, which are packed here.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: self.retained_entries,
            // Proposals are packed and few are in flight; a long queue would only hide an overload.
            api_channel_size: Some(4096),
            enable_pre_vote: Some(true),
            // For each part and for the installation, which reads the whole state.
            install_snapshot_timeout: 60_000,
            // A leader that is heard but hears no majority falls silent for so long, or nobody would ever replace it.
            quorum_loss_probe_interval: Some(2 * self.election_max.as_millis() as u64),
            // Every process start is a new term: a restarted leader must not go on with its old stamps.
            enable_leader_restore: Some(false),
            ..Config::default()
        };
        config.validate().map_err(|error| OpenError::Options(error.to_string()))
    }
}
