//! What a refused renewal means for the holder.

use leasehold_api::{Code, Problem};

use crate::{Error, LostCause};

/// Why the lease is lost if its renewal was answered with this error; none if a repetition may help.
pub(super) fn cause_of(error: &Error) -> Option<LostCause> {
    match error {
        Error::Unreachable { .. } | Error::Unavailable(_) => None,
        Error::Lost { cause, .. } => Some(cause.clone()),
        Error::Held(problem) => Some(superseded(problem)),
        Error::Denied(problem) => Some(LostCause::Revoked { by: None, reason: problem.detail.clone() }),
        Error::Conflict(problem) | Error::Invalid(problem) | Error::TimedOut { problem, .. } => refused(problem),
        Error::TooShort { .. } | Error::Unsupported { .. } => {
            Some(LostCause::Revoked { by: None, reason: error.to_string() })
        }
    }
}

fn refused(problem: &Problem) -> Option<LostCause> {
    if let Some(ended) = &problem.ended {
        return Some(LostCause::from_end(&ended.cause, ended.by.clone(), ended.reason.clone()));
    }
    match problem.known_code() {
        Some(Code::StaleToken) => Some(superseded(problem)),
        Some(Code::UnknownLease | Code::LeaseEnded) => Some(LostCause::Expired),
        // A bound that is reached may have room later.
        _ if problem.retry == "later" => None,
        _ => Some(LostCause::Revoked { by: None, reason: problem.detail.clone() }),
    }
}

fn superseded(problem: &Problem) -> LostCause {
    let holder = problem.holders.iter().flatten().next().map(|holder| holder.token);
    match problem.current_token.or(holder) {
        Some(token) => LostCause::Superseded { token },
        None => LostCause::Expired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_why_the_lease_is_lost() {
        let unreachable = Error::Unreachable { addr: "a".into(), cause: "refused".into() };
        assert_eq!(cause_of(&unreachable), None);
        for code in [Code::NoQuorum, Code::ShuttingDown, Code::Overloaded] {
            let error = Error::from_problem(Problem::new(code, "not now"));
            assert!(error.is_passing() && cause_of(&error).is_none(), "{code}");
        }
        let unknown = Error::from_problem(Problem::new(Code::UnknownLease, "gone"));
        assert_eq!(cause_of(&unknown), Some(LostCause::Expired));
        let stale = Problem { current_token: Some(9), ..Problem::new(Code::StaleToken, "stale") };
        assert_eq!(cause_of(&Error::from_problem(stale)), Some(LostCause::Superseded { token: 9 }));
        let full = Error::from_problem(Problem::new(Code::LimitReached, "full"));
        assert_eq!(cause_of(&full), None);
    }
}
