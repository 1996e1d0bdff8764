//! Takes a streamed snapshot: parts go to a temporary file, which is checked as a whole before openraft hears of it.
//!
//! A file that is cut off, damaged or not what its sender said is removed and changes nothing. The file also goes
//! when the connection ends before it is installed. Installing is the state machine's, as ever.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::directory;
use crate::snapshot::{SnapshotFile, Snapshots};
use crate::types::{SnapshotMeta, Vote};

use super::message::SnapshotBegin;

/// A snapshot of which not all parts have arrived.
#[derive(Debug)]
pub(crate) struct Receiving {
    begin: SnapshotBegin,
    file: Temporary,
    out: File,
    taken: u64,
    sum: crc32fast::Hasher,
}

/// A snapshot that has arrived whole; its file goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    file: Temporary,
}

#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A leftover goes at the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Received {
    pub(crate) fn file(&self) -> SnapshotFile {
        SnapshotFile { path: self.file.0.clone() }
    }
}

impl Receiving {
    /// Makes the temporary file. Blocks, as all of this does.
    pub(crate) fn begin(begin: SnapshotBegin, snapshots: &Snapshots) -> io::Result<Receiving> {
        let path = snapshots.receiving_path();
        let out = directory::create_private(&path)?;
        Ok(Receiving { begin, file: Temporary(path), out, taken: 0, sum: crc32fast::Hasher::new() })
    }

    /// Takes the next part.
    pub(crate) fn take(&mut self, part: &[u8], snapshots: &Snapshots) -> io::Result<()> {
        self.taken += part.len() as u64;
        if self.taken > self.begin.length {
            return Err(damaged("it is longer than announced"));
        }
        snapshots.leaves_room()?;
        self.sum.update(part);
        self.out.write_all(part)
    }

    /// Checks the whole file.
    pub(crate) fn finish(self, sum: &[u8], snapshots: &Snapshots) -> io::Result<Received> {
        if self.taken != self.begin.length {
            return Err(damaged("it is shorter than announced"));
        }
        if self.sum.finalize().to_le_bytes() != sum {
            return Err(damaged("its checksum does not fit"));
        }
        snapshots.check(&self.begin.meta, &self.file.0)?;
        Ok(Received { vote: self.begin.vote, meta: self.begin.meta, file: self.file })
    }
}

fn damaged(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot was not taken: {text}"))
}
