//! Any command over few names, so that commands meet each other; numbers at their edges.

use std::sync::Arc;

use leasehold_core::{
    Ask, AskHandover, Asks, Binding, Caller, Claim, ClaimMarked, Class, Command, Compare, Grant, Holder, Identity, Key,
    KeyRange, LeaseId, LeaseTime, Leave, Limits, Marker, Metadata, Mode, Namespace, Once, Operand, Patience, Relation,
    Release, Renew, Request, ResourceName, Revision, Revoke, Rights, Span, State, Token, Ttl, Unclaim, WRITE_DEPTH_MAX,
    Write, WriteOp,
};

use crate::Source;

const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const RESOURCES: [&str; 5] = ["a", "a/b", "b", "c", "d/e/f"];
const KEYS: [&[u8]; 5] = [b"k", b"k1", b"k2", b"\0", b"\xff\xff"];
const IDS: usize = 9;

/// A command and who gives it, in front of this state.
pub(crate) fn request(source: &mut Source<'_>, state: &State) -> Request {
    let namespace = namespace(source);
    let caller = caller(source);
    let command = command(source, state, &namespace);
    Request { caller, namespace, command }
}

pub(crate) fn namespace(source: &mut Source<'_>) -> Namespace {
    let name = if source.chance(40) { source.pick(&NAMESPACES) } else { NAMESPACES[0] };
    Namespace::new(name).expect("it is well formed")
}

pub(crate) fn resource(source: &mut Source<'_>) -> ResourceName {
    ResourceName::new(source.pick(&RESOURCES)).expect("it is well formed")
}

pub(crate) fn lease(source: &mut Source<'_>) -> LeaseId {
    let number = match source.below(IDS + 1) {
        IDS => source.number(),
        small => small as u64 + 1,
    };
    LeaseId::new(number).unwrap_or(LeaseId::new(LeaseId::MAX).expect("the largest is one"))
}

pub(crate) fn holder(source: &mut Source<'_>) -> Holder {
    Holder::new(source.pick(&["ann", "bob", "Größe ✓"])).expect("it is well formed")
}

pub(crate) fn key(source: &mut Source<'_>) -> Key {
    Key::new(source.pick(&KEYS)).expect("it is well formed")
}

pub(crate) fn range(source: &mut Source<'_>) -> KeyRange {
    match source.below(5) {
        0 | 1 => KeyRange::One(key(source)),
        2 => KeyRange::Prefix(source.pick(&[&b""[..], b"k", b"k1", b"\xff", b"\xff\xff\xff"]).into()),
        3 => KeyRange::Between(key(source), key(source)),
        _ => KeyRange::From(key(source)),
    }
}

fn caller(source: &mut Source<'_>) -> Caller {
    let choice = source.byte();
    let identity = match choice % 5 {
        0..3 => Some("ann"),
        3 => Some("bob"),
        _ => None,
    };
    Caller {
        identity: identity.map(|name| Identity::new(name).expect("it is well formed")),
        rights: Rights { operator: choice & 0x20 != 0, endless: choice & 0x40 != 0 },
    }
}

fn command(source: &mut Source<'_>, state: &State, namespace: &Namespace) -> Command {
    match source.below(30) {
        0..7 => Command::Grant(grant(source, state)),
        7..10 => {
            let leases = (0..source.below(5)).map(|_| lease(source)).collect();
            Command::Renew(Renew { leases, ttl: source.chance(80).then(|| ttl(source)) })
        }
        10 | 11 => Command::Release(Release { lease: lease(source) }),
        12 => {
            let reason = "r".repeat(if source.chance(8) { 5000 } else { source.below(20) });
            Command::Revoke(Revoke { lease: lease(source), reason: reason.into(), now: source.chance(128) })
        }
        13..16 => Command::Claim(Claim { lease: lease(source), once: once(source), asks: asks(source) }),
        16 | 17 => unclaim(source, state, namespace),
        18 => {
            let lease = lease(source);
            let view = state.lease(namespace, lease).ok();
            let wait = view.and_then(|view| view.waits.first().map(|wait| wait.wait));
            Command::Leave(Leave { lease, wait: wait.unwrap_or_else(|| Revision(source.number())) })
        }
        19 => {
            let reason = source.chance(128).then(|| "why".into());
            Command::AskHandover(AskHandover { resource: resource(source), by: holder(source), reason })
        }
        20 | 21 => Command::GrantAnew(grant(source, state)),
        22..27 => {
            let mut asks = asks(source);
            asks.claims.truncate(1);
            let claim = Claim { lease: lease(source), once: once(source), asks };
            let marker = Marker { key: key(source), value: Arc::from(vec![1; source.below(3)]) };
            Command::ClaimMarked(ClaimMarked { claim, marker })
        }
        // Limits seldom: many of them refuse everything that follows.
        _ if !source.chance(24) => Command::Write(write(source, 1)),
        _ => Command::Configure(Box::new(limits(source))),
    }
}

fn grant(source: &mut Source<'_>, state: &State) -> Grant {
    let metadata = source.chance(60).then(|| ("reason".to_owned(), "x".repeat(usize::from(source.byte()))));
    Grant {
        id: lease(source),
        holder: holder(source),
        ttl: ttl(source),
        class: source.pick(&[Class::Lock, Class::Election, Class::Session, Class::Reservation, Class::Cache]),
        parent: source.chance(80).then(|| lease(source)),
        metadata: Metadata::new(metadata),
        asks: asks(source),
        seen: if source.chance(30) { LeaseTime(source.number()) } else { state.now() },
    }
}

