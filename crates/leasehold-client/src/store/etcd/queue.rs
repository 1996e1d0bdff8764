//! The queue of a resource: its keys in the order of their creation. The first one holds.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_core::LeaseId;
use serde_json::{Value, json};

use super::super::Wish;
use super::super::foreign::Note;
use super::gateway::{base64, number, text};

/// The holder and the waiters of a resource.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// The revision at which it was so.
    pub(super) revision: u64,
    pub(super) places: Vec<Place>,
}

/// One place in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) lease: LeaseId,
    /// The revision that created it.
    pub(super) token: u64,
    pub(super) note: Note,
    /// When it entered, by its holder's wall clock.
    pub(super) since_ms: u64,
}

impl Queue {
    /// Reads the answer to a range.
    pub(super) fn read(answer: &Value) -> Queue {
        let kvs = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        let revision = u64::try_from(number(&answer["header"]["revision"])).unwrap_or(0);
        Queue { revision, places: kvs.iter().filter_map(Place::read).collect() }
    }
}

impl Place {
    /// Reads a key and its value; what does not end with a lease id was not written by this store.
    fn read(kv: &Value) -> Option<Place> {
        let key = text(&kv["key"]);
        let lease = u64::from_str_radix(key.rsplit('/').next()?, 16).ok().and_then(LeaseId::new)?;
        let value = text(&kv["value"]);
        let written: Value = serde_json::from_str(&value).unwrap_or_default();
        Some(Place {
            lease,
            token: u64::try_from(number(&kv["create_revision"])).unwrap_or(0),
            note: Note::read(&value),
            since_ms: written["since_ms"].as_u64().unwrap_or(0),
        })
    }
}

/// What is written at a place: the note, and since when.
pub(super) fn note(wish: &Wish) -> String {
    let mut note: Value = serde_json::from_str(&Note::of(wish)).unwrap_or_default();
    note["since_ms"] = json!(wall_ms());
    note.to_string()
}

/// Wall time in milliseconds since 1970, for people.
pub(super) fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(0)
}

/// Asks for a whole queue.
pub(super) fn range(queue: &str) -> Value {
    json!({
        "key": base64(queue), "range_end": base64(&end(queue)), "sort_order": "ASCEND", "sort_target": "CREATE",
    })
}

/// Asks for its first place.
pub(super) fn first_range(queue: &str) -> Value {
    let mut range = range(queue);
    range["limit"] = json!("1");
    range
}

/// The end of the range of all keys of a queue, whose name ends with a slash: `0` follows it.
pub(super) fn end(queue: &str) -> String {
    format!("{}0", queue.strip_suffix('/').unwrap_or(queue))
}
