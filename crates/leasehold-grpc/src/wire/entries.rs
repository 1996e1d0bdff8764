//! Entries and ranges of keys.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_api::grpc::{
    Condition, DeleteResult, Entry, KeyRange, PutResult, ReadResult, StepResult, TxnResponse, condition, key_range,
    step_result,
};
use leasehold_api::{Digest, Invalid};
use leasehold_core as core;
use leasehold_core::{Compare, EntryView, Key, Operand, Relation, Revision, WriteResult, Written};

pub(crate) fn key(field: &str, bytes: &[u8]) -> Result<Key, Invalid> {
    Key::new(bytes).map_err(|reason| Invalid::name(field, &String::from_utf8_lossy(bytes), reason))
}

/// The range that a message names.
pub(crate) fn range(range: Option<KeyRange>) -> Result<core::KeyRange, Invalid> {
    match range.and_then(|range| range.which) {
        Some(key_range::Which::Key(bytes)) => Ok(core::KeyRange::One(key("key", &bytes)?)),
        Some(key_range::Which::Prefix(bytes)) => Ok(core::KeyRange::Prefix(Arc::from(&bytes[..]))),
        Some(key_range::Which::Span(span)) => {
            let from = key("from", &span.from)?;
            Ok(match span.to {
                Some(to) => core::KeyRange::Between(from, key("to", &to)?),
                None => core::KeyRange::From(from),
            })
        }
        None => Err(Invalid::new("range", "name a `key`, a `prefix`, or a `span`")),
    }
}

/// What must be true of the entry `key` before it is written.
pub(crate) fn compares(condition: Option<Condition>, key: &Key) -> Result<Vec<Compare>, Invalid> {
    let compare = |relation, operand| vec![Compare { range: core::KeyRange::One(key.clone()), relation, operand }];
    match condition {
        None => Ok(Vec::new()),
        Some(Condition { must: Some(must) }) => Ok(match must {
            condition::Must::Modified(revision) => compare(Relation::Equal, Operand::Modified(Revision(revision))),
            condition::Must::Present(_) => compare(Relation::Greater, Operand::Version(0)),
            condition::Must::Absent(_) => compare(Relation::Equal, Operand::Version(0)),
        }),
        Some(Condition { must: None }) => {
            Err(Invalid::new("condition", "it says nothing; give `modified`, `present` or `absent`"))
        }
    }
}

pub(crate) fn entry(view: &EntryView) -> Entry {
    Entry {
        key: Bytes::copy_from_slice(view.key.as_bytes()),
        value: Bytes::from_owner(Arc::clone(&view.value)),
        version: view.version,
        created: view.created.0,
        modified: view.modified.0,
        lease: view.lease.map(|lease| Digest::of(lease).to_string()),
    }
}

pub(crate) fn written(written: &Written) -> TxnResponse {
    TxnResponse {
        succeeded: written.succeeded,
        revision: written.revision.0,
        results: written.results.iter().map(result).collect(),
    }
}

fn result(result: &WriteResult) -> StepResult {
    let entries = |views: &[EntryView]| views.iter().map(entry).collect();
    let result = match result {
        WriteResult::Put { previous } => step_result::Result::Put(PutResult { previous: previous.as_ref().map(entry) }),
        WriteResult::Deleted { previous } => step_result::Result::Delete(DeleteResult { previous: entries(previous) }),
        WriteResult::Read { entries: found, count } => {
            step_result::Result::Read(ReadResult { entries: entries(found), count: *count })
        }
        WriteResult::Nested(_) => unreachable!("this API nests no writes"),
    };
    StepResult { result: Some(result) }
}
