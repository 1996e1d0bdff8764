//! What others see of a lease id.
//!
//! Without authentication the id is the proof of ownership, so lists and refusals show a digest: enough to
//! tell two leases apart, useless for renewing one. It begins with `~`, which no id does and no URL escapes.

use std::fmt;
use std::str::FromStr;

use leasehold_core::LeaseId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// Keeps digests of lease ids apart from any other use of the hash.
const PREFIX: &[u8] = b"leasehold lease digest 1\0";
const BYTES: usize = 5;

/// A short one-way digest of a lease id, shown as `~1a2b3c4d5e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; BYTES]);

impl Digest {
    /// The digest of `id`.
    pub fn of(id: LeaseId) -> Digest {
        let hash = Sha256::new().chain_update(PREFIX).chain_update(id.number().to_be_bytes()).finalize();
        let mut short = [0; BYTES];
        short.copy_from_slice(&hash[..BYTES]);
        Digest(short)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("~")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Digest, Self::Err> {
        const MESSAGE: &str = "a digest is `~` and 10 hex digits";
        let digits = text.strip_prefix('~').ok_or(MESSAGE)?;
        if digits.len() != 2 * BYTES || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(MESSAGE);
        }
        let number = u64::from_str_radix(digits, 16).map_err(|_| MESSAGE)?;
        let mut short = [0; BYTES];
        short.copy_from_slice(&number.to_be_bytes()[8 - BYTES..]);
        Ok(Digest(short))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_stable_short_and_not_an_id() {
        let digest = Digest::of(LeaseId::new(1).unwrap());
        assert_eq!(digest.to_string().len(), 11);
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_ne!(digest, Digest::of(LeaseId::new(2).unwrap()));
        assert!("~xyz".parse::<Digest>().is_err());
        assert!("~1a2b3c4d5".parse::<Digest>().is_err());
    }
}
