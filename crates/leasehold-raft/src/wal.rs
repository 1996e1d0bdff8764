//! The log files: raft-log with values of our own in them, and what is done about damage when they are opened.
//!
//! raft-log cuts the last chunk where a record runs past its end, and refuses everything else that does not decode.
//! That is strict only if a damaged length cannot look like a missing end, which the forms of `leasehold-log`
//! see to (tags, a checksum over each header). So a cut here is always a write that was never acknowledged;
//! it is reported. raft-log's refusals name chunks by number; `diagnose` finds the file and the offset.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_log::{LogPosition, Record, Vote};
use raft_log::codeq::{Decode, Encode};
use raft_log::{RaftLog, RaftLogRecord};

use crate::directory;
use crate::error::{At, OpenError};
use crate::group_commit::Batch;

/// The sizes of the log files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkLimits {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
}

impl Default for ChunkLimits {
    /// raft-log keeps the payloads of the open chunk in memory, and frees disk by whole chunks.
    fn default() -> ChunkLimits {
        ChunkLimits { bytes: 64 * 1024 * 1024, records: 65_536 }
    }
}

/// A write that a crash interrupted, found and removed at start. It was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log file.
    pub file: PathBuf,
    /// Where its last whole record ends; the file now ends there.
    pub offset: u64,
    /// How many bytes were removed.
    pub bytes: u64,
}

/// What raft-log is told about our values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored;

impl raft_log::Types for Stored {
    type LogId = StoredPosition;
    type LogPayload = StoredRecord;
    type Vote = StoredVote;
    type Callback = Batch;
    type UserData = String;

    fn log_index(position: &StoredPosition) -> u64 {
        position.0.index
    }

    fn payload_size(record: &StoredRecord) -> u64 {
        record.0.written_len() as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredPosition(pub(crate) LogPosition);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct StoredVote(pub(crate) Vote);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord(pub(crate) Record);

impl Encode for StoredPosition {
    fn encode<W: Write>(&self, mut out: W) -> io::Result<usize> {
        self.0.write(&mut out)
    }
}

impl Decode for StoredPosition {
    fn decode<R: Read>(mut from: R) -> io::Result<StoredPosition> {
        Ok(StoredPosition(LogPosition::read(&mut from)?))
    }
}

impl Encode for StoredVote {
    fn encode<W: Write>(&self, mut out: W) -> io::Result<usize> {
        self.0.write(&mut out)
    }
}

impl Decode for StoredVote {
    fn decode<R: Read>(mut from: R) -> io::Result<StoredVote> {
        Ok(StoredVote(Vote::read(&mut from)?))
    }
}

impl Encode for StoredRecord {
    fn encode<W: Write>(&self, mut out: W) -> io::Result<usize> {
        self.0.write(&mut out)
    }
}

impl Decode for StoredRecord {
    fn decode<R: Read>(mut from: R) -> io::Result<StoredRecord> {
        Ok(StoredRecord(Record::read(&mut from)?))
    }
}

/// Opens the log in `dir`; says what was cut from its end.
pub(crate) fn open(dir: &Path, limits: ChunkLimits) -> Result<(RaftLog<Stored>, Option<Cut>), OpenError> {
    let before = chunk_lengths(dir)?;
    let config = Arc::new(config(dir, limits));
    let log = match RaftLog::open(config) {
        Ok(log) => log,
        Err(error) => return Err(diagnose(dir, &before, error)),
    };
    directory::make_files_private(dir)?;
    let after = chunk_lengths(dir)?;
    let cut = before.iter().find_map(|(file, length)| {
        let left = after.get(file).copied().unwrap_or(0);
        (left < *length).then(|| Cut { file: file.clone(), offset: left, bytes: length - left })
    });
    if let Some(cut) = &cut {
        tracing::warn!(
            file = %cut.file.display(), offset = cut.offset, bytes = cut.bytes,
            "the log ended in an incomplete record, which was never acknowledged; cut it"
        );
    }
    Ok((log, cut))
}

fn config(dir: &Path, limits: ChunkLimits) -> raft_log::Config {
    let mut config = raft_log::Config::new(dir.display());
    config.wal.chunk_max_size = Some(limits.bytes);
    config.wal.chunk_max_records = Some(limits.records);
    config.wal.read_buffer_size = Some(1024 * 1024);
    config.wal.truncate_incomplete_record = Some(true);
    // No waiting for company: `group_commit.rs` gathers what arrives while a flush runs.
    config.wal.flush_batch_wait = Some(std::time::Duration::ZERO);
    // A flush is requested from the flush thread itself; blocking there for room would be for ever.
    config.wal.flush_queue_max_bytes = Some(usize::MAX / 2);
    // One chunk beside the open one: what replication and apply are likely to read.
    config.log_cache_capacity = Some(limits.bytes * 2);
    config.log_cache_max_items = Some(limits.records * 2);
    config
}

/// The chunk files and their lengths, oldest first.
fn chunk_lengths(dir: &Path) -> Result<BTreeMap<PathBuf, u64>, OpenError> {
    let mut lengths = BTreeMap::new();
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let path = entry.at("list", dir)?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            lengths.insert(path.clone(), path.metadata().at("inspect", &path)?.len());
        }
    }
    Ok(lengths)
}

/// Finds the first record that does not decode, to name its file and offset.
fn diagnose(dir: &Path, chunks: &BTreeMap<PathBuf, u64>, refusal: io::Error) -> OpenError {
    for (file, length) in chunks {
        match first_damage(file, *length) {
            Ok(None) => {}
            Ok(Some((offset, problem))) => return OpenError::DamagedLog { file: file.clone(), offset, problem },
            Err(source) => return OpenError::Io { action: "read", path: file.clone(), source },
        }
    }
    OpenError::BrokenLog { dir: dir.to_path_buf(), problem: refusal.to_string() }
}

fn first_damage(file: &Path, length: u64) -> io::Result<Option<(u64, String)>> {
    let mut from = Counted { from: BufReader::new(File::open(file)?), read: 0 };
    while from.read < length {
        let offset = from.read;
        if let Err(error) = RaftLogRecord::<Stored>::decode(&mut from) {
            return Ok(Some((offset, error.to_string())));
        }
    }
    Ok(None)
}

struct Counted<R> {
    from: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.read += read as u64;
        Ok(read)
    }
}
