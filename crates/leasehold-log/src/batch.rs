//! A batch: what one flush writes to a log file, and how a file is read again.
//!
//! A batch lies at a multiple of [`SECTOR`] in a file of zeros and is filled up to the next one. Its header has a number, one
//! higher than that of the batch before it, and a checksum of its own; another checksum closes it. Flushes follow one another, so
//! a crash can leave only the last batch unfinished, with some of its sectors written and the others still zeros. That is
//! what tells a torn batch from a damaged one. See `docs/formats/log-files.md`. Files and their names are left to the caller.

use std::io;

use crate::record::{check_version, read_exact};
use crate::{LogPosition, Record, RecordError, Vote, checksum};

/// The least that a disk writes at once: it is there as a whole or not at all.
pub const SECTOR: usize = 512;
/// The newest batch version this build reads, and the one it writes.
pub const BATCH_VERSION: u8 = 1;

const TAG: [u8; 3] = *b"LHB";
const HEADER_LEN: usize = 24;
const SUM_LEN: usize = 4;
const BASE: u8 = 0;
const ENTRY: u8 = 1;
const VOTE: u8 = 2;
const CUT: u8 = 3;
const PURGE: u8 = 4;

/// Where a log stands: what the files before this one have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Whom the node voted for last.
    pub vote: Option<Vote>,
    /// The last entry that was purged.
    pub purged: Option<LogPosition>,
    /// The last entry.
    pub last: Option<LogPosition>,
    /// How long this file is: a shorter one has lost something.
    pub length: u64,
}

/// One thing that a log remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Where the log stood when this file was begun.
    Base(Base),
    /// One more entry.
    Entry(Record),
    /// A vote.
    Vote(Vote),
    /// All entries after this one are gone; all of them if there is none.
    Cut(Option<LogPosition>),
    /// All entries up to this one are gone.
    Purge(LogPosition),
}

/// A batch that is being filled.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { bytes: vec![0; HEADER_LEN] }
    }
}

impl Batch {
    /// Tells whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_LEN
    }

    /// How many bytes it takes in a file.
    pub fn len(&self) -> usize {
        (self.bytes.len() + SUM_LEN).next_multiple_of(SECTOR)
    }

    /// Adds something; returns where in the batch it begins.
    pub fn push(&mut self, item: &Item) -> io::Result<usize> {
        let at = self.bytes.len();
        let out = &mut self.bytes;
        let written = match item {
            Item::Base(base) => {
                out.push(BASE);
                base.write(out)
            }
            Item::Entry(record) => {
                out.push(ENTRY);
                record.write(out).map(drop)
            }
            Item::Vote(vote) => {
                out.push(VOTE);
                vote.write(out).map(drop)
            }
            Item::Cut(last) => {
                out.push(CUT);
                write_option(last.as_ref(), out, |last, out| last.write(out))
            }
            Item::Purge(upto) => {
                out.push(PURGE);
                upto.write(out).map(drop)
            }
        };
        if written.is_err() {
            self.bytes.truncate(at);
        }
        written.map(|()| at)
    }

    /// Gives it its number; returns the bytes as they are written.
    pub fn seal(mut self, number: u64) -> Vec<u8> {
        let length = self.bytes.len() - HEADER_LEN;
        self.bytes[..3].copy_from_slice(&TAG);
        self.bytes[3] = BATCH_VERSION;
        self.bytes[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        self.bytes[8..16].copy_from_slice(&number.to_le_bytes());
        // The header's sector is none of them: its tag is there.
        let body = self.bytes.len();
        self.bytes.resize(self.len(), 0);
        let empty = empty_sectors(&self.bytes) as u32;
        self.bytes[16..20].copy_from_slice(&empty.to_le_bytes());
        let sum = checksum(&self.bytes[..20]);
        self.bytes[20..24].copy_from_slice(&sum.to_le_bytes());
        let sum = checksum(&self.bytes[..body]);
        self.bytes[body..body + SUM_LEN].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }
}

impl Base {
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write_option(self.vote.as_ref(), out, |vote, out| vote.write(out))?;
        write_option(self.purged.as_ref(), out, |purged, out| purged.write(out))?;
        write_option(self.last.as_ref(), out, |last, out| last.write(out))?;
        out.extend(self.length.to_le_bytes());
        Ok(())
    }

    fn read(from: &mut &[u8]) -> Result<Base, RecordError> {
        let vote = read_option(from, |from| Vote::read(from))?;
        let purged = read_option(from, |from| LogPosition::read(from))?;
        let last = read_option(from, |from| LogPosition::read(from))?;
        let mut length = [0; 8];
        read_exact(from, &mut length, "batch")?;
        Ok(Base { vote, purged, last, length: u64::from_le_bytes(length) })
    }
}

/// What lies at a place of a file where a batch of this number may begin.
#[derive(Debug)]
pub enum Found {
    /// The batch: what is in it, each with its place in the batch, and how many bytes it takes.
    Batch(Vec<(usize, Item)>, usize),
    /// Only zeros, up to the end of the file: nothing was ever written here.
    Nothing,
    /// A batch that was being written when the node crashed: it was never acknowledged.
    Torn,
}

