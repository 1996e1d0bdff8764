//! The log as openraft sees it: entries, votes and purges over raft-log, durable through group commit.
//!
//! An appended entry is readable when `append` returns and durable when its callback is called; a vote is durable
//! when `save_vote` returns. The committed position is not stored: a leader's first entry commits all before it,
//! so a restart applies the same entries again (tested). Reads are cut to a byte budget, and those that may
//! touch the disk run on blocking threads. One mutex guards the files; nothing awaits while holding it.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use leasehold_core::planted::{self, Bug};
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use parking_lot::Mutex;
use raft_log::api::raft_log_writer::RaftLogWriter;
use raft_log::chunked_wal::Config as ChunkFiles;
use raft_log::{RaftLog, Segment};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::convert;
use crate::directory;
use crate::error::OpenError;
use crate::group_commit::{self, Fatal, FlushClock, Waiting, closed};
use crate::types::{Entry, LogId, Types, Vote};
use crate::wal::{self, ChunkLimits, Cut, Stored, StoredPosition, StoredRecord, StoredVote};
use crate::world::{self, Elsewhere};

/// The most bytes one read takes into memory, unless a single entry is larger.
const READ_BYTES_MAX: u64 = 1024 * 1024;
/// What raft-log adds to a record: its type, the position, a checksum.
const RECORD_OVERHEAD: u64 = 4 + 30 + 8;

/// The log of one group. Clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) dir: PathBuf,
    pub(crate) files: Mutex<Files>,
    pub(crate) fatal: Fatal,
    pub(crate) flushes: FlushClock,
    pub(crate) world: Elsewhere,
}

pub(crate) struct Files {
    /// `None` once the log is closed.
    pub(crate) log: Option<RaftLog<Stored>>,
    pub(crate) waiting: Waiting,
    open_chunk: OpenChunk,
}

/// What is known of the file being written, so that a new one is noticed.
struct OpenChunk {
    limits: ChunkLimits,
    start: u64,
    used: u64,
    records: usize,
    /// Entries from here on are in memory.
    hot_from: u64,
}

impl LogStore {
    /// Opens the log in `dir`; says what was cut from its end.
    pub(crate) fn open(
        dir: &Path,
        limits: ChunkLimits,
        fatal: Fatal,
        world: Elsewhere,
    ) -> Result<(LogStore, Option<Cut>), OpenError> {
        let (log, cut) = wal::open(dir, limits)?;
        let mut open_chunk = OpenChunk { limits, start: 0, used: 0, records: 0, hot_from: 0 };
        open_chunk.look(&log);
        let files = Files { log: Some(log), waiting: Waiting::default(), open_chunk };
        let (dir, flushes) = (dir.to_path_buf(), FlushClock::default());
        let shared = Shared { dir, files: Mutex::new(files), fatal, flushes, world };
        Ok((LogStore { shared: Arc::new(shared) }, cut))
    }

    /// Flushes and closes the files and ends the flush thread. Whatever is asked of the log later fails.
    pub(crate) fn close(&self) {
        // The thread being joined may want the lock, so the log is dropped outside of it.
        let log = self.shared.files.lock().log.take();
        drop(log);
    }

    pub(crate) fn flushes(&self) -> &FlushClock {
        &self.shared.flushes
    }

    /// Returns the bytes the log takes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.files.lock().log.as_ref().map_or(0, RaftLog::on_disk_size)
    }

    /// Returns the index of the last entry.
    pub(crate) fn last_index(&self) -> Option<u64> {
        let files = self.shared.files.lock();
        files.log.as_ref().and_then(|log| log.log_state().last().map(|last| last.0.index))
    }

    /// Returns the index of the last entry that was purged.
    pub(crate) fn purged_index(&self) -> Option<u64> {
        let files = self.shared.files.lock();
        files.log.as_ref().and_then(|log| log.log_state().purged().map(|purged| purged.0.index))
    }

    /// Changes the log by `records` records, then flushes if somebody waits for it.
    fn change(
        &self,
        records: usize,
        callback: Option<IOFlushed<Types>>,
        change: impl FnOnce(&mut RaftLog<Stored>) -> io::Result<Segment>,
    ) -> io::Result<()> {
        let mut files = self.shared.files.lock();
        let files = &mut *files;
        // Under the lock: a failed flush first names its reason, then answers all who wait.
        if let Some(reason) = self.shared.fatal.reason() {
            return Err(io::Error::other(reason));
        }
        let log = files.log.as_mut().ok_or_else(closed)?;
        let segment = change(log)?;
        files.open_chunk.note(log, records, segment.offset + segment.size, &self.shared.dir)?;
        if let Some(callback) = callback {
            files.waiting.push(callback);
        }
        group_commit::flush_if_waited_for(&self.shared, files);
        Ok(())
    }

    /// Says whether so much more begins a new file, which syncs a directory.
    fn fills_chunk(&self, records: usize, bytes: u64) -> bool {
        let chunk = &self.shared.files.lock().open_chunk;
        chunk.records + records >= chunk.limits.records || chunk.used + bytes >= chunk.limits.bytes as u64
    }

    /// Reads entries of `from..to`: all of them, or those that fit into `bytes_max`, at least one.
    fn read(&self, from: u64, to: u64, bytes_max: u64) -> io::Result<Vec<Entry>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let files = self.shared.files.lock();
        let log = files.log.as_ref().ok_or_else(closed)?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for read in log.read(from, to) {
            let (position, StoredRecord(record)) = read?;
            if record.position != position.0 {
                let text = format!("entry {} of the log says it is entry {}", position.0.index, record.position.index);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            bytes += record.written_len() as u64;
            entries.push(convert::entry(record)?);
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(entries)
    }

    /// Reads on a blocking thread if the disk may be needed.
    async fn read_off(&self, from: u64, to: u64, bytes_max: u64) -> io::Result<Vec<Entry>> {
        let hot = self.shared.files.lock().open_chunk.hot_from <= from;
        if hot {
            return self.read(from, to, bytes_max);
        }
        let store = self.clone();
        world::blocking(move || store.read(from, to, bytes_max)).await.map_err(io::Error::other)?
    }
}

