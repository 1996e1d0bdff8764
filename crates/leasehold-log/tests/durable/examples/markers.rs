//! What came with markers: grants anew, claims with a marker, nested writes, and what an event replaced.

use leasehold_core::*;

use super::{ANN, asks, first_records, first_requests, holder, key, lease, namespace, plain, resource};

pub(crate) fn requests() -> Vec<(&'static str, Request)> {
    let Command::Grant(grant) = first_requests().remove(0).1.command else { panic!("the first example is a grant") };
    let claims = vec![Ask { resource: resource("orders/7"), mode: Mode::Exclusive }];
    let marked = ClaimMarked {
        claim: Claim { lease: lease(ANN), once: None, asks: Asks { claims, patience: Patience::Endless, ..asks() } },
        marker: Marker { key: key("orders/7/5f3c0a1b2c3d4e5f"), value: b"ann"[..].into() },
    };
    let put = |name| WriteOp::Put { key: key(name), value: Some(b"on"[..].into()), binding: Binding::None };
    let inner = Write { then: vec![put("inner")], ..Write::default() };
    let middle = Write { otherwise: vec![WriteOp::Nested(Box::new(inner))], ..Write::default() };
    let write = Write { then: vec![put("outer"), WriteOp::Nested(Box::new(middle))], ..Write::default() };
    vec![
        plain("grant anew", Command::GrantAnew(grant)),
        plain("claim with a marker", Command::ClaimMarked(marked)),
        plain("nested write", Command::Write(write)),
    ]
}

pub(crate) fn records() -> Vec<(&'static str, Record)> {
    let marker = MarkerRecord {
        namespace: NamespaceId(1),
        key: key("orders/7/5f3c0a1b2c3d4e5f"),
        lease: lease(ANN),
        resource: resource("orders/7"),
    };
    vec![first_records().remove(0), ("marker", Record::Marker(marker))]
}

pub(crate) fn events() -> Vec<(&'static str, Event)> {
    let former = Former {
        value: b"off"[..].into(),
        version: 2,
        created: Revision(1100),
        modified: Revision(1150),
        lease: Some(lease(ANN)),
    };
    let previous = Previous(Some(Box::new(former)));
    let put = Fact::EntryPut {
        key: key("config/a"),
        value: b"on"[..].into(),
        version: 3,
        created: Revision(1100),
        lease: None,
        previous: previous.clone(),
    };
    let deleted = Fact::EntryDeleted { key: key("config/a"), ended: None, previous };
    let ended = Fact::LeaseEnded { lease: lease(ANN), holder: holder("ann"), cause: EndCause::Expired };
    let facts = [("entry replaced", put), ("entry deleted, and what it was", deleted), ("lease expired", ended)];
    let event = |revision, fact| Event {
        revision: Revision(revision),
        wall: WallTime(1_750_000_000_123),
        namespace: namespace(),
        fact,
    };
    (1220..).zip(facts).map(|(revision, (name, fact))| (name, event(revision, fact))).collect()
}
