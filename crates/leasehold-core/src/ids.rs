//! The names and numbers of the model, each a type of its own.
//!
//! A value of these types is well formed: the constructors check length and characters, so the rest of
//! the core does not. Names share their text, so a clone costs a counter.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The longest name of a namespace, in bytes.
pub const NAMESPACE_MAX: usize = 64;
/// The longest name of a resource, in bytes.
pub const RESOURCE_MAX: usize = 512;
/// The longest name of a holder or identity, in bytes.
pub const HOLDER_MAX: usize = 256;
/// The longest key of an entry, in bytes.
pub const KEY_MAX: usize = 1024;

/// Tells what is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name has no characters.
    #[error("it is empty")]
    Empty,
    /// The name is longer than its kind allows.
    #[error("it has {length} bytes, at most {max} are allowed")]
    TooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
    },
    /// The name has a control character.
    #[error("it contains the control character U+{0:04X}")]
    Control(u32),
    /// The name has an empty, `.` or `..` segment.
    #[error("it has an empty segment, or one that is `.` or `..`")]
    Segment,
    /// The character is not allowed in this kind of name.
    #[error("the character {0:?} is not allowed")]
    Character(char),
}

fn checked_text(text: &str, max: usize) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty);
    }
    if text.len() > max {
        return Err(InvalidName::TooLong { length: text.len(), max });
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(InvalidName::Control(c as u32)),
        None => Ok(()),
    }
}

fn checked_path(text: &str, max: usize) -> Result<(), InvalidName> {
    checked_text(text, max)?;
    if text.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(InvalidName::Segment);
    }
    Ok(())
}

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                let check: fn(&str) -> Result<(), InvalidName> = $check;
                check(text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The beginning of a range of names; not itself a name.
            #[allow(dead_code, reason = "not every kind of name is listed")]
            pub(crate) fn range_start(text: &str) -> Self {
                Self(Arc::from(text))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text_name!(
    /// The name of a namespace: lower-case letters, digits, `-`, `_` and `.`.
    Namespace,
    |text| {
        checked_text(text, NAMESPACE_MAX)?;
        match text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.')) {
            Some(c) => Err(InvalidName::Character(c)),
            None if text.starts_with('.') => Err(InvalidName::Segment),
            None => Ok(()),
        }
    }
);
text_name!(
    /// The name of a resource: a path of segments separated by `/`.
    ResourceName,
    |text| checked_path(text, RESOURCE_MAX)
);
text_name!(
    /// Whom a lease is granted to, in words of the caller's choice.
    Holder,
    |text| checked_text(text, HOLDER_MAX)
);
text_name!(
    /// Who a caller was proved to be.
    Identity,
    |text| checked_text(text, HOLDER_MAX)
);

/// The key of an entry: any bytes, not empty, of bounded length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// Checks and takes a key.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidName> {
        if bytes.is_empty() {
            return Err(InvalidName::Empty);
        }
        if bytes.len() > KEY_MAX {
            return Err(InvalidName::TooLong { length: bytes.len(), max: KEY_MAX });
        }
        Ok(Self(Arc::from(bytes)))
    }

    /// A key below all others, for the beginning of ranges.
    pub(crate) fn lowest() -> Self {
        Self(Arc::from([].as_slice()))
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// The id of a lease: chosen by its client at random, 63 bits, never zero, never reused.
///
/// Without authentication it is the proof of ownership; show others only a digest of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(NonZeroU64);

impl LeaseId {
    /// The largest id.
    pub const MAX: u64 = i64::MAX as u64;

    /// Takes a number from 1 to 2^63 - 1.
    pub fn new(number: u64) -> Option<Self> {
        if number > Self::MAX {
            return None;
        }
        NonZeroU64::new(number).map(Self)
    }

    /// The id as a number.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The short number of a namespace inside the tables; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId(pub u32);

/// A lease among all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its id there.
    pub id: LeaseId,
}

/// Counter of visible state changes of the whole cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing number of a held claim: the revision of its grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who leads the cluster: compared by term *and* node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderId {
    /// The term of the leadership.
    pub term: u64,
    /// The node that leads.
    pub node: u64,
}

impl fmt::Display for LeaderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} in term {}", self.node, self.term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_name_is_a_path_without_empty_or_dot_segments() {
        assert!(ResourceName::new("orders/7").is_ok());
        assert!(ResourceName::new("Größe/α b").is_ok());
        assert_eq!(ResourceName::new(""), Err(InvalidName::Empty));
        for bad in ["/a", "a/", "a//b", "..", "a/../b", "./a"] {
            assert_eq!(ResourceName::new(bad), Err(InvalidName::Segment), "{bad}");
        }
        assert_eq!(ResourceName::new("a\nb"), Err(InvalidName::Control(10)));
        assert_eq!(ResourceName::new("a\u{7f}"), Err(InvalidName::Control(0x7f)));
        assert!(ResourceName::new(&"x".repeat(RESOURCE_MAX)).is_ok());
        assert!(matches!(ResourceName::new(&"x".repeat(RESOURCE_MAX + 1)), Err(InvalidName::TooLong { .. })));
    }

    #[test]
    fn a_namespace_is_plain() {
        assert!(Namespace::new("shop-1_x.y").is_ok());
        assert_eq!(Namespace::new("Shop"), Err(InvalidName::Character('S')));
        assert_eq!(Namespace::new("a/b"), Err(InvalidName::Character('/')));
        assert_eq!(Namespace::new(".."), Err(InvalidName::Segment));
    }

    #[test]
    fn a_lease_id_has_63_bits_and_is_not_zero() {
        assert_eq!(LeaseId::new(0), None);
        assert_eq!(LeaseId::new(1 << 63), None);
        assert_eq!(LeaseId::new(i64::MAX as u64).map(LeaseId::number), Some(i64::MAX as u64));
    }
}
