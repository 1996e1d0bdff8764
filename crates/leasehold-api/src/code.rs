//! The one table of error codes: stable name, HTTP status, gRPC code, exit code, retry advice.
//!
//! Every refusal and failure of every API has a row here. The matches have no wildcard, so a new rejection of
//! the core does not compile until it has one. Names are contract: they are never changed or reused.

use std::fmt;

use leasehold_core::{Bound, Rejection};

/// What went wrong, in one stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A resource is held, rests or is wanted by others.
    Held,
    /// The wait was over before the resources were free.
    WaitElapsed,
    /// The caller gave up its wait.
    WaitLeft,
    /// The lease id is in use with other parameters.
    IdInUse,
    /// No such lease is known.
    UnknownLease,
    /// The lease is over.
    LeaseEnded,
    /// The lease belongs to another identity.
    NotYours,
    /// The caller lacks a right.
    NeedsRight,
    /// The grant may be a late copy of an ended one.
    TooOld,
    /// The command is a late copy of one that was done.
    LateCopy,
    /// The command was refused before.
    RefusedBefore,
    /// The token is not the current one.
    StaleToken,
    /// The lease already holds or waits for the resource.
    AlreadyClaimed,
    /// The lease does not hold the resource.
    NotClaimed,
    /// Nobody holds the resource.
    NotHeld,
    /// The lease has no such wait.
    UnknownWait,
    /// The request cannot be read at all.
    Malformed,
    /// A field of the request is missing, unknown, of the wrong type or makes no sense.
    Invalid,
    /// A name is not well formed.
    InvalidName,
    /// The ttl is outside its bounds.
    TtlOutOfBounds,
    /// The cooldown is longer than allowed.
    CooldownTooLong,
    /// A bound on what there may be is reached.
    LimitReached,
    /// The request is larger than allowed.
    TooLarge,
    /// The server has too much to do.
    Overloaded,
    /// The server's disk is full.
    DiskFull,
    /// Nobody can commit now.
    NoQuorum,
    /// The server is stopping.
    ShuttingDown,
    /// The cluster cannot be changed like this.
    ChangeRefused,
    /// The caller may not do this.
    Denied,
    /// There is no such thing.
    NotFound,
    /// The events asked for are no longer kept.
    Compacted,
    /// The entry is not as the caller expected.
    PreconditionFailed,
    /// The server has no such address.
    UnknownRoute,
    /// The address does not take this method.
    MethodNotAllowed,
    /// The body is of a kind the address does not take.
    UnsupportedMediaType,
    /// The server has a bug.
    Internal,
}

/// What a caller can do after a refusal or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nothing: the same request is refused again.
    No,
    /// The same request, later.
    Later,
    /// A request with a new lease id (or `seq`).
    NewId,
    /// It may have happened: the same request with the same lease id (and `seq`) is safe and tells.
    SameId,
}

impl Retry {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Retry::No => "no",
            Retry::Later => "later",
            Retry::NewId => "new_id",
            Retry::SameId => "same_id",
        }
    }
}

/// A row of the table.
struct Row {
    name: &'static str,
    title: &'static str,
    status: u16,
    grpc: u8,
    exit: u8,
    retry: Retry,
}

const fn row(name: &'static str, status: u16, grpc: u8, exit: u8, retry: Retry, title: &'static str) -> Row {
    Row { name, title, status, grpc, exit, retry }
}

impl Code {
    /// Every code, in the order of the table.
    pub const ALL: [Code; 36] = [
        Code::Held,
        Code::WaitElapsed,
        Code::WaitLeft,
        Code::IdInUse,
        Code::UnknownLease,
        Code::LeaseEnded,
        Code::NotYours,
        Code::NeedsRight,
        Code::TooOld,
        Code::LateCopy,
        Code::RefusedBefore,
        Code::StaleToken,
        Code::AlreadyClaimed,
        Code::NotClaimed,
        Code::NotHeld,
        Code::UnknownWait,
        Code::Malformed,
        Code::Invalid,
        Code::InvalidName,
        Code::TtlOutOfBounds,
        Code::CooldownTooLong,
        Code::LimitReached,
        Code::TooLarge,
        Code::Overloaded,
        Code::DiskFull,
        Code::NoQuorum,
        Code::ShuttingDown,
        Code::ChangeRefused,
        Code::Denied,
        Code::NotFound,
        Code::Compacted,
        Code::PreconditionFailed,
        Code::UnknownRoute,
        Code::MethodNotAllowed,
        Code::UnsupportedMediaType,
        Code::Internal,
    ];

