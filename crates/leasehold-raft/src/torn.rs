//! Tells the end that a crash leaves from damage, where the file has its full length.
//!
//! A file system may commit a file's length before its data (ext4 does, with unwritten extents). After a power loss the
//! last record then starts as it should and continues in zeros, from some sector to the end of the file. It was never
//! acknowledged: an acknowledgement follows the sync of every sector. Anything that does not fit this picture exactly is
//! damage: zeros that do not start at a sector, or a bad record that ends before they start.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use leasehold_log::{LogPosition, Record, RecordError};

/// The least a disk writes at once.
const SECTOR: u64 = 512;
/// Whole records end in a checksum of four bytes; fewer zeros than that could be one's own.
const ZEROS_MIN: u64 = 4;
/// More than any record that is not an entry takes.
const SMALL_RECORD: u64 = 256;
const TYPE_LEN: u64 = 4;
/// The types of records in a log file, see `docs/formats/log-record.md`.
const ENTRY_TYPE: u32 = 1;
const SMALL_TYPES: [u32; 4] = [0, 3, 4, 5];
const POSITION_LEN: u64 = 30;
const CHECKSUM_LEN: u64 = 8;

/// Says whether the record at `offset`, which does not read, is the last one and its end was never written.
pub(crate) fn ends_in_unwritten(file: &Path, offset: u64) -> io::Result<bool> {
    let mut open = File::open(file)?;
    open.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes)?;
    let end = offset + bytes.len() as u64;
    let written = offset + bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    let unwritten = written.next_multiple_of(SECTOR);
    if unwritten + ZEROS_MIN > end {
        return Ok(false);
    }
    Ok(reach(&bytes, unwritten - offset).is_some_and(|reach| offset + reach > unwritten))
}

/// How far the record at the start of `bytes` may reach, of which `written` bytes are to be trusted; `None` if what
/// is written of it is already damaged.
fn reach(bytes: &[u8], written: u64) -> Option<u64> {
    let mut from = &bytes[..bytes.len().min(written as usize)];
    let mut kind = [0; TYPE_LEN as usize];
    if from.read_exact(&mut kind).is_err() {
        return Some(SMALL_RECORD);
    }
    match u32::from_be_bytes(kind) {
        ENTRY_TYPE => {}
        small if SMALL_TYPES.contains(&small) => return Some(SMALL_RECORD),
        _ => return None,
    }
    let read = LogPosition::read(&mut from).and_then(|_| Record::announced_len(&mut from));
    match read {
        Ok(length) => Some(TYPE_LEN + POSITION_LEN + length as u64 + CHECKSUM_LEN),
        // Even the header is not all written.
        Err(RecordError::Truncated { .. }) => Some(SMALL_RECORD),
        Err(
            RecordError::Newer { .. }
            | RecordError::UnknownKind { .. }
            | RecordError::Checksum { .. }
            | RecordError::Field { .. }
            | RecordError::Io(_),
        ) => None,
    }
}
