//! Any record of a state and any event, for property tests.

use leasehold_core::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn head() -> BoxedStrategy<Record> {
    (time(), wall(), revision(), time(), span(), option::of(time()), span(), small(), limits())
        .prop_map(|(now, wall, revision, taken_over, grace, horizon, longest_ttl, next_namespace, limits)| {
            Record::Head(Box::new(HeadRecord {
                now,
                wall,
                revision,
                taken_over,
                grace,
                horizon,
                longest_ttl,
                next_namespace,
                limits,
            }))
        })
        .boxed()
}

fn held() -> BoxedStrategy<HeldClaim> {
    (resource(), mode(), token(), time(), wall(), span(), span())
        .prop_map(|(resource, mode, token, since, since_wall, waited, cooldown)| HeldClaim {
            resource,
            mode,
            token,
            since,
            since_wall,
            waited,
            cooldown,
        })
        .boxed()
}

fn wait() -> BoxedStrategy<Wait> {
    (revision(), vec(ask(), 0..3), time(), any::<i32>(), span(), time(), any::<bool>())
        .prop_map(|(number, asks, deadline, priority, cooldown, since, born)| Wait {
            number,
            asks,
            deadline,
            priority,
            cooldown,
            since,
            born,
        })
        .boxed()
}

fn receipt() -> BoxedStrategy<Receipt> {
    prop_oneof![
        Just(Receipt::Claimed),
        Just(Receipt::Unclaimed),
        (any::<bool>(), revision()).prop_map(|(succeeded, revision)| Receipt::Written { succeeded, revision }),
        Just(Receipt::Refused),
    ]
    .boxed()
}

fn lease_record() -> BoxedStrategy<Record> {
    let who = (namespace_id(), lease(), holder(), option::of(identity()), option::of(lease()), metadata());
    let when = (ttl(), time(), time(), wall(), time());
    let what = (class(), number(), revision(), number());
    let carries = (vec(held(), 0..3), vec(wait(), 0..3), vec((number(), receipt()), 0..3));
    (who, when, what, carries)
        .prop_map(|(who, when, what, carries)| {
            let (namespace, id, holder, identity, parent, metadata) = who;
            let (ttl, deadline, granted, granted_wall, renewed) = when;
            let (class, fingerprint, changed, seq) = what;
            let (held, waits, receipts) = carries;
            Record::Lease(Box::new(LeaseRecord {
                namespace,
                id,
                holder,
                identity,
                ttl,
                deadline,
                granted,
                granted_wall,
                granted_at: leasehold_core::Revision(granted_wall.0 ^ 5),
                renewed,
                class,
                parent,
                metadata,
                fingerprint,
                changed,
                held,
                waits,
                seq,
                receipts,
            }))
        })
        .boxed()
}

fn past() -> BoxedStrategy<Past> {
    let what = prop_oneof![
        span().prop_map(|waited| PastFact::Granted { waited }),
        (span(), cause()).prop_map(|(held, cause)| PastFact::Ended { held, cause }),
        (holder(), option::of(text())).prop_map(|(by, reason)| PastFact::HandoverAsked { by, reason }),
    ];
    (wall(), revision(), holder(), token(), what)
        .prop_map(|(at, revision, holder, token, what)| Past { at, revision, holder, token, what })
        .boxed()
}

fn resource_record() -> BoxedStrategy<Record> {
    let held = (mode(), vec(lease(), 0..4));
    (namespace_id(), resource(), held, token(), time(), span(), revision(), vec(past(), 0..4))
        .prop_map(|(namespace, name, held, last_token, rests_until, usual_hold, idle_since, history)| {
            let (mode, holders) = held;
            Record::Resource(Box::new(ResourceRecord {
                namespace,
                name,
                mode,
                holders,
                last_token,
                rests_until,
                usual_hold,
                idle_since,
                history,
            }))
        })
        .boxed()
}

fn entry_record() -> BoxedStrategy<Record> {
    (namespace_id(), key(), value(), number(), revision(), revision(), option::of(lease()))
        .prop_map(|(namespace, key, value, version, created, modified, lease)| {
            Record::Entry(EntryRecord { namespace, key, value, version, created, modified, lease })
        })
        .boxed()
}

fn tombstone() -> BoxedStrategy<Record> {
    (namespace_id(), lease(), holder(), option::of(identity()), time(), wall(), revision(), cause())
        .prop_map(|(namespace, id, holder, identity, ended, ended_wall, revision, cause)| {
            Record::Tombstone(Box::new(TombstoneRecord {
                namespace,
                id,
                holder,
                identity,
                ended,
                ended_wall,
                revision,
                cause,
            }))
        })
        .boxed()
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let namespace_record =
        (namespace_id(), namespace()).prop_map(|(id, name)| Record::Namespace(NamespaceRecord { id, name }));
    let rest = time().prop_map(|until| Record::Rest(RestRecord { until }));
    let marker = (namespace_id(), key(), lease(), resource())
        .prop_map(|(namespace, key, lease, resource)| Record::Marker(MarkerRecord { namespace, key, lease, resource }));
    prop_oneof![head(), namespace_record, lease_record(), resource_record(), entry_record(), tombstone(), rest, marker]
}

fn previous() -> BoxedStrategy<Previous> {
    let former = (value(), number(), revision(), revision(), option::of(lease())).prop_map(
        |(value, version, created, modified, lease)| Box::new(Former { value, version, created, modified, lease }),
    );
    option::of(former).prop_map(Previous).boxed()
}

fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        (lease(), holder(), ttl()).prop_map(|(lease, holder, ttl)| Fact::LeaseGranted { lease, holder, ttl }),
        (lease(), holder(), cause()).prop_map(|(lease, holder, cause)| Fact::LeaseEnded { lease, holder, cause }),
        (lease(), holder(), resource(), mode(), token(), span()).prop_map(
            |(lease, holder, resource, mode, token, waited)| Fact::ClaimGranted {
                lease,
                holder,
                resource,
                mode,
                token,
                waited
            }
        ),
        (lease(), holder(), resource(), token(), span(), cause(), span()).prop_map(
            |(lease, holder, resource, token, held, cause, rests)| Fact::ClaimEnded {
                lease,
                holder,
                resource,
                token,
                held,
                cause,
                rests
            }
        ),
        (lease(), holder(), resource(), mode(), small()).prop_map(|(lease, holder, resource, mode, position)| {
            Fact::Queued { lease, holder, resource, mode, position }
        }),
        (lease(), holder(), resource(), cause()).prop_map(|(lease, holder, resource, cause)| Fact::Unqueued {
            lease,
            holder,
            resource,
            cause
        }),
        (key(), value(), number(), revision(), option::of(lease()), previous()).prop_map(
            |(key, value, version, created, lease, previous)| Fact::EntryPut {
                key,
                value,
                version,
                created,
                lease,
                previous
            }
        ),
        (key(), option::of(lease()), previous()).prop_map(|(key, ended, previous)| Fact::EntryDeleted {
            key,
            ended,
            previous
        }),
        (lease(), holder(), resource(), holder(), option::of(text())).prop_map(
            |(lease, holder, resource, by, reason)| Fact::HandoverAsked { lease, holder, resource, by, reason }
        ),
    ]
    .boxed()
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    (revision(), wall(), namespace(), fact()).prop_map(|(revision, wall, namespace, fact)| Event {
        revision,
        wall,
        namespace,
        fact,
    })
}
