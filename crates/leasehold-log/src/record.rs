//! A record of the replicated log as it lies on disk, and the two small values kept beside the records: where
//! the log stands (a position) and whom this node voted for.
//!
//! All integers are little-endian and fixed in size. Every value opens with what it is and its version and closes
//! with a CRC-32, and a record's header has a CRC of its own: a damaged length is seen as damage and never as
//! "the rest of the file is missing". That is what lets a reader tell a torn tail from a flipped bit.
//! See `docs/formats/log-record.md`. Storing the bytes and naming the file in an error is left to the caller.

use std::io::{self, Read, Write};

use bytes::Bytes;
use leasehold_core::LeaderId;

/// The newest record version this build reads, and the one it writes.
pub const RECORD_VERSION: u8 = 1;

/// The most payload bytes a record may carry; a longer one is damage.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is set aside for a payload before any of it was read: a claimed length alone never gets much memory.
const RESERVE: usize = 256 * 1024;
const HEADER_LEN: usize = 36;
const POSITION_LEN: usize = 30;
const VOTE_LEN: usize = 23;
const RECORD: &str = "record";
const KIND_MAX: u8 = 3;
const POSITION_TAG: u8 = b'P';
const VOTE_TAG: u8 = b'V';

/// Why bytes are not a record, position, vote or membership.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the value does: a write that was cut short.
    #[error("{what} is incomplete: its bytes end too early")]
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// A later build wrote it.
    #[error("{what} has format version {found}, this build reads up to {known}; upgrade")]
    Newer {
        /// What was being read.
        what: &'static str,
        /// The version found.
        found: u8,
        /// The newest version this build reads.
        known: u8,
    },
    /// A later build wrote it: its checksums are right, and its kind is not known here.
    #[error("record is of kind {found}, this build knows kinds up to {KIND_MAX}; upgrade")]
    UnknownKind {
        /// The kind found.
        found: u8,
    },
    /// The checksum does not fit the bytes.
    #[error("{what} is damaged: its checksum is {stored:08x}, its bytes give {computed:08x}")]
    Checksum {
        /// What was being read.
        what: &'static str,
        /// The checksum that was stored.
        stored: u32,
        /// The checksum of the bytes that were read.
        computed: u32,
    },
    /// A field holds a value that no build writes.
    #[error("{what} is damaged: {field} cannot be {found}")]
    Field {
        /// What was being read.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// The value found.
        found: u64,
    },
    /// The bytes could not be read.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

