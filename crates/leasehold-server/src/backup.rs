//! Backup files without a server: read through, verified, restored into a new data directory.
//!
//! A restore reads the whole file and puts its state together before anything is made. What a restored state is like is
//! the core's, the form of the file `leasehold-log`'s, that of the directory `leasehold-raft`'s; this is the one place
//! that reads the clock for it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_core::{Record, Restore, Revision, Span, State, WallTime};
use leasehold_log::{BackupHeader, BackupReader, BodyError, write_body};
use leasehold_raft::{Identity, OpenError};

/// Why a backup cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", .file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is damaged, incomplete, of a later release, or something else.
    #[error("{0}; nothing was restored from it, use another copy")]
    Damaged(String),
    /// The directory cannot be made.
    #[error("{0}")]
    Data(#[from] OpenError),
}

/// What is in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// When it was taken.
    pub taken: WallTime,
    /// The release that took it.
    pub release: String,
    /// The revision of its state.
    pub revision: Revision,
    /// How many leases it has.
    pub leases: u64,
    /// How many entries it has.
    pub entries: u64,
    /// The longest ttl ever granted.
    pub longest_ttl: Span,
}

impl BackupSummary {
    fn new(header: &BackupHeader) -> BackupSummary {
        BackupSummary {
            taken: header.taken,
            release: header.release.to_string(),
            revision: Revision(0),
            leases: 0,
            entries: 0,
            longest_ttl: Span::ZERO,
        }
    }

    fn count(&mut self, record: &Record) {
        match record {
            Record::Head(head) => {
                self.revision = head.revision;
                self.longest_ttl = head.longest_ttl;
            }
            Record::Lease(_) => self.leases += 1,
            Record::Entry(_) => self.entries += 1,
            Record::Namespace(_) | Record::Resource(_) | Record::Marker(_) | Record::Tombstone(_) | Record::Rest(_) => {
            }
        }
    }
}

/// How long resources rest after a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestAfterRestore {
    /// For the longest ttl ever granted.
    #[default]
    LongestTtl,
    /// For so long; zero for not at all.
    For(Span),
}

/// What a restore led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What was in the backup.
    pub backup: BackupSummary,
    /// The new cluster and its node.
    pub identity: Identity,
    /// The revision it begins with.
    pub revision: Revision,
    /// How many leases go on.
    pub leases: u64,
    /// How long no resource is given to anybody new.
    pub rest: Span,
    /// Whether the clock of this machine is behind the backup, so that it did not decide.
    pub clock_behind: bool,
}

/// Reads a backup to its end and tells what is in it, in bounded memory. `name` is its name for errors.
pub fn read_backup(from: impl Read, name: &Path) -> Result<BackupSummary, BackupError> {
    read(from, name, |_| Ok(()))
}

/// Reads a whole backup file, puts its state together, and tells what is in it.
pub fn verify_backup(file: &Path) -> Result<BackupSummary, BackupError> {
    load(file).map(|(summary, _)| summary)
}

/// Makes the data directory of a new cluster from a backup file. Blocks.
pub fn restore_backup(file: &Path, data: &Path, rest: RestAfterRestore) -> Result<Restored, BackupError> {
    let (backup, state) = load(file)?;
    let wall = wall_time();
    let clock_behind = wall < state.wall();
    let mut restore = Restore::new(&state, wall);
    if let RestAfterRestore::For(span) = rest {
        restore.rest = span;
    }
    let state = state.restored(restore);
    let (view, leases) = (state.view(), state.counts().leases as u64);
    // The floor is the new revision: a watch from before is told that there is a gap.
    let identity = leasehold_raft::restore(data, |out| {
        write_body(view.records(), view.revision(), std::iter::empty(), out).map(drop)
    })?;
    Ok(Restored { backup, identity, revision: view.revision(), leases, rest: restore.rest, clock_behind })
}

fn load(file: &Path) -> Result<(BackupSummary, State), BackupError> {
    let opened = File::open(file).map_err(|source| BackupError::Unreadable { file: file.to_path_buf(), source })?;
    let mut loader = State::loader();
    let summary = read(BufReader::new(opened), file, |record| loader.load(record).map_err(|error| error.to_string()))?;
    let state = loader.finish().map_err(|error| damaged(file, &error))?;
    Ok((summary, state))
}

fn read(
    from: impl Read,
    file: &Path,
    mut take: impl FnMut(Record) -> Result<(), String>,
) -> Result<BackupSummary, BackupError> {
    let wrong = |error| refused(file, error);
    let reader = BackupReader::new(from, file.display().to_string()).map_err(wrong)?;
    let mut summary = BackupSummary::new(reader.header());
    let read = reader.read(|record| {
        summary.count(&record);
        Ok(take(record)?)
    });
    read.map_err(wrong)?;
    Ok(summary)
}

fn refused(file: &Path, error: BodyError) -> BackupError {
    match error {
        // It names the file and the offset itself.
        BodyError::Io(error) if error.kind() == io::ErrorKind::InvalidData => BackupError::Damaged(error.to_string()),
        BodyError::Io(source) => BackupError::Unreadable { file: file.to_path_buf(), source },
        error @ (BodyError::Format(_) | BodyError::Refused(_)) => damaged(file, &error),
    }
}

fn damaged(file: &Path, complaint: &dyn std::fmt::Display) -> BackupError {
    BackupError::Damaged(format!("backup file {}: {complaint}", file.display()))
}

fn wall_time() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