/// Reads what begins at the front of `rest`, which is all of the file from there on.
pub fn find(rest: &[u8], number: u64) -> Result<Found, RecordError> {
    let refusal = match read(rest, number) {
        Ok((items, length)) => return Ok(Found::Batch(items, length)),
        Err(refusal) => refusal,
    };
    if rest.chunks(SECTOR).all(is_empty) {
        return Ok(Found::Nothing);
    }
    let is_newer = matches!(refusal, RecordError::Newer { .. } | RecordError::UnknownKind { .. });
    if !is_newer && is_unfinished(rest, number) && !has_later(rest, number) {
        return Ok(Found::Torn);
    }
    Err(refusal)
}

/// Reads the batch at the front, wherever it comes from.
fn read(rest: &[u8], number: u64) -> Result<(Vec<(usize, Item)>, usize), RecordError> {
    let header = Header::read(rest)?;
    if header.number != number {
        return Err(RecordError::Field { what: "batch", field: "number", found: header.number });
    }
    let body = HEADER_LEN + header.length;
    let whole = rest.get(..(body + SUM_LEN).next_multiple_of(SECTOR));
    let whole = whole.ok_or(RecordError::Truncated { what: "batch" })?;
    let (mut stored, computed) = ([0; SUM_LEN], checksum(&whole[..body]));
    stored.copy_from_slice(&whole[body..body + SUM_LEN]);
    if u32::from_le_bytes(stored) != computed {
        return Err(RecordError::Checksum { what: "batch", stored: u32::from_le_bytes(stored), computed });
    }
    if let Some(found) = whole[body + SUM_LEN..].iter().find(|byte| **byte != 0) {
        return Err(RecordError::Field { what: "batch", field: "filling", found: (*found).into() });
    }
    let (mut items, mut from) = (Vec::new(), &whole[HEADER_LEN..body]);
    while !from.is_empty() {
        let at = body - from.len();
        items.push((at, item(&mut from)?));
    }
    Ok((items, whole.len()))
}

fn item(from: &mut &[u8]) -> Result<Item, RecordError> {
    let mut kind = [0];
    read_exact(from, &mut kind, "batch")?;
    Ok(match kind[0] {
        BASE => Item::Base(Base::read(from)?),
        ENTRY => Item::Entry(Record::read(from)?),
        VOTE => Item::Vote(Vote::read(from)?),
        CUT => Item::Cut(read_option(from, |from| LogPosition::read(from))?),
        PURGE => Item::Purge(LogPosition::read(from)?),
        found => return Err(RecordError::UnknownKind { found }),
    })
}

struct Header {
    length: usize,
    number: u64,
    empty: usize,
}

impl Header {
    fn read(rest: &[u8]) -> Result<Header, RecordError> {
        let mut from = rest;
        let mut header = [0; HEADER_LEN];
        read_exact(&mut from, &mut header, "batch header")?;
        if let Some(at) = (0..TAG.len()).find(|at| header[*at] != TAG[*at]) {
            return Err(RecordError::Field { what: "batch", field: "tag", found: header[at].into() });
        }
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (stored, computed) = (word(20), checksum(&header[..20]));
        if stored != computed {
            return Err(RecordError::Checksum { what: "batch header", stored, computed });
        }
        check_version("batch", header[3])?;
        let number = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Header { length: word(4) as usize, number, empty: word(16) as usize })
    }
}

/// Tells whether the batch at the front has sectors that were never written.
fn is_unfinished(rest: &[u8], number: u64) -> bool {
    match Header::read(rest) {
        Ok(header) if header.number == number => {
            let length = (HEADER_LEN + header.length + SUM_LEN).next_multiple_of(SECTOR);
            rest.get(..length).is_some_and(|batch| empty_sectors(batch) > header.empty)
        }
        Ok(_) => false,
        Err(_) => rest.chunks(SECTOR).next().is_some_and(is_empty),
    }
}

/// Tells whether a batch with a higher number begins anywhere: then this one was acknowledged.
fn has_later(rest: &[u8], number: u64) -> bool {
    rest.chunks(SECTOR).skip(1).any(|sector| Header::read(sector).is_ok_and(|header| header.number > number))
}

fn empty_sectors(batch: &[u8]) -> usize {
    batch.chunks(SECTOR).filter(|sector| is_empty(sector)).count()
}

/// Tells whether a sector, or what there is of one, was never written.
fn is_empty(sector: &[u8]) -> bool {
    sector == &[0; SECTOR][..sector.len()]
}

/// A value that may be missing: whether it is there, then the value.
fn write_option<T>(
    value: Option<&T>,
    out: &mut Vec<u8>,
    write: impl FnOnce(&T, &mut Vec<u8>) -> io::Result<usize>,
) -> io::Result<()> {
    out.push(value.is_some().into());
    value.map_or(Ok(()), |value| write(value, out).map(drop))
}

