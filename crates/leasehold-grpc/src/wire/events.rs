//! Events and notices as messages.

use bytes::Bytes;
use leasehold_api::Digest;
use leasehold_api::grpc::kind::ttl_fields;
use leasehold_api::grpc::{
    Change, ClaimEnded, ClaimGranted, EntryDeleted, EntryPut, Event, Gap, HandoverAsked, HandoverEvent, LeaseEnded,
    LeaseGranted, LeaseLost, Mark, Notice, Queued, Unqueued, WatchDelivery, event, notice, watch_delivery,
};
use leasehold_core as core;
use leasehold_core::{EndCause, Fact};
use leasehold_service::Delivery;

use super::views::mode;

pub(crate) fn delivery(delivery: &Delivery) -> WatchDelivery {
    use watch_delivery::Delivery as Of;
    let delivery = match delivery {
        Delivery::Change(change) => {
            let events = change.events.iter().map(event).collect();
            Of::Change(Change { revision: change.revision.0, events })
        }
        Delivery::Progress(revision) => Of::Progress(Mark { revision: revision.0 }),
        Delivery::TooSlow(revision) => Of::TooSlow(Mark { revision: revision.0 }),
    };
    WatchDelivery { delivery: Some(delivery) }
}

fn event(event: &core::Event) -> Event {
    Event { at_unix_ms: event.wall.0, fact: Some(fact(&event.fact)) }
}

fn fact(fact: &Fact) -> event::Fact {
    let shown = |lease: &core::LeaseId| Digest::of(*lease).to_string();
    match fact {
        Fact::LeaseGranted { lease, holder, ttl } => {
            let (ttl_ms, ttl_endless) = ttl_fields(*ttl);
            event::Fact::LeaseGranted(LeaseGranted {
                lease: shown(lease),
                holder: holder.to_string(),
                ttl_ms,
                ttl_endless,
            })
        }
        Fact::LeaseEnded { lease, holder, cause } => event::Fact::LeaseEnded(LeaseEnded {
            lease: shown(lease),
            holder: holder.to_string(),
            cause: cause.word().to_owned(),
            reason: by_and_reason(cause).1,
        }),
        Fact::ClaimGranted { lease, holder, resource, mode: how, token, waited } => {
            event::Fact::ClaimGranted(ClaimGranted {
                lease: shown(lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                mode: mode(*how),
                token: token.0,
                waited_ms: waited.0,
            })
        }
        Fact::ClaimEnded { lease, holder, resource, token, held, cause, rests } => {
            event::Fact::ClaimEnded(ClaimEnded {
                lease: shown(lease),
                holder: holder.to_string(),
                resource: resource.to_string(),
                token: token.0,
                held_for_ms: held.0,
                cause: cause.word().to_owned(),
                reason: by_and_reason(cause).1,
                rests_ms: rests.0,
            })
        }
        Fact::Queued { lease, holder, resource, mode: how, position } => event::Fact::Queued(Queued {
            lease: shown(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            mode: mode(*how),
            position: *position,
        }),
        Fact::Unqueued { lease, holder, resource, cause } => event::Fact::Unqueued(Unqueued {
            lease: shown(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            cause: cause.word().to_owned(),
        }),
        Fact::HandoverAsked { lease, holder, resource, by, reason } => event::Fact::HandoverAsked(HandoverEvent {
            lease: shown(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            by: by.to_string(),
            reason: reason.as_ref().map(ToString::to_string),
        }),
        Fact::EntryPut { key, value, version, created, lease, previous: _ } => event::Fact::EntryPut(EntryPut {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Bytes::from_owner(std::sync::Arc::clone(value)),
            version: *version,
            created: created.0,
            lease: lease.as_ref().map(shown),
        }),
        Fact::EntryDeleted { key, ended, previous: _ } => event::Fact::EntryDeleted(EntryDeleted {
            key: Bytes::copy_from_slice(key.as_bytes()),
            ended: ended.as_ref().map(shown),
        }),
    }
}

pub(crate) fn notice(notice: leasehold_service::Notice) -> Notice {
    use leasehold_service::Notice as Told;
    let notice = match notice {
        Told::Ended { namespace, lease, cause, revision } => {
            let (by, reason) = by_and_reason(&cause);
            notice::Notice::Ended(LeaseLost {
                namespace: namespace.to_string(),
                lease: lease.number(),
                cause: cause.word().to_owned(),
                by,
                reason,
                revision: revision.0,
            })
        }
        Told::HandoverAsked { namespace, lease, resource, by, reason, revision } => {
            notice::Notice::HandoverAsked(HandoverAsked {
                namespace: namespace.to_string(),
                lease: lease.number(),
                resource: resource.to_string(),
                by: by.to_string(),
                reason: reason.map(String::from),
                revision: revision.0,
            })
        }
        Told::Gap => notice::Notice::Gap(Gap {}),
    };
    Notice { notice: Some(notice) }
}

/// Who revoked something and why; other causes say it all in their word.
fn by_and_reason(cause: &EndCause) -> (Option<String>, Option<String>) {
    match cause {
        EndCause::Revoked { by, reason } => (by.as_ref().map(ToString::to_string), Some(reason.to_string())),
        EndCause::Released | EndCause::Expired | EndCause::ParentEnded | EndCause::WaitElapsed | EndCause::Left => {
            (None, None)
        }
    }
}