    /// The table. Columns: name, HTTP status, gRPC code, exit code, retry advice, title.
    fn row(self) -> Row {
        match self {
            Code::Held => row("held", 409, 10, 75, Retry::Later, "The resource is held"),
            Code::WaitElapsed => row("wait_elapsed", 408, 4, 75, Retry::NewId, "The wait is over"),
            Code::WaitLeft => row("wait_left", 409, 1, 75, Retry::NewId, "The wait was given up"),
            Code::IdInUse => row("id_in_use", 409, 6, 73, Retry::NewId, "The lease id is in use"),
            Code::UnknownLease => row("unknown_lease", 404, 5, 66, Retry::NewId, "No such lease"),
            Code::LeaseEnded => row("lease_ended", 410, 9, 66, Retry::NewId, "The lease has ended"),
            Code::NotYours => row("not_yours", 403, 7, 77, Retry::No, "The lease belongs to another"),
            Code::NeedsRight => row("needs_right", 403, 7, 77, Retry::No, "A right is missing"),
            Code::TooOld => row("too_old", 409, 9, 73, Retry::NewId, "The grant is too old"),
            Code::LateCopy => row("late_copy", 409, 9, 73, Retry::NewId, "The command is a late copy"),
            Code::RefusedBefore => row("refused_before", 409, 9, 73, Retry::NewId, "The command was refused before"),
            Code::StaleToken => row("stale_token", 409, 9, 73, Retry::No, "The token is stale"),
            Code::AlreadyClaimed => row("already_claimed", 409, 6, 73, Retry::No, "The resource is claimed already"),
            Code::NotClaimed => row("not_claimed", 409, 9, 73, Retry::No, "The lease does not hold the resource"),
            Code::NotHeld => row("not_held", 409, 9, 73, Retry::No, "Nobody holds the resource"),
            Code::UnknownWait => row("unknown_wait", 404, 5, 66, Retry::No, "No such wait"),
            Code::Malformed => row("malformed", 400, 3, 2, Retry::No, "The request cannot be read"),
            Code::Invalid => row("invalid", 422, 3, 2, Retry::No, "The request is not valid"),
            Code::InvalidName => row("invalid_name", 422, 3, 2, Retry::No, "A name is not valid"),
            Code::TtlOutOfBounds => row("ttl_out_of_bounds", 422, 3, 2, Retry::No, "The ttl is out of bounds"),
            Code::CooldownTooLong => row("cooldown_too_long", 422, 3, 2, Retry::No, "The cooldown is too long"),
            Code::LimitReached => row("limit_reached", 429, 8, 73, Retry::Later, "A limit is reached"),
            Code::TooLarge => row("too_large", 413, 3, 2, Retry::No, "The request is too large"),
            Code::Overloaded => row("overloaded", 429, 8, 69, Retry::Later, "The server is overloaded"),
            Code::DiskFull => row("disk_full", 507, 8, 69, Retry::Later, "The server's disk is full"),
            Code::NoQuorum => row("no_quorum", 503, 14, 69, Retry::SameId, "Nobody can commit now"),
            Code::ShuttingDown => row("shutting_down", 503, 14, 69, Retry::SameId, "The server is stopping"),
            Code::ChangeRefused => row("change_refused", 409, 9, 73, Retry::No, "The cluster was not changed"),
            Code::Denied => row("denied", 403, 7, 77, Retry::No, "Not permitted"),
            Code::NotFound => row("not_found", 404, 5, 66, Retry::No, "Not found"),
            Code::Compacted => row("compacted", 410, 11, 66, Retry::No, "The events are no longer kept"),
            Code::PreconditionFailed => {
                row("precondition_failed", 412, 9, 73, Retry::No, "The entry is not as expected")
            }
            Code::UnknownRoute => row("unknown_route", 404, 12, 2, Retry::No, "No such address"),
            Code::MethodNotAllowed => row("method_not_allowed", 405, 12, 2, Retry::No, "The method is not allowed"),
            Code::UnsupportedMediaType => {
                row("unsupported_media_type", 415, 3, 2, Retry::No, "The kind of body is not supported")
            }
            Code::Internal => row("internal", 500, 13, 69, Retry::SameId, "The server has a bug"),
        }
    }

