//! The log as openraft sees it: entries, votes and purges over its files, durable through group commit.
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
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{Stream, StreamExt, stream};
use leasehold_core::planted::{self, Bug};
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use parking_lot::Mutex;

use crate::convert;
use crate::error::{At as _, OpenError};
use crate::files::{Cut, FileLimits, LogFiles};
use crate::group_commit::{self, Fatal, FlushClock, Flusher, Waiting, closed};
use crate::types::{Entry, LogId, Types, Vote};
use crate::world::{self, Elsewhere};

/// The most bytes one read takes into memory, unless a single entry is larger.
const READ_BYTES_MAX: u64 = 1024 * 1024;

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
    /// None in a world.
    pub(crate) flusher: Option<Flusher>,
    /// Whether no other node waits for what this one writes.
    pub(crate) is_alone: AtomicBool,
}

pub(crate) struct Files {
    /// `None` once the log is closed.
    pub(crate) log: Option<LogFiles>,
    pub(crate) waiting: Waiting,
}

impl LogStore {
    /// Opens the log in `dir`; says what was cut from its end.
    pub(crate) fn open(
        dir: &Path,
        limits: FileLimits,
        fatal: Fatal,
        world: Elsewhere,
    ) -> Result<(LogStore, Option<Cut>), OpenError> {
        let (log, cut) = LogFiles::open(dir, limits, &world)?;
        let flusher = match world {
            None => Some(Flusher::start().at("begin to flush", dir)?),
            Some(_) => None,
        };
        let shared = Shared {
            dir: dir.to_path_buf(),
            files: Mutex::new(Files { log: Some(log), waiting: Waiting::default() }),
            fatal,
            flushes: FlushClock::default(),
            world,
            flusher,
            is_alone: AtomicBool::new(false),
        };
        Ok((LogStore { shared: Arc::new(shared) }, cut))
    }

    /// Says whether no other node waits for what this one writes.
    pub(crate) fn set_alone(&self, is_alone: bool) {
        self.shared.is_alone.store(is_alone, Ordering::Relaxed);
    }

    /// Closes the files. Whatever is asked of the log later fails.
    pub(crate) fn close(&self) {
        drop(self.shared.files.lock().log.take());
    }

    pub(crate) fn flushes(&self) -> &FlushClock {
        &self.shared.flushes
    }

    /// Returns the bytes the log takes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.files.lock().log.as_ref().map_or(0, LogFiles::bytes)
    }

    /// Returns the index of the last entry.
    pub(crate) fn last_index(&self) -> Option<u64> {
        self.shared.files.lock().log.as_ref().and_then(|log| log.last().map(|last| last.index))
    }

    /// Returns the index of the last entry that was purged.
    pub(crate) fn purged_index(&self) -> Option<u64> {
        self.shared.files.lock().log.as_ref().and_then(|log| log.purged().map(|purged| purged.index))
    }

    /// Changes the log, then flushes if somebody waits for it.
    fn change(
        &self,
        callback: Option<IOFlushed<Types>>,
        change: impl FnOnce(&mut LogFiles) -> io::Result<()>,
    ) -> io::Result<()> {
        let job = {
            let mut files = self.shared.files.lock();
            // Under the lock: a failed flush first names its reason, then answers all who wait.
            if let Some(reason) = self.shared.fatal.reason() {
                return Err(io::Error::other(reason));
            }
            change(files.log.as_mut().ok_or_else(closed)?)?;
            if let Some(callback) = callback {
                files.waiting.push(callback);
            }
            group_commit::next_job(&self.shared, &mut files)
        };
        if let Some(job) = job {
            job.dispatch(&self.shared);
        }
        Ok(())
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
            let record = read?;
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
        let hot = self.shared.files.lock().log.as_ref().is_none_or(|log| log.hot_from() <= from);
        if hot {
            return self.read(from, to, bytes_max);
        }
        let store = self.clone();
        world::blocking(move || store.read(from, to, bytes_max)).await.map_err(io::Error::other)?
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let files = self.shared.files.lock();
        let log = files.log.as_ref().ok_or_else(closed)?;
        Ok(LogState {
            last_purged_log_id: log.purged().map(|purged| convert::log_id(&purged)),
            last_log_id: log.last().map(|last| convert::log_id(&last)),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, durable) = Types::oneshot();
        let vote = convert::vote_to_disk(vote);
        self.change(Some(IOFlushed::signal(done)), |log| log.save_vote(vote))?;
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
        let records = entries.into_iter().map(convert::record).collect();
        let callback = if planted::is(Bug::FsyncSkipped) {
            callback.io_completed(Ok(()));
            IOFlushed::noop()
        } else {
            callback
        };
        self.change(Some(callback), |log| log.append(records))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first_gone = last.map_or(0, |last| last.index + 1);
        if self.last_index().is_none_or(|last| last < first_gone) {
            return Ok(());
        }
        self.change(None, |log| log.cut(first_gone))
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        // Files are removed after the flush that makes the purge durable; nobody needs to wait for that.
        self.change(Some(IOFlushed::noop()), |log| log.purge(convert::position(&upto)))
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
        let log = files.log.as_ref().ok_or_else(closed)?;
        Ok(log.vote().map(|vote| convert::vote_from_disk(&vote)))
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
