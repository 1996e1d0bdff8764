//! A backup file: the state of a whole cluster in the container of a snapshot file, without what belongs to a node.
//!
//! It has no place in a log, no membership and no recent events: it begins a new cluster, which has none of the old
//! one's. Damage anywhere, a missing end and bytes too many are found and named by file and offset, but only when the
//! reader has come to the end: nothing that was read before may be used earlier. See `docs/formats/backup-file.md`.

use std::borrow::Borrow;
use std::io::{self, Read, Write};

use leasehold_core::{Record, Revision, WallTime};

use crate::blocks::{BlockReader, BlockWriter, FileKind, SnapshotHeader};
use crate::body::{BodyError, Refusal, read_body, write_body};
use crate::layout::{Durable, durable_struct};
use crate::wire::Reader;

const BACKUP: FileKind = FileKind { name: "backup file", magic: b"LHBACK\r\n" };

/// Where a backup comes from, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupHeader {
    /// When it was taken.
    pub taken: WallTime,
    /// The release that took it.
    pub release: Box<str>,
}

durable_struct!(BackupHeader { taken: WallTime, release: Box<str> });

/// Writes a whole backup file: a state of the given revision, record by record.
pub fn write_backup<W: Write>(
    out: W,
    header: &BackupHeader,
    revision: Revision,
    records: impl Iterator<Item = impl Borrow<Record>>,
) -> io::Result<W> {
    let mut about = Vec::new();
    header.encode(&mut about);
    let mut blocks = BlockWriter::of_kind(BACKUP, out, &SnapshotHeader { last: None, membership: about.into() })?;
    write_body(records, revision, std::iter::empty(), &mut blocks)?;
    blocks.finish()
}

/// Reads a backup file and verifies it on the way.
#[derive(Debug)]
pub struct BackupReader<R: Read> {
    blocks: BlockReader<R>,
    header: BackupHeader,
}

impl<R: Read> BackupReader<R> {
    /// Opens a file by reading its header; `file` is its name for errors.
    pub fn new(from: R, file: impl Into<String>) -> Result<BackupReader<R>, BodyError> {
        let blocks = BlockReader::of_kind(BACKUP, from, file)?;
        let about = blocks.header().membership.clone();
        let mut from = Reader::new(&about);
        let header = BackupHeader::decode(&mut from)?;
        from.finish("the header of the backup")?;
        Ok(BackupReader { blocks, header })
    }

    /// Returns where the backup comes from.
    pub fn header(&self) -> &BackupHeader {
        &self.header
    }

    /// Reads to the very end, giving away the records. Nothing of them may be used before this returns.
    pub fn read(mut self, record: impl FnMut(Record) -> Result<(), Refusal>) -> Result<(), BodyError> {
        read_body(&mut self.blocks, record, |_| Ok(()))?;
        Ok(self.blocks.finish()?)
    }
}