    /// The stable name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The code in words, the same for every occurrence.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// The HTTP status.
    pub fn status(self) -> u16 {
        self.row().status
    }

    /// The number of the gRPC code.
    pub fn grpc(self) -> u8 {
        self.row().grpc
    }

    /// The exit code of `lease`.
    pub fn exit(self) -> u8 {
        self.row().exit
    }

    /// What a caller can do.
    pub fn retry(self) -> Retry {
        self.row().retry
    }

    /// The code with this stable name.
    pub fn by_name(name: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&Rejection> for Code {
    fn from(rejection: &Rejection) -> Code {
        match rejection {
            Rejection::Held(_) => Code::Held,
            Rejection::IdInUse => Code::IdInUse,
            Rejection::UnknownLease => Code::UnknownLease,
            Rejection::Ended(_) => Code::LeaseEnded,
            Rejection::NotYours => Code::NotYours,
            Rejection::NeedsRight(_) => Code::NeedsRight,
            Rejection::TooOld { .. } => Code::TooOld,
            Rejection::LateCopy { .. } => Code::LateCopy,
            Rejection::RefusedBefore { .. } => Code::RefusedBefore,
            Rejection::StaleToken { .. } => Code::StaleToken,
            Rejection::AlreadyClaimed { .. } | Rejection::AlreadyMarker { .. } => Code::AlreadyClaimed,
            Rejection::NotClaimed { .. } => Code::NotClaimed,
            Rejection::NotHeld { .. } => Code::NotHeld,
            Rejection::AskedTwice { .. } | Rejection::AsksNothing | Rejection::OneMarkerOneClaim => Code::Invalid,
            Rejection::TtlOutOfBounds { .. } => Code::TtlOutOfBounds,
            Rejection::CooldownTooLong { .. } => Code::CooldownTooLong,
            Rejection::KeyWrittenTwice { .. } => Code::Invalid,
            Rejection::UnknownEntry { .. } => Code::NotFound,
            Rejection::LimitReached { bound, .. } => of_bound(*bound),
            Rejection::EndlessRevoke => Code::Invalid,
            Rejection::UnknownWait => Code::UnknownWait,
            Rejection::BadLimits(_) => Code::Invalid,
        }
    }
}

/// A bound on the request itself is not a matter of time: the same request never fits.
fn of_bound(bound: Bound) -> Code {
    match bound {
        Bound::ValueBytes
        | Bound::WriteOps
        | Bound::WriteDepth
        | Bound::RangeEntries
        | Bound::MetadataPairs
        | Bound::MetadataBytes
        | Bound::Renewals
        | Bound::ReasonBytes => Code::TooLarge,
        Bound::Namespaces
        | Bound::Leases
        | Bound::LeasesOfIdentity
        | Bound::ClaimsOfLease
        | Bound::EntriesOfLease
        | Bound::TreeWeight
        | Bound::TreeDepth
        | Bound::Waiters
        | Bound::SharedHolders
        | Bound::Entries
        | Bound::EntryBytes
        | Bound::StateBytes
        | Bound::AskedHolders => Code::LimitReached,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::by_name(code.name()), Some(code));
            assert!(code.name().chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{code}");
        }
    }

    #[test]
    fn a_bound_on_the_request_is_not_worth_a_retry() {
        let rejection = Rejection::LimitReached { bound: Bound::ValueBytes, max: 1 };
        assert_eq!(Code::from(&rejection).retry(), Retry::No);
        let rejection = Rejection::LimitReached { bound: Bound::Waiters, max: 1 };
        assert_eq!(Code::from(&rejection).retry(), Retry::Later);
    }
}
