//! Refusals and holders, between the contract and us: nothing is lost either way.

use leasehold_core::{Span, WallTime};

use super::kind::{remaining_fields, remaining_of};
use super::{Ended, HolderInfo, LimitInfo, Mode, Problem, QueueInfo};
use crate::{Digest, RemainingText, SpanText, Timestamp};

/// Tells that a message of a server makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's message cannot be read: {0}")]
pub struct Unreadable(pub &'static str);

impl From<&crate::HolderInfo> for HolderInfo {
    fn from(info: &crate::HolderInfo) -> HolderInfo {
        let (remaining_ms, remaining_endless) = remaining_fields(info.remaining.0);
        HolderInfo {
            holder: info.holder.clone(),
            lease: info.lease.to_string(),
            token: info.token,
            mode: Mode::from(info.mode).into(),
            since_unix_ms: info.since.0.0,
            held_for_ms: info.held_for.0.0,
            remaining_ms,
            remaining_endless,
            renewed_ago_ms: info.renewed_ago.0.0,
            ending: info.ending,
            metadata: info.metadata.clone(),
        }
    }
}

impl TryFrom<HolderInfo> for crate::HolderInfo {
    type Error = Unreadable;

    fn try_from(info: HolderInfo) -> Result<crate::HolderInfo, Unreadable> {
        Ok(crate::HolderInfo {
            lease: digest(&info.lease)?,
            token: info.token,
            mode: info.mode().into(),
            since: Timestamp(WallTime(info.since_unix_ms)),
            held_for: SpanText(Span(info.held_for_ms)),
            remaining: RemainingText(remaining_of(info.remaining_ms, info.remaining_endless)),
            renewed_ago: SpanText(Span(info.renewed_ago_ms)),
            ending: info.ending,
            reason: info.metadata.get("reason").cloned(),
            link: info.metadata.get("link").cloned(),
            metadata: info.metadata,
            holder: info.holder,
        })
    }
}

impl From<crate::QueueInfo> for QueueInfo {
    fn from(queue: crate::QueueInfo) -> QueueInfo {
        QueueInfo { length: queue.length, position: queue.position, estimate_ms: millis(queue.estimate) }
    }
}

impl From<QueueInfo> for crate::QueueInfo {
    fn from(queue: QueueInfo) -> crate::QueueInfo {
        crate::QueueInfo { length: queue.length, position: queue.position, estimate: span(queue.estimate_ms) }
    }
}

impl From<&crate::Ended> for Ended {
    fn from(ended: &crate::Ended) -> Ended {
        Ended {
            lease: ended.lease.to_string(),
            holder: ended.holder.clone(),
            cause: ended.cause.clone(),
            by: ended.by.clone(),
            reason: ended.reason.clone(),
            revision: ended.revision,
            at_unix_ms: ended.at.0.0,
            ago_ms: ended.ago.0.0,
        }
    }
}

impl TryFrom<Ended> for crate::Ended {
    type Error = Unreadable;

    fn try_from(ended: Ended) -> Result<crate::Ended, Unreadable> {
        Ok(crate::Ended {
            lease: digest(&ended.lease)?,
            holder: ended.holder,
            cause: ended.cause,
            by: ended.by,
            reason: ended.reason,
            revision: ended.revision,
            at: Timestamp(WallTime(ended.at_unix_ms)),
            ago: SpanText(Span(ended.ago_ms)),
        })
    }
}

impl From<&crate::Problem> for Problem {
    fn from(problem: &crate::Problem) -> Problem {
        let holders = problem.holders.as_deref().unwrap_or_default();
        Problem {
            code: problem.code.clone(),
            title: problem.title.clone(),
            detail: problem.detail.clone(),
            retry: problem.retry.clone(),
            status: problem.status.into(),
            instance: problem.instance.clone(),
            field: problem.field.clone(),
            retry_after_ms: millis(problem.retry_after),
            may_have_happened: problem.may_have_happened,
            resource: problem.resource.clone(),
            holders: holders.iter().map(HolderInfo::from).collect(),
            holder_count: problem.holder_count,
            queue: problem.queue.map(QueueInfo::from),
            rests_ms: millis(problem.rests),
            ended: problem.ended.as_ref().map(Ended::from),
            current_token: problem.current_token,
            current_revision: problem.current_revision,
            limit: problem.limit.as_ref().map(|limit| LimitInfo { of: limit.of.clone(), max: limit.max }),
            oldest: problem.oldest,
        }
    }
}

impl TryFrom<Problem> for crate::Problem {
    type Error = Unreadable;

    fn try_from(problem: Problem) -> Result<crate::Problem, Unreadable> {
        let holders = problem.holders.into_iter().map(crate::HolderInfo::try_from).collect::<Result<Vec<_>, _>>()?;
        Ok(crate::Problem {
            kind: format!("urn:leasehold:error:{}", problem.code),
            title: problem.title,
            status: u16::try_from(problem.status).map_err(|_| Unreadable("a status has three digits"))?,
            code: problem.code,
            detail: problem.detail,
            retry: problem.retry,
            instance: problem.instance,
            field: problem.field,
            retry_after: span(problem.retry_after_ms),
            may_have_happened: problem.may_have_happened,
            resource: problem.resource,
            // A problem about holders says how many there are, even if there are none.
            holders: problem.holder_count.map(|_| holders),
            holder_count: problem.holder_count,
            queue: problem.queue.map(crate::QueueInfo::from),
            rests: span(problem.rests_ms),
            ended: problem.ended.map(crate::Ended::try_from).transpose()?,
            current_token: problem.current_token,
            current_revision: problem.current_revision,
            limit: problem.limit.map(|limit| crate::LimitInfo { of: limit.of, max: limit.max }),
            oldest: problem.oldest,
        })
    }
}

fn digest(text: &str) -> Result<Digest, Unreadable> {
    text.parse().map_err(Unreadable)
}

fn millis(span: Option<SpanText>) -> Option<u64> {
    span.map(|span| span.0.0)
}

fn span(millis: Option<u64>) -> Option<SpanText> {
    millis.map(|millis| SpanText(Span(millis)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use leasehold_core::{LeaseId, Remaining};
    use prost::Message as _;

    use super::*;
    use crate::Code;

    fn there_and_back(problem: &crate::Problem) -> crate::Problem {
        let bytes = Problem::from(problem).encode_to_vec();
        Problem::decode(&bytes[..]).unwrap().try_into().unwrap()
    }

    fn holder(remaining: Remaining) -> crate::HolderInfo {
        crate::HolderInfo {
            holder: "ann".into(),
            lease: Digest::of(LeaseId::new(7).unwrap()),
            token: 12,
            mode: crate::Mode::Shared,
            since: Timestamp(WallTime(1_793_732_531_250)),
            held_for: SpanText(Span(41_000)),
            remaining: RemainingText(remaining),
            renewed_ago: SpanText(Span(3)),
            ending: true,
            reason: Some("nightly".into()),
            link: None,
            metadata: BTreeMap::from([("reason".into(), "nightly".into()), ("zone".into(), "a".into())]),
        }
    }

    /// A problem with something in every field.
    fn full(code: Code) -> crate::Problem {
        crate::Problem {
            instance: Some("/leasehold.v1.Leases/Grant".into()),
            field: Some("resources[1]".into()),
            retry_after: Some(SpanText(Span(250))),
            may_have_happened: Some(false),
            resource: Some("orders/7".into()),
            holders: Some(vec![holder(Remaining::For(Span::ZERO)), holder(Remaining::Endless)]),
            holder_count: Some(9),
            queue: Some(crate::QueueInfo { length: 3, position: Some(4), estimate: Some(SpanText(Span(70))) }),
            rests: Some(SpanText(Span::ZERO)),
            ended: Some(crate::Ended {
                lease: Digest::of(LeaseId::new(8).unwrap()),
                holder: "bob".into(),
                cause: "revoked".into(),
                by: Some("ops".into()),
                reason: Some("stuck".into()),
                revision: 5,
                at: Timestamp(WallTime(9)),
                ago: SpanText(Span(1)),
            }),
            current_token: Some(0),
            current_revision: Some(0),
            limit: Some(crate::LimitInfo { of: "leases".into(), max: 3 }),
            oldest: Some(17),
            ..crate::Problem::new(code, format!("why it is {code}"))
        }
    }

    #[test]
    fn every_code_travels_without_loss_plain_and_with_every_field() {
        for code in Code::ALL {
            for problem in [crate::Problem::new(code, "é"), full(code)] {
                assert_eq!(there_and_back(&problem), problem);
            }
        }
    }

    #[test]
    fn held_by_nobody_is_not_the_same_as_not_about_holders() {
        let resting = crate::Problem { holders: Some(vec![]), holder_count: Some(0), ..full(Code::Held) };
        assert_eq!(there_and_back(&resting), resting);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let problem = Problem { status: 70_000, ..Problem::from(&full(Code::Held)) };
        assert!(crate::Problem::try_from(problem).is_err());
        let mut problem = Problem::from(&full(Code::Held));
        problem.holders[0].lease = "5f".into();
        assert!(crate::Problem::try_from(problem).is_err());
    }
}
