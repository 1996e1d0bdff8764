//! The durable form of what commands, events and records have in common: names, ids, times, small enums.
//!
//! Names go through their checked constructors, so a decoded value is as well formed as any other.

use std::sync::Arc;

use leasehold_core::{
    Ask, Class, EndCause, Holder, Identity, Key, LeaseId, LeaseTime, Limits, Metadata, Mode, Namespace, NamespaceId,
    ResourceName, Revision, Span, Token, Ttl, WallTime,
};

use crate::layout::{Durable, durable_enum, durable_struct};
use crate::wire::{FormatError, Reader, put_bytes, put_varint};

macro_rules! durable_name {
    ($($name:ident, $what:literal;)+) => {$(
        impl Durable for $name {
            const LEAST: usize = 2;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                put_bytes(out, self.as_str().as_bytes());
            }

            #[inline]
            fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
                let start = from.clone();
                $name::new(from.text($what)?).map_err(|_| start.damaged($what, "is not well formed"))
            }
        }
    )+};
}

durable_name! {
    Namespace, "namespace";
    ResourceName, "resource name";
    Holder, "holder";
    Identity, "identity";
}

macro_rules! durable_number {
    ($($name:ident, $what:literal;)+) => {$(
        impl Durable for $name {
            const LEAST: usize = 1;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                put_varint(out, u64::from(self.0));
            }

            #[inline]
            fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
                from.small($what).map(Self)
            }
        }
    )+};
}

durable_number! {
    LeaseTime, "lease time";
    WallTime, "wall time";
    Span, "span of time";
    Revision, "revision";
    Token, "token";
    NamespaceId, "number of a namespace";
}

/// Eight bytes as they are: ids are random, so a number of variable length would take nine.
impl Durable for LeaseId {
    const LEAST: usize = 8;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number().to_le_bytes());
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let start = from.clone();
        let number = u64::from_le_bytes(from.array("lease id")?);
        LeaseId::new(number).ok_or_else(|| start.damaged("lease id", "is not from 1 to 2^63 - 1"))
    }
}

impl Durable for Key {
    const LEAST: usize = 2;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let start = from.clone();
        Key::new(from.bytes("key")?).map_err(|_| start.damaged("key", "is not well formed"))
    }
}

impl Durable for Arc<[u8]> {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.bytes("value").map(Arc::from)
    }
}

impl Durable for Box<str> {
    const LEAST: usize = 1;

    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.text("text").map(Box::from)
    }
}

/// Pairs of name and text, by name: in any other order they are damage, for there is one form only.
impl Durable for Metadata {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        let pairs = self.iter();
        put_varint(out, pairs.len() as u64);
        for (name, text) in pairs {
            put_bytes(out, name.as_bytes());
            put_bytes(out, text.as_bytes());
        }
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for _ in 0..from.count("metadata", 2)? {
            let start = from.clone();
            let name = from.text("name in metadata")?;
            if pairs.last().is_some_and(|(last, _)| last.as_str() >= name) {
                return Err(start.damaged("name in metadata", "is out of order"));
            }
            pairs.push((name.to_owned(), from.text("text in metadata")?.to_owned()));
        }
        Ok(Metadata::new(pairs))
    }
}

durable_enum!(Ttl, "ttl" {
    1 => For(span: Span),
    2 => Endless,
});

durable_enum!(Mode, "mode" {
    1 => Exclusive,
    2 => Shared,
});

durable_enum!(Class, "class" {
    1 => Lock,
    2 => Election,
    3 => Session,
    4 => Reservation,
    5 => Cache,
});

durable_struct!(Ask { resource: ResourceName, mode: Mode });

durable_enum!(EndCause, "cause of an end" {
    1 => Released,
    2 => Expired,
    3 => Revoked { by: Option<Identity>, reason: Box<str> },
    4 => ParentEnded,
    5 => WaitElapsed,
    6 => Left,
});

/// Writes and reads the limits after their number, which tells a later release's limits from damage.
macro_rules! durable_limits {
    ($($field:ident: $type:ty),+ $(,)?) => {
        const LIMITS: u64 = [$(stringify!($field)),+].len() as u64;

        impl Durable for Limits {
            const LEAST: usize = 1 $(+ <$type as Durable>::LEAST)+;

            fn encode(&self, out: &mut Vec<u8>) {
                let Self { $($field),+ } = self;
                put_varint(out, LIMITS);
                $($field.encode(out);)+
            }

            fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
                let start = from.clone();
                match from.varint("number of limits")? {
                    ..LIMITS => Err(start.damaged("number of limits", "is too small")),
                    LIMITS => Ok(Self { $($field: <$type>::decode(from)?),+ }),
                    found => Err(FormatError::NewerVersion { what: "the list of limits", found, supported: LIMITS }),
                }
            }
        }
    };
}

durable_limits! {
    ttl_min: Span,
    ttl_max: Span,
    cooldown_max: Span,
    grace: Span,
    tombstone_age: Span,
    tombstones: u32,
    namespaces: u32,
    leases: u32,
    leases_per_identity: u32,
    claims_per_lease: u32,
    entries_per_lease: u32,
    tree_weight: u32,
    tree_depth: u8,
    waiters: u32,
    shared_holders: u32,
    entries: u32,
    value_bytes: u32,
    entry_bytes: u64,
    state_bytes: u64,
    write_ops: u32,
    range_entries: u32,
    metadata_pairs: u32,
    metadata_bytes: u32,
    history: u32,
    idle_resources: u32,
    receipts: u32,
    renewals: u32,
    sweep_piece: u32,
}
