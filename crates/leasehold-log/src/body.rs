//! The body of a snapshot: the records of a state, then the tail of recent events.
//!
//! Both lists end with an explicit mark and their count, so a body that stops early never passes for a
//! smaller state. Writing and reading stream: neither holds more than a piece of the body in memory, and the
//! memory for a long record grows with the bytes that have arrived. Checksums, names and fsync are left to
//! the snapshot file around it. See docs/formats/snapshot-body.md.

use std::borrow::Borrow;
use std::io::{self, Read, Write};

use leasehold_core::{Event, Fact, Record, Revision};

use crate::entry::check_version;
use crate::layout::Durable;
use crate::wire::{ENDS_EARLY, FormatError, Reader, VARINT_MAX, put_framed, put_varint};

/// The newest format of snapshot bodies that this release reads. It writes the oldest one that can say what there is:
/// version 2 brought the rest after a restore, version 3 markers and what an event about an entry replaced.
pub const BODY_VERSION: u8 = 3;
const REST_VERSION: u8 = 2;
const FIRST_VERSION: u8 = 1;

/// How many bytes are written or read at a time.
const PIECE: usize = 64 << 10;

/// Stands where the length of a record or event would: nothing more follows but the count.
const END_MARK: u8 = 0;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The bytes could not be had.
    #[error("the snapshot could not be read")]
    Io(#[from] io::Error),
    /// The bytes are not a body that this release reads.
    #[error("the snapshot body cannot be used: {0}")]
    Format(#[from] FormatError),
    /// Whoever takes the records did not want one.
    #[error("the snapshot body is well formed, but its contents were refused: {0}")]
    Refused(Refusal),
}

/// Why a record or event was not taken.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Writes a body and gives the number of its bytes. Records may be lent or given away. The tail has every event
/// after the revision `floor`.
pub fn write_body<'e>(
    records: impl Iterator<Item = impl Borrow<Record>>,
    floor: Revision,
    tail: impl Iterator<Item = &'e Event> + Clone,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let mut pieces = Pieces { out, buffer: Vec::with_capacity(2 * PIECE), written: 0 };
    let mut records = records.fuse();
    // The rest is the second record, markers come next; before that the version is not known.
    let first = [records.next(), records.next(), records.next()];
    let has = |kind: fn(&Record) -> bool| first.iter().flatten().any(|record| kind(record.borrow()));
    let rests = has(|record| matches!(record, Record::Rest(_)));
    let marked = has(|record| matches!(record, Record::Marker(_)));
    pieces.buffer.push(match marked || tail.clone().any(tells_previous) {
        true => BODY_VERSION,
        false if rests => REST_VERSION,
        false => FIRST_VERSION,
    });
    pieces.list::<Record>(first.into_iter().flatten().chain(records))?;
    put_varint(&mut pieces.buffer, floor.0);
    pieces.list::<Event>(tail)?;
    pieces.flush()?;
    Ok(pieces.written)
}

fn tells_previous(event: &Event) -> bool {
    match &event.fact {
        Fact::EntryPut { previous, .. } | Fact::EntryDeleted { previous, .. } => previous.0.is_some(),
        Fact::LeaseGranted { .. }
        | Fact::LeaseEnded { .. }
        | Fact::ClaimGranted { .. }
        | Fact::ClaimEnded { .. }
        | Fact::Queued { .. }
        | Fact::Unqueued { .. }
        | Fact::HandoverAsked { .. } => false,
    }
}

/// Bytes on their way out, a piece at a time.
struct Pieces<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    written: u64,
}

