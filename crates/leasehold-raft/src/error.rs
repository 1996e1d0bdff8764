//! Why a node does not start.

use std::io;
use std::path::PathBuf;

use crate::directory::Identity;

/// Why a data directory could not be opened; each says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("{dir} is in use by {}; stop it or use another --data directory", holder(.pid))]
    InUse {
        /// The data directory.
        dir: PathBuf,
        /// The process that holds it, where it could be read.
        pid: Option<u32>,
    },
    /// The identity file is not one of ours.
    #[error("{file}, line {line}: {problem}; restore the file from a backup, or start with an empty --data directory")]
    Identity {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The directory belongs to another cluster or another node than the options say.
    #[error(
        "{dir} belongs to node {} of cluster {:032x}, but the options make it node {} of cluster {:032x}; start with the \
         list of members it was formed with, or without one, or with an empty --data directory",
        .found.node, .found.cluster, .wanted.node, .wanted.cluster
    )]
    Another {
        /// The data directory.
        dir: PathBuf,
        /// Whose it is.
        found: Identity,
        /// Whose it would be.
        wanted: Identity,
    },
    /// The directory has files that are not the server's.
    #[error(
        "{dir} is not a data directory: it has other files, such as {name}; give an empty or a new --data directory"
    )]
    Foreign {
        /// The data directory.
        dir: PathBuf,
        /// One of its files.
        name: String,
    },
    /// A restore into the directory was interrupted.
    #[error("a restore into {dir} is under way or was interrupted; remove the directory and restore again")]
    Unfinished {
        /// The data directory.
        dir: PathBuf,
    },
    /// A restore needs a directory of its own.
    #[error("{dir} is not empty; restore into a new directory, nothing in this one was changed")]
    NotEmpty {
        /// The data directory.
        dir: PathBuf,
    },
    /// The directory belongs to another cluster than the one it is to join.
    #[error(
        "{dir} belongs to node {} of cluster {:032x}, but {address} is of cluster {cluster:032x}; \
         start it without --join, or with an empty --data directory to join that cluster",
        .found.node, .found.cluster
    )]
    AnotherCluster {
        /// The data directory.
        dir: PathBuf,
        /// Whose it is.
        found: Identity,
        /// The member that was asked.
        address: String,
        /// Its cluster.
        cluster: u128,
    },
    /// The cluster does not admit this node.
    #[error("the cluster at {address} does not admit this node: {words}")]
    NotAdmitted {
        /// The member that was asked.
        address: String,
        /// Why not.
        words: String,
    },
    /// The node has met others, but its log is gone.
    #[error(
        "the log of {dir} is gone, and with it the votes this node gave; start it with an empty --data directory \
         under a new id, after the old one is removed from the cluster"
    )]
    LostLog {
        /// The data directory.
        dir: PathBuf,
    },
    /// The node stopped because its state was not that of the others.
    #[error(
        "this node has stopped for good, as {file} says: {reason}. If you are sure that its state is the right one, \
         remove that file and start it again"
    )]
    Diverged {
        /// The file that says so.
        file: PathBuf,
        /// What it says.
        reason: String,
    },
    /// The address for other nodes cannot be listened on.
    #[error("cannot listen for other nodes on {address}: {source}; stop what uses it, or choose another --peer-listen")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// What a node proves itself with cannot be used.
    #[error("{file} cannot be used for connections between nodes: {problem}")]
    Certificates {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A log file is damaged where no crash can have damaged it.
    #[error("log file {file} is damaged at offset {offset}: {problem}; restore this node from a backup or replace it")]
    DamagedLog {
        /// The file.
        file: PathBuf,
        /// Where in it, in bytes from its start.
        offset: u64,
        /// What is wrong there.
        problem: String,
    },
    /// The newest snapshot is damaged.
    #[error("snapshot {file} cannot be used: {source}; restore this node from a backup or replace it")]
    DamagedSnapshot {
        /// The file.
        file: PathBuf,
        /// What is wrong; names the offset.
        source: io::Error,
    },
    /// Entries between the snapshot and the log are missing.
    #[error(
        "the log in {dir} starts after entry {purged}, but the newest snapshot ends at {}; \
         restore this node from a backup or replace it", .snapshot.map_or("none".into(), |index| format!("entry {index}"))
    )]
    Gap {
        /// The directory of the group.
        dir: PathBuf,
        /// The last entry the log no longer has.
        purged: u64,
        /// The last entry of the newest snapshot.
        snapshot: Option<u64>,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The options contradict each other.
    #[error("the options of the node do not fit: {0}")]
    Options(String),
    /// The node stopped before it was ready.
    #[error("the node stopped while it was starting: {0}")]
    Stopped(String),
}

fn holder(pid: &Option<u32>) -> String {
    pid.map_or("another process".into(), |pid| format!("process {pid}"))
}

/// Names the action and the path of a failed file operation.
pub(crate) trait At<T> {
    fn at(self, action: &'static str, path: &std::path::Path) -> Result<T, OpenError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &std::path::Path) -> Result<T, OpenError> {
        self.map_err(|source| OpenError::Io { action, path: path.to_path_buf(), source })
    }
}
