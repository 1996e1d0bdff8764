//! One fixed example of every kind of command, record and event: what the golden files hold.
//!
//! The examples of a golden file never change; a new kind gets an example, and a golden file, of its own.

use leasehold_core::*;

pub(crate) mod handover;
pub(crate) mod markers;

pub(crate) fn stamp() -> Stamp {
    Stamp { leader: LeaderId { term: 7, node: 3 }, now: LeaseTime(5_000), wall: WallTime(1_750_000_000_123) }
}

fn lease(number: u64) -> LeaseId {
    LeaseId::new(number).expect("the number is in range")
}

fn resource(text: &str) -> ResourceName {
    ResourceName::new(text).expect("the name is well formed")
}

fn holder(text: &str) -> Holder {
    Holder::new(text).expect("the name is well formed")
}

fn identity(text: &str) -> Identity {
    Identity::new(text).expect("the name is well formed")
}

fn key(text: &str) -> Key {
    Key::new(text.as_bytes()).expect("the key is well formed")
}

fn namespace() -> Namespace {
    Namespace::new("shop").expect("the name is well formed")
}

fn asks() -> Asks {
    Asks {
        claims: vec![
            Ask { resource: resource("orders/7"), mode: Mode::Exclusive },
            Ask { resource: resource("Größe"), mode: Mode::Shared },
        ],
        patience: Patience::For(Span(30_000)),
        priority: -5,
        cooldown: Span(2_000),
    }
}

fn metadata() -> Metadata {
    Metadata::new([("reason".to_owned(), "nightly run".to_owned()), ("link".to_owned(), "https://ci/9".to_owned())])
}

const ANN: u64 = 0x5f3c_0a1b_2c3d_4e5f;
const BOB: u64 = 0x0102_0304_0506_0708;

/// Limits that are all different, so that no two can change places unseen.
fn limits() -> Limits {
    Limits {
        ttl_min: Span(101),
        ttl_max: Span(102),
        cooldown_max: Span(103),
        grace: Span(104),
        tombstone_age: Span(105),
        tombstones: 106,
        namespaces: 107,
        leases: 108,
        leases_per_identity: 109,
        claims_per_lease: 110,
        entries_per_lease: 111,
        tree_weight: 112,
        tree_depth: 113,
        waiters: 114,
        shared_holders: 115,
        entries: 116,
        value_bytes: 117,
        entry_bytes: 1 << 40,
        state_bytes: 1 << 41,
        write_ops: 119,
        range_entries: 120,
        metadata_pairs: 121,
        metadata_bytes: 122,
        history: 123,
        idle_resources: 124,
        receipts: 125,
        renewals: 126,
        sweep_piece: 127,
    }
}

fn plain(name: &'static str, command: Command) -> (&'static str, Request) {
    (name, Request { caller: Caller::default(), namespace: namespace(), command })
}

fn by(name: &'static str, who: &str, rights: Rights, command: Command) -> (&'static str, Request) {
    let caller = Caller { identity: Some(identity(who)), rights };
    (name, Request { caller, namespace: namespace(), command })
}

/// All examples of requests.
pub(crate) fn requests() -> Vec<(&'static str, Request)> {
    first_requests().into_iter().chain(handover::requests()).chain(markers::requests()).collect()
}

