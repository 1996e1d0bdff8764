//! Names of locks and elections: any bytes in etcd, paths here, and neither twice.
//!
//! A name that is a well-formed path is the resource of that name, so `lease describe` finds it under the name it has.
//! What a path cannot have is written as `%` and two hex digits, and so is `%` itself: different names stay different.

use std::fmt::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use leasehold_core::{KeyRange, LeaseId, ResourceName};
use tonic::Status;

/// Stands for a name without characters.
const EMPTY: &str = "%";

/// The resource that a lock or an election of this name is.
pub(crate) fn resource(name: &[u8]) -> Result<ResourceName, Status> {
    ResourceName::new(&escaped(name))
        .map_err(|why| Status::invalid_argument(format!("leasehold: the name cannot be used: {why}")))
}

fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        chunk.valid().chars().for_each(|c| match c {
            '%' => text.push_str("%25"),
            c if c.is_control() => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(&mut text, byte)),
            c => text.push(c),
        });
        chunk.invalid().iter().for_each(|byte| escape(&mut text, *byte));
    }
    if text.is_empty() {
        return EMPTY.to_owned();
    }
    whole_segments(&text)
}

fn escape(text: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(text, "%{byte:02X}");
}

/// Slashes that would leave an empty segment, and segments of dots, escaped.
fn whole_segments(text: &str) -> String {
    let mut path = String::with_capacity(text.len());
    let segments: Vec<&str> = text.split('/').collect();
    for (at, segment) in segments.iter().enumerate() {
        if at > 0 {
            // A slash divides only what is there on both sides.
            let divides = !segment.is_empty() && !path.is_empty() && !segments[at - 1].is_empty();
            path.push_str(if divides { "/" } else { "%2F" });
        }
        match *segment {
            "." => path.push_str("%2E"),
            ".." => path.push_str("%2E%2E"),
            segment => path.push_str(segment),
        }
    }
    path
}

/// The keys of all who hold or want what has this name.
pub(crate) fn contenders(name: &[u8]) -> KeyRange {
    let mut prefix = name.to_vec();
    prefix.push(b'/');
    KeyRange::Prefix(prefix.into())
}

/// The key of one of them.
pub(crate) fn contender(name: &[u8], lease: LeaseId) -> Bytes {
    let mut key = BytesMut::from(name);
    key.put_slice(format!("/{:x}", lease.number()).as_bytes());
    key.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_name_is_the_resource_of_that_name() {
        for name in ["nightly", "orders/7", "Größe/α b"] {
            assert_eq!(resource(name.as_bytes()).unwrap().as_str(), name);
        }
    }

    #[test]
    fn different_names_stay_different() {
        let names: [(&[u8], &str); 14] = [
            (b"", "%"),
            (b"%", "%25"),
            (b"/", "%2F"),
            (b"//", "%2F%2F"),
            (b"/a", "%2Fa"),
            (b"a/", "a%2F"),
            (b"a//b", "a%2F%2Fb"),
            (b"/a/b/", "%2Fa/b%2F"),
            (b".", "%2E"),
            (b"a/../b", "a/%2E%2E/b"),
            (b"a\nb", "a%0Ab"),
            (b"a\xffb", "a%FFb"),
            ("a\u{85}b".as_bytes(), "a%C2%85b"),
            (b"%2F", "%252F"),
        ];
        for (name, expected) in names {
            assert_eq!(resource(name).unwrap().as_str(), expected, "{name:?}");
        }
        assert!(resource(&[b'x'; 600]).is_err());
    }

    #[test]
    fn the_key_of_a_contender_is_its_lease_in_hex() {
        let lease = LeaseId::new(0x0123_abcd).unwrap();
        assert_eq!(&contender(b"a/b", lease)[..], b"a/b/123abcd");
        assert_eq!(&contender(b"", lease)[..], b"/123abcd");
    }
}
