//! Entries as they travel: a key, a value, their numbers.
//!
//! Keys and values are bytes. What is UTF-8 travels as text in `key` and `value`; what is not travels in
//! `key_base64` and `value_base64` (standard alphabet, padded). Exactly one of each pair is present.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_core::{EntryView, KEY_MAX, Key};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Digest, Id, Invalid};

/// An entry as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its key, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its key, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// Its value, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// How often it was put since it was created.
    pub version: u64,
    /// The revision that created it.
    pub created: u64,
    /// The revision that last changed it: what `If-Match` compares.
    pub modified: u64,
    /// The lease it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Digest>,
}

/// A part of a range of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntryList {
    /// The entries, by key.
    pub entries: Vec<Entry>,
    /// How many there are in the range from this part on.
    pub count: u64,
    /// What to send as `page` for the next part; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Puts an entry, in place of a raw body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// The value as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// The lease to bind it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Id>,
}

/// An entry that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PutAnswer {
    /// The revision of the put.
    pub revision: u64,
    /// How often it was put since it was created; absent in the answer to a repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Entries that were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeleteAnswer {
    /// The revision after it.
    pub revision: u64,
    /// How many were removed; absent in the answer to a repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
}

impl From<&EntryView> for Entry {
    fn from(view: &EntryView) -> Entry {
        let (key, key_base64) = bytes_fields(view.key.as_bytes());
        let (value, value_base64) = bytes_fields(&view.value);
        Entry {
            key,
            key_base64,
            value,
            value_base64,
            version: view.version,
            created: view.created.0,
            modified: view.modified.0,
            lease: view.lease.map(Digest::of),
        }
    }
}

impl Entry {
    /// The bytes of the value; none if it is damaged.
    pub fn value_bytes(&self) -> Option<Vec<u8>> {
        match (&self.value, &self.value_base64) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (None, Some(text)) => STANDARD.decode(text).ok(),
            (None, None) => None,
        }
    }
}

/// Bytes as they travel: as text, or else as base64.
pub fn bytes_fields(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The bytes of a pair of fields, if one of them is present.
pub(crate) fn bytes_of(
    field: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Arc<[u8]>>, Invalid> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Invalid::new(field, format!("give `{field}` or `{field}_base64`, not both"))),
        (Some(text), None) => Ok(Some(Arc::from(text.into_bytes()))),
        (None, Some(text)) => match STANDARD.decode(&text) {
            Ok(bytes) => Ok(Some(Arc::from(bytes))),
            Err(error) => Err(Invalid::new(format!("{field}_base64"), format!("it is not base64: {error}"))),
        },
        (None, None) => Ok(None),
    }
}

impl PutRequest {
    /// The bytes to put.
    pub fn into_value(self) -> Result<Arc<[u8]>, Invalid> {
        bytes_of("value", self.value, self.value_base64)?
            .ok_or_else(|| Invalid::new("value", "it is missing; give `value` or `value_base64`"))
    }
}

/// The smallest key after `key`; none if there is none.
pub fn key_after(key: &Key) -> Option<Key> {
    let mut bytes = key.as_bytes().to_vec();
    if bytes.len() < KEY_MAX {
        bytes.push(0);
        return Key::new(&bytes).ok();
    }
    // No longer key fits behind it: the next one is larger in its last byte that can grow.
    prefix_end(&bytes)
}

/// The smallest key that does not begin with `prefix` and follows all that do; none if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Key> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < 0xff {
            bytes.push(last + 1);
            return Key::new(&bytes).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn bytes_travel_as_text_where_they_can() {
        assert_eq!(bytes_fields(b"caf\xc3\xa9"), (Some("café".into()), None));
        assert_eq!(bytes_fields(b"\xff\x00"), (None, Some("/wA=".into())));
        assert_eq!(&*bytes_of("value", None, Some("/wA=".into())).unwrap().unwrap(), b"\xff\x00");
        assert_eq!(bytes_of("value", None, Some("%".into())).unwrap_err().field, "value_base64");
        assert!(bytes_of("value", Some("a".into()), Some("YQ==".into())).is_err());
    }

    #[test]
    fn the_next_key_leaves_no_gap() {
        assert_eq!(key_after(&key(b"a")), Some(key(b"a\0")));
        let longest = vec![b'x'; KEY_MAX];
        let mut next = longest.clone();
        next[KEY_MAX - 1] = b'y';
        assert_eq!(key_after(&key(&longest)), Some(key(&next)));
        assert_eq!(key_after(&key(&[0xff; KEY_MAX])), None);
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(prefix_end(b"a/"), Some(key(b"a0")));
        assert_eq!(prefix_end(b"a\xff"), Some(key(b"b")));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