fn read_option<T>(
    from: &mut &[u8],
    read: impl FnOnce(&mut &[u8]) -> Result<T, RecordError>,
) -> Result<Option<T>, RecordError> {
    let mut there = [0];
    read_exact(from, &mut there, "batch")?;
    match there[0] {
        0 => Ok(None),
        1 => read(from).map(Some),
        found => Err(RecordError::Field { what: "batch", field: "option", found: found.into() }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use leasehold_core::LeaderId;

    use super::*;
    use crate::Kind;

    const LEADER: LeaderId = LeaderId { term: 3, node: 1 };

    fn position(index: u64) -> LogPosition {
        LogPosition { leader: LEADER, index }
    }

    fn entry(index: u64, bytes: Vec<u8>) -> Item {
        Item::Entry(Record { position: position(index), kind: Kind::Payload, bytes: Bytes::from(bytes) })
    }

    fn one_of_each() -> Vec<Item> {
        let vote = Vote { leader: LEADER, committed: true };
        vec![
            Item::Base(Base { vote: Some(vote), purged: None, last: Some(position(6)), length: 1 << 20 }),
            entry(7, b"orders/7".to_vec()),
            Item::Vote(vote),
            Item::Cut(Some(position(6))),
            Item::Cut(None),
            Item::Purge(position(5)),
        ]
    }

    fn sealed(items: &[Item], number: u64) -> Vec<u8> {
        let mut batch = Batch::default();
        for item in items {
            batch.push(item).unwrap();
        }
        batch.seal(number)
    }

    /// A file of zeros with these batches in it.
    fn file(batches: &[&[u8]]) -> Vec<u8> {
        let mut file = batches.concat();
        file.resize(file.len() + 8 * SECTOR, 0);
        file
    }

    fn items(rest: &[u8], number: u64) -> Vec<Item> {
        match find(rest, number).unwrap() {
            Found::Batch(items, _) => items.into_iter().map(|(_, item)| item).collect(),
            other @ (Found::Nothing | Found::Torn) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_pushed_is_found_with_its_place() {
        let written = one_of_each();
        let mut batch = Batch::default();
        assert!(batch.is_empty());
        let places: Vec<usize> = written.iter().map(|item| batch.push(item).unwrap()).collect();
        let length = batch.len();
        let file = file(&[&batch.seal(9)]);
        let Found::Batch(found, taken) = find(&file, 9).unwrap() else { panic!("it is there") };
        assert_eq!(taken, length);
        assert_eq!(found, places.into_iter().zip(written).collect::<Vec<_>>());
        assert!(matches!(find(&file[length..], 10), Ok(Found::Nothing)));
    }

    #[test]
    fn every_flipped_bit_is_damage_and_never_a_torn_write() {
        // Zeros of its own, over several sectors: they must not look unwritten.
        let batch = sealed(&[entry(1, vec![0; 3 * SECTOR]), entry(2, vec![7; 100])], 4);
        let whole = file(&[&batch]);
        for bit in 0..batch.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(find(&damaged, 4).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_last_batch_of_which_any_sector_is_missing_is_torn() {
        let batch = sealed(&[entry(1, vec![9; 5 * SECTOR])], 4);
        let sectors = batch.len() / SECTOR;
        for missing in 1..(1u32 << sectors) {
            let mut torn = file(&[&batch]);
            for sector in (0..sectors).filter(|sector| missing >> sector & 1 == 1) {
                torn[sector * SECTOR..][..SECTOR].fill(0);
            }
            let all = missing == (1 << sectors) - 1;
            match find(&torn, 4).unwrap() {
                Found::Nothing => assert!(all),
                Found::Torn => assert!(!all, "{missing:b}"),
                Found::Batch(..) => panic!("{missing:b}"),
            }
        }
    }

    #[test]
    fn a_missing_sector_before_a_later_batch_is_damage() {
        let (first, second) = (sealed(&[entry(1, vec![9; 5 * SECTOR])], 4), sealed(&[entry(2, vec![1])], 5));
        for sector in 0..first.len() / SECTOR {
            let mut damaged = file(&[&first, &second]);
            damaged[sector * SECTOR..][..SECTOR].fill(0);
            assert!(find(&damaged, 4).is_err(), "{sector}");
        }
    }

    #[test]
    fn batches_follow_one_another_in_order() {
        let (first, second) = (sealed(&one_of_each(), 4), sealed(&[entry(8, vec![1])], 5));
        let file = file(&[&first, &second]);
        assert_eq!(items(&file, 4), one_of_each());
        assert_eq!(items(&file[first.len()..], 5), [entry(8, vec![1])]);
        assert!(find(&file, 5).is_err(), "it has another number");
    }

    #[test]
    fn what_a_later_build_wrote_is_said_to_be_newer() {
        let mut batch = sealed(&[entry(1, vec![1])], 4);
        batch[3] = BATCH_VERSION + 1;
        let sum = checksum(&batch[..20]);
        batch[20..24].copy_from_slice(&sum.to_le_bytes());
        let refused = find(&file(&[&batch]), 4).unwrap_err();
        assert!(matches!(refused, RecordError::Newer { found: 2, .. }), "{refused}");
    }
}
