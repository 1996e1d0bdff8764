//! Why the service has no good answer.

use std::borrow::Cow;
use std::time::Duration;

use leasehold_core::{HeldBy, Rejection, Revision};

/// Why the service has no good answer: the domain's refusal, or the world not cooperating.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The domain refused.
    #[error("{0}")]
    Rejected(Box<Rejection>),
    /// The wait was over before the resources were free.
    #[error("{} was not free within the wait", .held.resource)]
    WaitElapsed {
        /// Who and what stood in the way.
        held: Box<HeldBy>,
        /// The last place in the queue.
        position: u32,
    },
    /// The caller gave up its wait.
    #[error("the wait was given up; nothing of it is left in any queue")]
    WaitLeft,
    /// The caller may not do this.
    #[error("not permitted: {0}")]
    Denied(String),
    /// Too much is waiting to be done.
    #[error("the server is overloaded; try again in {} ms", .retry_after.as_millis())]
    Overloaded {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// There is no room on the disk for new work.
    #[error("the server's disk is full; free space on it, then try again")]
    DiskFull,
    /// Nobody can commit now.
    #[error("no leader can commit now: {why}; try again, or another node")]
    NoQuorum {
        /// Whether the command may have taken effect.
        may_have_happened: bool,
        /// What this node knows of the cause.
        why: Cow<'static, str>,
    },
    /// The server is stopping.
    #[error("the server is shutting down; try another one, or this one again in a moment")]
    ShuttingDown {
        /// Whether the command may have taken effect.
        may_have_happened: bool,
    },
    /// The watch asks for events that are no longer kept.
    #[error("events up to revision {oldest} are no longer kept; read the present state and watch from its revision")]
    Compacted {
        /// The oldest revision one can resume after.
        oldest: Revision,
    },
    /// The watch asks to resume after a revision that has not been reached.
    #[error("revision {given} has not been reached, the present one is {present}; watch from that")]
    FutureRevision {
        /// What was asked for.
        given: Revision,
        /// What there is.
        present: Revision,
    },
    /// The cluster cannot be changed like this now.
    #[error("the cluster was not changed: {0}")]
    ChangeRefused(String),
    /// The command is larger than an entry of the log may be.
    #[error("the command has {size} bytes, at most {max} are allowed")]
    TooLarge {
        /// How many it has.
        size: usize,
        /// How many it may have.
        max: usize,
    },
}

impl From<Box<Rejection>> for Failure {
    fn from(rejection: Box<Rejection>) -> Self {
        Failure::Rejected(rejection)
    }
}
