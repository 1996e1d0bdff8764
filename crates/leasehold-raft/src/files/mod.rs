//! The log in files: what is remembered of it in memory, and what is to be written next.
//!
//! Whatever changes the log is at once true here and gathered for the next flush. A flush is taken out, carried out without
//! the log, and handed back; one at a time. Entries stay in memory until they are durable, and the newest beyond that. A
//! file is removed once the purge of all its entries is durable. What waits for a flush is left to `group_commit.rs`.

mod flush;
mod prepare;
mod replay;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_log::{Base, Batch, Item, LogPosition, Record, Vote};

pub(crate) use self::flush::{Flush, Flushed, remove};
use self::prepare::Next;
pub use self::replay::Cut;
use self::segment::{Filling, Segment};
use crate::error::OpenError;
use crate::world::Elsewhere;

/// The sizes of the log files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimits {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
}

impl Default for FileLimits {
    /// Small enough to be filled with zeros in a moment; disk is freed by whole files.
    fn default() -> FileLimits {
        FileLimits { bytes: 8 * 1024 * 1024, records: 65_536 }
    }
}

/// How many bytes of entries stay in memory that are durable.
const CACHED_MAX: usize = 8 * 1024 * 1024;
/// Where an entry lies that no flush has taken.
const NOWHERE: u64 = u64::MAX;

/// The log in files.
#[derive(Debug)]
pub(crate) struct LogFiles {
    dir: PathBuf,
    lock: Arc<File>,
    limits: FileLimits,
    /// The oldest first; the last one is written to. There is always one.
    segments: VecDeque<Segment>,
    /// Entries that were not purged, in order.
    places: VecDeque<Place>,
    /// The index of the first of them, or of the next entry.
    first: u64,
    vote: Option<Vote>,
    purged: Option<LogPosition>,
    last: Option<LogPosition>,
    /// What the next flush takes, how many records that are, and where the log stood before them.
    open: Batch,
    open_records: usize,
    before: Base,
    /// The number of the next batch.
    number: u64,
    /// Entries below are durable.
    durable: u64,
    /// Entries from here on are in memory.
    hot_from: u64,
    cached: usize,
    /// None while a flush has it.
    next: Option<Next>,
}

/// Where an entry is.
#[derive(Clone, Debug)]
struct Place {
    position: LogPosition,
    /// The number of its file, or [`NOWHERE`].
    segment: u64,
    /// Where in the file; where in the batch as long as no flush has taken it.
    at: u64,
    record: Option<Record>,
}

impl LogFiles {
    /// Opens the log in `dir`; says what was cut from its end.
    pub(crate) fn open(
        dir: &Path,
        limits: FileLimits,
        world: &Elsewhere,
    ) -> Result<(LogFiles, Option<Cut>), OpenError> {
        let filling = if world.is_some() { Filling::Hole } else { Filling::Zeros };
        let opened = replay::open(dir, limits, filling)?;
        if let Some(world) = world {
            world.flushed(dir);
        }
        Ok(opened)
    }

    /// Adds entries.
    pub(crate) fn append(&mut self, records: Vec<Record>) -> io::Result<()> {
        for record in records {
            self.check_next(&record.position)?;
            let at = self.push(&Item::Entry(record.clone()))?;
            self.keep(record, NOWHERE, at);
        }
        Ok(())
    }

    /// Remembers a vote.
    pub(crate) fn save_vote(&mut self, vote: Vote) -> io::Result<()> {
        self.push(&Item::Vote(vote))?;
        self.vote = Some(vote);
        Ok(())
    }

    /// Forgets all entries from this index on.
    pub(crate) fn cut(&mut self, first_gone: u64) -> io::Result<()> {
        let before = match first_gone.checked_sub(1) {
            Some(index) if index >= self.first => self.place(index).map(|place| place.position),
            Some(_) | None => self.purged,
        };
        self.push(&Item::Cut(before))?;
        self.forget_after(before);
        Ok(())
    }