impl Pieces<'_> {
    fn list<T: Durable>(&mut self, elements: impl Iterator<Item = impl Borrow<T>>) -> io::Result<()> {
        let mut count = 0;
        for element in elements {
            put_framed(&mut self.buffer, |out| element.borrow().encode(out));
            count += 1;
            if self.buffer.len() >= PIECE {
                self.flush()?;
            }
        }
        self.buffer.push(END_MARK);
        put_varint(&mut self.buffer, count);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads a body to its end, giving away its records and then its events, and gives the revision after which the
/// events are complete.
///
/// Nothing that was given away may be used before this returns: only then are the counts known to be right.
pub fn read_body(
    input: &mut dyn Read,
    mut record: impl FnMut(Record) -> Result<(), Refusal>,
    mut event: impl FnMut(Event) -> Result<(), Refusal>,
) -> Result<Revision, BodyError> {
    let mut frames = Frames { input, buffer: vec![0; PIECE], start: 0, end: 0, offset: 0, count: 0 };
    frames.version()?;
    while let Some(mut from) = frames.next("record")? {
        let decoded = Record::decode(&mut from)?;
        from.finish("record")?;
        record(decoded).map_err(BodyError::Refused)?;
    }
    let floor = Revision(frames.number("floor of the events")?);
    while let Some(mut from) = frames.next("event")? {
        let decoded = Event::decode(&mut from)?;
        from.finish("event")?;
        event(decoded).map_err(BodyError::Refused)?;
    }
    frames.finish()?;
    Ok(floor)
}

/// Bytes on their way in, a frame at a time, in one buffer that is used again and again.
struct Frames<'r> {
    input: &'r mut dyn Read,
    buffer: Vec<u8>,
    /// What was read and not yet used is `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Where `start` is in the whole body.
    offset: usize,
    /// How many frames the present list has had.
    count: u64,
}

impl Frames<'_> {
    fn version(&mut self) -> Result<(), BodyError> {
        self.want(1)?;
        let mut from = self.reader();
        check_version(&mut from, "the snapshot body", BODY_VERSION)?;
        self.used(1);
        Ok(())
    }

    /// The next frame of a list, or none at its end, once the count there was found right.
    fn next(&mut self, what: &'static str) -> Result<Option<Reader<'_>>, BodyError> {
        self.want(VARINT_MAX)?;
        let mut from = self.reader();
        let length: usize = from.small(what)?;
        self.used(from.offset() - self.offset);
        if length == usize::from(END_MARK) {
            self.end_of_list()?;
            return Ok(None);
        }
        self.want(length)?;
        let (offset, start) = (self.offset, self.start);
        if self.end - start < length {
            return Err(self.reader().damaged(what, ENDS_EARLY).into());
        }
        self.used(length);
        self.count += 1;
        Ok(Some(Reader::within(&self.buffer[start..start + length], offset)))
    }

    fn number(&mut self, what: &'static str) -> Result<u64, BodyError> {
        self.want(VARINT_MAX)?;
        let mut from = self.reader();
        let number = from.varint(what)?;
        let length = from.offset() - self.offset;
        self.used(length);
        Ok(number)
    }

    fn end_of_list(&mut self) -> Result<(), BodyError> {
        self.want(VARINT_MAX)?;
        let start = self.reader();
        let mut from = start.clone();
        if from.varint("count at the end of a list")? != self.count {
            return Err(start.damaged("count at the end of a list", "is not what was read").into());
        }
        let length = from.offset() - self.offset;
        self.used(length);
        self.count = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<(), BodyError> {
        self.want(1)?;
        Ok(self.reader().finish("the snapshot body")?)
    }

    fn reader(&self) -> Reader<'_> {
        Reader::within(&self.buffer[self.start..self.end], self.offset)
    }

    fn used(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes;
    }

    /// Reads until `bytes` are there, or all there are.
    #[inline]
    fn want(&mut self, bytes: usize) -> io::Result<()> {
        if self.end - self.start >= bytes { Ok(()) } else { self.fill(bytes) }
    }

    #[cold]
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < bytes {
            if self.end == self.buffer.len() {
                // A long record: grows only as bytes arrive, whatever its length claims.
                self.buffer.resize(2 * self.end, 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
