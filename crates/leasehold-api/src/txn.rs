//! Transactions: compare entries, then write one list or the other, all in one revision.
//!
//! ```json
//! {"compares":  [{"key": "config/a", "modified": 12}],
//!  "then":      [{"put": {"key": "config/a", "value": "new"}}, {"delete": {"prefix": "tmp/"}}],
//!  "otherwise": [{"read": {"key": "config/a"}}]}
//! ```

use std::sync::Arc;

use leasehold_core as core;
use leasehold_core::{Binding, Compare, Key, KeyRange, Operand, Revision, Write, WriteOp, WriteResult, Written};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::entry::bytes_of;
use crate::{Entry, EntryKey, Id, Invalid, once};

/// How many entries a read gives if it does not say.
const READ_LIMIT: u32 = 100;

/// Compares entries, then does one list of steps or the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TxnRequest {
    /// What must be true for `then`.
    #[serde(default)]
    pub compares: Vec<CompareRequest>,
    /// What to do if all compares hold.
    #[serde(default)]
    pub then: Vec<TxnOp>,
    /// What to do otherwise.
    #[serde(default)]
    pub otherwise: Vec<TxnOp>,
    /// What makes a repetition harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TxnSession>,
}

/// The lease and number that make the repetition of a write harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TxnSession {
    /// A living lease of the caller.
    pub lease: Id,
    /// The number of the command on that lease, rising; a repetition has the same one.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// The client has the outcomes of all commands up to this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked: Option<u64>,
}

/// One condition: on `key`, `key_base64`, `prefix`, or `from` (and `to`); on one of its properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub key: Option<String>,
    /// One key that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// All keys that begin so; the condition must hold for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All keys from this one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub from: Option<String>,
    /// Up to, not including, this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub to: Option<String>,
    /// How the entry's property stands to the value given; equal if absent.
    #[serde(default)]
    pub is: Relation,
    /// How often it was put since it was created; 0 if there is no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The revision that created it; 0 if there is no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// The revision that last changed it; 0 if there is no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// The id of the lease it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Id>,
}

/// How two values stand to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The same.
    #[default]
    Equal,
    /// Not the same.
    NotEqual,
    /// The entry's is smaller.
    Less,
    /// The entry's is larger.
    Greater,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TxnOp {
    /// Creates or replaces an entry.
    Put(PutOp),
    /// Removes entries.
    Delete(DeleteOp),
    /// Reads entries as they are at this step.
    Read(ReadOp),
}

/// Creates or replaces an entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutOp {
    /// The key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub key: Option<String>,
    /// A key that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// The value; without one the value stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// The lease to bind it to; without one it is bound to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Id>,
    /// Leaves it bound as it is.
    #[serde(default)]
    pub keep_lease: bool,
}

/// Removes entries: `key`, `key_base64`, `prefix`, or `from` (and `to`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteOp {
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub key: Option<String>,
    /// One key that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// All keys that begin so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All keys from this one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub from: Option<String>,
    /// Up to, not including, this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub to: Option<String>,
}

/// Reads entries: `key`, `key_base64`, `prefix`, or `from` (and `to`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOp {
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub key: Option<String>,
    /// One key that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// All keys that begin so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All keys from this one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub from: Option<String>,
    /// Up to, not including, this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EntryKey>)]
    pub to: Option<String>,
    /// At most this many; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TxnAnswer {
    /// Whether all compares held, so that `then` was done.
    pub succeeded: bool,
    /// The revision after it.
    pub revision: u64,
    /// A result for each step; empty in the answer to a repetition.
    pub results: Vec<TxnResult>,
}

/// What one step did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TxnResult {
    /// The entry was put.
    Put {
        /// The entry it replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous: Option<Entry>,
    },
    /// The entries were removed.
    Delete {
        /// As they were.
        previous: Vec<Entry>,
    },
    /// The entries that were read.
    Read {
        /// Those within the limit.
        entries: Vec<Entry>,
        /// How many there are in all.
        count: u64,
    },
}

