//! What a watch delivers: the events of one revision at a time.

use leasehold_core as core;
use leasehold_core::{EndCause, Fact};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Digest, Mode, SpanText, Timestamp, TtlText, bytes_fields};

/// All events of one revision that a watch asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// When, on the counter of visible changes; resume after it.
    pub revision: u64,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// A point to resume after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mark {
    /// Everything up to this revision was delivered or did not concern the watch.
    pub revision: u64,
}

/// One message of a watch: the fields `id`, `event` and `data` of a server-sent event. `data` is sent as JSON text.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WatchMessage {
    /// All events of one revision that the watch asked for.
    Change {
        /// The revision, to resume after it.
        id: String,
        /// The events.
        data: Change,
    },
    /// Nothing concerned the watch up to this revision.
    Progress {
        /// The revision, to resume after it.
        id: String,
        /// The same revision.
        data: Mark,
    },
    /// The watch did not keep up and ends; it can be resumed.
    TooSlow {
        /// The revision, to resume after it.
        id: String,
        /// The same revision.
        data: Mark,
    },
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// When, for people.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub fact: EventFact,
}

/// What happened, told apart by `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventFact {
    /// A lease began.
    LeaseGranted {
        /// Which one.
        lease: Digest,
        /// To whom.
        holder: String,
        /// For how long.
        ttl: TtlText,
    },
    /// A lease ended, with all it carried.
    LeaseEnded {
        /// Which one.
        lease: Digest,
        /// Whose it was.
        holder: String,
        /// Why, in one word.
        cause: String,
        /// Why it was revoked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A resource was given to a lease.
    ClaimGranted {
        /// To which one.
        lease: Digest,
        /// Whose it is.
        holder: String,
        /// Which resource.
        resource: String,
        /// Alone or with others.
        mode: Mode,
        /// Its fencing token.
        token: u64,
        /// How long it had waited.
        waited: SpanText,
    },
    /// A resource was given back or taken.
    ClaimEnded {
        /// From which lease.
        lease: Digest,
        /// Whose it was.
        holder: String,
        /// Which resource.
        resource: String,
        /// The fencing token it had.
        token: u64,
        /// How long it was held.
        held_for: SpanText,
        /// Why, in one word.
        cause: String,
        /// Why it was revoked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How long the resource rests before it is granted again.
        rests: SpanText,
    },
    /// A lease began to wait for a resource.
    Queued {
        /// Which lease.
        lease: Digest,
        /// Whose it is.
        holder: String,
        /// For which resource.
        resource: String,
        /// Alone or with others.
        mode: Mode,
        /// Its place in the queue, from 1.
        position: u32,
    },
    /// A lease stopped waiting for a resource without getting it.
    Unqueued {
        /// Which lease.
        lease: Digest,
        /// Whose it is.
        holder: String,
        /// For which resource.
        resource: String,
        /// Why, in one word.
        cause: String,
    },
    /// The holder of a resource was asked to hand it over.
    HandoverAsked {
        /// The lease that holds it.
        lease: Digest,
        /// Whose it is: who is asked.
        holder: String,
        /// Which resource.
        resource: String,
        /// Who asks.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An entry was created or replaced.
    EntryPut {
        /// Its key, if it is UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Its key, if it is not UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_base64: Option<String>,
        /// Its value, if it is UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// Its value, if it is not UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value_base64: Option<String>,
        /// How often it was put since it was created.
        version: u64,
        /// The revision that created it.
        created: u64,
        /// The lease it is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Digest>,
    },
    /// An entry was removed.
    EntryDeleted {
        /// Its key, if it is UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Its key, if it is not UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_base64: Option<String>,
        /// The lease whose end removed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<Digest>,
    },
}

impl From<&core::Event> for Event {
    fn from(event: &core::Event) -> Event {
        Event { at: Timestamp(event.wall), fact: (&event.fact).into() }
    }
}

impl From<&Fact> for EventFact {
    fn from(fact: &Fact) -> EventFact {
        match fact {
            Fact::LeaseGranted { lease, holder, ttl } => {
                EventFact::LeaseGranted { lease: Digest::of(*lease), holder: holder.to_string(), ttl: TtlText(*ttl) }
            }
            Fact::LeaseEnded { lease, holder, cause } => EventFact::LeaseEnded {
                lease: Digest::of(*lease),
                holder: holder.to_string(),
                cause: cause.word().to_owned(),
                reason: reason_of(cause),
            },
            Fact::ClaimGranted { lease, holder, resource, mode, token, waited } => EventFact::ClaimGranted {
                lease: Digest::of(*lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                mode: (*mode).into(),
                token: token.0,
                waited: SpanText(*waited),
            },
            Fact::ClaimEnded { lease, holder, resource, token, held, cause, rests } => EventFact::ClaimEnded {
                lease: Digest::of(*lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                token: token.0,
                held_for: SpanText(*held),
                cause: cause.word().to_owned(),
                reason: reason_of(cause),
                rests: SpanText(*rests),
            },
            Fact::Queued { lease, holder, resource, mode, position } => EventFact::Queued {
                lease: Digest::of(*lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                mode: (*mode).into(),
                position: *position,
            },
            Fact::Unqueued { lease, holder, resource, cause } => EventFact::Unqueued {
                lease: Digest::of(*lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                cause: cause.word().to_owned(),
            },
            Fact::HandoverAsked { lease, holder, resource, by, reason } => EventFact::HandoverAsked {
                lease: Digest::of(*lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                by: by.to_string(),
                reason: reason.as_ref().map(ToString::to_string),
            },
            Fact::EntryPut { key, value, version, created, lease, previous: _ } => {
                let (key, key_base64) = bytes_fields(key.as_bytes());
                let (value, value_base64) = bytes_fields(value);
                let lease = lease.map(Digest::of);
                EventFact::EntryPut {
                    key,
                    key_base64,
                    value,
                    value_base64,
                    version: *version,
                    created: created.0,
                    lease,
                }
            }
            Fact::EntryDeleted { key, ended, previous: _ } => {
                let (key, key_base64) = bytes_fields(key.as_bytes());
                EventFact::EntryDeleted { key, key_base64, ended: ended.map(Digest::of) }
            }
        }
    }
}

/// Why an operator took something; other causes say it all in their word.
pub(crate) fn reason_of(cause: &EndCause) -> Option<String> {
    match cause {
        EndCause::Revoked { reason, .. } => Some(reason.to_string()),
        EndCause::Released | EndCause::Expired | EndCause::ParentEnded | EndCause::WaitElapsed | EndCause::Left => None,
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Holder, LeaseId, Namespace, ResourceName, Revision, Span, Token, WallTime};

    use super::*;

    #[test]
    fn an_event_shows_the_digest_of_its_lease_and_reads_back() {
        let event = Event::from(&core::Event {
            revision: Revision(3),
            wall: WallTime(0),
            namespace: Namespace::new("default").unwrap(),
            fact: Fact::ClaimGranted {
                lease: LeaseId::new(0x05f3_1c09_a4e2_b7d8).unwrap(),
                holder: Holder::new("ann").unwrap(),
                resource: ResourceName::new("a").unwrap(),
                mode: core::Mode::Exclusive,
                token: Token(3),
                waited: Span::ZERO,
            },
        });
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.starts_with(r#"{"at":"1970-01-01T00:00:00.000Z","type":"claim_granted","lease":"~"#), "{text}");
        assert!(!text.contains("05f31c09a4e2b7d8"), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }

    #[test]
    fn an_ask_for_a_hand_over_names_who_is_asked_and_who_asks() {
        let ask = |reason: Option<&str>| Fact::HandoverAsked {
            lease: LeaseId::new(7).unwrap(),
            holder: Holder::new("ann").unwrap(),
            resource: ResourceName::new("a").unwrap(),
            by: Holder::new("bob").unwrap(),
            reason: reason.map(Into::into),
        };
        let json = |reason| serde_json::to_value(EventFact::from(&ask(reason))).unwrap();
        let digest = Digest::of(LeaseId::new(7).unwrap()).to_string();
        let mut expected = serde_json::json!({
            "type": "handover_asked", "lease": digest, "holder": "ann", "resource": "a", "by": "bob",
        });
        assert_eq!(json(None), expected);
        expected["reason"] = "deploy".into();
        assert_eq!(json(Some("deploy")), expected);
    }
}
