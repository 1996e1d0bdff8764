//! Refusals and failures as HTTP answers.
//!
//! A [`Refusal`] carries its problem to the edge of the router, where it becomes problem+json. Status and retry
//! advice come from the one table of codes; what is decided here is only how long `Retry-After` asks to wait.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Code, Invalid, Problem, SpanText};
use leasehold_core::{HeldBy, Rejection, Remaining, Span};
use leasehold_service::Failure;

/// The longest wait that `Retry-After` asks for: a holder may release long before its time is over.
const RETRY_AFTER_MAX: Span = Span::seconds(30);
/// What it asks for where nothing better is known.
const RETRY_AFTER_USUAL: Span = Span::seconds(1);
/// A full disk needs somebody to free space.
const RETRY_AFTER_DISK: Span = Span::seconds(5);

/// An answer that says no.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) problem: Box<Problem>,
    pub(crate) headers: HeaderMap,
}

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Refusal {
        Problem::new(code, detail).into()
    }

    /// The service answered something that does not belong to the command: a bug.
    pub(crate) fn bug(what: &'static str) -> Refusal {
        tracing::error!(what, "the outcome does not belong to the command");
        let problem = Problem::new(Code::Internal, format!("the server has a bug: its outcome is not one of {what}"));
        Problem { may_have_happened: Some(true), ..problem }.into()
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal { problem: Box::new(problem), headers: HeaderMap::new() }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        Problem::from(&invalid).into()
    }
}

impl From<Box<Rejection>> for Refusal {
    fn from(rejection: Box<Rejection>) -> Refusal {
        let mut problem = Problem::from(&*rejection);
        problem.retry_after = if let Rejection::Held(held) = &*rejection {
            Some(SpanText(until_free(held)))
        } else if problem.status == Code::LimitReached.status() {
            Some(SpanText(RETRY_AFTER_USUAL))
        } else {
            None
        };
        problem.into()
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        let detail = failure.to_string();
        let problem = match failure {
            Failure::Rejected(rejection) => return rejection.into(),
            Failure::WaitElapsed { held, position } => Problem {
                retry_after: Some(SpanText(until_free(&held))),
                ..Problem::held(Code::WaitElapsed, detail, &held, position)
            },
            Failure::Denied(_) => Problem::new(Code::Denied, detail),
            Failure::Overloaded { retry_after } => {
                Problem { retry_after: Some(span(retry_after)), ..Problem::new(Code::Overloaded, detail) }
            }
            Failure::DiskFull => {
                Problem { retry_after: Some(SpanText(RETRY_AFTER_DISK)), ..Problem::new(Code::DiskFull, detail) }
            }
            Failure::NoQuorum { may_have_happened } => unavailable(Code::NoQuorum, detail, may_have_happened),
            Failure::ShuttingDown { may_have_happened } => unavailable(Code::ShuttingDown, detail, may_have_happened),
            Failure::Compacted { oldest } => {
                Problem { oldest: Some(oldest.0), ..Problem::new(Code::Compacted, detail) }
            }
            Failure::FutureRevision { .. } => {
                Problem { field: Some("since".to_owned()), ..Problem::new(Code::Invalid, detail) }
            }
            Failure::TooLarge { .. } => Problem::new(Code::TooLarge, detail),
        };
        problem.into()
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

/// A duration of the service as a span.
pub(crate) fn span(duration: Duration) -> SpanText {
    SpanText(Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.headers_mut().extend(self.headers);
        // Callers may rely on the header with these; `retry` says whether the same request can succeed at all.
        let promised = matches!(self.problem.status, 409 | 429 | 503).then_some(SpanText(RETRY_AFTER_USUAL));
        if let Some(after) = self.problem.retry_after.or(promised) {
            let seconds = after.0.0.div_ceil(1000).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(*self.problem);
        response
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ResourceName, Revision};

    use super::*;

    fn retry_after(failure: Failure) -> (u16, Option<String>) {
        let response = Refusal::from(failure).into_response();
        let after = response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), after)
    }

    #[test]
    fn failures_have_a_status_and_say_when_to_try_again() {
        let overloaded = Failure::Overloaded { retry_after: Duration::from_millis(1200) };
        assert_eq!(retry_after(overloaded), (429, Some("2".into())));
        assert_eq!(retry_after(Failure::NoQuorum { may_have_happened: true }), (503, Some("1".into())));
        assert_eq!(retry_after(Failure::DiskFull), (507, Some("5".into())));
        assert_eq!(retry_after(Failure::Compacted { oldest: Revision(9) }), (410, None));
        assert_eq!(retry_after(Failure::Denied("no".into())), (403, None));
        assert_eq!(retry_after(Failure::TooLarge { size: 2, max: 1 }), (413, None));
    }

    #[test]
    fn a_held_resource_is_worth_asking_for_when_it_may_be_free() {
        let held = HeldBy {
            resource: ResourceName::new("a").unwrap(),
            holders: Vec::new(),
            holder_count: 0,
            queue: 0,
            rests: Some(Span(2500)),
            estimate: None,
        };
        assert_eq!(retry_after(Failure::Rejected(Box::new(Rejection::Held(held.clone())))), (409, Some("3".into())));
        let elapsed = Failure::WaitElapsed { held: Box::new(held), position: 4 };
        let refusal = Refusal::from(elapsed);
        assert_eq!(refusal.problem.status, 408);
        assert_eq!(refusal.problem.queue.and_then(|queue| queue.position), Some(4));
    }

    #[test]
    fn every_conflict_says_when_to_try_again() {
        let stale = Rejection::LateCopy { seq: 3 };
        assert_eq!(retry_after(Failure::Rejected(Box::new(stale))), (409, Some("1".into())));
        assert_eq!(retry_after(Failure::Rejected(Box::new(Rejection::UnknownLease))), (404, None));
    }

    #[test]
    fn a_503_says_whether_it_may_have_happened() {
        let refusal = Refusal::from(Failure::ShuttingDown { may_have_happened: false });
        assert_eq!(refusal.problem.may_have_happened, Some(false));
    }
}