pub(crate) fn first_requests() -> Vec<(&'static str, Request)> {
    let operator = Rights { operator: true, endless: false };
    let small = Grant {
        id: lease(BOB),
        holder: holder("bob"),
        ttl: Ttl::For(Span(10_000)),
        class: Class::Lock,
        parent: None,
        metadata: Metadata::default(),
        asks: Asks { claims: vec![Ask { resource: resource("orders/7"), mode: Mode::Exclusive }], ..Asks::default() },
        seen: LeaseTime(4_000),
    };
    let full = Grant {
        id: lease(ANN),
        holder: holder("ann"),
        ttl: Ttl::Endless,
        class: Class::Reservation,
        parent: Some(lease(BOB)),
        metadata: metadata(),
        asks: asks(),
        seen: LeaseTime(4_999),
    };
    let of_class = |class| Command::Grant(Grant { class, ..small.clone() });
    let once = Once { seq: 300, acked: 299 };
    let write = Write {
        session: Some((lease(ANN), once)),
        compares: vec![
            compare(KeyRange::One(key("a")), Relation::Equal, Operand::Version(1)),
            compare(KeyRange::Prefix(b"b/"[..].into()), Relation::NotEqual, Operand::Created(Revision(2))),
            compare(KeyRange::Between(key("c"), key("d")), Relation::Less, Operand::Modified(Revision(300))),
            compare(KeyRange::From(key("e")), Relation::Greater, Operand::Value(b"val"[..].into())),
            compare(KeyRange::Prefix(b""[..].into()), Relation::Equal, Operand::Lease(ANN)),
        ],
        then: vec![
            WriteOp::Put { key: key("k1"), value: Some(b"one"[..].into()), binding: Binding::None },
            WriteOp::Put { key: key("k2"), value: None, binding: Binding::To(lease(ANN)) },
            WriteOp::Put { key: key("k3"), value: Some(b""[..].into()), binding: Binding::Keep },
        ],
        otherwise: vec![
            WriteOp::Delete { range: KeyRange::One(key("k1")) },
            WriteOp::Read { range: KeyRange::Prefix(b"k"[..].into()), limit: 100 },
        ],
    };
    let endless = Asks { patience: Patience::Endless, priority: 1, ..asks() };
    vec![
        plain("grant", Command::Grant(small.clone())),
        by("grant in full", "ann@shop", Rights { operator: true, endless: true }, Command::Grant(full)),
        plain("grant for an election", of_class(Class::Election)),
        plain("grant for a session", of_class(Class::Session)),
        plain("grant for a cache", of_class(Class::Cache)),
        plain("renew", Command::Renew(Renew { leases: vec![lease(ANN), lease(BOB)], ttl: None })),
        plain("renew with ttl", Command::Renew(Renew { leases: vec![lease(1)], ttl: Some(Ttl::For(Span(60_000))) })),
        plain("release", Command::Release(Release { lease: lease(BOB) })),
        by(
            "revoke",
            "root",
            operator,
            Command::Revoke(Revoke { lease: lease(ANN), reason: "stuck".into(), now: true }),
        ),
        plain("claim", Command::Claim(Claim { lease: lease(ANN), once: Some(once), asks: endless })),
        plain(
            "unclaim",
            Command::Unclaim(Unclaim {
                lease: lease(ANN),
                once: None,
                resource: resource("orders/7"),
                token: Token(1204),
            }),
        ),
        plain("leave", Command::Leave(Leave { lease: lease(LeaseId::MAX), wait: Revision(1203) })),
        plain("write", Command::Write(write)),
        by("configure", "root", operator, Command::Configure(Box::new(limits()))),
    ]
}

fn compare(range: KeyRange, relation: Relation, operand: Operand) -> Compare {
    Compare { range, relation, operand }
}

/// All examples of records.
pub(crate) fn records() -> Vec<(&'static str, Record)> {
    first_records().into_iter().chain(handover::records()).chain(restored_records()).chain(markers::records()).collect()
}

/// The first records of a state that was restored: they need the second version of a body.
pub(crate) fn restored_records() -> Vec<(&'static str, Record)> {
    let head = first_records().remove(0);
    vec![head, ("rest", Record::Rest(RestRecord { until: LeaseTime(65_000) }))]
}

pub(crate) fn first_records() -> Vec<(&'static str, Record)> {
    let revoked = EndCause::Revoked { by: Some(identity("root")), reason: "stuck".into() };
    let past = |revision, what| Past {
        at: WallTime(1_750_000_000_123),
        revision: Revision(revision),
        holder: holder("ann"),
        token: Token(1204),
        what,
    };
    vec![
        (
            "head",
            Record::Head(Box::new(HeadRecord {
                now: LeaseTime(5_000),
                wall: WallTime(1_750_000_000_123),
                revision: Revision(1204),
                taken_over: LeaseTime(1_000),
                grace: Span(500),
                horizon: Some(LeaseTime(10)),
                longest_ttl: Span(60_000),
                next_namespace: 2,
                limits: limits(),
            })),
        ),
        ("namespace", Record::Namespace(NamespaceRecord { id: NamespaceId(1), name: namespace() })),
        ("lease", lease_record()),
        (
            "resource",
            Record::Resource(Box::new(ResourceRecord {
                namespace: NamespaceId(1),
                name: resource("orders/7"),
                mode: Mode::Shared,
                holders: vec![lease(7), lease(9)],
                last_token: Token(1204),
                rests_until: LeaseTime(9_000),
                usual_hold: Span(1_500),
                idle_since: Revision(0),
                history: vec![
                    past(1204, PastFact::Granted { waited: Span(20) }),
                    past(1205, PastFact::Ended { held: Span(300), cause: EndCause::Expired }),
                    past(1206, PastFact::Ended { held: Span(301), cause: revoked }),
                ],
            })),
        ),
        ("entry", entry_record()),
        (
            "tombstone",
            Record::Tombstone(Box::new(TombstoneRecord {
                namespace: NamespaceId(1),
                id: lease(BOB),
                holder: holder("bob"),
                identity: Some(identity("bob@shop")),
                ended: LeaseTime(4_500),
                ended_wall: WallTime(1_750_000_000_000),
                revision: Revision(1200),
                cause: EndCause::ParentEnded,
            })),
        ),
    ]
}

