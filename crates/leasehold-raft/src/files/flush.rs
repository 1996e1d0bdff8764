//! One flush: a batch on its way to the disk, without the log it was taken from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use leasehold_log::{Base, LogPosition, SECTOR};

use super::prepare::Next;
use super::segment::{self, Segment};
use super::{LogFiles, NOWHERE};
use crate::directory;

/// A batch that takes more bytes is not small; it holds some hundred commands.
const SMALL: usize = 64 * SECTOR;
/// Where the second batch of a file goes: behind the one that says where the log stood.
const SECOND: u64 = SECTOR as u64;

/// A batch on its way to the disk.
#[derive(Debug)]
pub(crate) struct Flush {
    dir: PathBuf,
    bytes: Vec<u8>,
    records: usize,
    into: Into,
    covers: Covers,
    /// Nobody else opens the log while it is under way.
    _lock: Arc<File>,
}

/// What a flush makes durable.
#[derive(Clone, Copy, Debug)]
struct Covers {
    /// Entries below this index.
    entries: u64,
    purged: Option<LogPosition>,
}

/// Where a batch goes.
#[derive(Debug)]
enum Into {
    /// Into the present file.
    Present { file: Arc<File>, number: u64, at: u64 },
    /// Into a new one, whose first batch has this number.
    Another { next: Next, number: u64, base: Base },
}

/// A flush that was carried out.
#[derive(Debug)]
pub(crate) struct Flushed {
    begun: Option<(Segment, Next)>,
    covers: Covers,
}

impl Flush {
    /// Tells whether it is only a few records into the present file: nothing that is worth another thread.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes.len() <= SMALL && matches!(self.into, Into::Present { .. })
    }

    /// Writes the batch into the present file, if it goes there, without waiting for the disk; returns which bytes of which
    /// file that are.
    pub(crate) fn write_ahead(&self) -> io::Result<Option<(PathBuf, u64, u64)>> {
        let Into::Present { file, number, at } = &self.into else { return Ok(None) };
        file.write_all_at(&self.bytes, *at)?;
        Ok(Some((self.dir.join(segment::name(*number)), *at, self.bytes.len() as u64)))
    }

    /// Writes the batch and waits until it is durable.
    pub(crate) fn carry_out(self) -> io::Result<Flushed> {
        let begun = match self.into {
            Into::Present { file, at, .. } => {
                file.write_all_at(&self.bytes, at)?;
                file.sync_data()?;
                None
            }
            Into::Another { mut next, number, base } => {
                let length = self.bytes.len() as u64;
                let file = next.take(SECOND + length)?;
                let mut segment = Segment::begin(&self.dir, file, number, base)?;
                segment.file.write_all_at(&self.bytes, segment.used)?;
                segment.file.sync_data()?;
                segment.used += length;
                segment.records += self.records;
                Some((segment, next))
            }
        };
        Ok(Flushed { begun, covers: self.covers })
    }
}

impl LogFiles {
    /// Takes out what is gathered; none if that is nothing. It is handed back with [`LogFiles::flushed`] before the next
    /// is taken.
    pub(crate) fn take_flush(&mut self) -> Option<Flush> {
        if self.open.is_empty() {
            return None;
        }
        let (batch, records) = (std::mem::take(&mut self.open), std::mem::take(&mut self.open_records));
        let length = batch.len() as u64;
        let covers = Covers { entries: self.next_index(), purged: self.purged };
        let present = self.segments.back_mut()?;
        let fits = present.used + length <= self.limits.bytes as u64 && present.records < self.limits.records;
        let (segment, at, into) = if fits {
            let at = present.used;
            present.used += length;
            present.records += records;
            (present.number, at, Into::Present { file: Arc::clone(&present.file), number: present.number, at })
        } else {
            let number = self.number;
            self.number += 1;
            (number, SECOND, Into::Another { next: self.next.take()?, number, base: self.before })
        };
        for place in self.places.iter_mut().rev().take_while(|place| place.segment == NOWHERE) {
            place.segment = segment;
            place.at += at;
        }
        let bytes = batch.seal(self.number);
        self.number += 1;
        Some(Flush { dir: self.dir.clone(), bytes, records, into, covers, _lock: Arc::clone(&self.lock) })
    }

    /// Takes back a flush that was carried out; returns the files that are no longer needed, the oldest first.
    pub(crate) fn flushed(&mut self, flushed: Flushed) -> Vec<PathBuf> {
        if let Some((segment, next)) = flushed.begun {
            self.segments.push_back(segment);
            self.next = Some(next);
        }
        self.durable = self.durable.max(flushed.covers.entries.min(self.next_index()));
        self.let_go();
        let half = self.segments.back().is_some_and(|present| present.used > self.limits.bytes as u64 / 2);
        if let Some(next) = self.next.as_mut().filter(|_| half) {
            next.ask();
        }
        let mut gone = Vec::new();
        while let (Some(oldest), Some(second)) = (self.segments.front(), self.segments.get(1)) {
            let last = second.base.last.map(|last| last.index);
            if last > flushed.covers.purged.map(|purged| purged.index) {
                break;
            }
            gone.push(self.dir.join(segment::name(oldest.number)));
            self.segments.pop_front();
        }
        gone
    }
}

/// Removes files of the log, in order: what is left is without a gap at any moment.
pub(crate) fn remove(files: &[PathBuf]) -> io::Result<()> {
    for file in files {
        std::fs::remove_file(file)?;
        file.parent().map_or(Ok(()), directory::sync_directory)?;
    }
    Ok(())
}
