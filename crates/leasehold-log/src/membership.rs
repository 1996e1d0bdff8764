//! Who belongs to the cluster, in durable form: the voters (two sets while membership changes), every node's
//! address, and the log position at which this was decided. Carried by membership records and snapshot headers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use bytes::{BufMut, Bytes};

use crate::record::{self, LogPosition, RECORD_VERSION, RecordError};

const WHAT: &str = "membership";
/// More than any cluster has; bounds what damaged bytes can ask for.
const COUNT_MAX: u32 = 4096;
const ADDRESS_MAX: u32 = 4096;

/// The members of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Where it stands in the log; none for an empty cluster.
    pub at: Option<LogPosition>,
    /// The voters; two sets during a change.
    pub voters: Vec<BTreeSet<u64>>,
    /// Every node, voter or learner, with its address.
    pub nodes: BTreeMap<u64, String>,
}

impl Membership {
    /// Returns the durable form.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = vec![RECORD_VERSION, u8::from(self.at.is_some())];
        if let Some(at) = &self.at {
            at.write(&mut out).expect("writing to memory does not fail");
        }
        out.put_u32_le(self.voters.len() as u32);
        for set in &self.voters {
            out.put_u32_le(set.len() as u32);
            set.iter().for_each(|node| out.put_u64_le(*node));
        }
        out.put_u32_le(self.nodes.len() as u32);
        for (node, address) in &self.nodes {
            out.put_u64_le(*node);
            out.put_u32_le(address.len() as u32);
            out.put_slice(address.as_bytes());
        }
        out.into()
    }

    /// Reads the durable form; all of `bytes` must belong to it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Membership, RecordError> {
        let mut from = bytes;
        record::check_version(WHAT, number::<1>(&mut from)?[0])?;
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
            nodes.insert(node(&mut from)?, address(&mut from)?);
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

fn address(from: &mut &[u8]) -> Result<String, RecordError> {
    let length = count(from, "address length", ADDRESS_MAX)?;
    let mut bytes = Vec::new();
    if from.by_ref().take(length.into()).read_to_end(&mut bytes)? < length as usize {
        return Err(RecordError::Truncated { what: WHAT });
    }
    String::from_utf8(bytes).map_err(|error| RecordError::Field {
        what: WHAT,
        field: "address byte",
        found: error.as_bytes().get(error.utf8_error().valid_up_to()).copied().unwrap_or(0).into(),
    })
}