fn ttl(source: &mut Source<'_>) -> Ttl {
    match source.byte() {
        usual @ 0..200 => Ttl::For(Span(100 + 50 * u64::from(usual % 20))),
        200..240 => Ttl::For(Span(source.number())),
        240..=255 => Ttl::Endless,
    }
}

fn asks(source: &mut Source<'_>) -> Asks {
    let claims = (0..source.below(4))
        .map(|_| Ask {
            resource: resource(source),
            mode: if source.chance(90) { Mode::Shared } else { Mode::Exclusive },
        })
        .collect();
    let patience = match source.below(6) {
        0 | 1 => Patience::None,
        2 | 3 => Patience::For(Span(50 * u64::from(source.byte()))),
        4 => Patience::For(Span(source.number())),
        _ => Patience::Endless,
    };
    let priority = source.pick(&[0, 0, 0, 1, -1, i32::MAX, i32::MIN]);
    let cooldown = if source.chance(80) { Span(source.number()) } else { Span::ZERO };
    Asks { claims, patience, priority, cooldown }
}

fn once(source: &mut Source<'_>) -> Option<Once> {
    source.chance(128).then(|| Once { seq: source.number(), acked: source.number() })
}

fn unclaim(source: &mut Source<'_>, state: &State, namespace: &Namespace) -> Command {
    let (lease, resource) = (lease(source), resource(source));
    let view = state.lease(namespace, lease).ok();
    let held = view.and_then(|view| view.held.into_iter().find(|held| held.resource == resource));
    let token = match held {
        Some(held) if !source.chance(30) => held.token,
        Some(_) | None => Token(source.number()),
    };
    Command::Unclaim(Unclaim { lease, once: once(source), resource, token })
}

/// A write at a level of nesting, with others within it down to the deepest that fits the log.
fn write(source: &mut Source<'_>, level: usize) -> Write {
    let session = source.chance(60).then(|| (lease(source), Once { seq: source.number(), acked: source.number() }));
    let compares = (0..source.below(3)).map(|_| compare(source)).collect();
    let then = (0..source.below(4)).map(|_| step(source, level)).collect();
    let otherwise = (0..source.below(3)).map(|_| step(source, level)).collect();
    Write { session, compares, then, otherwise }
}

fn compare(source: &mut Source<'_>) -> Compare {
    let operand = match source.below(5) {
        0 => Operand::Version(source.number()),
        1 => Operand::Created(Revision(source.number())),
        2 => Operand::Modified(Revision(source.number())),
        3 => Operand::Value(Arc::from(vec![1; source.below(3)])),
        _ => Operand::Lease(source.number()),
    };
    let relation = source.pick(&[Relation::Equal, Relation::NotEqual, Relation::Less, Relation::Greater]);
    Compare { range: range(source), relation, operand }
}

fn step(source: &mut Source<'_>, level: usize) -> WriteOp {
    match source.below(7) {
        0..3 => WriteOp::Put {
            key: key(source),
            value: (!source.chance(40)).then(|| Arc::from(vec![1; source.below(5)])),
            binding: match source.below(4) {
                0 | 1 => Binding::To(lease(source)),
                2 => Binding::None,
                _ => Binding::Keep,
            },
        },
        3 | 4 => WriteOp::Delete { range: range(source) },
        5 if level < WRITE_DEPTH_MAX => WriteOp::Nested(Box::new(write(source, level + 1))),
        5.. => WriteOp::Read { range: range(source), limit: source.number() as u32 },
    }
}

/// Limits of which some are tiny, huge or contradictory.
pub(crate) fn limits(source: &mut Source<'_>) -> Limits {
    let mut limits = Limits { tombstone_age: Span(2000), ..Limits::default() };
    for _ in 0..source.below(6) {
        let (which, value) = (source.below(28), source.number());
        let small = value.min(u64::from(u32::MAX)) as u32;
        match which {
            0 => limits.ttl_min = Span(value),
            1 => limits.ttl_max = Span(value),
            2 => limits.cooldown_max = Span(value),
            3 => limits.grace = Span(value),
            4 => limits.tombstone_age = Span(value),
            5 => limits.tombstones = small,
            6 => limits.namespaces = small,
            7 => limits.leases = small,
            8 => limits.leases_per_identity = small,
            9 => limits.claims_per_lease = small,
            10 => limits.entries_per_lease = small,
            11 => limits.tree_weight = small,
            12 => limits.tree_depth = value as u8,
            13 => limits.waiters = small,
            14 => limits.shared_holders = small,
            15 => limits.entries = small,
            16 => limits.value_bytes = small,
            17 => limits.entry_bytes = value,
            18 => limits.state_bytes = value,
            19 => limits.write_ops = small,
            20 => limits.range_entries = small,
            21 => limits.metadata_pairs = small,
            22 => limits.metadata_bytes = small,
            23 => limits.history = small,
            24 => limits.idle_resources = small,
            25 => limits.receipts = small,
            26 => limits.renewals = small,
            _ => limits.sweep_piece = small,
        }
    }
    limits
}
