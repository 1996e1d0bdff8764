//! One fixed example of everything that asks for a hand-over.

use leasehold_core::*;

use super::{ANN, holder, lease, namespace, resource};

pub(crate) fn requests() -> Vec<(&'static str, Request)> {
    let request = |reason: Option<&str>| Request {
        caller: Caller::default(),
        namespace: namespace(),
        command: Command::AskHandover(AskHandover {
            resource: resource("orders/7"),
            by: holder("bob"),
            reason: reason.map(Into::into),
        }),
    };
    vec![("ask for a hand-over", request(None)), ("ask for a hand-over with a reason", request(Some("deploy")))]
}

pub(crate) fn records() -> Vec<(&'static str, Record)> {
    let past = |revision, what| Past {
        at: WallTime(1_750_000_000_123),
        revision: Revision(revision),
        holder: holder("ann"),
        token: Token(1204),
        what,
    };
    let resource = ResourceRecord {
        namespace: NamespaceId(1),
        name: resource("orders/7"),
        mode: Mode::Exclusive,
        holders: vec![lease(ANN)],
        last_token: Token(1204),
        rests_until: LeaseTime::ZERO,
        usual_hold: Span(1_500),
        idle_since: Revision(0),
        history: vec![
            past(1205, PastFact::HandoverAsked { by: holder("bob"), reason: None }),
            past(1206, PastFact::HandoverAsked { by: holder("cat"), reason: Some("deploy".into()) }),
        ],
    };
    vec![("resource whose holder was asked", Record::Resource(Box::new(resource)))]
}

pub(crate) fn events() -> Vec<(&'static str, Event)> {
    let event = |revision, reason: Option<&str>| Event {
        revision: Revision(revision),
        wall: WallTime(1_750_000_000_123),
        namespace: namespace(),
        fact: Fact::HandoverAsked {
            lease: lease(ANN),
            holder: holder("ann"),
            resource: resource("orders/7"),
            by: holder("bob"),
            reason: reason.map(Into::into),
        },
    };
    vec![("hand-over asked", event(1208, None)), ("hand-over asked with a reason", event(1209, Some("deploy")))]
}
