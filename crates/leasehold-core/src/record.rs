//! The state as plain data: what a snapshot holds, record by record.
//!
//! The records say everything that cannot be derived. Who waits for a resource, the children and entries of a
//! lease, the index of deadlines and all counts follow from them when a state is put together. Who holds a resource
//! is said twice, by the lease and by the resource, so that putting a large state together needs no look-ups.
//! Equal states give equal records in equal order.

use std::sync::Arc;

use crate::{
    Ask, Class, EndCause, Holder, Identity, Key, LeaseId, LeaseTime, Limits, Metadata, Mode, Namespace, NamespaceId,
    ResourceName, Revision, Span, Token, Ttl, WallTime,
};

/// One piece of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// What there is once; the first record.
    Head(Box<HeadRecord>),
    /// A namespace; before everything that is in it.
    Namespace(NamespaceRecord),
    /// A lease with its claims, held and waiting.
    Lease(Box<LeaseRecord>),
    /// A resource without its waiters.
    Resource(Box<ResourceRecord>),
    /// An entry.
    Entry(EntryRecord),
    /// The claim that an entry stands for; before the namespaces, so that it is known early that there are any.
    Marker(MarkerRecord),
    /// An ended lease.
    Tombstone(Box<TombstoneRecord>),
    /// The rest of all resources after a restore; the second record, and only while there is one.
    Rest(RestRecord),
}

/// What there is once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadRecord {
    /// Lease time.
    pub now: LeaseTime,
    /// The wall time of the latest entry.
    pub wall: WallTime,
    /// The counter of visible changes.
    pub revision: Revision,
    /// Lease time at the latest take-over.
    pub taken_over: LeaseTime,
    /// The grace that the latest take-over gives.
    pub grace: Span,
    /// Ends up to this lease time may be forgotten; none was yet if absent.
    pub horizon: Option<LeaseTime>,
    /// The longest ttl ever granted.
    pub longest_ttl: Span,
    /// The next number for a namespace.
    pub next_namespace: u32,
    /// The bounds in force.
    pub limits: Limits,
}

/// The rest of all resources after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestRecord {
    /// Until when no resource is given to anybody new.
    pub until: LeaseTime,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// Its number.
    pub id: NamespaceId,
    /// Its name.
    pub name: Namespace,
}

/// A lease with its claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its id.
    pub id: LeaseId,
    /// Whom it is granted to.
    pub holder: Holder,
    /// Who created it.
    pub identity: Option<Identity>,
    /// For how long at a time.
    pub ttl: Ttl,
    /// When it ends unless renewed.
    pub deadline: LeaseTime,
    /// When it was granted.
    pub granted: LeaseTime,
    /// When it was granted, for people.
    pub granted_wall: WallTime,
    /// The revision of its grant.
    pub granted_at: Revision,
    /// When it was granted or last renewed.
    pub renewed: LeaseTime,
    /// What kind of use it serves.
    pub class: Class,
    /// The lease it ends with.
    pub parent: Option<LeaseId>,
    /// What people should know about it.
    pub metadata: Metadata,
    /// A digest of the parameters of its grant, to tell a repetition from a conflict.
    pub fingerprint: u64,
    /// The revision at which what it carries last changed.
    pub changed: Revision,
    /// What it holds, by resource.
    pub held: Vec<HeldClaim>,
    /// What it waits for, in order of arrival.
    pub waits: Vec<Wait>,
    /// The highest number of a command that was done on it.
    pub seq: u64,
    /// The outcomes kept for repetitions, by number.
    pub receipts: Vec<(u64, Receipt)>,
}

/// A resource that a lease holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// Which one.
    pub resource: ResourceName,
    /// Alone or with others.
    pub mode: Mode,
    /// Its fencing number.
    pub token: Token,
    /// Since when.
    pub since: LeaseTime,
    /// Since when, for people.
    pub since_wall: WallTime,
    /// How long it had waited.
    pub waited: Span,
    /// How long the resource rests if the lease expires.
    pub cooldown: Span,
}

/// Resources that a lease waits for, to get them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The revision at which it was queued: its number, and its order among equals.
    pub number: Revision,
    /// What it waits for.
    pub asks: Vec<Ask>,
    /// Until when.
    pub deadline: LeaseTime,
    /// Higher goes first.
    pub priority: i32,
    /// How long each resource rests if the lease expires while holding it.
    pub cooldown: Span,
    /// Since when.
    pub since: LeaseTime,
    /// Whether the lease was granted for this wait and ends with it, unless it carries more.
    pub born: bool,
}

/// What is kept of the outcome of a command, for its repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The claims on these resources were taken up; the repetition is told how they stand.
    Claimed,
    /// The claim was given back.
    Unclaimed,
    /// The write was done.
    Written {
        /// Whether all compares held.
        succeeded: bool,
        /// The revision after it.
        revision: Revision,
    },
    /// The command was refused.
    Refused,
}

/// A resource without its waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRecord {
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its name.
    pub name: ResourceName,
    /// In which mode it is held, if it is.
    pub mode: Mode,
    /// Who holds it, by id.
    pub holders: Vec<LeaseId>,
    /// The highest token given out.
    pub last_token: Token,
    /// Until when it rests.
    pub rests_until: LeaseTime,
    /// How long holders usually keep it, in milliseconds; 0 if not known.
    pub usual_hold: Span,
    /// The revision since which nobody holds or wants it; 0 while somebody does.
    pub idle_since: Revision,
    /// What happened to it, oldest first.
    pub history: Vec<Past>,
}

/// Something that happened to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// When, for people.
    pub at: WallTime,
    /// At which revision.
    pub revision: Revision,
    /// Whose claim it was.
    pub holder: Holder,
    /// Its fencing number.
    pub token: Token,
    /// What happened.
    pub what: PastFact,
}

/// What happened to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastFact {
    /// It was granted.
    Granted {
        /// After how long a wait.
        waited: Span,
    },
    /// It ended.
    Ended {
        /// After how long.
        held: Span,
        /// Why.
        cause: EndCause,
    },
    /// Its holder was asked to hand the resource over.
    HandoverAsked {
        /// By whom.
        by: Holder,
        /// Why.
        reason: Option<Box<str>>,
    },
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its key.
    pub key: Key,
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// How often it was put since it was created.
    pub version: u64,
    /// The revision that created it.
    pub created: Revision,
    /// The revision that last changed it.
    pub modified: Revision,
    /// The lease it is bound to.
    pub lease: Option<LeaseId>,
}

/// The claim that an entry stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerRecord {
    /// The namespace of both.
    pub namespace: NamespaceId,
    /// The key of the entry.
    pub key: Key,
    /// The lease of the claim.
    pub lease: LeaseId,
    /// What is claimed.
    pub resource: ResourceName,
}

/// An ended lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneRecord {
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Its id.
    pub id: LeaseId,
    /// Whose it was.
    pub holder: Holder,
    /// Who created it.
    pub identity: Option<Identity>,
    /// When it ended.
    pub ended: LeaseTime,
    /// When it ended, for people.
    pub ended_wall: WallTime,
    /// At which revision it ended.
    pub revision: Revision,
    /// Why it ended.
    pub cause: EndCause,
}
