//! Failures and rejections as every API tells them.
//!
//! Status and retry advice come from the one table of codes; what is decided here is only after how long it is worth
//! trying again.

use std::time::Duration;

use leasehold_api::{Code, Problem, SpanText};
use leasehold_core::{HeldBy, Rejection, Remaining, Span};

use crate::Failure;

/// The longest pause that is asked for: a holder may release long before its time is over.
const RETRY_AFTER_MAX: Span = Span::seconds(30);
/// What is asked for where nothing better is known.
const RETRY_AFTER_USUAL: Span = Span::seconds(1);
/// A full disk needs somebody to free space.
const RETRY_AFTER_DISK: Span = Span::seconds(5);

/// The problem of a refused command, with advice when to try again.
pub fn refused(rejection: &Rejection) -> Problem {
    let mut problem = Problem::from(rejection);
    problem.retry_after = if let Rejection::Held(held) = rejection {
        Some(SpanText(until_free(held)))
    } else if problem.status == Code::LimitReached.status() {
        Some(SpanText(RETRY_AFTER_USUAL))
    } else {
        None
    };
    problem
}

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Problem {
        let detail = failure.to_string();
        match failure {
            Failure::Rejected(rejection) => refused(rejection),
            Failure::WaitElapsed { held, position } => Problem {
                retry_after: Some(SpanText(until_free(held))),
                ..Problem::held(Code::WaitElapsed, detail, held, *position)
            },
            Failure::WaitLeft => Problem::new(Code::WaitLeft, detail),
            Failure::Denied(_) => Problem::new(Code::Denied, detail),
            Failure::Overloaded { retry_after } => {
                Problem { retry_after: Some(span(*retry_after)), ..Problem::new(Code::Overloaded, detail) }
            }
            Failure::DiskFull => {
                Problem { retry_after: Some(SpanText(RETRY_AFTER_DISK)), ..Problem::new(Code::DiskFull, detail) }
            }
            Failure::NoQuorum { may_have_happened, .. } => unavailable(Code::NoQuorum, detail, *may_have_happened),
            Failure::ShuttingDown { may_have_happened } => unavailable(Code::ShuttingDown, detail, *may_have_happened),
            Failure::Compacted { oldest } => {
                Problem { oldest: Some(oldest.0), ..Problem::new(Code::Compacted, detail) }
            }
            Failure::FutureRevision { .. } => {
                Problem { field: Some("since".to_owned()), ..Problem::new(Code::Invalid, detail) }
            }
            Failure::ChangeRefused(_) => Problem::new(Code::ChangeRefused, detail),
            Failure::TooLarge { .. } => Problem::new(Code::TooLarge, detail),
        }
    }
}

/// Nobody can answer now. What certainly did not happen can be sent again as it is.
fn unavailable(code: Code, detail: String, may_have_happened: bool) -> Problem {
    Problem {
        may_have_happened: Some(may_have_happened),
        retry_after: Some(SpanText(RETRY_AFTER_USUAL)),
        ..Problem::new(code, detail)
    }
}

/// When it is worth asking again for something held: when it may be free, by all that is known.
fn until_free(held: &HeldBy) -> Span {
    let ends = held.holders.iter().filter_map(|holder| match holder.remaining {
        Remaining::For(span) => Some(span),
        Remaining::Endless => None,
    });
    ends.chain(held.rests).chain(held.estimate).chain([RETRY_AFTER_MAX]).min().unwrap_or(RETRY_AFTER_USUAL)
}

fn span(duration: Duration) -> SpanText {
    SpanText(Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use leasehold_core::ResourceName;

    use super::*;

    #[test]
    fn what_is_held_is_worth_asking_for_when_it_may_be_free() {
        let held = HeldBy {
            resource: ResourceName::new("a").unwrap(),
            holders: Vec::new(),
            holder_count: 0,
            queue: 0,
            rests: Some(Span(2500)),
            estimate: None,
        };
        assert_eq!(refused(&Rejection::Held(held.clone())).retry_after, Some(SpanText(Span(2500))));
        let elapsed = Problem::from(&Failure::WaitElapsed { held: Box::new(held), position: 4 });
        assert_eq!((elapsed.status, elapsed.retry_after), (408, Some(SpanText(Span(2500)))));
        assert_eq!(elapsed.queue.and_then(|queue| queue.position), Some(4));
    }

    #[test]
    fn what_nobody_can_answer_says_whether_it_may_have_happened() {
        let problem = Problem::from(&Failure::ShuttingDown { may_have_happened: false });
        assert_eq!((problem.may_have_happened, problem.code.as_str()), (Some(false), "shutting_down"));
        assert_eq!(Problem::from(&Failure::WaitLeft).code, "wait_left");
    }
}
