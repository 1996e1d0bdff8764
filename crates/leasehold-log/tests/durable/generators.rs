//! Any value of the core's types, for property tests. Numbers prefer the edges of their encodings.
//! Large strategies are boxed: unboxed, they outgrow the stack of a test thread.

use std::sync::Arc;

use leasehold_core::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

mod state;

pub(crate) use state::{event, record};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, Just(u64::MAX), (0..64_u32).prop_map(|bit| 1 << bit), any::<u64>()]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![0..300_u32, Just(u32::MAX), any::<u32>()]
}

fn span() -> impl Strategy<Value = Span> {
    number().prop_map(Span)
}

fn time() -> impl Strategy<Value = LeaseTime> {
    number().prop_map(LeaseTime)
}

fn wall() -> impl Strategy<Value = WallTime> {
    number().prop_map(WallTime)
}

fn revision() -> impl Strategy<Value = Revision> {
    number().prop_map(Revision)
}

fn token() -> impl Strategy<Value = Token> {
    number().prop_map(Token)
}

fn lease() -> impl Strategy<Value = LeaseId> {
    prop_oneof![1..300_u64, Just(LeaseId::MAX), 1..=LeaseId::MAX]
        .prop_map(|number| LeaseId::new(number).expect("the number is in range"))
}

fn namespace() -> impl Strategy<Value = Namespace> {
    "[a-z0-9_-][a-z0-9._-]{0,63}".prop_map(|text| Namespace::new(&text).expect("the pattern is well formed"))
}

fn namespace_id() -> impl Strategy<Value = NamespaceId> {
    small().prop_map(NamespaceId)
}

fn resource() -> BoxedStrategy<ResourceName> {
    let name = prop_oneof!["[a-z]{1,9}(/[a-zäß€0-9 ]{1,9}){0,3}", Just("x".repeat(RESOURCE_MAX))];
    name.prop_map(|text| ResourceName::new(&text).expect("the pattern is well formed")).boxed()
}

fn holder() -> BoxedStrategy<Holder> {
    "[A-Za-z0-9@.:ü€ -]{1,80}".prop_map(|text| Holder::new(&text).expect("the pattern is well formed")).boxed()
}

fn identity() -> BoxedStrategy<Identity> {
    "[A-Za-z0-9@.:ü€ -]{1,80}".prop_map(|text| Identity::new(&text).expect("the pattern is well formed")).boxed()
}

fn key() -> impl Strategy<Value = Key> {
    vec(any::<u8>(), 1..200).prop_map(|bytes| Key::new(&bytes).expect("the length is in range"))
}

fn value() -> impl Strategy<Value = Arc<[u8]>> {
    vec(any::<u8>(), 0..300).prop_map(Arc::from)
}

fn text() -> impl Strategy<Value = Box<str>> {
    any::<String>().prop_map(String::into_boxed_str)
}

fn ttl() -> impl Strategy<Value = Ttl> {
    prop_oneof![span().prop_map(Ttl::For), Just(Ttl::Endless)]
}

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![Just(Patience::None), span().prop_map(Patience::For), Just(Patience::Endless)]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)]
}

fn class() -> impl Strategy<Value = Class> {
    use Class::{Cache, Election, Lock, Reservation, Session};
    prop_oneof![Just(Lock), Just(Election), Just(Session), Just(Reservation), Just(Cache)]
}

fn metadata() -> BoxedStrategy<Metadata> {
    vec((any::<String>(), any::<String>()), 0..4).prop_map(Metadata::new).boxed()
}

fn ask() -> impl Strategy<Value = Ask> {
    (resource(), mode()).prop_map(|(resource, mode)| Ask { resource, mode })
}

fn asks() -> BoxedStrategy<Asks> {
    (vec(ask(), 0..4), patience(), any::<i32>(), span())
        .prop_map(|(claims, patience, priority, cooldown)| Asks { claims, patience, priority, cooldown })
        .boxed()
}

fn once() -> impl Strategy<Value = Once> {
    (number(), number()).prop_map(|(seq, acked)| Once { seq, acked })
}

fn cause() -> BoxedStrategy<EndCause> {
    prop_oneof![
        Just(EndCause::Released),
        Just(EndCause::Expired),
        (option::of(identity()), text()).prop_map(|(by, reason)| EndCause::Revoked { by, reason }),
        Just(EndCause::ParentEnded),
        Just(EndCause::WaitElapsed),
        Just(EndCause::Left),
    ]
    .boxed()
}

