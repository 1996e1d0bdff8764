//! The payload of one replicated log entry: commands packed under one stamp.
//!
//! A header of fixed size comes first, so that a [`Pack`] can be filled before its stamp is known and sealed
//! once the clock was read. Each command follows after its length. An entry without commands is a tick. A parcel has
//! the same layout without a stamp: it travels from the node that took the commands to the leader, and is no entry
//! before that one has sealed it. The bytes carry no checksum of their own: the log record or the frame around them
//! does. See docs/formats/entry.md.

use leasehold_core::planted::{self, Bug};
use leasehold_core::{LeaderId, LeaseTime, Request, Stamp, WallTime};

use crate::command::{decode_request, encode_request, first_version};
use crate::wire::{FormatError, Reader};

/// The newest format of entries that this release reads. It writes the oldest one that can say what there is: version 3
/// brought grants anew, markers and nested writes. Version 1 had no origin and is only read.
pub const ENTRY_VERSION: u8 = 3;
const FIRST_WRITTEN: u8 = 2;

/// Commands under one stamp.
const KIND_COMMANDS: u8 = 1;
/// Commands without a stamp, on their way to the leader. Never in the log.
const KIND_PARCEL: u8 = 2;

/// Version, kind, term, node, now, wall, run, number, count.
const HEADER: usize = 1 + 1 + 8 + 8 + 8 + 8 + 8 + 8 + 4;
/// Where the stamp stands.
const STAMP: std::ops::Range<usize> = 2..2 + 4 * 8;

/// Which commands an entry carries: the node that took them knows its own by it when it applies them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The process that took the commands: a random number, 0 if it is not told.
    pub run: u64,
    /// Which of its parcels, rising.
    pub number: u64,
}

/// Commands on their way into one log entry, encoded as they come.
#[derive(Clone, Debug)]
pub struct Pack {
    bytes: Vec<u8>,
    count: u32,
    version: u8,
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
        Self { bytes, count: 0, version: FIRST_WRITTEN }
    }

    /// Adds a command.
    pub fn push(&mut self, request: &Request) {
        encode_request(request, &mut self.bytes);
        self.count += 1;
        self.version = self.version.max(first_version(&request.command));
    }

    /// Adds `count` commands that [`encode_request`] wrote one after the other.
    pub fn append(&mut self, encoded: &[u8], count: u32) {
        self.bytes.extend_from_slice(encoded);
        self.count += count;
    }

    /// Adds the commands of another pack.
    pub fn absorb(&mut self, other: &Pack) {
        self.append(&other.bytes[HEADER..], other.count);
        self.version = self.version.max(other.version);
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
    pub fn seal(self, stamp: Stamp, origin: Origin) -> Vec<u8> {
        self.finish(KIND_COMMANDS, stamp, origin)
    }

    /// Gives the commands without a stamp, to be sent to the leader.
    pub fn parcel(self, origin: Origin) -> Vec<u8> {
        self.finish(KIND_PARCEL, Stamp::default(), origin)
    }

    fn finish(mut self, kind: u8, stamp: Stamp, origin: Origin) -> Vec<u8> {
        self.bytes[0] = self.version;
        self.bytes[1] = kind;
        let words = [stamp.leader.term, stamp.leader.node, stamp.now.0, stamp.wall.0, origin.run, origin.number];
        let stamped = planted::is(Bug::ForeignEntryCounts) && self.bytes[STAMP].iter().any(|byte| *byte != 0);
        for (place, word) in self.bytes[2..HEADER - 4].chunks_exact_mut(8).zip(words).skip(if stamped { 4 } else { 0 })
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.bytes[HEADER - 4..HEADER].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }

    /// Takes the commands of a parcel or of a sealed entry out again; whatever stamp it had is gone.
    ///
    /// Every command is read, so that what cannot be applied is refused here and never reaches the log.
    pub fn unpack(bytes: &[u8]) -> Result<(Pack, Origin), FormatError> {
        let head = Head::read(bytes)?;
        let count = head.requests.left as u32;
        let mut version = FIRST_WRITTEN;
        for request in head.requests {
            version = version.max(first_version(&request?.command));
        }
        let mut pack = Pack::with_capacity(head.commands.len());
        pack.version = version;
        pack.append(head.commands, count);
        if planted::is(Bug::ForeignEntryCounts) {
            pack.bytes[STAMP].copy_from_slice(&bytes[STAMP]);
        }
        Ok((pack, head.origin))
    }
}

/// What stands in the header of an entry or a parcel, checked.
struct Head<'a> {
    kind: u8,
    stamp: Stamp,
    origin: Origin,
    commands: &'a [u8],
    requests: Requests<'a>,
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8]) -> Result<Head<'a>, FormatError> {
        let mut from = Reader::new(bytes);
        let version = check_version(&mut from, "the log entry", ENTRY_VERSION)?;
        let start = from.clone();
        let kind = from.byte("kind of an entry")?;
        if kind != KIND_COMMANDS && (kind != KIND_PARCEL || version == 1) {
            return Err(start.damaged("kind of an entry", "has an unknown number"));
        }
        let mut fixed = |what| from.array(what).map(u64::from_le_bytes);
        let leader = LeaderId { term: fixed("term")?, node: fixed("node")? };
        let stamp = Stamp { leader, now: LeaseTime(fixed("lease time")?), wall: WallTime(fixed("wall time")?) };
        let origin = match version {
            1 => Origin::default(),
            _ => Origin { run: fixed("run of the origin")?, number: fixed("number of the origin")? },
        };
        let count = u32::from_le_bytes(from.array("count of commands")?);
        let mut frames = from.clone();
        for _ in 0..count {
            frames.framed("command")?;
        }
        frames.finish("the log entry")?;
        let commands = &bytes[from.offset()..];
        Ok(Head { kind, stamp, origin, commands, requests: Requests { from, left: count as usize } })
    }
}

/// An opened entry.
#[derive(Clone, Debug)]
pub struct Opened<'a> {
    /// Who stamped it, and when.
    pub stamp: Stamp,
    /// Which commands it carries.
    pub origin: Origin,
    /// The commands, to be read one by one.
    pub requests: Requests<'a>,
}

/// Opens the payload of an entry: its stamp, its origin, and its commands to be read one by one.
///
/// The count and the lengths of all commands are checked here, what is in them when they are read. Read all
/// commands before the first is applied: damage in the last one must not leave half of an entry's effects.
pub fn open(bytes: &[u8]) -> Result<Opened<'_>, FormatError> {
    let head = Head::read(bytes)?;
    if head.kind != KIND_COMMANDS {
        return Err(Reader::new(&bytes[1..]).damaged("kind of an entry", "is a parcel, which no leader has stamped"));
    }
    Ok(Opened { stamp: head.stamp, origin: head.origin, requests: head.requests })
}

/// Checks the byte that everything durable begins with.
pub(crate) fn check_version(from: &mut Reader<'_>, what: &'static str, supported: u8) -> Result<u8, FormatError> {
    let start = from.clone();
    match from.byte(what)? {
        0 => Err(start.damaged(what, "has format 0, which no release has written")),
        found if found > supported => {
            Err(FormatError::NewerVersion { what, found: u64::from(found), supported: u64::from(supported) })
        }
        found => Ok(found),
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
