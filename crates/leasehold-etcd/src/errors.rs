//! Every refusal that etcd's clients know: by its text, its code, or both.
//!
//! One table: clients in Go compare the whole text, others look for a part of it or read the code only, so neither may
//! change. Locks and elections answer with the code `UNKNOWN` where other calls name the same refusal better: that is
//! how etcd does it. What a watch is ended with is text in an answer, not a status: [`WatchEnd`].

use tonic::{Code, Status};

/// A refusal in the words of etcd.
#[allow(dead_code, reason = "clients know all of them; some are of things that do not happen here")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EtcdError {
    /// A key is missing.
    EmptyKey,
    /// What is to be kept of a key is not there.
    KeyNotFound,
    /// The value is to be kept, and one is given.
    ValueProvided,
    /// The lease is to be kept, and one is given.
    LeaseProvided,
    /// A transaction has too many steps.
    TooManyOps,
    /// A transaction writes a key twice.
    DuplicateKey,
    /// An unknown order is asked for.
    InvalidSortOption,
    /// The request is larger than the log takes.
    RequestTooLarge,
    /// The revision asked for is forgotten.
    Compacted,
    /// The revision asked for is not there yet.
    FutureRevision,
    /// The disk is full.
    NoSpace,
    /// The server has more to do than it can hold.
    TooManyRequests,
    /// There is no such lease.
    LeaseNotFound,
    /// The id of the lease is taken.
    LeaseExists,
    /// The ttl is beyond what can be granted.
    TtlTooLarge,
    /// There is no such node.
    MemberNotFound,
    /// The node cannot become the leader.
    BadTransferee,
    /// There is no leader, and the client wants one.
    NoLeader,
    /// Only the leader can do this, and this node is not it.
    NotLeader,
    /// The leader changed while the call was under way.
    LeaderChanged,
    /// The cluster did not answer in time.
    TimedOut,
    /// The server is going away.
    Stopped,
    /// Nobody could log in if authentication were on.
    RootUserMissing,
    /// There are no users to log in as.
    AuthNotEnabled,
    /// Name and password do not fit.
    AuthFailed,
    /// The token of a call is unknown or too old.
    InvalidAuthToken,
    /// The caller may not do this.
    PermissionDenied,
    /// The name of a user is missing.
    UserEmpty,
    /// There is no such user.
    UserNotFound,
    /// The name of a role is missing.
    RoleEmpty,
    /// There is no such role.
    RoleNotFound,
    /// As [`EtcdError::LeaseNotFound`], answered by the services of locks and elections.
    LockLeaseNotFound,
    /// The client's patience ended while it waited for a lock or an election.
    DeadlineExceeded,
    /// Nobody has won the election.
    ElectionNoLeader,
    /// Somebody else has won the election.
    ElectionNotLeader,
    /// The proof of having won is missing.
    MissingLeader,
}

impl EtcdError {
    /// The code of its status.
    pub(crate) fn code(self) -> Code {
        self.row().0
    }

