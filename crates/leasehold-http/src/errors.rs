//! Refusals and failures as HTTP answers.
//!
//! A [`Refusal`] carries its problem to the edge of the router, where it becomes problem+json. Status and retry
//! advice come from the one table of codes, and after how long to try again from the service.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Code, Invalid, Problem, SpanText};
use leasehold_core::{Rejection, Span};
use leasehold_service::Failure;

/// What `Retry-After` asks for where nothing better is known.
const RETRY_AFTER_USUAL: Span = Span::seconds(1);

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
        Box::new(problem).into()
    }
}

impl From<Box<Problem>> for Refusal {
    fn from(problem: Box<Problem>) -> Refusal {
        Refusal { problem, headers: HeaderMap::new() }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        Problem::from(&invalid).into()
    }
}

impl From<Box<Rejection>> for Refusal {
    fn from(rejection: Box<Rejection>) -> Refusal {
        leasehold_service::refused(&rejection).into()
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Problem::from(&failure).into()
    }
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
    use leasehold_core::{HeldBy, ResourceName, Revision};

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
        assert_eq!(
            retry_after(Failure::NoQuorum { may_have_happened: true, why: "x".into() }),
            (503, Some("1".into()))
        );
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
