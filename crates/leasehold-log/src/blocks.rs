//! The container of a snapshot file, and of a backup: a header that says what it covers, the state in checksummed
//! blocks, a footer with the length and the checksum of the whole.
//!
//! Written and read as a stream: the writer never seeks, the reader verifies each block before handing out its
//! bytes and the whole at the end, so damage is found before the end is reached and named by file and offset. Equal
//! states give equal files: there is no clock and no randomness in here. What the blocks contain, where the file
//! lies and when it is synced is left to others. See `docs/formats/snapshot-file.md`.

use std::io::{self, Read, Write};

use bytes::Bytes;
use leasehold_core::LeaderId;

use crate::record::{LogPosition, checksum};

/// The newest snapshot file version this build reads, and the one it writes.
pub const SNAPSHOT_VERSION: u32 = 1;

/// Large enough that checksums and calls cost nothing, small enough to hold one per stream.
const BLOCK_LEN: usize = 256 * 1024;
const MEMBERSHIP_MAX: usize = 1024 * 1024;
const FIXED_HEADER_LEN: usize = 8 + 4 + 1 + 24 + 4;

/// What a file is, told by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileKind {
    pub(crate) name: &'static str,
    pub(crate) magic: &'static [u8; 8],
}

const SNAPSHOT: FileKind = FileKind { name: "snapshot file", magic: b"LHSNAP\r\n" };

/// What a snapshot covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The last log entry whose effect is in the state.
    pub last: Option<LogPosition>,
    /// The membership at that entry, see [`Membership`](crate::Membership).
    pub membership: Bytes,
}

/// What is wrong with a snapshot file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {file}, offset {offset}: {problem}")]
pub struct BlockError {
    /// What the file should be.
    pub kind: &'static str,
    /// The file, as it was given to the reader.
    pub file: String,
    /// Where in it, in bytes from its start.
    pub offset: u64,
    /// What is wrong.
    pub problem: BlockProblem,
}

/// A way in which a snapshot file can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockProblem {
    /// It is something else.
    #[error("the file does not begin like one; it is something else, or damaged from its first byte")]
    Magic,
    /// A later build wrote it.
    #[error("the file has format version {0}, this build reads up to {SNAPSHOT_VERSION}; upgrade")]
    Newer(u32),
    /// The file ends before its footer.
    #[error("the file ends too early; it was not written to its end")]
    Truncated,
    /// A checksum does not fit.
    #[error("{0} is damaged: its checksum does not fit its bytes")]
    Checksum(&'static str),
    /// A length no build writes.
    #[error("{0} is damaged: its length cannot be {1}")]
    Length(&'static str, u64),
    /// Bytes follow the footer.
    #[error("bytes follow its end")]
    Trailing,
}

/// Writes a snapshot file.
#[derive(Debug)]
pub struct BlockWriter<W: Write> {
    out: W,
    block: Vec<u8>,
    whole: crc32fast::Hasher,
    body: u64,
    blocks: u32,
}

impl<W: Write> BlockWriter<W> {
    /// Opens a snapshot file with its header.
    pub fn new(out: W, header: &SnapshotHeader) -> io::Result<BlockWriter<W>> {
        BlockWriter::of_kind(SNAPSHOT, out, header)
    }

    pub(crate) fn of_kind(kind: FileKind, out: W, header: &SnapshotHeader) -> io::Result<BlockWriter<W>> {
        if header.membership.len() > MEMBERSHIP_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the membership is too long for a snapshot file"));
        }
        let mut bytes = Vec::with_capacity(FIXED_HEADER_LEN + header.membership.len() + 4);
        bytes.extend(kind.magic);
        bytes.extend(SNAPSHOT_VERSION.to_le_bytes());
        bytes.push(u8::from(header.last.is_some()));
        let last = header.last.unwrap_or_default();
        bytes.extend(last.leader.term.to_le_bytes());
        bytes.extend(last.leader.node.to_le_bytes());
        bytes.extend(last.index.to_le_bytes());
        bytes.extend((header.membership.len() as u32).to_le_bytes());
        bytes.extend(&header.membership);
        bytes.extend(checksum(&bytes).to_le_bytes());
        let mut writer = BlockWriter {
            out,
            block: Vec::with_capacity(BLOCK_LEN),
            whole: crc32fast::Hasher::new(),
            body: 0,
            blocks: 0,
        };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Writes what is left and the footer; the file is complete only after this.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_block()?;
        let mut footer = Vec::with_capacity(20);
        footer.extend(0u32.to_le_bytes());
        footer.extend(self.body.to_le_bytes());
        footer.extend(self.blocks.to_le_bytes());
        self.put(&footer)?;
        let whole = self.whole.clone().finalize();
        self.out.write_all(&whole.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        self.put(&(block.len() as u32).to_le_bytes())?;
        self.put(&block)?;
        self.put(&block_sum(&block).to_le_bytes())?;
        self.body += block.len() as u64;
        self.blocks += 1;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.whole.update(bytes);
        self.out.write_all(bytes)
    }
}

impl<W: Write> Write for BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK_LEN - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == BLOCK_LEN {
            self.end_block()?;
        }
        Ok(taken)
    }

    /// Does nothing: a block ends when it is full, so that equal states give equal files.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a snapshot file and verifies it on the way.
