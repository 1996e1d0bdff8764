//! A refusal as it travels: problem+json (RFC 9457) with a stable code and what helps to act on it.
//!
//! Every API answers every refusal with this type, and clients read it back. The code is text here, so that an
//! older client can still read the refusal of a newer server.

use leasehold_core::{EndCause, EndView, HeldBy, Key, Rejection, WriteResult, Written};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Code, Digest, HolderInfo, Invalid, QueueInfo, SpanText, Timestamp};

/// The media type of a problem.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// Why a request was refused or failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A URI that names the kind of problem: `urn:leasehold:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code, as in the table of codes.
    pub code: String,
    /// What happened here, to what, and what to do next.
    pub detail: String,
    /// What a caller can do: `no`, `later`, `new_id` or `same_id`.
    pub retry: String,
    /// The path that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The field that is to blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// After how long to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<SpanText>,
    /// Whether the command may have taken effect although no answer is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_have_happened: Option<bool>,
    /// The resource that cannot be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Who holds it: the first few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<HolderInfo>>,
    /// How many hold it in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_count: Option<u32>,
    /// Who waits for it, and the caller's place: the one it had, or would get by waiting now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueInfo>,
    /// How long it still rests although nobody holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests: Option<SpanText>,
    /// How the lease ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The token of the present holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_token: Option<u64>,
    /// The revision of the entry as it is; 0 if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<u64>,
    /// The bound that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitInfo>,
    /// The oldest revision that a watch can resume after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
}

/// How a lease ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// Which lease.
    pub lease: Digest,
    /// Whose it was.
    pub holder: String,
    /// Why: `released`, `expired`, `revoked`, `parent_ended`, `wait_elapsed` or `left`.
    pub cause: String,
    /// Who revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// At which revision.
    pub revision: u64,
    /// When, for people.
    pub at: Timestamp,
    /// How long ago.
    pub ago: SpanText,
}

/// A bound that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitInfo {
    /// Of what.
    pub of: String,
    /// How many are allowed.
    pub max: u64,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:leasehold:error:{code}"),
            title: code.title().to_owned(),
            status: code.status(),
            code: code.name().to_owned(),
            detail: detail.into(),
            retry: code.retry().name().to_owned(),
            ..Problem::default()
        }
    }

    /// The code, if this version knows it.
    pub fn known_code(&self) -> Option<Code> {
        Code::by_name(&self.code)
    }

    /// The exit code of `lease`; for an unknown code, what its status suggests.
    pub fn exit(&self) -> u8 {
        match (self.known_code(), self.status) {
            (Some(code), _) => code.exit(),
            (None, 401 | 403) => 77,
            (None, 404 | 410) => 66,
            (None, 409 | 412) => 73,
            (None, 400..=499) => 2,
            (None, _) => 69,
        }
    }

    /// The refusal of something that is held, to a caller whose place in the queue was or would be `position`.
    pub fn held(code: Code, detail: impl Into<String>, held: &HeldBy, position: u32) -> Problem {
        Problem {
            resource: Some(held.resource.to_string()),
            holders: Some(held.holders.iter().map(HolderInfo::from).collect()),
            holder_count: Some(held.holder_count),
            queue: Some(QueueInfo {
                length: held.queue,
                position: Some(position),
                estimate: held.estimate.map(SpanText),
            }),
            rests: held.rests.map(SpanText),
            ..Problem::new(code, detail)
        }
    }

    /// The refusal of a write whose conditions did not hold; its only step then read the entry as it is.
    pub fn not_as_expected(key: &Key, written: &Written) -> Problem {
        let current = match written.results.first() {
            Some(WriteResult::Read { entries, .. }) => Some(entries.first().map_or(0, |entry| entry.modified.0)),
            Some(WriteResult::Put { .. } | WriteResult::Deleted { .. } | WriteResult::Nested(_)) | None => None,
        };
        let now = match current {
            Some(0) => "there is no entry".to_owned(),
            Some(revision) => format!("its revision is {revision}"),
            None => "it was refused then".to_owned(),
        };
        let detail = format!("the entry {key} is not as expected: {now}; read it and decide again");
        Problem { current_revision: current, ..Problem::new(Code::PreconditionFailed, detail) }
    }
}

