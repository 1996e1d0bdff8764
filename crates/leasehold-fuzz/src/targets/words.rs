//! What people and programs write as text: durations, ids, names, addresses, times. What is read is shown so that it is
//! read as the same; what is refused is refused in words.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use leasehold_api::{Digest, Id, Invalid, NodeId, RemainingText, SpanText, Timestamp, TtlText, WaitText};
use leasehold_client::Endpoints;
use leasehold_core::{Holder, Identity, Key, KeyRange, Namespace, ResourceName};

pub(crate) fn run(bytes: &[u8]) {
    keys(bytes);
    let text = String::from_utf8_lossy(bytes);
    same::<SpanText>(&text);
    same::<TtlText>(&text);
    same::<WaitText>(&text);
    same::<RemainingText>(&text);
    same::<Id>(&text);
    same::<Digest>(&text);
    same::<NodeId>(&text);
    same::<Timestamp>(&text);
    same::<Endpoints>(&text);
    json::<SpanText>(bytes);
    json::<TtlText>(bytes);
    json::<WaitText>(bytes);
    json::<RemainingText>(bytes);
    json::<Id>(bytes);
    json::<NodeId>(bytes);
    json::<Timestamp>(bytes);
    let names = [
        Namespace::new(&text).map(|name| name.to_string()),
        ResourceName::new(&text).map(|name| name.to_string()),
        Holder::new(&text).map(|name| name.to_string()),
        Identity::new(&text).map(|name| name.to_string()),
    ];
    for name in names {
        match name {
            Ok(name) => assert_eq!(name, text),
            Err(error) => told(&error),
        }
    }
    checked(&text, |text| leasehold_api::checked_node_name(text).map(str::to_owned));
    checked(&text, |text| leasehold_api::checked_node_address(text).map(str::to_owned));
    checked(&text, |text| leasehold_api::checked_reason(text).map(String::from));
    leasehold_raft::fuzzing::small_files(&text);
}

/// What a check lets pass it lets pass again, as it is; a refusal names the field.
fn checked(text: &str, check: impl Fn(&str) -> Result<String, Invalid>) {
    match check(text) {
        Ok(word) => assert_eq!(check(&word).as_ref(), Ok(&word), "{text:?}"),
        Err(invalid) => assert!(!invalid.field.is_empty(), "a refusal names the field"),
    }
}

fn same<T: FromStr<Err: Display> + Display + PartialEq + Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            let again = shown.parse::<T>().unwrap_or_else(|error| panic!("{shown:?} of {text:?} is refused: {error}"));
            assert_eq!(again, value, "{text:?} is shown as {shown:?}");
        }
        Err(error) => told(&error),
    }
}

fn json<T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let shown = serde_json::to_vec(&value).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&shown).expect("what was written is read"), value);
}

fn told(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.trim().is_empty() && text.len() < 2000, "a refusal is in words, and in few: {text}");
}

/// Pages of a range: a cursor leads behind its key, and stays within the range.
fn keys(bytes: &[u8]) {
    let (text, key) = bytes.split_at(bytes.len() / 2);
    let page = String::from_utf8_lossy(text);
    let Ok(key) = Key::new(key) else { return };
    let cursor = leasehold_api::page_cursor(&key);
    let prefix: KeyRange = KeyRange::Prefix(text.into());
    for range in [prefix, KeyRange::From(key.clone()), KeyRange::One(key.clone())] {
        drop(leasehold_api::range_after(range.clone(), &page));
        let after = leasehold_api::range_after(range, &cursor).expect("a cursor of ours is read");
        if let Some(KeyRange::Between(from, _) | KeyRange::From(from)) = after {
            assert!(from > key || from.as_bytes().starts_with(text), "a page begins behind the one before");
        }
    }
}

pub(crate) const WORDS: &[&str] =
    &["ms", "s", "m", "h", "d", "none", "forever", "18446744073709551615", "36500d", "http://", ":7117", "Z", "[::1]"];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        "10s",
        "1m30s",
        "30d",
        "1h2m3s4ms",
        "none",
        "forever",
        "0",
        "36500d",
        "5f3c0a1b2c3d4e5f",
        "0000000000000001",
        "sha256:0123456789abcdef",
        "2026-11-03T19:02:11.250Z",
        "9999-12-30T22:00:00.999Z",
        "http://10.0.0.1:7117,http://[::1]:7117",
        "orders/7",
        "Größe/α b",
        "shop-1_x.y",
        "n1.example:7118",
        "\"1500ms\"",
        "1500",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    let id = leasehold_core::LeaseId::new(7).expect("seven is an id");
    seeds.push(Digest::of(id).to_string().into_bytes());
    seeds.extend(leasehold_raft::fuzzing::small_file_seeds().into_iter().map(String::into_bytes));
    seeds
}