impl TxnRequest {
    /// The command that is asked for.
    pub fn into_write(self) -> Result<Write, Invalid> {
        Ok(Write {
            session: self.session.map(TxnSession::into_pair).transpose()?.flatten(),
            compares: numbered("compares", self.compares, CompareRequest::into_compare)?,
            then: numbered("then", self.then, TxnOp::into_op)?,
            otherwise: numbered("otherwise", self.otherwise, TxnOp::into_op)?,
        })
    }
}

impl TxnSession {
    /// The lease and number, as the core takes them.
    pub fn into_pair(self) -> Result<Option<(core::LeaseId, core::Once)>, Invalid> {
        Ok(once(Some(self.seq), self.acked)?.map(|once| (self.lease.0, once)))
    }
}

/// Converts each item of a list; what is wrong is blamed on its place there.
fn numbered<A, B>(list: &str, items: Vec<A>, convert: impl Fn(A) -> Result<B, Invalid>) -> Result<Vec<B>, Invalid> {
    let blame = |i: usize, invalid: Invalid| Invalid { field: format!("{list}[{i}].{}", invalid.field), ..invalid };
    items.into_iter().enumerate().map(|(i, item)| convert(item).map_err(|invalid| blame(i, invalid))).collect()
}

/// One key, from its pair of fields.
fn key_of(text: Option<String>, base64: Option<String>) -> Result<Option<Key>, Invalid> {
    let Some(bytes) = bytes_of("key", text, base64)? else { return Ok(None) };
    Key::new(&bytes).map(Some).map_err(|reason| Invalid::name("key", &String::from_utf8_lossy(&bytes), reason))
}

/// The range that exactly one of `key`, `prefix` and `from` (with or without `to`) names.
pub fn range_of(
    key: Option<Key>,
    prefix: Option<String>,
    from: Option<String>,
    to: Option<String>,
) -> Result<KeyRange, Invalid> {
    let bound =
        |field: &str, text: String| Key::new(text.as_bytes()).map_err(|reason| Invalid::name(field, &text, reason));
    match (key, prefix, from, to) {
        (Some(key), None, None, None) => Ok(KeyRange::One(key)),
        (None, Some(prefix), None, None) => Ok(KeyRange::Prefix(Arc::from(prefix.into_bytes()))),
        (None, None, Some(from), None) => Ok(KeyRange::From(bound("from", from)?)),
        (None, None, Some(from), Some(to)) => Ok(KeyRange::Between(bound("from", from)?, bound("to", to)?)),
        (None, None, None, Some(_)) => Err(Invalid::new("to", "it goes with `from`")),
        (None, None, None, None) => Err(Invalid::new("key", "name a `key`, a `prefix`, or `from` (and `to`)")),
        (_, _, _, _) => Err(Invalid::new("key", "name only one of `key`, `prefix`, and `from` (with `to`)")),
    }
}

impl CompareRequest {
    fn into_compare(self) -> Result<Compare, Invalid> {
        let value = bytes_of("value", self.value, self.value_base64)?;
        let mut operands = [
            self.version.map(Operand::Version),
            self.created.map(|revision| Operand::Created(Revision(revision))),
            self.modified.map(|revision| Operand::Modified(Revision(revision))),
            value.map(Operand::Value),
            self.lease.map(|id| Operand::Lease(id.0.number())),
        ]
        .into_iter()
        .flatten();
        let (Some(operand), None) = (operands.next(), operands.next()) else {
            return Err(Invalid::new("is", "compare exactly one of version, created, modified, value and lease"));
        };
        let range = range_of(key_of(self.key, self.key_base64)?, self.prefix, self.from, self.to)?;
        Ok(Compare { range, relation: self.is.into(), operand })
    }
}

