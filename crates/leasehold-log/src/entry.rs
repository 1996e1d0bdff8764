//! The payload of one replicated log entry: commands packed under one stamp.
//!
//! A header of fixed size comes first, so that a [`Pack`] can be filled before its stamp is known and sealed
//! once the clock was read. Each command follows after its length. An entry without commands is a tick. The
//! bytes carry no checksum of their own: the log record around them does. See docs/formats/entry.md.

use leasehold_core::{LeaderId, LeaseTime, Request, Stamp, WallTime};

use crate::command::{decode_request, encode_request};
use crate::wire::{FormatError, Reader};

/// The format of entries that this release writes.
pub const ENTRY_VERSION: u8 = 1;

/// Commands under one stamp: the only kind of entry so far.
const KIND_COMMANDS: u8 = 1;

/// Version, kind, term, node, now, wall, count.
const HEADER: usize = 1 + 1 + 8 + 8 + 8 + 8 + 4;

/// Commands on their way into one log entry, encoded as they come.
#[derive(Clone, Debug)]
pub struct Pack {
    bytes: Vec<u8>,
    count: u32,
}

impl Default for Pack {
    fn default() -> Self {
        Self::new()
    }
}

impl Pack {
    /// Begins without commands.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Begins without commands, with room for `commands` bytes of them.
    pub fn with_capacity(commands: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + commands);
        bytes.resize(HEADER, 0); // Version 0 was never written: an unsealed pack does not open.
        Self { bytes, count: 0 }
    }

    /// Adds a command.
    pub fn push(&mut self, request: &Request) {
        encode_request(request, &mut self.bytes);
        self.count += 1;
    }

    /// Adds `count` commands that [`encode_request`] wrote one after the other.
    pub fn append(&mut self, encoded: &[u8], count: u32) {
        self.bytes.extend_from_slice(encoded);
        self.count += count;
    }

    /// Adds the commands of another pack.
    pub fn absorb(&mut self, other: &Pack) {
        self.append(&other.bytes[HEADER..], other.count);
    }

    /// How many bytes the entry would have.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many commands it has.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Tells whether it has no commands: sealed so, it is a tick.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts the stamp on and gives the payload of the entry.
    pub fn seal(mut self, stamp: Stamp) -> Vec<u8> {
        self.bytes[0] = ENTRY_VERSION;
        self.bytes[1] = KIND_COMMANDS;
        self.bytes[2..10].copy_from_slice(&stamp.leader.term.to_le_bytes());
        self.bytes[10..18].copy_from_slice(&stamp.leader.node.to_le_bytes());
        self.bytes[18..26].copy_from_slice(&stamp.now.0.to_le_bytes());
        self.bytes[26..34].copy_from_slice(&stamp.wall.0.to_le_bytes());
        self.bytes[34..HEADER].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }
}

/// Opens the payload of an entry: its stamp, and its commands to be read one by one.
///
/// The count and the lengths of all commands are checked here, what is in them when they are read. Read all
/// commands before the first is applied: damage in the last one must not leave half of an entry's effects.
pub fn open(bytes: &[u8]) -> Result<(Stamp, Requests<'_>), FormatError> {
    let mut from = Reader::new(bytes);
    check_version(&mut from, "the log entry", ENTRY_VERSION)?;
    let start = from.clone();
    if from.byte("kind of an entry")? != KIND_COMMANDS {
        return Err(start.damaged("kind of an entry", "has an unknown number"));
    }
    let mut fixed = |what| from.array(what).map(u64::from_le_bytes);
    let leader = LeaderId { term: fixed("term")?, node: fixed("node")? };
    let stamp = Stamp { leader, now: LeaseTime(fixed("lease time")?), wall: WallTime(fixed("wall time")?) };
    let count = u32::from_le_bytes(from.array("count of commands")?);
    let mut frames = from.clone();
    for _ in 0..count {
        frames.framed("command")?;
    }
    frames.finish("the log entry")?;
    Ok((stamp, Requests { from, left: count as usize }))
}

/// Checks the byte that everything durable begins with.
pub(crate) fn check_version(from: &mut Reader<'_>, what: &'static str, supported: u8) -> Result<(), FormatError> {
    let start = from.clone();
    match from.byte(what)? {
        0 => Err(start.damaged(what, "has format 0, which no release has written")),
        found if found > supported => {
            Err(FormatError::NewerVersion { what, found: u64::from(found), supported: u64::from(supported) })
        }
        _ => Ok(()),
    }
}

/// The commands of an entry, read one by one; nothing comes after an error.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    from: Reader<'a>,
    left: usize,
}

impl Iterator for Requests<'_> {
    type Item = Result<Request, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let request = decode_request(&mut self.from);
        if request.is_err() {
            self.left = 0;
        }
        Some(request)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Requests<'_> {}

impl std::iter::FusedIterator for Requests<'_> {}
