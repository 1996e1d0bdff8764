//! Keys and ranges of keys, between their form in etcd and ours.

use bytes::Bytes;
use leasehold_core::{EntryView, Former, Key, KeyRange, Revision};
use tonic::Status;

use crate::dialect::{key, lease_number, number};
use crate::proto::mvccpb::KeyValue;

/// The end of a range that has none.
const NO_END: &[u8] = &[0];

/// The range that a first key and the key behind the last one tell of; none if it is empty.
pub(crate) fn range(first: &[u8], end: &[u8]) -> Result<Option<KeyRange>, Status> {
    let first = key(first)?;
    if end.is_empty() {
        return Ok(Some(KeyRange::One(first)));
    }
    if end == NO_END {
        return Ok(Some(KeyRange::From(first)));
    }
    let end = key(end)?;
    Ok((first < end).then_some(KeyRange::Between(first, end)))
}

/// An entry as etcd tells of it.
pub(crate) fn key_value(entry: &EntryView) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(entry.key.as_bytes()),
        create_revision: number(entry.created),
        mod_revision: number(entry.modified),
        version: entry.version as i64,
        value: Bytes::copy_from_slice(&entry.value),
        lease: lease_number(entry.lease),
    }
}

/// An entry as it was.
pub(crate) fn former(key: &Key, former: &Former) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        create_revision: number(former.created),
        mod_revision: number(former.modified),
        version: former.version as i64,
        value: Bytes::copy_from_slice(&former.value),
        lease: lease_number(former.lease),
    }
}

/// What is told of a deleted entry: its key, and when it went.
pub(crate) fn deleted(key: &Key, at: Revision) -> KeyValue {
    KeyValue { key: Bytes::copy_from_slice(key.as_bytes()), mod_revision: number(at), ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_one_key_an_end_or_none() {
        let key = |text: &str| Key::new(text.as_bytes()).unwrap();
        assert_eq!(range(b"a", b"").unwrap(), Some(KeyRange::One(key("a"))));
        assert_eq!(range(b"a", b"\0").unwrap(), Some(KeyRange::From(key("a"))));
        assert_eq!(range(b"a", b"b").unwrap(), Some(KeyRange::Between(key("a"), key("b"))));
        assert_eq!(range(b"b", b"a").unwrap(), None);
        assert_eq!(range(b"a", b"a").unwrap(), None);
        assert_eq!(range(b"", b"a").unwrap_err().message(), "etcdserver: key is not provided");
        assert!(range(&[b'x'; 2000], b"").unwrap_err().message().contains("2000 bytes"));
    }
}