impl TxnOp {
    fn into_op(self) -> Result<WriteOp, Invalid> {
        Ok(match self {
            TxnOp::Put(put) => WriteOp::Put {
                key: key_of(put.key, put.key_base64)?.ok_or_else(|| Invalid::new("key", "it is missing"))?,
                value: bytes_of("value", put.value, put.value_base64)?,
                binding: match (put.lease, put.keep_lease) {
                    (None, false) => Binding::None,
                    (None, true) => Binding::Keep,
                    (Some(id), false) => Binding::To(id.0),
                    (Some(_), true) => return Err(Invalid::new("lease", "give `lease` or `keep_lease`, not both")),
                },
            },
            TxnOp::Delete(op) => {
                WriteOp::Delete { range: range_of(key_of(op.key, op.key_base64)?, op.prefix, op.from, op.to)? }
            }
            TxnOp::Read(op) => WriteOp::Read {
                range: range_of(key_of(op.key, op.key_base64)?, op.prefix, op.from, op.to)?,
                limit: op.limit.unwrap_or(READ_LIMIT),
            },
        })
    }
}

impl From<Relation> for core::Relation {
    fn from(relation: Relation) -> core::Relation {
        match relation {
            Relation::Equal => core::Relation::Equal,
            Relation::NotEqual => core::Relation::NotEqual,
            Relation::Less => core::Relation::Less,
            Relation::Greater => core::Relation::Greater,
        }
    }
}

impl From<&Written> for TxnAnswer {
    fn from(written: &Written) -> TxnAnswer {
        let all = |entries: &[core::EntryView]| entries.iter().map(Entry::from).collect();
        TxnAnswer {
            succeeded: written.succeeded,
            revision: written.revision.0,
            results: written
                .results
                .iter()
                .map(|result| match result {
                    WriteResult::Put { previous } => TxnResult::Put { previous: previous.as_ref().map(Entry::from) },
                    WriteResult::Deleted { previous } => TxnResult::Delete { previous: all(previous) },
                    WriteResult::Read { entries, count } => TxnResult::Read { entries: all(entries), count: *count },
                    WriteResult::Nested(_) => unreachable!("this API nests no writes"),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(json: &str) -> Result<Write, Invalid> {
        serde_json::from_str::<TxnRequest>(json).unwrap().into_write()
    }

    #[test]
    fn a_transaction_becomes_a_write() {
        let found = write(
            r#"{"compares":[{"key":"a","modified":12},{"prefix":"b/","is":"greater","version":0}],
                "then":[{"put":{"key":"a","value":"x","keep_lease":true}},{"delete":{"from":"c","to":"d"}}],
                "otherwise":[{"read":{"key":"a"}}],
                "session":{"lease":"0000000000000001","seq":4,"acked":3}}"#,
        )
        .unwrap();
        assert_eq!(found.compares[0].operand, Operand::Modified(Revision(12)));
        assert_eq!(found.compares[1].relation, core::Relation::Greater);
        assert!(matches!(&found.then[0], WriteOp::Put { binding: Binding::Keep, .. }));
        assert!(matches!(&found.then[1], WriteOp::Delete { range: KeyRange::Between(..) }));
        assert!(matches!(&found.otherwise[0], WriteOp::Read { limit: READ_LIMIT, .. }));
        assert_eq!(found.session.unwrap().1, core::Once { seq: 4, acked: 3 });
    }

    #[test]
    fn the_step_that_is_wrong_is_named() {
        for (json, field) in [
            (r#"{"compares":[{"key":"a"}]}"#, "compares[0].is"),
            (r#"{"compares":[{"key":"a","version":1,"created":1}]}"#, "compares[0].is"),
            (r#"{"then":[{"put":{"value":"x"}}]}"#, "then[0].key"),
            (r#"{"then":[{"delete":{"to":"x"}}]}"#, "then[0].to"),
            (r#"{"then":[{"delete":{"key":"x","prefix":"x"}}]}"#, "then[0].key"),
            (r#"{"otherwise":[{"read":{"from":"","to":"b"}}]}"#, "otherwise[0].from"),
        ] {
            assert_eq!(write(json).unwrap_err().field, field, "{json}");
        }
    }
}
