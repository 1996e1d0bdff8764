//! Digests: of the parameters of a grant, to tell a repetition from a conflict; of a text, to find it again.
//!
//! It guards against mistakes, not against attackers: a caller that constructs a collision fools itself only.

use crate::{Grant, Mode, Ttl};

/// The digest of a grant: all that the caller chose, except how long it waits and what it has seen.
pub(crate) fn of_grant(grant: &Grant) -> u64 {
    let mut hash = Fnv::default();
    hash.text(grant.holder.as_str());
    match grant.ttl {
        Ttl::For(span) => hash.number(span.0),
        Ttl::Endless => hash.number(u64::MAX),
    }
    hash.number(grant.class as u64);
    hash.number(grant.parent.map_or(0, |parent| parent.number()));
    for (name, text) in grant.metadata.iter() {
        hash.text(name);
        hash.text(text);
    }
    hash.number(grant.metadata.iter().len() as u64);
    for ask in &grant.asks.claims {
        hash.text(ask.resource.as_str());
        hash.number(match ask.mode {
            Mode::Exclusive => 0,
            Mode::Shared => 1,
        });
    }
    hash.number(grant.asks.priority as u64);
    hash.number(grant.asks.cooldown.0);
    hash.0
}

/// The digest of a text.
pub(crate) fn of_text(text: &str) -> u64 {
    let mut hash = Fnv::default();
    hash.bytes(text.as_bytes());
    hash.0
}

/// FNV-1a, 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }
}