fn lease_record() -> Record {
    Record::Lease(Box::new(LeaseRecord {
        namespace: NamespaceId(1),
        id: lease(ANN),
        holder: holder("ann"),
        identity: Some(identity("ann@shop")),
        ttl: Ttl::For(Span(10_000)),
        deadline: LeaseTime(15_000),
        granted: LeaseTime(4_000),
        granted_wall: WallTime(1_750_000_000_000),
        granted_at: Revision(1100),
        renewed: LeaseTime(5_000),
        class: Class::Session,
        parent: Some(lease(BOB)),
        metadata: metadata(),
        fingerprint: 0xfedc_ba98_7654_3210,
        changed: Revision(1204),
        held: vec![HeldClaim {
            resource: resource("orders/7"),
            mode: Mode::Exclusive,
            token: Token(1204),
            since: LeaseTime(4_100),
            since_wall: WallTime(1_750_000_000_100),
            waited: Span(100),
            cooldown: Span(2_000),
        }],
        waits: vec![Wait {
            number: Revision(1203),
            asks: vec![Ask { resource: resource("Größe"), mode: Mode::Shared }],
            deadline: LeaseTime::NEVER,
            priority: -5,
            cooldown: Span(0),
            since: LeaseTime(4_050),
            born: false,
        }],
        seq: 303,
        receipts: vec![
            (300, Receipt::Claimed),
            (301, Receipt::Unclaimed),
            (302, Receipt::Written { succeeded: true, revision: Revision(1202) }),
            (303, Receipt::Refused),
        ],
    }))
}

pub(crate) fn entry_record() -> Record {
    Record::Entry(EntryRecord {
        namespace: NamespaceId(1),
        key: key("config/a"),
        value: b"on"[..].into(),
        version: 3,
        created: Revision(1100),
        modified: Revision(1190),
        lease: Some(lease(ANN)),
    })
}

/// All examples of events.
pub(crate) fn events() -> Vec<(&'static str, Event)> {
    first_events().into_iter().chain(handover::events()).chain(markers::events()).collect()
}

pub(crate) fn first_events() -> Vec<(&'static str, Event)> {
    let event = |revision, fact| Event {
        revision: Revision(revision),
        wall: WallTime(1_750_000_000_123),
        namespace: namespace(),
        fact,
    };
    let (lease, holder, resource) = (lease(ANN), holder("ann"), resource("orders/7"));
    let facts = [
        ("lease granted", Fact::LeaseGranted { lease, holder: holder.clone(), ttl: Ttl::For(Span(10_000)) }),
        ("lease ended", Fact::LeaseEnded { lease, holder: holder.clone(), cause: EndCause::Released }),
        (
            "claim granted",
            Fact::ClaimGranted {
                lease,
                holder: holder.clone(),
                resource: resource.clone(),
                mode: Mode::Exclusive,
                token: Token(1202),
                waited: Span(20),
            },
        ),
        (
            "claim ended",
            Fact::ClaimEnded {
                lease,
                holder: holder.clone(),
                resource: resource.clone(),
                token: Token(1202),
                held: Span(300),
                cause: EndCause::WaitElapsed,
                rests: Span(2_000),
            },
        ),
        (
            "queued",
            Fact::Queued { lease, holder: holder.clone(), resource: resource.clone(), mode: Mode::Shared, position: 1 },
        ),
        ("unqueued", Fact::Unqueued { lease, holder, resource, cause: EndCause::Left }),
        (
            "entry put",
            Fact::EntryPut {
                key: key("config/a"),
                value: b"on"[..].into(),
                version: 3,
                created: Revision(1100),
                lease: None,
                previous: Previous(None),
            },
        ),
        ("entry deleted", Fact::EntryDeleted { key: key("config/a"), ended: Some(lease), previous: Previous(None) }),
    ];
    (1200..).zip(facts).map(|(revision, (name, fact))| (name, event(revision, fact))).collect()
}
