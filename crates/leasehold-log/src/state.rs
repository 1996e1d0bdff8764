//! The durable form of a state's records.
//!
//! The declarations below are the format: see docs/formats/snapshot-body.md. A number or an order of fields
//! that a release has written is never changed and never reused; a change gets a new body version. How
//! records follow each other in a snapshot is told in `body.rs`.

use std::sync::Arc;

use leasehold_core::{
    Ask, Class, EndCause, EntryRecord, HeadRecord, HeldClaim, Holder, Identity, Key, LeaseId, LeaseRecord, LeaseTime,
    Limits, MarkerRecord, Metadata, Mode, Namespace, NamespaceId, NamespaceRecord, Past, PastFact, Receipt, Record,
    ResourceName, ResourceRecord, RestRecord, Revision, Span, Token, TombstoneRecord, Ttl, Wait, WallTime,
};

use crate::layout::{Durable, durable_enum, durable_struct};
use crate::wire::{FormatError, Reader};

/// Writes a record: its kind, then its fields, without a length.
pub fn encode_record(record: &Record, out: &mut Vec<u8>) {
    record.encode(out);
}

/// Reads what [`encode_record`] wrote.
pub fn decode_record(from: &mut Reader<'_>) -> Result<Record, FormatError> {
    Record::decode(from)
}

durable_enum!(Record, "kind of a record" {
    1 => Head(head: Box<HeadRecord>),
    2 => Namespace(namespace: NamespaceRecord),
    3 => Lease(lease: Box<LeaseRecord>),
    4 => Resource(resource: Box<ResourceRecord>),
    5 => Entry(entry: EntryRecord),
    6 => Tombstone(tombstone: Box<TombstoneRecord>),
    7 => Rest(rest: RestRecord),
    8 => Marker(marker: MarkerRecord),
});

durable_struct!(HeadRecord {
    now: LeaseTime,
    wall: WallTime,
    revision: Revision,
    taken_over: LeaseTime,
    grace: Span,
    horizon: Option<LeaseTime>,
    longest_ttl: Span,
    next_namespace: u32,
    limits: Limits,
});

durable_struct!(NamespaceRecord { id: NamespaceId, name: Namespace });

durable_struct!(LeaseRecord {
    namespace: NamespaceId,
    id: LeaseId,
    holder: Holder,
    identity: Option<Identity>,
    ttl: Ttl,
    deadline: LeaseTime,
    granted: LeaseTime,
    granted_wall: WallTime,
    granted_at: Revision,
    renewed: LeaseTime,
    class: Class,
    parent: Option<LeaseId>,
    metadata: Metadata,
    fingerprint: u64,
    changed: Revision,
    held: Vec<HeldClaim>,
    waits: Vec<Wait>,
    seq: u64,
    receipts: Vec<(u64, Receipt)>,
});

durable_struct!(HeldClaim {
    resource: ResourceName,
    mode: Mode,
    token: Token,
    since: LeaseTime,
    since_wall: WallTime,
    waited: Span,
    cooldown: Span,
});

durable_struct!(Wait {
    number: Revision,
    asks: Vec<Ask>,
    deadline: LeaseTime,
    priority: i32,
    cooldown: Span,
    since: LeaseTime,
    born: bool,
});

durable_enum!(Receipt, "receipt" {
    1 => Claimed,
    2 => Unclaimed,
    3 => Written { succeeded: bool, revision: Revision },
    4 => Refused,
});

durable_struct!(ResourceRecord {
    namespace: NamespaceId,
    name: ResourceName,
    mode: Mode,
    holders: Vec<LeaseId>,
    last_token: Token,
    rests_until: LeaseTime,
    usual_hold: Span,
    idle_since: Revision,
    history: Vec<Past>,
});

durable_struct!(Past { at: WallTime, revision: Revision, holder: Holder, token: Token, what: PastFact });

durable_enum!(PastFact, "past of a claim" {
    1 => Granted { waited: Span },
    2 => Ended { held: Span, cause: EndCause },
    3 => HandoverAsked { by: Holder, reason: Option<Box<str>> },
});

durable_struct!(EntryRecord {
    namespace: NamespaceId,
    key: Key,
    value: Arc<[u8]>,
    version: u64,
    created: Revision,
    modified: Revision,
    lease: Option<LeaseId>,
});

durable_struct!(MarkerRecord { namespace: NamespaceId, key: Key, lease: LeaseId, resource: ResourceName });

durable_struct!(TombstoneRecord {
    namespace: NamespaceId,
    id: LeaseId,
    holder: Holder,
    identity: Option<Identity>,
    ended: LeaseTime,
    ended_wall: WallTime,
    revision: Revision,
    cause: EndCause,
});

durable_struct!(RestRecord { until: LeaseTime });
