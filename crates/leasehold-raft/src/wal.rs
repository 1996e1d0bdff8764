//! The log files: raft-log with values of our own in them, and what is done about damage when they are opened.
//!
//! raft-log cuts the last chunk where a record runs past its end, and refuses everything else that does not decode.
//! That is strict only if a damaged length cannot look like a missing end, which the forms of `leasehold-log`
//! see to (tags, a checksum over each header). `torn.rs` adds the other end a crash leaves, one of unwritten blocks.
//! So a cut is always a write that was never acknowledged; it is reported. raft-log's refusals name chunks by
//! number; `diagnose` finds the file and the offset.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_log::{LogPosition, Record, Vote};
use raft_log::codeq::{Decode, Encode};
use raft_log::{RaftLog, RaftLogRecord};

use crate::directory::{self, LOCK_PATIENCE};
use crate::error::{At, OpenError};
use crate::group_commit::Batch;
use crate::torn;

/// The sizes of the log files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkLimits {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
}

impl Default for ChunkLimits {
    /// raft-log keeps the payloads of the open chunk in memory, and frees disk by whole chunks.
    fn default() -> ChunkLimits {
        ChunkLimits { bytes: 32 * 1024 * 1024, records: 65_536 }
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
    let log = match open_unlocked(dir, config.clone()) {
        Ok(log) => log,
        Err(error) => {
            cut_torn_end(&before, diagnose(dir, &before, error))?;
            open_unlocked(dir, config).map_err(|error| diagnose(dir, &before, error))?
        }
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

/// The data directory is locked by us already, so raft-log's own lock is held only by a node of this process that was
/// dropped and is still letting go.
fn open_unlocked(dir: &Path, config: Arc<raft_log::Config>) -> io::Result<RaftLog<Stored>> {
    let started = Instant::now();
    loop {
        match RaftLog::open(config.clone()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && started.elapsed() < LOCK_PATIENCE => {
                tracing::debug!(dir = %dir.display(), "the log is still held; waiting");
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

fn config(dir: &Path, limits: ChunkLimits) -> raft_log::Config {
    let mut config = raft_log::Config::new(dir.display());
    config.wal.chunk_max_size = Some(limits.bytes);
    config.wal.chunk_max_records = Some(limits.records);
    config.wal.read_buffer_size = Some(1024 * 1024);
    config.wal.truncate_incomplete_record = Some(true);
    // No waiting for company: `group_commit.rs` gathers what arrives while a flush runs.
    config.wal.flush_batch_wait = Some(Duration::ZERO);
    // A flush is requested from the flush thread itself; blocking there for room would be for ever.
    config.wal.flush_queue_max_bytes = Some(usize::MAX / 2);
    // The open file is in memory anyway; beyond it, only what apply may not have read yet.
    config.log_cache_capacity = Some(limits.bytes / 4);
    config.log_cache_max_items = Some(limits.records);
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

/// Cuts what raft-log refuses although only a crash can have caused it; any other damage stays the error it is.
fn cut_torn_end(chunks: &BTreeMap<PathBuf, u64>, refusal: OpenError) -> Result<(), OpenError> {
    let OpenError::DamagedLog { file, offset, .. } = &refusal else { return Err(refusal) };
    let last = chunks.last_key_value().is_some_and(|(last, _)| last == file);
    if !last || !torn::ends_in_unwritten(file, *offset).at("read", file)? {
        return Err(refusal);
    }
    let open = File::options().write(true).open(file).at("open", file)?;
    open.set_len(*offset).and_then(|()| open.sync_all()).at("cut", file)
}

/// Finds the first record that does not decode, to name its file and offset.
fn diagnose(dir: &Path, chunks: &BTreeMap<PathBuf, u64>, refusal: io::Error) -> OpenError {
    if refusal.kind() == io::ErrorKind::WouldBlock {
        return OpenError::InUse { dir: dir.to_path_buf(), pid: Some(std::process::id()) };
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group_commit::Fatal;
    use crate::store::LogStore;
    use crate::types::{Entry, LogId, Payload};
    use leasehold_core::LeaderId;
    use openraft::EntryPayload;
    use openraft::storage::{RaftLogStorage, RaftLogStorageExt};

    /// Writes one of each kind of record.
    async fn write(dir: &Path) {
        let (mut store, cut) = LogStore::open(dir, ChunkLimits::default(), Fatal::new(), None).unwrap();
        assert_eq!(cut, None);
        let leader = LeaderId { term: 1, node: 1 };
        let entry = |index, payload| Entry { log_id: LogId { leader_id: leader, index }, payload };
        let payload = || EntryPayload::Normal(Payload::Bytes(b"orders/7".as_slice().into()));
        store.save_vote(&openraft::Vote { leader_id: crate::types::Candidate(leader), committed: true }).await.unwrap();
        store.blocking_append([entry(0, EntryPayload::Blank), entry(1, payload()), entry(2, payload())]).await.unwrap();
        store.truncate_after(Some(LogId { leader_id: leader, index: 1 })).await.unwrap();
        store.purge(LogId { leader_id: leader, index: 0 }).await.unwrap();
        store.blocking_append([entry(2, payload())]).await.unwrap();
        store.close();
    }

    #[tokio::test]
    async fn every_flipped_bit_of_every_kind_of_record_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).await;
        let (file, length) = chunk_lengths(dir.path()).unwrap().pop_first().unwrap();
        let bytes = std::fs::read(&file).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&file, &damaged).unwrap();
            let error = open(dir.path(), ChunkLimits::default()).map(drop).unwrap_err();
            assert!(matches!(error, OpenError::DamagedLog { .. }), "bit {bit}: {error}");
            assert_eq!(file.metadata().unwrap().len(), length, "bit {bit}: nothing is cut");
        }
        std::fs::write(&file, &bytes).unwrap();
        open(dir.path(), ChunkLimits::default()).unwrap();
    }

    #[tokio::test]
    async fn a_log_cut_anywhere_opens_with_the_whole_records_before_it() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).await;
        let (file, length) = chunk_lengths(dir.path()).unwrap().pop_first().unwrap();
        let bytes = std::fs::read(&file).unwrap();
        for cut in (0..length).rev() {
            chunk_lengths(dir.path()).unwrap().keys().for_each(|file| std::fs::remove_file(file).unwrap());
            std::fs::write(&file, &bytes[..cut as usize]).unwrap();
            let (log, found) = open(dir.path(), ChunkLimits::default()).unwrap();
            if let Some(found) = found {
                assert_eq!((found.file, found.offset + found.bytes), (file.clone(), cut));
            }
            drop(log);
        }
    }
}