    /// The text that clients know it by.
    pub(crate) fn text(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (Code, &'static str) {
        match self {
            EtcdError::EmptyKey => (Code::InvalidArgument, "etcdserver: key is not provided"),
            EtcdError::KeyNotFound => (Code::InvalidArgument, "etcdserver: key not found"),
            EtcdError::ValueProvided => (Code::InvalidArgument, "etcdserver: value is provided"),
            EtcdError::LeaseProvided => (Code::InvalidArgument, "etcdserver: lease is provided"),
            EtcdError::TooManyOps => (Code::InvalidArgument, "etcdserver: too many operations in txn request"),
            EtcdError::DuplicateKey => (Code::InvalidArgument, "etcdserver: duplicate key given in txn request"),
            EtcdError::InvalidSortOption => (Code::InvalidArgument, "etcdserver: invalid sort option"),
            EtcdError::RequestTooLarge => (Code::InvalidArgument, "etcdserver: request is too large"),
            EtcdError::Compacted => (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            EtcdError::FutureRevision => (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision"),
            EtcdError::NoSpace => (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            EtcdError::TooManyRequests => (Code::ResourceExhausted, "etcdserver: too many requests"),
            EtcdError::LeaseNotFound => (Code::NotFound, "etcdserver: requested lease not found"),
            EtcdError::LeaseExists => (Code::FailedPrecondition, "etcdserver: lease already exists"),
            EtcdError::TtlTooLarge => (Code::OutOfRange, "etcdserver: too large lease TTL"),
            EtcdError::MemberNotFound => (Code::NotFound, "etcdserver: member not found"),
            EtcdError::BadTransferee => (Code::FailedPrecondition, "etcdserver: bad leader transferee"),
            EtcdError::NoLeader => (Code::Unavailable, "etcdserver: no leader"),
            EtcdError::NotLeader => (Code::FailedPrecondition, "etcdserver: not leader"),
            EtcdError::LeaderChanged => (Code::Unavailable, "etcdserver: leader changed"),
            EtcdError::TimedOut => (Code::Unavailable, "etcdserver: request timed out"),
            EtcdError::Stopped => (Code::Unavailable, "etcdserver: server stopped"),
            EtcdError::RootUserMissing => (Code::FailedPrecondition, "etcdserver: root user does not exist"),
            EtcdError::AuthNotEnabled => (Code::FailedPrecondition, "etcdserver: authentication is not enabled"),
            EtcdError::AuthFailed => {
                (Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password")
            }
            EtcdError::InvalidAuthToken => (Code::Unauthenticated, "etcdserver: invalid auth token"),
            EtcdError::PermissionDenied => (Code::PermissionDenied, "etcdserver: permission denied"),
            EtcdError::UserEmpty => (Code::InvalidArgument, "etcdserver: user name is empty"),
            EtcdError::UserNotFound => (Code::FailedPrecondition, "etcdserver: user name not found"),
            EtcdError::RoleEmpty => (Code::InvalidArgument, "etcdserver: role name is empty"),
            EtcdError::RoleNotFound => (Code::FailedPrecondition, "etcdserver: role name not found"),
            EtcdError::LockLeaseNotFound => (Code::Unknown, "etcdserver: requested lease not found"),
            EtcdError::DeadlineExceeded => (Code::Unknown, "context deadline exceeded"),
            EtcdError::ElectionNoLeader => (Code::Unknown, "election: no leader"),
            EtcdError::ElectionNotLeader => (Code::Unknown, "election: not leader"),
            EtcdError::MissingLeader => (Code::Unknown, "\"leader\" field must be provided"),
        }
    }
}

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Status {
        Status::new(error.code(), error.text())
    }
}

/// Why a watch is not begun, as its only answer says.
///
/// A watch on what is forgotten has no reason: its last answer names the oldest revision that can be watched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The id asked for is taken on this stream.
    DuplicateWatchId,
    /// The range ends before it begins.
    EmptyRange,
    /// The client believes that it has logged in.
    InvalidToken,
}

impl WatchEnd {
    /// The reason of the answer.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            WatchEnd::DuplicateWatchId => "mvcc: duplicate watch ID provided on the WatchStream",
            WatchEnd::EmptyRange => "mvcc: watcher range is empty",
            WatchEnd::InvalidToken => "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EtcdError as E;

    /// What was measured on etcd 3.4 and 3.5, and where it was not, what their clients compare with.
    #[test]
    fn every_refusal_has_the_text_and_the_code_that_clients_know() {
        let rows = [
            (E::EmptyKey, 3, "etcdserver: key is not provided"),
            (E::KeyNotFound, 3, "etcdserver: key not found"),
            (E::ValueProvided, 3, "etcdserver: value is provided"),
            (E::LeaseProvided, 3, "etcdserver: lease is provided"),
            (E::TooManyOps, 3, "etcdserver: too many operations in txn request"),
            (E::DuplicateKey, 3, "etcdserver: duplicate key given in txn request"),
            (E::InvalidSortOption, 3, "etcdserver: invalid sort option"),
            (E::RequestTooLarge, 3, "etcdserver: request is too large"),
            (E::Compacted, 11, "etcdserver: mvcc: required revision has been compacted"),
            (E::FutureRevision, 11, "etcdserver: mvcc: required revision is a future revision"),
            (E::NoSpace, 8, "etcdserver: mvcc: database space exceeded"),
            (E::TooManyRequests, 8, "etcdserver: too many requests"),
            (E::LeaseNotFound, 5, "etcdserver: requested lease not found"),
            (E::LeaseExists, 9, "etcdserver: lease already exists"),
            (E::TtlTooLarge, 11, "etcdserver: too large lease TTL"),
            (E::MemberNotFound, 5, "etcdserver: member not found"),
            (E::BadTransferee, 9, "etcdserver: bad leader transferee"),
            (E::NoLeader, 14, "etcdserver: no leader"),
            (E::NotLeader, 9, "etcdserver: not leader"),
            (E::LeaderChanged, 14, "etcdserver: leader changed"),
            (E::TimedOut, 14, "etcdserver: request timed out"),
            (E::Stopped, 14, "etcdserver: server stopped"),
            (E::RootUserMissing, 9, "etcdserver: root user does not exist"),
            (E::AuthNotEnabled, 9, "etcdserver: authentication is not enabled"),
            (E::AuthFailed, 3, "etcdserver: authentication failed, invalid user ID or password"),
            (E::InvalidAuthToken, 16, "etcdserver: invalid auth token"),
            (E::PermissionDenied, 7, "etcdserver: permission denied"),
            (E::UserEmpty, 3, "etcdserver: user name is empty"),
            (E::UserNotFound, 9, "etcdserver: user name not found"),
            (E::RoleEmpty, 3, "etcdserver: role name is empty"),
            (E::RoleNotFound, 9, "etcdserver: role name not found"),
            (E::LockLeaseNotFound, 2, "etcdserver: requested lease not found"),
            (E::DeadlineExceeded, 2, "context deadline exceeded"),
            (E::ElectionNoLeader, 2, "election: no leader"),
            (E::ElectionNotLeader, 2, "election: not leader"),
            (E::MissingLeader, 2, "\"leader\" field must be provided"),
        ];
        for (error, code, text) in rows {
            let status = Status::from(error);
            assert_eq!((status.code() as i32, status.message()), (code, text), "{error:?}");
        }
    }

    #[test]
    fn a_watch_says_why_it_ends() {
        assert_eq!(WatchEnd::DuplicateWatchId.reason(), "mvcc: duplicate watch ID provided on the WatchStream");
        assert_eq!(WatchEnd::EmptyRange.reason(), "mvcc: watcher range is empty");
    }
}