impl From<&Rejection> for Problem {
    fn from(rejection: &Rejection) -> Problem {
        let code = Code::from(rejection);
        let plain = Problem::new(code, rejection.to_string());
        match rejection {
            Rejection::Held(held) => Problem::held(code, plain.detail, held, held.queue.saturating_add(1)),
            Rejection::Ended(end) => Problem { ended: Some(end.into()), ..plain },
            Rejection::StaleToken { resource, current, .. } => {
                Problem { resource: Some(resource.to_string()), current_token: current.map(|token| token.0), ..plain }
            }
            Rejection::AlreadyClaimed { resource }
            | Rejection::NotClaimed { resource }
            | Rejection::NotHeld { resource }
            | Rejection::AskedTwice { resource } => Problem { resource: Some(resource.to_string()), ..plain },
            Rejection::LimitReached { bound, max } => {
                Problem { limit: Some(LimitInfo { of: bound.phrase().to_owned(), max: *max }), ..plain }
            }
            Rejection::TtlOutOfBounds { .. } => Problem { field: Some("ttl".to_owned()), ..plain },
            Rejection::CooldownTooLong { .. } => Problem { field: Some("cooldown".to_owned()), ..plain },
            Rejection::AsksNothing => Problem { field: Some("resources".to_owned()), ..plain },
            Rejection::IdInUse => Problem { field: Some("id".to_owned()), ..plain },
            Rejection::TooOld { .. } => Problem { field: Some("seen".to_owned()), ..plain },
            Rejection::LateCopy { .. } | Rejection::RefusedBefore { .. } => {
                Problem { field: Some("seq".to_owned()), ..plain }
            }
            Rejection::UnknownLease
            | Rejection::NotYours
            | Rejection::NeedsRight(_)
            | Rejection::KeyWrittenTwice { .. }
            | Rejection::UnknownEntry { .. }
            | Rejection::OneMarkerOneClaim
            | Rejection::AlreadyMarker { .. }
            | Rejection::EndlessRevoke
            | Rejection::UnknownWait
            | Rejection::BadLimits(_) => plain,
        }
    }
}

impl From<&Invalid> for Problem {
    fn from(invalid: &Invalid) -> Problem {
        Problem { field: Some(invalid.field.clone()), ..Problem::new(invalid.code, invalid.to_string()) }
    }
}

impl From<&EndView> for Ended {
    fn from(end: &EndView) -> Ended {
        let (by, reason) = match &end.cause {
            EndCause::Revoked { by, reason } => (by.as_ref().map(ToString::to_string), Some(reason.to_string())),
            EndCause::Released | EndCause::Expired | EndCause::ParentEnded | EndCause::WaitElapsed | EndCause::Left => {
                (None, None)
            }
        };
        Ended {
            lease: Digest::of(end.lease),
            holder: end.holder.to_string(),
            cause: end.cause.word().to_owned(),
            by,
            reason,
            revision: end.revision.0,
            at: Timestamp(end.at),
            ago: SpanText(end.ago),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ResourceName, Token};

    use super::*;

    #[test]
    fn a_problem_reads_back_as_it_was_written() {
        let rejection = Rejection::StaleToken {
            resource: ResourceName::new("orders/7").unwrap(),
            given: Token(3),
            current: Some(Token(5)),
        };
        let problem = Problem::from(&rejection);
        let text = serde_json::to_string(&problem).unwrap();
        assert!(text.contains(r#""type":"urn:leasehold:error:stale_token""#), "{text}");
        assert!(text.contains(r#""current_token":5"#), "{text}");
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        assert_eq!(problem.exit(), 73);
    }

    #[test]
    fn a_refused_caller_is_told_the_place_it_would_have() {
        let held = HeldBy {
            resource: ResourceName::new("a").unwrap(),
            holders: Vec::new(),
            holder_count: 0,
            queue: 2,
            rests: None,
            estimate: None,
        };
        let problem = Problem::from(&Rejection::Held(held));
        assert_eq!(problem.queue.and_then(|queue| queue.position), Some(3));
    }

    #[test]
    fn a_code_of_a_newer_server_still_has_an_exit_code() {
        let problem = Problem { code: "from_the_future".into(), status: 409, ..Problem::default() };
        assert_eq!(problem.known_code(), None);
        assert_eq!(problem.exit(), 73);
    }
}
