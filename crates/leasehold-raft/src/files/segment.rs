//! One file of the log: batches one after the other, then zeros up to its end.
//!
//! A file is filled with zeros before it is used, so that a flush writes over blocks that are there and the file system has
//! nothing to note about it (see `docs/decisions/0023-log-files-of-our-own.md`). It gets its name when its first batch, which
//! says where the log stood, is durable: a file with a name has a beginning.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_log::{Base, Batch, Item, Record, RecordError};

use crate::directory;
use crate::error::{At as _, OpenError};

/// A file without a beginning.
const NAMELESS: &str = "next.tmp";
const EXTENSION: &str = "wal";
/// How much is filled with zeros at a time, so that flushes of the log need not wait long meanwhile.
const PIECE: usize = 256 * 1024;

/// One file of the log.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// The number of its first batch.
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    /// Where the log stood when it was begun.
    pub(super) base: Base,
    /// Where its next batch goes.
    pub(super) used: u64,
    pub(super) records: usize,
}

/// How a file that has no name yet is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// With zeros on the disk.
    Zeros,
    /// With a hole of that length: where nobody counts microseconds.
    Hole,
}

/// Makes a file of `bytes` bytes, without a name.
pub(super) fn prepare(dir: &Path, bytes: u64, filling: Filling) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(dir.join(NAMELESS))?;
    file.set_len(bytes)?;
    if filling == Filling::Zeros {
        let zeros = vec![0; PIECE];
        let mut at = 0;
        while at < bytes {
            let piece = PIECE.min((bytes - at) as usize);
            file.write_all_at(&zeros[..piece], at)?;
            file.sync_data()?;
            at += piece as u64;
        }
    }
    file.sync_all()?;
    Ok(file)
}

impl Segment {
    /// Makes a file with no name the next one of the log, whose first batch has this number.
    pub(super) fn begin(dir: &Path, file: File, number: u64, base: Base) -> io::Result<Segment> {
        let base = Base { length: file.metadata()?.len(), ..base };
        let mut batch = Batch::default();
        batch.push(&Item::Base(base))?;
        let used = batch.len() as u64;
        file.write_all_at(&batch.seal(number), 0)?;
        file.sync_data()?;
        directory::publish(&dir.join(NAMELESS), &dir.join(name(number)))?;
        Ok(Segment { number, file: Arc::new(file), base, used, records: 0 })
    }

    /// Reads the entry that was written at this place.
    pub(super) fn read(&self, at: u64) -> Result<Record, RecordError> {
        // The first byte says that it is an entry.
        let mut from = io::BufReader::new(Place { file: &self.file, at: at + 1 });
        Record::read(&mut from)
    }
}

/// A place in a file that moves on as it is read from.
struct Place<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Place<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// What the file is called whose first batch has this number.
pub(super) fn name(number: u64) -> String {
    format!("{number:020}.{EXTENSION}")
}

/// The files of a log by the numbers of their first batches. What never got a name is removed.
pub(super) fn list(dir: &Path) -> Result<BTreeMap<u64, PathBuf>, OpenError> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let path = entry.at("list", dir)?.path();
        if path.file_name().is_some_and(|name| name == NAMELESS) {
            std::fs::remove_file(&path).at("remove", &path)?;
        } else if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let problem = || "it is not called like a file of this log".to_owned();
            let number =
                number.ok_or_else(|| OpenError::DamagedLog { file: path.clone(), offset: 0, problem: problem() })?;
            files.insert(number, path);
        }
    }
    Ok(files)
}
