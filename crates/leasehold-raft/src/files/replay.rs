//! Reads the files of a log again, and tells what a crash leaves from damage.
//!
//! Files follow one another without a gap, each begins with where the log stood, and batches are numbered throughout. Only the
//! end of the last file may be unfinished: a batch that was never acknowledged, which is wiped out and reported. Anything else
//! that does not read or does not follow is damage, and is told with its file and its place. The last batch that reads is
//! made durable before it counts.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_log::{Base, Batch, Found, Item, find};

use super::prepare::Next;
use super::segment::{self, Filling, Segment};
use super::{FileLimits, LogFiles};
use crate::directory;
use crate::error::{At as _, OpenError};

/// A write that a crash interrupted, found and removed at start. It was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log file.
    pub file: PathBuf,
    /// Where its last whole batch ends.
    pub offset: u64,
    /// How many bytes were removed.
    pub bytes: u64,
}

/// Opens the log in `dir`; says what was removed from its end.
pub(super) fn open(dir: &Path, limits: FileLimits, filling: Filling) -> Result<(LogFiles, Option<Cut>), OpenError> {
    let lock = Arc::new(directory::lock(dir)?);
    let files = segment::list(dir)?;
    let next = Next::new(dir.to_path_buf(), limits.bytes as u64, filling, Arc::clone(&lock));
    let next = next.at("write", dir)?;
    let mut log = LogFiles {
        dir: dir.to_path_buf(),
        lock,
        limits,
        segments: VecDeque::new(),
        places: VecDeque::new(),
        first: 0,
        vote: None,
        purged: None,
        last: None,
        open: Batch::default(),
        open_records: 0,
        before: Base::default(),
        number: 1,
        durable: 0,
        hot_from: 0,
        cached: 0,
        next: None,
    };
    let mut cut = None;
    let last = files.last_key_value().map(|(number, _)| *number);
    for (number, path) in &files {
        if !log.segments.is_empty() && log.number != *number {
            return Err(damaged(
                path,
                0,
                format!("it does not follow: the next batch of the log is number {}", log.number),
            ));
        }
        cut = log.replay(*number, path, last == Some(*number))?;
    }
    log.check_whole(&files.into_values().next())?;
    if log.segments.is_empty() {
        let file = segment::prepare(dir, limits.bytes as u64, filling).at("write", dir)?;
        log.segments.push_back(Segment::begin(dir, file, log.number, Base::default()).at("write", dir)?);
        log.number += 1;
    }
    log.next = Some(next);
    if let Some(cut) = &cut {
        tracing::warn!(
            file = %cut.file.display(), offset = cut.offset, bytes = cut.bytes,
            "the log ended in an unfinished write, which was never acknowledged; removed it"
        );
    }
    Ok((log, cut))
}

impl LogFiles {
    /// Takes everything in a file whose first batch has this number; wipes out what is unfinished at the end of the last.
    fn replay(&mut self, number: u64, path: &Path, is_last: bool) -> Result<Option<Cut>, OpenError> {
        let bytes = std::fs::read(path).at("read", path)?;
        let file = File::options().read(true).write(true).open(path).at("open", path)?;
        self.number = number;
        // Where the last batch begins, and where it ends.
        let (mut last, mut at) = (0, 0);
        loop {
            match find(&bytes[at..], self.number).map_err(|refusal| damaged(path, at, refusal.to_string()))? {
                Found::Batch(items, length) if at == 0 => {
                    let base = self.begin(items).map_err(|problem| damaged(path, at, problem))?;
                    if (bytes.len() as u64) < base.length {
                        let problem = format!("it has {} of its {} bytes", bytes.len(), base.length);
                        return Err(damaged(path, bytes.len(), problem));
                    }
                    let file = Arc::new(file.try_clone().at("open", path)?);
                    self.segments.push_back(Segment { number, file, base, used: length as u64, records: 0 });
                    at += length;
                }
                Found::Batch(items, length) => {
                    let count = items.len();
                    for (place, item) in items {
                        self.take(item, number, (at + place) as u64).map_err(|problem| damaged(path, at, problem))?;
                    }
                    self.durable = self.next_index();
                    self.let_go();
                    (last, at) = (at, at + length);
                    if let Some(segment) = self.segments.back_mut() {
                        segment.used = at as u64;
                        segment.records += count;
                    }
                }
                Found::Torn if is_last && at > 0 => {
                    write_again(&file, &bytes, last..at).at("write", path)?;
                    return wipe(path, &file, &bytes, at).map(Some);
                }
                Found::Nothing if at > 0 => {
                    if is_last {
                        write_again(&file, &bytes, last..at).at("write", path)?;
                    }
                    return Ok(None);
                }
                Found::Nothing | Found::Torn => {
                    return Err(damaged(path, at, "a batch is missing where one must be".to_owned()));
                }
            }
            self.number += 1;
        }
    }

    /// Takes the first batch of a file.
    fn begin(&mut self, items: Vec<(usize, Item)>) -> Result<Base, String> {
        let [(_, Item::Base(base))] = items[..] else {
            return Err("it does not begin with where the log stood".to_owned());
        };
        if self.segments.is_empty() {
            (self.vote, self.purged, self.last) = (base.vote, base.purged, base.last);
            self.first = base.last.map_or(0, |last| last.index + 1);
            (self.durable, self.hot_from) = (self.first, self.first);
        } else if (Base { length: 0, ..base }) != self.base() {
            return Err("it does not begin where the file before it ends".to_owned());
        }
        Ok(base)
    }

    fn take(&mut self, item: Item, segment: u64, at: u64) -> Result<(), String> {
        match item {
            Item::Base(_) => return Err("where the log stood is told in the middle of a file".to_owned()),
            Item::Entry(record) => {
                self.check_next(&record.position).map_err(|error| error.to_string())?;
                self.keep(record, segment, at);
            }
            Item::Vote(vote) => self.vote = Some(vote),
            Item::Cut(last) => self.forget_after(last),
            Item::Purge(upto) => self.forget_upto(upto),
        }
        Ok(())
    }

    /// Entries before the oldest file must have been purged.
    fn check_whole(&self, oldest: &Option<PathBuf>) -> Result<(), OpenError> {
        let (Some(segment), Some(path)) = (self.segments.front(), oldest) else { return Ok(()) };
        let begins = segment.base.last.is_none() || self.purged.map_or(0, |purged| purged.index + 1) >= self.first;
        match !begins {
            true => Err(damaged(path, 0, "the files with the entries before it are missing".to_owned())),
            false => Ok(()),
        }
    }
}

/// Makes the last batch durable before it counts: who wrote it may have ended before it was, and have left it in memory of the
/// system, which need not know that it is not on the disk.
fn write_again(file: &File, bytes: &[u8], batch: Range<usize>) -> io::Result<()> {
    file.write_all_at(&bytes[batch.clone()], batch.start as u64)?;
    file.sync_data()
}

/// Makes what follows `at` zeros again, so that the next batch lies among zeros.
fn wipe(path: &Path, file: &File, bytes: &[u8], at: usize) -> Result<Cut, OpenError> {
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(at, |last| last + 1);
    let zeros = vec![0; written.saturating_sub(at)];
    file.write_all_at(&zeros, at as u64).and_then(|()| file.sync_data()).at("write", path)?;
    Ok(Cut { file: path.to_path_buf(), offset: at as u64, bytes: zeros.len() as u64 })
}

fn damaged(file: &Path, offset: usize, problem: String) -> OpenError {
    OpenError::DamagedLog { file: file.to_path_buf(), offset: offset as u64, problem }
}
