//! A lease id as it travels: 16 hex digits.

use std::fmt;
use std::str::FromStr;

use leasehold_core::LeaseId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A lease id, as text of 16 hex digits. Whoever knows it may use the lease: keep it secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub LeaseId);

/// Tells what is wrong with the text of a lease id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// The text has another form.
    #[error("a lease id is 16 hex digits, like 05f31c09a4e2b7d8")]
    Form,
    /// The text is the digest that lists and refusals show.
    #[error("this is the digest of a lease, not its id; only the one who was granted the lease knows its id")]
    Digest,
    /// The number is zero or has its highest bit set.
    #[error("a lease id is a number from 1 to 2^63 - 1, as 16 hex digits")]
    Range,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0.number())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Id, InvalidId> {
        if text.starts_with('~') {
            return Err(InvalidId::Digest);
        }
        if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(InvalidId::Form);
        }
        let number = u64::from_str_radix(text, 16).map_err(|_| InvalidId::Form)?;
        LeaseId::new(number).map(Id).ok_or(InvalidId::Range)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_hex_digits() {
        let id: Id = "05F31c09a4e2b7d8".parse().unwrap();
        assert_eq!(id.to_string(), "05f31c09a4e2b7d8");
        assert_eq!("5f".parse::<Id>(), Err(InvalidId::Form));
        assert_eq!("+5f31c09a4e2b7d8".parse::<Id>(), Err(InvalidId::Form));
        assert_eq!("~1a2b3c4d5e".parse::<Id>(), Err(InvalidId::Digest));
        assert_eq!("0000000000000000".parse::<Id>(), Err(InvalidId::Range));
        assert_eq!("f000000000000000".parse::<Id>(), Err(InvalidId::Range));
    }
}