    /// Forgets all entries up to this one.
    pub(crate) fn purge(&mut self, upto: LogPosition) -> io::Result<()> {
        if self.purged.is_some_and(|purged| purged.index >= upto.index) {
            return Ok(());
        }
        self.push(&Item::Purge(upto))?;
        self.forget_upto(upto);
        Ok(())
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub(crate) fn purged(&self) -> Option<LogPosition> {
        self.purged
    }

    /// The last entry, also if it was purged.
    pub(crate) fn last(&self) -> Option<LogPosition> {
        self.last
    }

    /// Entries from here on are read without the disk.
    pub(crate) fn hot_from(&self) -> u64 {
        self.hot_from
    }

    /// How many bytes the log has written to files that are still there.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.used).sum()
    }

    /// Reads entries of `from..to`, as many as are there.
    pub(crate) fn read(&self, from: u64, to: u64) -> impl Iterator<Item = io::Result<Record>> + '_ {
        let skipped = from.saturating_sub(self.first);
        let taken = to.saturating_sub(from.max(self.first));
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        self.places.iter().skip(skipped).take(taken).map(|place| self.read_at(place))
    }

    fn read_at(&self, place: &Place) -> io::Result<Record> {
        if let Some(record) = &place.record {
            return Ok(record.clone());
        }
        let found = self.segments.iter().find(|segment| segment.number == place.segment);
        let segment = found.ok_or_else(|| io::Error::other("an entry lies in a file that is gone"))?;
        let record = segment.read(place.at)?;
        if record.position != place.position {
            let (wanted, found) = (place.position.index, record.position.index);
            let text = format!("where entry {wanted} of the log should be is entry {found}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(record)
    }

    fn push(&mut self, item: &Item) -> io::Result<u64> {
        if self.open.is_empty() {
            self.before = self.base();
        }
        let at = self.open.push(item)?;
        self.open_records += 1;
        Ok(at as u64)
    }

    /// Where the log stands; the length of a file is left open.
    fn base(&self) -> Base {
        Base { vote: self.vote, purged: self.purged, last: self.last, length: 0 }
    }

    fn next_index(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    fn place(&self, index: u64) -> Option<&Place> {
        self.places.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    fn check_next(&self, position: &LogPosition) -> io::Result<()> {
        let (next, found) = (self.next_index(), position.index);
        // The very first may have any index: a log may begin behind a snapshot.
        if found == next || self.last.is_none() {
            return Ok(());
        }
        Err(io::Error::other(format!("entry {found} does not follow: the next one is entry {next}")))
    }

    fn keep(&mut self, record: Record, segment: u64, at: u64) {
        if self.places.is_empty() {
            self.first = record.position.index;
            self.hot_from = self.first;
        }
        self.cached += record.bytes.len();
        self.last = Some(record.position);
        self.places.push_back(Place { position: record.position, segment, at, record: Some(record) });
    }

    /// Forgets all entries after this one; all of them if there is none.
    fn forget_after(&mut self, last: Option<LogPosition>) {
        let first_gone = last.map_or(0, |last| last.index + 1);
        while self.next_index() > first_gone.max(self.first) {
            let gone = self.places.pop_back();
            self.cached -= gone.and_then(|place| place.record).map_or(0, |record| record.bytes.len());
        }
        if self.places.is_empty() {
            // Read again, with the files that had them gone: what follows them is here.
            self.first = self.first.min(first_gone);
        }
        self.last = last;
        self.durable = self.durable.min(self.next_index());
        self.hot_from = self.hot_from.min(self.next_index());
    }

    fn forget_upto(&mut self, upto: LogPosition) {
        while self.first <= upto.index {
            let Some(gone) = self.places.pop_front() else { break };
            self.cached -= gone.record.map_or(0, |record| record.bytes.len());
            self.first += 1;
        }
        if self.places.is_empty() {
            // Read again, with the files that had them gone: the entries may have gone further since.
            self.first = self.first.max(upto.index + 1);
        }
        self.purged = Some(upto);
        self.last = self.last.filter(|last| last.index > upto.index).or(Some(upto));
        self.durable = self.durable.max(self.first);
        self.hot_from = self.hot_from.max(self.first);
    }

    /// Lets go of the oldest entries in memory that can be read from the disk.
    fn let_go(&mut self) {
        while self.cached > CACHED_MAX && self.hot_from < self.durable {
            let at = usize::try_from(self.hot_from - self.first).unwrap_or(usize::MAX);
            let Some(place) = self.places.get_mut(at) else { return };
            self.cached -= place.record.take().map_or(0, |record| record.bytes.len());
            self.hot_from += 1;
        }
    }
}