impl From<RecordError> for io::Error {
    /// Keeps "incomplete" apart from "damaged": only the former is `UnexpectedEof`.
    fn from(error: RecordError) -> io::Error {
        match error {
            RecordError::Io(error) => error,
            RecordError::Truncated { .. } => io::Error::new(io::ErrorKind::UnexpectedEof, error),
            RecordError::Newer { .. }
            | RecordError::UnknownKind { .. }
            | RecordError::Checksum { .. }
            | RecordError::Field { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Computes the checksum that all forms of this crate use (CRC-32, IEEE).
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Where a record stands in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The leader that appended it.
    pub leader: LeaderId,
    /// Its index, rising by one.
    pub index: u64,
}

impl LogPosition {
    /// Writes the position; returns how many bytes that took.
    pub fn write(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut bytes = [0; POSITION_LEN];
        bytes[0] = POSITION_TAG;
        bytes[1] = RECORD_VERSION;
        put_u64(&mut bytes, 2, self.leader.term);
        put_u64(&mut bytes, 10, self.leader.node);
        put_u64(&mut bytes, 18, self.index);
        seal(&mut bytes);
        out.write_all(&bytes)?;
        Ok(POSITION_LEN)
    }

    /// Reads a position.
    pub fn read(from: &mut impl Read) -> Result<LogPosition, RecordError> {
        let bytes: [u8; POSITION_LEN] = read_sealed(from, "log position", POSITION_TAG)?;
        let leader = LeaderId { term: u64_at(&bytes, 2), node: u64_at(&bytes, 10) };
        Ok(LogPosition { leader, index: u64_at(&bytes, 18) })
    }
}

/// Whom a node voted for, and whether a quorum did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The candidate and its term.
    pub leader: LeaderId,
    /// Whether a quorum granted it: the candidate leads.
    pub committed: bool,
}

impl Vote {
    /// Writes the vote; returns how many bytes that took.
    pub fn write(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut bytes = [0; VOTE_LEN];
        bytes[0] = VOTE_TAG;
        bytes[1] = RECORD_VERSION;
        put_u64(&mut bytes, 2, self.leader.term);
        put_u64(&mut bytes, 10, self.leader.node);
        bytes[18] = u8::from(self.committed);
        seal(&mut bytes);
        out.write_all(&bytes)?;
        Ok(VOTE_LEN)
    }

    /// Reads a vote.
    pub fn read(from: &mut impl Read) -> Result<Vote, RecordError> {
        let bytes: [u8; VOTE_LEN] = read_sealed(from, "vote", VOTE_TAG)?;
        let committed = match bytes[18] {
            0 => false,
            1 => true,
            found => return Err(RecordError::Field { what: "vote", field: "committed", found: found.into() }),
        };
        Ok(Vote { leader: LeaderId { term: u64_at(&bytes, 2), node: u64_at(&bytes, 10) }, committed })
    }
}

impl PartialOrd for Vote {
    /// Orders votes as they may follow one another on disk: by term, then a granted one after a mere candidate.
    fn partial_cmp(&self, other: &Vote) -> Option<std::cmp::Ordering> {
        let key = |vote: &Vote| (vote.leader.term, vote.committed, vote.leader.node);
        Some(key(self).cmp(&key(other)))
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first entry of a new leader; no bytes.
    Blank,
    /// A payload as it was proposed.
    Payload,
    /// A change of membership, see [`Membership`](crate::Membership).
    Membership,
    /// Where all nodes compare their states and write snapshots; no bytes.
    Checkpoint,
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub position: LogPosition,
    /// What it is.
    pub kind: Kind,
    /// What it carries; shared, so clones are cheap.
    pub bytes: Bytes,
}

impl Record {
    /// Returns the length of the written form.
    pub fn written_len(&self) -> usize {
        HEADER_LEN + self.bytes.len() + 4
    }

    /// Writes the record; returns how many bytes that took.
    pub fn write(&self, out: &mut impl Write) -> io::Result<usize> {
        if self.bytes.len() > RECORD_BYTES_MAX {
            let text = format!("a log record carries {} bytes, at most {RECORD_BYTES_MAX} fit", self.bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let header = self.header();
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header);
        hasher.update(&self.bytes);
        out.write_all(&header)?;
        out.write_all(&self.bytes)?;
        out.write_all(&hasher.finalize().to_le_bytes())?;
        Ok(self.written_len())
    }

    /// Reads the header of a record only; returns the length of the whole written form.
    pub fn announced_len(from: &mut impl Read) -> Result<usize, RecordError> {
        let (_, length) = read_header(from)?;
        Ok(HEADER_LEN + length + 4)
    }

    /// Reads a record.
    pub fn read(from: &mut impl Read) -> Result<Record, RecordError> {
        let (header, length) = read_header(from)?;
        let kind = match header[1] {
            0 => Kind::Blank,
            1 => Kind::Payload,
            2 => Kind::Membership,
            KIND_MAX => Kind::Checkpoint,
            found => return Err(RecordError::UnknownKind { found }),
        };
        let mut bytes = Vec::with_capacity(length.min(RESERVE));
        let taken = from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
        if taken < length {
            return Err(RecordError::Truncated { what: RECORD });
        }
        let mut stored = [0; 4];
        read_exact(from, &mut stored, RECORD)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header);
        hasher.update(&bytes);
        check_sum(RECORD, u32::from_le_bytes(stored), hasher.finalize())?;
        let leader = LeaderId { term: u64_at(&header, 8), node: u64_at(&header, 16) };
        let position = LogPosition { leader, index: u64_at(&header, 24) };
        Ok(Record { position, kind, bytes: Bytes::from(bytes) })
    }

    fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[0] = RECORD_VERSION;
        header[1] = match self.kind {
            Kind::Blank => 0,
            Kind::Payload => 1,
            Kind::Membership => 2,
            Kind::Checkpoint => KIND_MAX,
        };
        header[4..8].copy_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        put_u64(&mut header, 8, self.position.leader.term);
        put_u64(&mut header, 16, self.position.leader.node);
        put_u64(&mut header, 24, self.position.index);
        seal(&mut header);
        header
    }
}

/// Reads and verifies a record's header; returns it with the number of bytes that follow before the checksum.
fn read_header(from: &mut impl Read) -> Result<([u8; HEADER_LEN], usize), RecordError> {
    let mut header = [0; HEADER_LEN];
    read_exact(from, &mut header, RECORD)?;
    check_version(RECORD, header[0])?;
    check_sum("record header", u32_at(&header, 32), checksum(&header[..32]))?;
    let length = u32_at(&header, 4) as usize;
    if length > RECORD_BYTES_MAX {
        return Err(RecordError::Field { what: RECORD, field: "length", found: length as u64 });
    }
    Ok((header, length))
}

/// Puts the checksum of all other bytes into the last four.
fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
}

/// Reads a small value of fixed size: tag, version, fields, checksum.
fn read_sealed<const N: usize>(from: &mut impl Read, what: &'static str, tag: u8) -> Result<[u8; N], RecordError> {
    // The tag first, alone: a value of another kind must not look like one that is too short.
    let mut bytes = [0; N];
    read_exact(from, &mut bytes[..1], what)?;
    if bytes[0] != tag {
        return Err(RecordError::Field { what, field: "tag", found: bytes[0].into() });
    }
    read_exact(from, &mut bytes[1..], what)?;
    check_version(what, bytes[1])?;
    check_sum(what, u32_at(&bytes, N - 4), checksum(&bytes[..N - 4]))?;
    Ok(bytes)
}

pub(crate) fn read_exact(from: &mut impl Read, into: &mut [u8], what: &'static str) -> Result<(), RecordError> {
    from.read_exact(into).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof { RecordError::Truncated { what } } else { error.into() }
    })
}

pub(crate) fn check_version(what: &'static str, found: u8) -> Result<(), RecordError> {
    match found {
        RECORD_VERSION => Ok(()),
        0 => Err(RecordError::Field { what, field: "version", found: 0 }),
        _ => Err(RecordError::Newer { what, found, known: RECORD_VERSION }),
    }
}

fn check_sum(what: &'static str, stored: u32, computed: u32) -> Result<(), RecordError> {
    if stored == computed { Ok(()) } else { Err(RecordError::Checksum { what, stored, computed }) }
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"))
}
