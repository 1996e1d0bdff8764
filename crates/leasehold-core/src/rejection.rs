//! The domain's refusals, as data, and the bounds that cause some of them.

use crate::{EndView, HeldBy, Key, LeaseTime, ResourceName, Span, Token};

/// Something that has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Namespaces.
    Namespaces,
    /// Leases of a namespace.
    Leases,
    /// Leases of an identity.
    LeasesOfIdentity,
    /// Claims of a lease.
    ClaimsOfLease,
    /// Entries bound to a lease.
    EntriesOfLease,
    /// What ends together.
    TreeWeight,
    /// The depth of nested leases.
    TreeDepth,
    /// Waiters of a resource.
    Waiters,
    /// Holders of a shared resource.
    SharedHolders,
    /// Entries of a namespace.
    Entries,
    /// Bytes of one value.
    ValueBytes,
    /// Bytes of all entries of a namespace.
    EntryBytes,
    /// Bytes of everything.
    StateBytes,
    /// Steps of a write.
    WriteOps,
    /// Levels of nested writes.
    WriteDepth,
    /// Entries touched by a write.
    RangeEntries,
    /// Pairs of metadata.
    MetadataPairs,
    /// Bytes of metadata.
    MetadataBytes,
    /// Leases in one renewal.
    Renewals,
    /// Bytes of the reason of an ask.
    ReasonBytes,
    /// Holders asked by one log entry.
    AskedHolders,
}

impl Bound {
    /// The bound as people say it.
    pub fn phrase(self) -> &'static str {
        match self {
            Bound::Namespaces => "namespaces",
            Bound::Leases => "leases in the namespace",
            Bound::LeasesOfIdentity => "leases of one caller",
            Bound::ClaimsOfLease => "claims on one lease",
            Bound::EntriesOfLease => "entries bound to one lease",
            Bound::TreeWeight => "leases, claims and entries that end together",
            Bound::TreeDepth => "levels of nested leases",
            Bound::Waiters => "waiters for one resource",
            Bound::SharedHolders => "holders of one shared resource",
            Bound::Entries => "entries in the namespace",
            Bound::ValueBytes => "bytes in one value",
            Bound::EntryBytes => "bytes of entries in the namespace",
            Bound::StateBytes => "bytes of state on this cluster",
            Bound::WriteOps => "steps in one write",
            Bound::WriteDepth => "levels of nested writes",
            Bound::RangeEntries => "entries touched by one write",
            Bound::MetadataPairs => "metadata texts on one lease",
            Bound::MetadataBytes => "bytes of metadata on one lease",
            Bound::Renewals => "leases in one renewal",
            Bound::ReasonBytes => "bytes in one reason",
            Bound::AskedHolders => "holders asked at one time",
        }
    }
}

