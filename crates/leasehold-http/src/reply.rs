//! Good answers: JSON, with the lease time and revision they are true at.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold_core::{LeaseTime, Revision};
use leasehold_service::{Answered, Consistency, Done};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The revision an answer is true at.
pub(crate) const LEASE_REVISION: HeaderName = HeaderName::from_static("lease-revision");
/// The lease time an answer is true at, in milliseconds; a grant may send the latest one it saw.
pub(crate) const LEASE_TIME: HeaderName = HeaderName::from_static("lease-time");
/// How old a stale answer may be.
pub(crate) const LEASE_AGE_MS: HeaderName = HeaderName::from_static("lease-age-ms");

/// The name of the leader that a command was passed on to.
pub(crate) const LEASE_FORWARDED_TO: HeaderName = HeaderName::from_static("lease-forwarded-to");

/// When an answer is true, and who gave it.
#[derive(Clone, Debug)]
pub(crate) struct At {
    now: LeaseTime,
    revision: Revision,
    age: Option<Duration>,
    forwarded_to: Option<String>,
}

impl From<&Done> for At {
    fn from(done: &Done) -> At {
        At { now: done.now, revision: done.revision, age: None, forwarded_to: done.forwarded_to.clone() }
    }
}

impl<T> From<&Answered<T>> for At {
    fn from(answered: &Answered<T>) -> At {
        At { now: answered.now, revision: answered.revision, age: answered.age, forwarded_to: None }
    }
}

impl At {
    /// True at this lease time and revision.
    pub(crate) fn new(now: LeaseTime, revision: Revision) -> At {
        At { now, revision, age: None, forwarded_to: None }
    }

    /// Puts the headers on an answer.
    pub(crate) fn on(self, answer: impl IntoResponse) -> Response {
        let mut response = answer.into_response();
        let headers = response.headers_mut();
        headers.insert(LEASE_REVISION, HeaderValue::from(self.revision.0));
        headers.insert(LEASE_TIME, HeaderValue::from(self.now.0));
        if let Some(age) = self.age {
            let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            headers.insert(LEASE_AGE_MS, HeaderValue::from(millis));
        }
        if let Some(leader) = self.forwarded_to.and_then(|name| HeaderValue::try_from(name).ok()) {
            headers.insert(LEASE_FORWARDED_TO, leader);
        }
        response
    }

    /// An answer of 200 with a body.
    pub(crate) fn ok(self, body: impl Serialize) -> Response {
        self.on(Json(body))
    }

    /// An answer without a body.
    pub(crate) fn empty(self) -> Response {
        self.on(StatusCode::NO_CONTENT)
    }
}

/// Whether a read must know of everything that was acknowledged before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadConsistency {
    /// It must.
    #[default]
    Linearizable,
    /// It need not; the header `Lease-Age-Ms` says how old the answer may be.
    Stale,
}

impl From<ReadConsistency> for Consistency {
    fn from(consistency: ReadConsistency) -> Consistency {
        match consistency {
            ReadConsistency::Linearizable => Consistency::Linearizable,
            ReadConsistency::Stale => Consistency::Stale,
        }
    }
}

/// The parameters of a plain read.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadParams {
    /// `linearizable` (the default) or `stale`.
    #[serde(default)]
    pub(crate) consistency: ReadConsistency,
}

#[cfg(test)]
mod tests {
    use leasehold_core::Outcome;

    use super::*;

    #[test]
    fn an_answer_names_the_leader_that_a_command_was_passed_on_to() {
        let done = |forwarded_to| Done {
            outcome: Outcome::Released { already: false },
            now: LeaseTime(5),
            revision: Revision(7),
            forwarded_to,
        };
        let passed_on = At::from(&done(Some("n2".to_owned()))).empty();
        assert_eq!(passed_on.headers()[LEASE_FORWARDED_TO], "n2");
        assert!(!At::from(&done(None)).empty().headers().contains_key(LEASE_FORWARDED_TO));
    }
}