fn limits() -> BoxedStrategy<Limits> {
    (vec(number(), 6), vec(small(), 20), any::<u8>())
        .prop_map(|(long, short, tree_depth)| Limits {
            ttl_min: Span(long[0]),
            ttl_max: Span(long[1]),
            cooldown_max: Span(long[2]),
            grace: Span(long[3]),
            tombstone_age: Span(long[4]),
            tombstones: short[0],
            namespaces: short[1],
            leases: short[2],
            leases_per_identity: short[3],
            claims_per_lease: short[4],
            entries_per_lease: short[5],
            tree_weight: short[6],
            tree_depth,
            waiters: short[7],
            shared_holders: short[8],
            entries: short[9],
            value_bytes: short[10],
            entry_bytes: long[5],
            state_bytes: long[5] ^ 1,
            write_ops: short[11],
            range_entries: short[12],
            metadata_pairs: short[13],
            metadata_bytes: short[14],
            history: short[15],
            idle_resources: short[16],
            receipts: short[17],
            renewals: short[18],
            sweep_piece: short[19],
        })
        .boxed()
}

fn range() -> BoxedStrategy<KeyRange> {
    prop_oneof![
        key().prop_map(KeyRange::One),
        value().prop_map(KeyRange::Prefix),
        (key(), key()).prop_map(|(from, to)| KeyRange::Between(from, to)),
        key().prop_map(KeyRange::From),
    ]
    .boxed()
}

fn compare() -> BoxedStrategy<Compare> {
    use Relation::{Equal, Greater, Less, NotEqual};
    let relation = prop_oneof![Just(Equal), Just(NotEqual), Just(Less), Just(Greater)];
    let operand = prop_oneof![
        number().prop_map(Operand::Version),
        revision().prop_map(Operand::Created),
        revision().prop_map(Operand::Modified),
        value().prop_map(Operand::Value),
        number().prop_map(Operand::Lease),
    ];
    (range(), relation, operand).prop_map(|(range, relation, operand)| Compare { range, relation, operand }).boxed()
}

fn step() -> BoxedStrategy<WriteOp> {
    let binding = prop_oneof![Just(Binding::None), lease().prop_map(Binding::To), Just(Binding::Keep)];
    prop_oneof![
        (key(), option::of(value()), binding).prop_map(|(key, value, binding)| WriteOp::Put { key, value, binding }),
        range().prop_map(|range| WriteOp::Delete { range }),
        (range(), small()).prop_map(|(range, limit)| WriteOp::Read { range, limit }),
    ]
    .boxed()
}

fn write_of(step: BoxedStrategy<WriteOp>) -> BoxedStrategy<Write> {
    (option::of((lease(), once())), vec(compare(), 0..3), vec(step.clone(), 0..3), vec(step, 0..3))
        .prop_map(|(session, compares, then, otherwise)| Write { session, compares, then, otherwise })
        .boxed()
}

fn command() -> BoxedStrategy<Command> {
    let grant = (lease(), holder(), ttl(), class(), option::of(lease()), metadata(), asks(), time())
        .prop_map(|(id, holder, ttl, class, parent, metadata, asks, seen)| Grant {
            id,
            holder,
            ttl,
            class,
            parent,
            metadata,
            asks,
            seen,
        })
        .boxed();
    let marked = (lease(), option::of(once()), asks(), key(), value()).prop_map(|(lease, once, asks, key, value)| {
        Command::ClaimMarked(ClaimMarked { claim: Claim { lease, once, asks }, marker: Marker { key, value } })
    });
    let write = write_of(step()).prop_map(Command::Write);
    let nested =
        write_of(prop_oneof![step(), write_of(step()).prop_map(|write| WriteOp::Nested(Box::new(write)))].boxed())
            .prop_map(Command::Write);
    prop_oneof![
        grant.clone().prop_map(Command::Grant),
        grant.prop_map(Command::GrantAnew),
        marked,
        nested,
        (vec(lease(), 0..40), option::of(ttl())).prop_map(|(leases, ttl)| Command::Renew(Renew { leases, ttl })),
        lease().prop_map(|lease| Command::Release(Release { lease })),
        (lease(), text(), any::<bool>()).prop_map(|(lease, reason, now)| Command::Revoke(Revoke {
            lease,
            reason,
            now
        })),
        (lease(), option::of(once()), asks()).prop_map(|(lease, once, asks)| Command::Claim(Claim {
            lease,
            once,
            asks
        })),
        (lease(), option::of(once()), resource(), token())
            .prop_map(|(lease, once, resource, token)| { Command::Unclaim(Unclaim { lease, once, resource, token }) }),
        (lease(), revision()).prop_map(|(lease, wait)| Command::Leave(Leave { lease, wait })),
        write,
        (resource(), holder(), option::of(text()))
            .prop_map(|(resource, by, reason)| Command::AskHandover(AskHandover { resource, by, reason })),
        limits().prop_map(|limits| Command::Configure(Box::new(limits))),
    ]
    .boxed()
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    (option::of(identity()), any::<bool>(), any::<bool>(), namespace(), command()).prop_map(
        |(identity, operator, endless, namespace, command)| Request {
            caller: Caller { identity, rights: Rights { operator, endless } },
            namespace,
            command,
        },
    )
}

pub(crate) fn stamp() -> impl Strategy<Value = Stamp> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(term, node, now, wall)| Stamp {
        leader: LeaderId { term, node },
        now: LeaseTime(now),
        wall: WallTime(wall),
    })
}