/// The domain's refusal. A refused command changes nothing of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A resource cannot be had now.
    #[error("{} is {}; wait for it, or try again later", .0.resource, describe_held(.0))]
    Held(HeldBy),
    /// The id is in use by a lease with other parameters or of another identity.
    #[error("this lease id is in use with other parameters; choose a new random id")]
    IdInUse,
    /// No such lease is known.
    #[error("no such lease: it never existed, or ended too long ago to be remembered")]
    UnknownLease,
    /// The lease is over.
    #[error("the lease of {} ended {} ago: {}; stop acting on it and grant a new one", .0.holder, .0.ago, .0.cause.word())]
    Ended(EndView),
    /// Another identity created the lease.
    #[error("the lease belongs to another identity; only that one or an operator may use it")]
    NotYours,
    /// The command needs a right its caller does not have.
    #[error("this needs the right `{0}`; ask an operator")]
    NeedsRight(&'static str),
    /// The grant may be a late copy of one whose lease has ended.
    #[error(
        "the grant last saw lease time {} and ends up to {} are no longer remembered, so it may be a late copy; \
         send it again with a new id and the present lease time", .seen.0, .horizon.0
    )]
    TooOld {
        /// What the grant's client last saw.
        seen: LeaseTime,
        /// Ends up to this time may be forgotten.
        horizon: LeaseTime,
    },
    /// The command's number is below one that was already done and its outcome is gone.
    #[error("command {seq} on this lease is a late copy; its outcome was acknowledged or is no longer kept")]
    LateCopy {
        /// The number of the command.
        seq: u64,
    },
    /// The command was refused before; a repetition stays refused.
    #[error("command {seq} on this lease was refused before; send it again with a new seq")]
    RefusedBefore {
        /// The number of the command.
        seq: u64,
    },
    /// The token is not the current one.
    #[error("token {given} on {resource} is stale{}; stop writing, claim again", describe_current(.current))]
    StaleToken {
        /// On which resource.
        resource: ResourceName,
        /// The token that was shown.
        given: Token,
        /// The token of the present holder, if any.
        current: Option<Token>,
    },
    /// The lease already holds or waits for the resource.
    #[error("the lease already holds or waits for {resource}")]
    AlreadyClaimed {
        /// Which resource.
        resource: ResourceName,
    },
    /// The lease does not hold the resource.
    #[error("the lease does not hold {resource}")]
    NotClaimed {
        /// Which resource.
        resource: ResourceName,
    },
    /// Nobody holds the resource.
    #[error("nobody holds {resource}, so nobody can be asked to hand it over; claim it instead")]
    NotHeld {
        /// Which resource.
        resource: ResourceName,
    },
    /// The same resource was asked for twice in one command.
    #[error("{resource} is asked for twice in one command")]
    AskedTwice {
        /// Which resource.
        resource: ResourceName,
    },
    /// A claim command that asks for nothing.
    #[error("the command asks for no resource; name at least one")]
    AsksNothing,
    /// The ttl is outside its bounds.
    #[error("a ttl of {given} is outside {min} to {max}")]
    TtlOutOfBounds {
        /// What was asked.
        given: Span,
        /// The shortest.
        min: Span,
        /// The longest.
        max: Span,
    },
    /// The cooldown is longer than allowed.
    #[error("a cooldown of {given} is longer than {max}")]
    CooldownTooLong {
        /// What was asked.
        given: Span,
        /// The longest.
        max: Span,
    },
    /// The same key is written twice in one write.
    #[error("the key {key} is written twice in one write")]
    KeyWrittenTwice {
        /// Which key.
        key: Key,
    },
    /// There is no entry to keep the value or binding of.
    #[error("there is no entry {key} whose value or lease could be kept")]
    UnknownEntry {
        /// Which key.
        key: Key,
    },
    /// A marker stands for one claim.
    #[error("a claim with a marker asks for one resource")]
    OneMarkerOneClaim,
    /// The key is the marker of another claim.
    #[error("the key {key} already stands for a claim; choose another")]
    AlreadyMarker {
        /// Which key.
        key: Key,
    },
    /// A bound is reached.
    #[error("at most {max} {} are allowed", .bound.phrase())]
    LimitReached {
        /// Of what.
        bound: Bound,
        /// How many are allowed.
        max: u64,
    },
    /// An endless lease has no deadline that its resources could rest until.
    #[error("the lease is endless, so there is no deadline to wait for; revoke it with `now`")]
    EndlessRevoke,
    /// No such wait.
    #[error("the lease has no such wait: it was granted, has elapsed or was left")]
    UnknownWait,
    /// The limits contradict each other.
    #[error("the limits contradict each other: {0}")]
    BadLimits(&'static str),
}

impl Rejection {
    /// The refusal of something that would exceed a bound.
    pub(crate) fn limit(bound: Bound, max: impl Into<u64>) -> Box<Rejection> {
        Box::new(Rejection::LimitReached { bound, max: max.into() })
    }
}

fn describe_held(held: &HeldBy) -> String {
    match (held.holders.first(), held.rests) {
        (Some(first), _) => format!("held by {} (token {})", first.holder, first.token),
        (None, Some(rests)) => format!("resting for {rests} after an unclean end or a restore"),
        (None, None) => format!("wanted by {} before you", held.queue),
    }
}

fn describe_current(current: &Option<Token>) -> String {
    match current {
        Some(token) => format!(", {token} is current"),
        None => ", nobody holds it".to_owned(),
    }
}
