//! Who belongs to the cluster, in durable form: the voters (two sets while membership changes), every node's name,
//! address and data directory, and the log position at which this was decided. Carried by membership records and
//! snapshot headers. Version 2 is written; version 1, which knew addresses only, is still read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use bytes::{BufMut, Bytes};

use crate::record::{self, LogPosition, RecordError};

/// The version this build writes, and the newest it reads.
pub const MEMBERSHIP_VERSION: u8 = 2;

const WHAT: &str = "membership";
/// More than any cluster has; bounds what damaged bytes can ask for.
const COUNT_MAX: u32 = 4096;
const ADDRESS_MAX: u32 = 4096;
const NAME_MAX: u32 = 256;

/// One node of a cluster, as all know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its name, for people.
    pub name: String,
    /// Where other nodes reach it; empty for a node that meets none.
    pub address: String,
    /// The random number of its data directory; 0 while it is not known.
    pub incarnation: u64,
}

/// The members of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Where it stands in the log; none for an empty cluster.
    pub at: Option<LogPosition>,
    /// The voters; two sets during a change.
    pub voters: Vec<BTreeSet<u64>>,
    /// Every node, voter or learner.
    pub nodes: BTreeMap<u64, Member>,
}

impl Membership {
    /// Returns the durable form.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = vec![MEMBERSHIP_VERSION, u8::from(self.at.is_some())];
        if let Some(at) = &self.at {
            at.write(&mut out).expect("writing to memory does not fail");
        }
        out.put_u32_le(self.voters.len() as u32);
        for set in &self.voters {
            out.put_u32_le(set.len() as u32);
            set.iter().for_each(|node| out.put_u64_le(*node));
        }
        out.put_u32_le(self.nodes.len() as u32);
        for (node, member) in &self.nodes {
            out.put_u64_le(*node);
            put_text(&mut out, &member.address);
            put_text(&mut out, &member.name);
            out.put_u64_le(member.incarnation);
        }
        out.into()
    }

    /// Reads the durable form; all of `bytes` must belong to it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Membership, RecordError> {
        let mut from = bytes;
        let version = number::<1>(&mut from)?[0];
        match version {
            1 | MEMBERSHIP_VERSION => {}
            0 => return Err(RecordError::Field { what: WHAT, field: "version", found: 0 }),
            found => return Err(RecordError::Newer { what: WHAT, found, known: MEMBERSHIP_VERSION }),
        }
        let at = match number::<1>(&mut from)?[0] {
            0 => None,
            1 => Some(LogPosition::read(&mut from)?),
            found => return Err(RecordError::Field { what: WHAT, field: "position flag", found: found.into() }),
        };
        let mut voters = Vec::new();
        for _ in 0..count(&mut from, "voter sets", COUNT_MAX)? {
            let voters_in_set = count(&mut from, "voters", COUNT_MAX)?;
            voters.push((0..voters_in_set).map(|_| node(&mut from)).collect::<Result<_, _>>()?);
        }
        let mut nodes = BTreeMap::new();
        for _ in 0..count(&mut from, "nodes", COUNT_MAX)? {
            let id = node(&mut from)?;
            nodes.insert(id, member(&mut from, id, version)?);
        }
        if !from.is_empty() {
            return Err(RecordError::Field { what: WHAT, field: "trailing bytes", found: from.len() as u64 });
        }
        Ok(Membership { at, voters, nodes })
    }
}

fn number<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], RecordError> {
    let mut bytes = [0; N];
    record::read_exact(from, &mut bytes, WHAT)?;
    Ok(bytes)
}

fn node(from: &mut &[u8]) -> Result<u64, RecordError> {
    Ok(u64::from_le_bytes(number(from)?))
}

fn count(from: &mut &[u8], field: &'static str, max: u32) -> Result<u32, RecordError> {
    let found = u32::from_le_bytes(number(from)?);
    if found > max { Err(RecordError::Field { what: WHAT, field, found: found.into() }) } else { Ok(found) }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.put_u32_le(text.len() as u32);
    out.put_slice(text.as_bytes());
}

/// A node of version 1 has no name but its id.
fn member(from: &mut &[u8], id: u64, version: u8) -> Result<Member, RecordError> {
    let address = text(from, "address length", ADDRESS_MAX)?;
    if version == 1 {
        return Ok(Member { name: id.to_string(), address, incarnation: 0 });
    }
    Ok(Member { address, name: text(from, "name length", NAME_MAX)?, incarnation: node(from)? })
}

fn text(from: &mut &[u8], field: &'static str, max: u32) -> Result<String, RecordError> {
    let length = count(from, field, max)?;
    let mut bytes = Vec::new();
    if from.by_ref().take(length.into()).read_to_end(&mut bytes)? < length as usize {
        return Err(RecordError::Truncated { what: WHAT });
    }
    String::from_utf8(bytes).map_err(|error| RecordError::Field {
        what: WHAT,
        field: "byte of a text",
        found: error.as_bytes().get(error.utf8_error().valid_up_to()).copied().unwrap_or(0).into(),
    })
}
