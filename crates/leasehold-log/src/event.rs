//! The durable form of events, for the tail of recent ones that a snapshot carries.
//!
//! The declarations below are the format: see docs/formats/snapshot-body.md. A number or an order of fields
//! that a release has written is never changed and never reused; a change gets a new body version.

use std::sync::Arc;

use leasehold_core::{
    EndCause, Event, Fact, Former, Holder, Key, LeaseId, Mode, Namespace, Previous, ResourceName, Revision, Span,
    Token, Ttl, WallTime,
};

use crate::layout::{Durable, durable_enum, durable_struct};
use crate::wire::{FormatError, Reader};

/// Writes an event, without a length.
pub fn encode_event(event: &Event, out: &mut Vec<u8>) {
    event.encode(out);
}

/// Reads what [`encode_event`] wrote.
pub fn decode_event(from: &mut Reader<'_>) -> Result<Event, FormatError> {
    Event::decode(from)
}

durable_struct!(Event { revision: Revision, wall: WallTime, namespace: Namespace, fact: Fact });

durable_enum!(Fact, "kind of an event" {
    1 => LeaseGranted { lease: LeaseId, holder: Holder, ttl: Ttl },
    2 => LeaseEnded { lease: LeaseId, holder: Holder, cause: EndCause },
    3 => ClaimGranted {
        lease: LeaseId, holder: Holder, resource: ResourceName, mode: Mode, token: Token, waited: Span,
    },
    4 => ClaimEnded {
        lease: LeaseId, holder: Holder, resource: ResourceName, token: Token, held: Span, cause: EndCause, rests: Span,
    },
    5 => Queued { lease: LeaseId, holder: Holder, resource: ResourceName, mode: Mode, position: u32 },
    6 => Unqueued { lease: LeaseId, holder: Holder, resource: ResourceName, cause: EndCause },
    7 => EntryPut {
        key: Key, value: Arc<[u8]>, version: u64, created: Revision, lease: Option<LeaseId>, previous: Previous,
    },
    8 => EntryDeleted { key: Key, ended: Option<LeaseId>, previous: Previous },
    9 => HandoverAsked {
        lease: LeaseId, holder: Holder, resource: ResourceName, by: Holder, reason: Option<Box<str>>,
    },
});

durable_struct!(Former { value: Arc<[u8]>, version: u64, created: Revision, modified: Revision, lease: Option<LeaseId> });

/// Nothing if there was none, so it must be the last thing of an event: what follows is it.
impl Durable for Previous {
    const LEAST: usize = 0;

    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(former) = &self.0 {
            former.encode(out);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        if from.remaining() == 0 { Ok(Self(None)) } else { Durable::decode(from).map(|former| Self(Some(former))) }
    }
}