#[derive(Debug)]
pub struct BlockReader<R: Read> {
    from: R,
    kind: FileKind,
    file: String,
    offset: u64,
    header: SnapshotHeader,
    block: Vec<u8>,
    taken: usize,
    whole: crc32fast::Hasher,
    body: u64,
    blocks: u32,
    ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// Opens a snapshot file by reading its header; `file` is its name for errors.
    pub fn new(from: R, file: impl Into<String>) -> io::Result<BlockReader<R>> {
        BlockReader::of_kind(SNAPSHOT, from, file)
    }

    pub(crate) fn of_kind(kind: FileKind, from: R, file: impl Into<String>) -> io::Result<BlockReader<R>> {
        let mut reader = BlockReader {
            from,
            kind,
            file: file.into(),
            offset: 0,
            header: SnapshotHeader::default(),
            block: Vec::new(),
            taken: 0,
            whole: crc32fast::Hasher::new(),
            body: 0,
            blocks: 0,
            ended: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// Returns what the snapshot covers.
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// Verifies whatever was not read yet, to the very end.
    pub fn finish(mut self) -> io::Result<()> {
        while !self.ended {
            self.next_block()?;
        }
        Ok(())
    }

    fn read_header(&mut self) -> io::Result<()> {
        let fixed: [u8; FIXED_HEADER_LEN] = self.take()?;
        if &fixed[..8] != self.kind.magic {
            return Err(self.wrong(0, BlockProblem::Magic));
        }
        let version = u32_at(&fixed, 8);
        if version > SNAPSHOT_VERSION {
            return Err(self.wrong(8, BlockProblem::Newer(version)));
        }
        let length = u32_at(&fixed, FIXED_HEADER_LEN - 4) as usize;
        if length > MEMBERSHIP_MAX {
            return Err(self.wrong(FIXED_HEADER_LEN as u64 - 4, BlockProblem::Length("the header", length as u64)));
        }
        let mut membership = vec![0; length];
        self.fill(&mut membership)?;
        let computed = self.whole.clone().finalize();
        let stored = u32::from_le_bytes(self.take()?);
        // The version and the flag are inside the checksum: a zero version or a flag of 2 is damage.
        if stored != computed || version == 0 || fixed[12] > 1 {
            return Err(self.wrong(0, BlockProblem::Checksum("the header")));
        }
        let leader = LeaderId { term: u64_at(&fixed, 13), node: u64_at(&fixed, 21) };
        let last = (fixed[12] == 1).then(|| LogPosition { leader, index: u64_at(&fixed, 29) });
        self.header = SnapshotHeader { last, membership: membership.into() };
        Ok(())
    }

    fn next_block(&mut self) -> io::Result<()> {
        let start = self.offset;
        let length = u32::from_le_bytes(self.take()?) as usize;
        if length == 0 {
            return self.read_footer(start);
        }
        if length > BLOCK_LEN {
            return Err(self.wrong(start, BlockProblem::Length("a block", length as u64)));
        }
        let mut block = std::mem::take(&mut self.block);
        block.resize(length, 0);
        self.fill(&mut block)?;
        let stored = u32::from_le_bytes(self.take()?);
        if stored != block_sum(&block) {
            return Err(self.wrong(start, BlockProblem::Checksum("a block")));
        }
        self.body += length as u64;
        self.blocks += 1;
        self.block = block;
        self.taken = 0;
        Ok(())
    }

    fn read_footer(&mut self, start: u64) -> io::Result<()> {
        let body = u64::from_le_bytes(self.take()?);
        let blocks = u32::from_le_bytes(self.take()?);
        let computed = self.whole.clone().finalize();
        let stored = u32::from_le_bytes(self.take()?);
        if stored != computed || body != self.body || blocks != self.blocks {
            return Err(self.wrong(start, BlockProblem::Checksum("the whole file")));
        }
        if self.from.read(&mut [0])? > 0 {
            return Err(self.wrong(self.offset, BlockProblem::Trailing));
        }
        self.block.clear();
        self.taken = 0;
        self.ended = true;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, into: &mut [u8]) -> io::Result<()> {
        match self.from.read_exact(into) {
            Ok(()) => {
                self.whole.update(into);
                self.offset += into.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.wrong(self.offset, BlockProblem::Truncated))
            }
            Err(error) => Err(error),
        }
    }

    fn wrong(&self, offset: u64, problem: BlockProblem) -> io::Error {
        io::Error::new(
            io::ErrorKind::InvalidData,
            BlockError { kind: self.kind.name, file: self.file.clone(), offset, problem },
        )
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            if self.ended || into.is_empty() {
                return Ok(0);
            }
            self.next_block()?;
        }
        let taken = into.len().min(self.block.len() - self.taken);
        into[..taken].copy_from_slice(&self.block[self.taken..self.taken + taken]);
        self.taken += taken;
        Ok(taken)
    }
}

/// The length is part of a block's checksum, so a block cannot pass as a shorter one.
fn block_sum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(block.len() as u32).to_le_bytes());
    hasher.update(block);
    hasher.finalize()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"))
}
