//! Why a lease is not had, or not any more.

use std::time::Duration;

use leasehold_api::{Code, Problem};

use crate::store::Capability;

/// Why a call of the client has no good answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Another holds it, and the call was not to wait. The problem names the holders and the queue.
    #[error("{}", .0.detail)]
    Held(Box<Problem>),
    /// It was not free within the wait.
    #[error("{}", .problem.detail)]
    TimedOut {
        /// The place the wait had reached, from 1; none if the store has no queue.
        position: Option<u32>,
        /// Who and what stood in the way.
        problem: Box<Problem>,
    },
    /// No store could be reached, or none answered in time.
    #[error("cannot reach {addr}: {cause}")]
    Unreachable {
        /// Where it was expected.
        addr: String,
        /// What happened instead of an answer.
        cause: String,
    },
    /// A store was reached and cannot do it now: nobody leads, it is stopping, or it has too much to do. The problem
    /// says whether it may have happened; repeating it is safe.
    #[error("{}", .0.detail)]
    Unavailable(Box<Problem>),
    /// The lease is lost, or given back.
    #[error("the lease on {resource} is lost: {cause}; stop acting on it")]
    Lost {
        /// The first resource it held.
        resource: String,
        /// Why.
        cause: LostCause,
    },
    /// The lease lasts, but not as long as was asked for.
    #[error("the lease on {resource} is sure for {}, not for {}; renew first, or stop", text(*.left), text(*.asked))]
    TooShort {
        /// The first resource it holds.
        resource: String,
        /// How long it is sure.
        left: Duration,
        /// How long it was to be sure.
        asked: Duration,
    },
    /// The caller may not do this.
    #[error("{}", .0.detail)]
    Denied(Box<Problem>),
    /// It contradicts what is there: an id in use, a stale token, a lease that is over.
    #[error("{}", .0.detail)]
    Conflict(Box<Problem>),
    /// What was asked for makes no sense.
    #[error("{}", .0.detail)]
    Invalid(Box<Problem>),
    /// The store cannot promise what was asked for.
    #[error("the store {store} has no {wanted}; use another store, or do without it")]
    Unsupported {
        /// Which store.
        store: &'static str,
        /// What it lacks.
        wanted: Capability,
    },
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostCause {
    /// Its time ran out.
    #[error("its time ran out")]
    Expired,
    /// Another holds the resource with a later token.
    #[error("another holds it with token {token}")]
    Superseded {
        /// The token of the other one.
        token: u64,
    },
    /// An operator took it.
    #[error("it was revoked{}: {reason}", .by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    Revoked {
        /// Who.
        by: Option<String>,
        /// Why.
        reason: String,
    },
    /// It was handed over to one who asked.
    #[error("it was handed over")]
    HandedOver,
    /// It was given back by this client.
    #[error("it was released")]
    Released,
    /// It could not be renewed before the local deadline; the store may still count it as held.
    #[error("it could not be renewed in time: {cause}")]
    Unreachable {
        /// What went wrong last.
        cause: String,
    },
}

impl LostCause {
    /// The cause that a service tells with one word, such as `expired`.
    pub(crate) fn from_end(word: &str, by: Option<String>, reason: Option<String>) -> LostCause {
        match word {
            "revoked" => LostCause::Revoked { by, reason: reason.unwrap_or_default() },
            "parent_ended" => LostCause::Revoked { by: None, reason: "the lease it depended on ended".to_owned() },
            "released" => LostCause::Released,
            _ => LostCause::Expired,
        }
    }
}

impl Error {
    /// The error that a refusal of the service stands for.
    pub fn from_problem(problem: Problem) -> Error {
        let problem = Box::new(problem);
        match problem.known_code() {
            Some(Code::Held) => Error::Held(problem),
            Some(Code::WaitElapsed) => {
                Error::TimedOut { position: problem.queue.as_ref().and_then(|queue| queue.position), problem }
            }
            _ => match problem.exit() {
                77 => Error::Denied(problem),
                66 | 73 => Error::Conflict(problem),
                69 | 75 => Error::Unavailable(problem),
                _ => Error::Invalid(problem),
            },
        }
    }

    /// The error of a value that makes no sense.
    pub fn invalid(field: &str, detail: impl Into<String>) -> Error {
        let problem = Problem::new(Code::Invalid, detail);
        Error::Invalid(Box::new(Problem { field: Some(field.to_owned()), ..problem }))
    }

    /// The refusal behind it, if a service gave one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Held(problem)
            | Error::TimedOut { problem, .. }
            | Error::Unavailable(problem)
            | Error::Denied(problem)
            | Error::Conflict(problem)
            | Error::Invalid(problem) => Some(problem),
            Error::Unreachable { .. } | Error::Lost { .. } | Error::TooShort { .. } | Error::Unsupported { .. } => None,
        }
    }

    /// Whether a later attempt may have more luck although nothing else changes.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Unreachable { .. } | Error::Unavailable(_))
    }

    /// Whether another server of the same cluster may do better: this one has no leader, or is stopping.
    pub(crate) fn is_of_this_server(&self) -> bool {
        matches!(self.problem().and_then(Problem::known_code), Some(Code::NoQuorum | Code::ShuttingDown))
    }
}

fn text(duration: Duration) -> String {
    format!("{:?}", Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}
