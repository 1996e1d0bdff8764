//! What the service refuses, in the words of etcd.
//!
//! A refusal that etcd knows gets its text and code. One that it does not know keeps ours, with the code that makes a
//! client do the right thing: give up, or try again.

use leasehold_core::{Bound, Rejection};
use leasehold_service::Failure;
use tonic::Status;

use crate::errors::EtcdError;

/// The status of a failed call.
pub(crate) fn refused(failure: Failure) -> Status {
    match failure {
        Failure::Rejected(rejection) => rejected(&rejection),
        Failure::Compacted { .. } => EtcdError::Compacted.into(),
        Failure::FutureRevision { .. } => EtcdError::FutureRevision.into(),
        Failure::TooLarge { .. } => EtcdError::RequestTooLarge.into(),
        Failure::DiskFull => EtcdError::NoSpace.into(),
        Failure::Overloaded { .. } => EtcdError::TooManyRequests.into(),
        Failure::ShuttingDown { .. } => EtcdError::Stopped.into(),
        Failure::NoQuorum { may_have_happened: false, .. } => EtcdError::NoLeader.into(),
        Failure::NoQuorum { may_have_happened: true, .. } => EtcdError::TimedOut.into(),
        Failure::Denied(_) => EtcdError::PermissionDenied.into(),
        other @ (Failure::WaitElapsed { .. } | Failure::WaitLeft | Failure::ChangeRefused(_)) => {
            Status::failed_precondition(format!("leasehold: {other}"))
        }
    }
}

fn rejected(rejection: &Rejection) -> Status {
    match rejection {
        Rejection::UnknownLease | Rejection::Ended(_) | Rejection::NotYours => EtcdError::LeaseNotFound.into(),
        Rejection::IdInUse => EtcdError::LeaseExists.into(),
        Rejection::TtlOutOfBounds { .. } => EtcdError::TtlTooLarge.into(),
        Rejection::KeyWrittenTwice { .. } => EtcdError::DuplicateKey.into(),
        Rejection::UnknownEntry { .. } => EtcdError::KeyNotFound.into(),
        Rejection::LimitReached { bound, .. } => limited(*bound, rejection),
        Rejection::NeedsRight(_) => EtcdError::PermissionDenied.into(),
        Rejection::Held(_)
        | Rejection::TooOld { .. }
        | Rejection::LateCopy { .. }
        | Rejection::RefusedBefore { .. }
        | Rejection::StaleToken { .. }
        | Rejection::AlreadyClaimed { .. }
        | Rejection::NotClaimed { .. }
        | Rejection::NotHeld { .. }
        | Rejection::AskedTwice { .. }
        | Rejection::AsksNothing
        | Rejection::CooldownTooLong { .. }
        | Rejection::OneMarkerOneClaim
        | Rejection::AlreadyMarker { .. }
        | Rejection::EndlessRevoke
        | Rejection::UnknownWait
        | Rejection::BadLimits(_) => Status::failed_precondition(format!("leasehold: {rejection}")),
    }
}

fn limited(bound: Bound, rejection: &Rejection) -> Status {
    match bound {
        Bound::WriteOps => EtcdError::TooManyOps.into(),
        Bound::ValueBytes => EtcdError::RequestTooLarge.into(),
        Bound::Entries | Bound::EntryBytes | Bound::StateBytes | Bound::Namespaces => EtcdError::NoSpace.into(),
        Bound::WriteDepth | Bound::RangeEntries => Status::invalid_argument(format!("leasehold: {rejection}")),
        Bound::Leases
        | Bound::LeasesOfIdentity
        | Bound::ClaimsOfLease
        | Bound::EntriesOfLease
        | Bound::TreeWeight
        | Bound::TreeDepth
        | Bound::Waiters
        | Bound::SharedHolders
        | Bound::MetadataPairs
        | Bound::MetadataBytes
        | Bound::Renewals
        | Bound::ReasonBytes
        | Bound::AskedHolders => Status::resource_exhausted(format!("leasehold: {rejection}")),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use EtcdError as E;

    #[test]
    fn failures_of_the_service_are_told_in_etcds_words() {
        let (oldest, given) = (leasehold_core::Revision(5), leasehold_core::Revision(9));
        let rows = [
            (Failure::Denied("x".into()), E::PermissionDenied),
            (Failure::Overloaded { retry_after: std::time::Duration::ZERO }, E::TooManyRequests),
            (Failure::DiskFull, E::NoSpace),
            (Failure::NoQuorum { may_have_happened: false, why: "x".into() }, E::NoLeader),
            (Failure::NoQuorum { may_have_happened: true, why: "x".into() }, E::TimedOut),
            (Failure::ShuttingDown { may_have_happened: true }, E::Stopped),
            (Failure::Compacted { oldest }, E::Compacted),
            (Failure::FutureRevision { given, present: oldest }, E::FutureRevision),
            (Failure::TooLarge { size: 2, max: 1 }, E::RequestTooLarge),
        ];
        for (failure, error) in rows {
            let said = failure.to_string();
            let status = refused(failure);
            assert_eq!((status.code(), status.message()), (error.code(), error.text()), "{said}");
        }
        let status = refused(Failure::ChangeRefused("no".into()));
        assert_eq!(
            (status.code(), status.message()),
            (Code::FailedPrecondition, "leasehold: the cluster was not changed: no")
        );
    }
}
