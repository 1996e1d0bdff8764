//! Every fact that can follow from a command, in the past tense.

use std::sync::Arc;

use crate::{EndCause, Holder, Key, LeaseId, Mode, Namespace, ResourceName, Revision, Span, Token, Ttl, WallTime};

/// One fact of one revision. Several facts may share a revision; their order is part of the contract.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, on the counter of visible changes.
    pub revision: Revision,
    /// When, for people.
    pub wall: WallTime,
    /// Where its names belong.
    pub namespace: Namespace,
    /// What happened.
    pub fact: Fact,
}

/// An entry before a change; none if there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Previous(pub Option<Box<Former>>);

/// An entry as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// How often it had been put since it was created.
    pub version: u64,
    /// The revision that created it.
    pub created: Revision,
    /// The revision that had last changed it.
    pub modified: Revision,
    /// The lease it was bound to.
    pub lease: Option<LeaseId>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A lease began.
    LeaseGranted {
        /// Which one.
        lease: LeaseId,
        /// To whom.
        holder: Holder,
        /// For how long.
        ttl: Ttl,
    },
    /// A lease ended, with all it carried.
    LeaseEnded {
        /// Which one.
        lease: LeaseId,
        /// Whose it was.
        holder: Holder,
        /// Why.
        cause: EndCause,
    },
    /// A resource was given to a lease.
    ClaimGranted {
        /// To which one.
        lease: LeaseId,
        /// Whose it is.
        holder: Holder,
        /// Which resource.
        resource: ResourceName,
        /// Alone or with others.
        mode: Mode,
        /// Its fencing number.
        token: Token,
        /// How long it had waited.
        waited: Span,
    },
    /// A resource was given back or taken.
    ClaimEnded {
        /// From which lease.
        lease: LeaseId,
        /// Whose it was.
        holder: Holder,
        /// Which resource.
        resource: ResourceName,
        /// The fencing number it had.
        token: Token,
        /// How long it was held.
        held: Span,
        /// Why.
        cause: EndCause,
        /// How long the resource rests before it is granted again.
        rests: Span,
    },
    /// A lease began to wait for a resource.
    Queued {
        /// Which lease.
        lease: LeaseId,
        /// Whose it is.
        holder: Holder,
        /// For which resource.
        resource: ResourceName,
        /// Alone or with others.
        mode: Mode,
        /// Its place in the queue, from 1.
        position: u32,
    },
    /// A lease stopped waiting for a resource without getting it.
    Unqueued {
        /// Which lease.
        lease: LeaseId,
        /// Whose it is.
        holder: Holder,
        /// For which resource.
        resource: ResourceName,
        /// Why.
        cause: EndCause,
    },
    /// The holder of a resource was asked to hand it over.
    HandoverAsked {
        /// The lease that holds it.
        lease: LeaseId,
        /// Whose it is: who is asked.
        holder: Holder,
        /// Which resource.
        resource: ResourceName,
        /// Who asks.
        by: Holder,
        /// Why.
        reason: Option<Box<str>>,
    },
    /// An entry was created or replaced.
    EntryPut {
        /// Which one.
        key: Key,
        /// Its bytes now.
        value: Arc<[u8]>,
        /// How often it was put since it was created.
        version: u64,
        /// The revision that created it.
        created: Revision,
        /// The lease it is bound to.
        lease: Option<LeaseId>,
        /// What it replaced.
        previous: Previous,
    },
    /// An entry was removed.
    EntryDeleted {
        /// Which one.
        key: Key,
        /// The lease whose end removed it.
        ended: Option<LeaseId>,
        /// What it was; not known of events that an older release told.
        previous: Previous,
    },
}

impl Fact {
    /// The resource or key that the fact is about, for watches by prefix; none for facts about a lease alone.
    pub fn subject(&self) -> Option<&[u8]> {
        match self {
            Fact::LeaseGranted { .. } | Fact::LeaseEnded { .. } => None,
            Fact::ClaimGranted { resource, .. }
            | Fact::ClaimEnded { resource, .. }
            | Fact::Queued { resource, .. }
            | Fact::Unqueued { resource, .. }
            | Fact::HandoverAsked { resource, .. } => Some(resource.as_str().as_bytes()),
            Fact::EntryPut { key, .. } | Fact::EntryDeleted { key, .. } => Some(key.as_bytes()),
        }
    }

    /// The lease that the fact is about, if any.
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Fact::LeaseGranted { lease, .. }
            | Fact::LeaseEnded { lease, .. }
            | Fact::ClaimGranted { lease, .. }
            | Fact::ClaimEnded { lease, .. }
            | Fact::Queued { lease, .. }
            | Fact::Unqueued { lease, .. }
            | Fact::HandoverAsked { lease, .. } => Some(*lease),
            Fact::EntryPut { lease, .. } => *lease,
            Fact::EntryDeleted { ended, .. } => *ended,
        }
    }
}
