//! Replies to commands, as data.

use std::sync::Arc;

use crate::{
    Class, Event, Holder, Key, LeaseId, LeaseTime, Metadata, Mode, Rejection, ResourceName, Revision, Span, Token, Ttl,
    WallTime,
};

/// What applying one log entry led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// Lease time after the entry.
    pub now: LeaseTime,
    /// The revision after the entry.
    pub revision: Revision,
    /// An answer to each command, in order; empty if the entry was void.
    pub answers: Vec<Answer>,
    /// Why the entry had no effect at all.
    pub void: Option<Void>,
    /// The facts that followed, in order.
    pub events: Vec<Event>,
}

/// The answer to one command.
pub type Answer = Result<Outcome, Box<Rejection>>;

/// Why a whole entry has no effect: no time, no ends, no commands. Its callers try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Void {
    /// It was stamped under another leader than it was appended under.
    #[error("the entry was stamped under another leader than it was appended under")]
    OtherLeader,
    /// Its stamp is further ahead of lease time than any healthy clock is.
    #[error("the entry is stamped {0} ahead of lease time")]
    TooFarAhead(Span),
}

/// What a command achieved.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The lease lives, as described: newly granted, or found by a repeated grant.
    Granted(Box<LeaseView>),
    /// An answer for each lease of the renewal, in order.
    Renewed(Vec<Result<Renewal, Box<Rejection>>>),
    /// The lease is over.
    Released {
        /// Whether it was so before.
        already: bool,
    },
    /// The lease was taken.
    Revoked {
        /// How long its holder may still believe that it holds what it held.
        may_act: Span,
    },
    /// The claims stand as described: held or waiting.
    Claimed(Box<LeaseView>),
    /// The claim is given back.
    Unclaimed,
    /// The wait is over; nothing of it is left in any queue.
    Left,
    /// The holders of the resource were asked.
    HandoverAsked {
        /// How many.
        holders: u32,
    },
    /// The write was done, one way or the other.
    Written(Box<Written>),
    /// The limits are as asked.
    Configured,
}

/// A renewed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The time left at the entry that answered: the least of its own and its ancestors'.
    pub remaining: Remaining,
    /// The ttl from now on.
    pub ttl: Ttl,
    /// The revision at which what the lease carries last changed.
    pub changed: Revision,
}

/// The time a lease has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remaining {
    /// This long, unless it is renewed.
    For(Span),
    /// It does not end by time.
    Endless,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Whether all compares held.
    pub succeeded: bool,
    /// The revision after the write.
    pub revision: Revision,
    /// A result for each step.
    pub results: Vec<WriteResult>,
}

/// What one step of a write did.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteResult {
    /// The entry was put; what it replaced.
    Put {
        /// The entry before.
        previous: Option<EntryView>,
    },
    /// The entries that were removed.
    Deleted {
        /// As they were.
        previous: Vec<EntryView>,
    },
    /// The entries that were read.
    Read {
        /// Those within the limit.
        entries: Vec<EntryView>,
        /// How many there are in all.
        count: u64,
    },
    /// What a write within the write did.
    Nested(Box<Written>),
}

/// An entry as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
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

/// A lease as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Its id: show it only to those who know it.
    pub id: LeaseId,
    /// Whom it is granted to.
    pub holder: Holder,
    /// For how long at a time.
    pub ttl: Ttl,
    /// The time left at the entry that answered.
    pub remaining: Remaining,
    /// What kind of use it serves.
    pub class: Class,
    /// The lease it ends with.
    pub parent: Option<LeaseId>,
    /// What people should know about it.
    pub metadata: Metadata,
    /// When it was granted, for people.
    pub granted: WallTime,
    /// How long it has lived.
    pub age: Span,
    /// How long ago it was granted or renewed.
    pub renewed_ago: Span,
    /// Whether its time is over and only its end is not recorded yet.
    pub ending: bool,
    /// The revision at which what it carries last changed.
    pub changed: Revision,
    /// What it holds.
    pub held: Vec<HeldView>,
    /// What it waits for.
    pub waits: Vec<WaitView>,
    /// How many entries are bound to it.
    pub entries: u32,
    /// How many leases end with it.
    pub children: u32,
}

/// A held claim of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldView {
    /// Which resource.
    pub resource: ResourceName,
    /// Alone or with others.
    pub mode: Mode,
    /// Its fencing number.
    pub token: Token,
    /// How long it has been held.
    pub held: Span,
    /// How long it had waited.
    pub waited: Span,
}

/// A wait of a lease: the resources it will get together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitView {
    /// The number of the wait: the revision at which it was queued.
    pub wait: Revision,
    /// The time left to wait; none waits as long as its lease lives.
    pub patience: Option<Span>,
    /// How long it has waited.
    pub waited: Span,
    /// Its place for each resource.
    pub places: Vec<PlaceView>,
}

/// A place in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceView {
    /// For which resource.
    pub resource: ResourceName,
    /// Alone or with others.
    pub mode: Mode,
    /// Its place, from 1.
    pub position: u32,
    /// How many wait in all.
    pub length: u32,
    /// How long it may take, by what holders took before.
    pub estimate: Option<Span>,
}

/// Who holds a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView {
    /// With which lease: show only a digest of it.
    pub lease: LeaseId,
    /// In its own words.
    pub holder: Holder,
    /// Its fencing number.
    pub token: Token,
    /// Alone or with others.
    pub mode: Mode,
    /// Since when, for people.
    pub since: WallTime,
    /// How long it has held it.
    pub held: Span,
    /// The time left unless renewed.
    pub remaining: Remaining,
    /// How long ago its lease was granted or renewed.
    pub renewed_ago: Span,
    /// Whether its time is over and only its end is not recorded yet.
    pub ending: bool,
    /// What people should know about it.
    pub metadata: Metadata,
}

/// Why a resource cannot be had now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    /// Which resource.
    pub resource: ResourceName,
    /// Who holds it: the first few.
    pub holders: Vec<HolderView>,
    /// How many hold it in all.
    pub holder_count: u32,
    /// How many wait for it.
    pub queue: u32,
    /// How long it still rests although nobody holds it.
    pub rests: Option<Span>,
    /// How long a caller that joined the queue now may have to wait, by what holders took before.
    pub estimate: Option<Span>,
}

/// Why a lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its holder gave it back.
    Released,
    /// Its time ran out.
    Expired,
    /// An operator took it.
    Revoked {
        /// Who.
        by: Option<crate::Identity>,
        /// Why.
        reason: Box<str>,
    },
    /// The lease it depended on ended.
    ParentEnded,
    /// Its patience ran out while it waited.
    WaitElapsed,
    /// Its caller stopped waiting.
    Left,
}

impl EndCause {
    /// The cause in one word.
    pub fn word(&self) -> &'static str {
        match self {
            EndCause::Released => "released",
            EndCause::Expired => "expired",
            EndCause::Revoked { .. } => "revoked",
            EndCause::ParentEnded => "parent_ended",
            EndCause::WaitElapsed => "wait_elapsed",
            EndCause::Left => "left",
        }
    }
}

/// How a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndView {
    /// Which one.
    pub lease: LeaseId,
    /// Whose it was.
    pub holder: Holder,
    /// Why it ended.
    pub cause: EndCause,
    /// At which revision.
    pub revision: Revision,
    /// When, for people.
    pub at: WallTime,
    /// How long ago.
    pub ago: Span,
}