impl OpenChunk {
    /// Looks up which file is being written.
    fn look(&mut self, log: &RaftLog<Stored>) {
        let stat = log.stat();
        self.start = stat.open_chunk.global_start;
        self.used = stat.open_chunk.size;
        self.records = stat.open_chunk.records_count as usize;
        self.hot_from = stat.payload_cache_last_evictable.map_or(0, |position| position.0.index + 1);
    }

    /// Counts what was written up to `end`; a file that was begun meanwhile is made private.
    fn note(&mut self, log: &RaftLog<Stored>, records: usize, end: u64, dir: &Path) -> io::Result<()> {
        self.records += records;
        self.used = end.saturating_sub(self.start);
        if self.records < self.limits.records && self.used < self.limits.bytes as u64 {
            return Ok(());
        }
        let start = self.start;
        self.look(log);
        if self.start == start {
            return Ok(());
        }
        directory::make_private(&dir.join(ChunkFiles::chunk_file_name(raft_log::ChunkId(self.start))))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last owner may be the flush thread, which cannot wait for its own end.
        if let Some(log) = self.files.get_mut().log.take() {
            std::thread::spawn(move || drop(log));
        }
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let files = self.shared.files.lock();
        let state = files.log.as_ref().ok_or_else(closed)?.log_state();
        Ok(LogState {
            last_purged_log_id: state.purged().map(|purged| convert::log_id(&purged.0)),
            last_log_id: state.last().map(|last| convert::log_id(&last.0)),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, durable) = Types::oneshot();
        let stored = StoredVote(convert::vote_to_disk(vote));
        self.change(1, Some(IOFlushed::signal(done)), |log| log.save_vote(stored))?;
        if planted::is(Bug::VoteNotDurable) {
            return Ok(());
        }
        durable.await.unwrap_or_else(|_| Err(closed()))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let records: Vec<_> = entries
            .into_iter()
            .map(convert::record)
            .map(|record| (StoredPosition(record.position), StoredRecord(record)))
            .collect();
        let count = records.len();
        let bytes = records.iter().map(|(_, record)| record.0.written_len() as u64 + RECORD_OVERHEAD).sum();
        let callback = if planted::is(Bug::FsyncSkipped) {
            callback.io_completed(Ok(()));
            IOFlushed::noop()
        } else {
            callback
        };
        let append = || self.change(count, Some(callback), |log| log.append(records));
        let can_move = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if can_move && self.fills_chunk(count, bytes) { tokio::task::block_in_place(append) } else { append() }
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first_gone = last.map_or(0, |last| last.index + 1);
        if self.last_index().is_none_or(|last| last < first_gone) {
            return Ok(());
        }
        self.change(1, None, |log| log.truncate(first_gone))
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        // Files are removed after the flush that makes the purge durable; nobody needs to wait for that.
        self.change(1, Some(IOFlushed::noop()), |log| log.purge(StoredPosition(convert::position(&upto))))
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<Entry>>
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        let (from, to) = bounds(&range);
        self.read_off(from, to, u64::MAX).await
    }

    async fn limited_get_log_entries(&mut self, from: u64, to: u64) -> io::Result<Vec<Entry>> {
        self.read_off(from, to, READ_BYTES_MAX).await
    }

    async fn entries_stream<R>(&mut self, range: R) -> impl Stream<Item = io::Result<Entry>> + Send
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        let (from, to) = bounds(&range);
        let start = (self.clone(), from, VecDeque::new());
        stream::unfold(start, move |(store, next, mut ready)| async move {
            if ready.is_empty() && next < to {
                match store.read_off(next, to, READ_BYTES_MAX).await {
                    Ok(entries) => ready.extend(entries),
                    // Nothing follows an error: the next position is past the end.
                    Err(error) => return Some((Err(error), (store, to, ready))),
                }
            }
            let entry: Entry = ready.pop_front()?;
            let next = entry.log_id.index + 1;
            Some((Ok(entry), (store, next, ready)))
        })
        .fuse()
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        let files = self.shared.files.lock();
        let state = files.log.as_ref().ok_or_else(closed)?.log_state();
        Ok(state.vote().map(|vote| convert::vote_from_disk(&vote.0)))
    }
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before + 1,
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last + 1,
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}
