//! The durable form of commands and of who gives them.
//!
//! The declarations below are the format: see docs/formats/entry.md. A number or an order of fields that a
//! release has written is never changed and never reused; a change gets a new entry version.

use std::sync::Arc;

use leasehold_core::{
    Ask, AskHandover, Asks, Binding, Caller, Claim, ClaimMarked, Class, Command, Compare, Grant, Holder, Key, KeyRange,
    LeaseId, LeaseTime, Leave, Limits, Marker, Metadata, Namespace, Once, Operand, Patience, Relation, Release, Renew,
    Request, ResourceName, Revision, Revoke, Rights, Span, Token, Ttl, Unclaim, WRITE_DEPTH_MAX, Write, WriteOp,
};

use crate::layout::{Durable, durable_enum, durable_struct};
use crate::wire::{FormatError, Reader, put_framed};

/// Writes a request after its length, ready to be appended to a [`Pack`](crate::Pack).
pub fn encode_request(request: &Request, out: &mut Vec<u8>) {
    put_framed(out, |out| request.encode(out));
}

/// The first version of entries that can say a command.
pub(crate) fn first_version(command: &Command) -> u8 {
    match command {
        Command::GrantAnew(_) | Command::ClaimMarked(_) => 3,
        Command::Write(write)
            if write.then.iter().chain(&write.otherwise).any(|op| matches!(op, WriteOp::Nested(_))) =>
        {
            3
        }
        Command::Grant(_)
        | Command::Renew(_)
        | Command::Release(_)
        | Command::Revoke(_)
        | Command::Claim(_)
        | Command::Unclaim(_)
        | Command::Leave(_)
        | Command::AskHandover(_)
        | Command::Write(_)
        | Command::Configure(_) => 2,
    }
}

/// Reads what [`encode_request`] wrote.
pub fn decode_request(from: &mut Reader<'_>) -> Result<Request, FormatError> {
    let mut frame = from.framed("command")?;
    let request = Request::decode(&mut frame)?;
    frame.finish("command")?;
    Ok(request)
}

durable_struct!(Request { caller: Caller, namespace: Namespace, command: Command });

const HAS_IDENTITY: u8 = 1 << 0;
const IS_OPERATOR: u8 = 1 << 1;
const MAY_ENDLESS: u8 = 1 << 2;

/// One byte of flags, then the identity if there is one: a caller without either takes one byte.
impl Durable for Caller {
    const LEAST: usize = 1;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { identity, rights: Rights { operator, endless } } = self;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(flag(identity.is_some(), HAS_IDENTITY) | flag(*operator, IS_OPERATOR) | flag(*endless, MAY_ENDLESS));
        if let Some(identity) = identity {
            identity.encode(out);
        }
    }

    #[inline]
    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let start = from.clone();
        let flags = from.byte("caller")?;
        if flags & !(HAS_IDENTITY | IS_OPERATOR | MAY_ENDLESS) != 0 {
            return Err(start.damaged("caller", "has unknown flags"));
        }
        let identity = if flags & HAS_IDENTITY != 0 { Some(Durable::decode(from)?) } else { None };
        let rights = Rights { operator: flags & IS_OPERATOR != 0, endless: flags & MAY_ENDLESS != 0 };
        Ok(Self { identity, rights })
    }
}

durable_enum!(Command, "kind of a command" {
    1 => Grant(grant: Grant),
    2 => Renew(renew: Renew),
    3 => Release(release: Release),
    4 => Revoke(revoke: Revoke),
    5 => Claim(claim: Claim),
    6 => Unclaim(unclaim: Unclaim),
    7 => Leave(leave: Leave),
    8 => Write(write: Write),
    9 => Configure(limits: Box<Limits>),
    10 => AskHandover(ask: AskHandover),
    11 => GrantAnew(grant: Grant),
    12 => ClaimMarked(marked: ClaimMarked),
});

durable_struct!(Grant {
    id: LeaseId,
    holder: Holder,
    ttl: Ttl,
    class: Class,
    parent: Option<LeaseId>,
    metadata: Metadata,
    asks: Asks,
    seen: LeaseTime,
});

durable_struct!(Asks { claims: Vec<Ask>, patience: Patience, priority: i32, cooldown: Span });

durable_enum!(Patience, "patience" {
    1 => None,
    2 => For(span: Span),
    3 => Endless,
});

durable_struct!(Renew { leases: Vec<LeaseId>, ttl: Option<Ttl> });
durable_struct!(Release { lease: LeaseId });
durable_struct!(Revoke { lease: LeaseId, reason: Box<str>, now: bool });
durable_struct!(Once { seq: u64, acked: u64 });
durable_struct!(Claim { lease: LeaseId, once: Option<Once>, asks: Asks });
durable_struct!(ClaimMarked { claim: Claim, marker: Marker });
durable_struct!(Marker { key: Key, value: Arc<[u8]> });
durable_struct!(Unclaim { lease: LeaseId, once: Option<Once>, resource: ResourceName, token: Token });
durable_struct!(Leave { lease: LeaseId, wait: Revision });
durable_struct!(AskHandover { resource: ResourceName, by: Holder, reason: Option<Box<str>> });

/// Its fields in order. A step may be a write again, so the depth is bounded before anything is read.
impl Durable for Write {
    const LEAST: usize = 4;

    fn encode(&self, out: &mut Vec<u8>) {
        let Self { session, compares, then, otherwise } = self;
        session.encode(out);
        compares.encode(out);
        then.encode(out);
        otherwise.encode(out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        from.nested("write", WRITE_DEPTH_MAX, |from| {
            let (session, compares) = (Durable::decode(from)?, Durable::decode(from)?);
            Ok(Self { session, compares, then: Durable::decode(from)?, otherwise: Durable::decode(from)? })
        })
    }
}

durable_enum!(KeyRange, "range of keys" {
    1 => One(key: Key),
    2 => Prefix(prefix: Arc<[u8]>),
    3 => Between(from_key: Key, to_key: Key),
    4 => From(from_key: Key),
});

durable_struct!(Compare { range: KeyRange, relation: Relation, operand: Operand });

durable_enum!(Relation, "relation" {
    1 => Equal,
    2 => NotEqual,
    3 => Less,
    4 => Greater,
});

durable_enum!(Operand, "operand" {
    1 => Version(version: u64),
    2 => Created(revision: Revision),
    3 => Modified(revision: Revision),
    4 => Value(value: Arc<[u8]>),
    5 => Lease(lease: u64),
});

durable_enum!(WriteOp, "step of a write" {
    1 => Put { key: Key, value: Option<Arc<[u8]>>, binding: Binding },
    2 => Delete { range: KeyRange },
    3 => Read { range: KeyRange, limit: u32 },
    4 => Nested(write: Box<Write>),
});

durable_enum!(Binding, "binding of an entry" {
    1 => None,
    2 => To(lease: LeaseId),
    3 => Keep,
});
