//! Random commands against a naive model: few names, so that they collide; small times, so that they run out.
//!
//! With a piece large enough for any sweep the core must agree with the model in every answer, holder, queue and
//! entry. With pieces of one, commands meet a backlog: then the rules of safety hold at every step.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod naive;
mod random;

use std::collections::BTreeMap;

use leasehold_core::{
    Applied, Command, Fact, Key, KeyRange, LeaderId, LeaseId, LeaseTime, LeaseView, Limits, Namespace, NamespaceRecord,
    Outcome, Record, Rejection, Remaining, Request, ResourceName, Revision, Stamp, State, Token, WallTime, WriteResult,
};
use naive::{Model, Who};
use proptest::prelude::*;
use random::{Resolver, Shot, limits, shots};

fn remaining(remaining: Remaining) -> String {
    match remaining {
        Remaining::For(span) => span.to_string(),
        Remaining::Endless => "endless".to_owned(),
    }
}

fn view(verb: &str, view: &LeaseView) -> String {
    let held: Vec<&str> = view.held.iter().map(|held| held.resource.as_str()).collect();
    let mut text = format!("{verb} {} of {} holds {held:?}", remaining(view.remaining), view.ttl);
    for wait in &view.waits {
        text += " waits";
        for place in &wait.places {
            text += &format!(" {}:{}/{}", place.resource, place.position, place.length);
        }
    }
    text
}

fn refusal(rejection: &Rejection) -> String {
    match rejection {
        Rejection::Held(held) => format!("Held {}", held.resource),
        Rejection::Ended(end) => format!("Ended {}", end.cause.word()),
        Rejection::LimitReached { bound, .. } => format!("LimitReached {bound:?}"),
        Rejection::IdInUse
        | Rejection::UnknownLease
        | Rejection::NotYours
        | Rejection::NeedsRight(_)
        | Rejection::TooOld { .. }
        | Rejection::LateCopy { .. }
        | Rejection::RefusedBefore { .. }
        | Rejection::StaleToken { .. }
        | Rejection::AlreadyClaimed { .. }
        | Rejection::NotClaimed { .. }
        | Rejection::NotHeld { .. }
        | Rejection::AskedTwice { .. }
        | Rejection::AsksNothing
        | Rejection::TtlOutOfBounds { .. }
        | Rejection::CooldownTooLong { .. }
        | Rejection::KeyWrittenTwice { .. }
        | Rejection::UnknownEntry { .. }
        | Rejection::OneMarkerOneClaim
        | Rejection::AlreadyMarker { .. }
        | Rejection::EndlessRevoke
        | Rejection::UnknownWait
        | Rejection::BadLimits(_) => {
            let debug = format!("{rejection:?}");
            debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
        }
    }
}

/// The answers of the core in the words of the model.
fn answers(applied: &Applied) -> Vec<String> {
    let words = |answer: &Result<Outcome, Box<Rejection>>| match answer {
        Err(rejection) => format!("refused {}", refusal(rejection)),
        Ok(Outcome::Granted(lease)) => view("granted", lease),
        Ok(Outcome::Claimed(lease)) => view("claimed", lease),
        Ok(Outcome::Renewed(each)) => {
            let each = each.iter().map(|answer| match answer {
                Ok(renewal) => format!("{} of {}", remaining(renewal.remaining), renewal.ttl),
                Err(rejection) => refusal(rejection),
            });
            format!("renewed {}", each.collect::<Vec<_>>().join(","))
        }
        Ok(Outcome::Released { .. }) => "released".to_owned(),
        Ok(Outcome::Revoked { .. }) => "revoked".to_owned(),
        Ok(Outcome::Unclaimed) => "unclaimed".to_owned(),
        Ok(Outcome::Left) => "left".to_owned(),
        Ok(Outcome::HandoverAsked { holders }) => format!("asked {holders}"),
        Ok(Outcome::Configured) => "configured".to_owned(),
        Ok(Outcome::Written(written)) => {
            let mut text = if written.succeeded { "then" } else { "else" }.to_owned();
            for result in &written.results {
                text += &match result {
                    WriteResult::Put { previous } => {
                        format!(" put over {:?}", previous.as_ref().map(|previous| previous.version))
                    }
                    WriteResult::Deleted { previous } => format!(" deleted {}", previous.len()),
                    WriteResult::Read { count, .. } => format!(" read {count}"),
                    WriteResult::Nested(_) => unreachable!("the model does not know it"),
                };
            }
            text
        }
    };
    applied.answers.iter().map(words).collect()
}

fn all_leases(state: &State) -> Vec<(Who, LeaseView)> {
    let filter = leasehold_core::LeaseFilter { limit: usize::MAX, ..Default::default() };
    let in_one = |ns: &str| {
        let page = state.leases(&Namespace::new(ns).unwrap(), &filter);
        let mut leases: Vec<_> = page.items.into_iter().map(|view| ((ns.to_owned(), view.id.number()), view)).collect();
        leases.sort_by_key(|(who, _)| who.1);
        leases
    };
    random::NAMESPACES.into_iter().flat_map(in_one).collect()
}

/// Who lives, holds, waits and ended, and what is written, as lines.
fn picture_of_core(state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for ((ns, id), view) in all_leases(state) {
        let tokens: Vec<_> = view.held.iter().map(|held| (held.resource.as_str(), held.mode, held.token)).collect();
        let (entries, children) = (view.entries, view.children);
        lines.push(format!("{ns} {id} {} {tokens:?} {entries} {children}", self::view("lease", &view)));
    }
    for (ns, name) in random::places() {
        let (space, name) = (Namespace::new(ns).unwrap(), ResourceName::new(name).unwrap());
        let queue: Vec<u64> = state.queue(&space, &name, 100).iter().map(|waiter| waiter.lease.number()).collect();
        let rests = state.resource(&space, &name).and_then(|view| view.rests);
        lines.push(format!("{ns} {name} queue {queue:?} rests {rests:?}"));
    }
    for ns in random::NAMESPACES {
        let (entries, _) = state.entries(&Namespace::new(ns).unwrap(), &KeyRange::Prefix([].into()), 100);
        for entry in entries {
            let (value, lease) = (entry.value.to_vec(), entry.lease.map(|lease| lease.number()));
            lines.push(format!("{ns} {} {value:?} v{} {lease:?}", entry.key, entry.version));
        }
        for id in 1..=random::IDS {
            let ended = state.lease(&Namespace::new(ns).unwrap(), naive::lease_id(id)).err();
            lines.extend(ended.map(|ended| format!("{ns} {id} {}", refusal(&ended))));
        }
    }
    lines
}

fn picture_of_model(model: &Model) -> Vec<String> {
    let mut lines = Vec::new();
    let mut leases: Vec<_> = model.leases.iter().map(|lease| lease.who.clone()).collect();
    leases.sort();
    for who in leases {
        let mut tokens: Vec<_> = model
            .held
            .iter()
            .filter(|held| held.who == who)
            .map(|held| (held.at.1.as_str(), held.mode, held.token.unwrap()))
            .collect();
        tokens.sort();
        let children = model
            .leases
            .iter()
            .filter(|lease| lease.who.0 == who.0 && lease.grant.parent.map(|parent| parent.number()) == Some(who.1));
        let (ns, id, entries, children) = (&who.0, who.1, model.bound_entries(&who), children.count());
        lines.push(format!("{ns} {id} {} {tokens:?} {entries} {children}", model.view("lease", &who)));
    }
    for (ns, name) in random::places() {
        let place = (ns.to_owned(), name.to_owned());
        let queue: Vec<u64> = model.queue(&place).iter().map(|wait| wait.who.1).collect();
        let rests = model.rests.get(&place).map(|until| until.since(model.now));
        lines.push(format!("{ns} {name} queue {queue:?} rests {rests:?}"));
    }
    for ns in random::NAMESPACES {
        for ((_, key), entry) in model.entries.iter().filter(|((n, _), _)| n == ns) {
            let key = String::from_utf8_lossy(key);
            lines.push(format!("{ns} {key} {:?} v{} {:?}", entry.value, entry.version, entry.lease));
        }
        for id in 1..=random::IDS {
            let who = (ns.to_owned(), id);
            let tomb = model.tombs.iter().find(|tomb| tomb.who == who);
            match (model.position(&who), tomb) {
                (Some(_), _) => {}
                (None, Some(tomb)) => lines.push(format!("{ns} {id} Ended {}", tomb.cause.word())),
                (None, None) => lines.push(format!("{ns} {id} UnknownLease")),
            }
        }
    }
    lines
}

/// Teaches the model the revisions that the core chose.
fn teach(model: &mut Model, state: &State) {
    let leases = all_leases(state);
    let token = |(who, view): &(Who, LeaseView)| {
        let who = who.clone();
        let pairs = view.held.iter().map(move |held| ((who.clone(), held.resource.to_string()), held.token));
        pairs.collect::<Vec<_>>()
    };
    let tokens: BTreeMap<(Who, String), Token> = leases.iter().flat_map(token).collect();
    let waits: BTreeMap<Who, Vec<Revision>> =
        leases.iter().map(|(who, view)| (who.clone(), view.waits.iter().map(|wait| wait.wait).collect())).collect();
    model.learn(&tokens, &waits);
    for record in state.view().records() {
        if let Record::Namespace(NamespaceRecord { id, name }) = record {
            model.namespaces.insert(name.to_string(), id.0);
        }
    }
    for ((ns, key), entry) in &mut model.entries {
        let view = state.entry(&Namespace::new(ns).unwrap(), &Key::new(key).unwrap()).expect("the core has it too");
        assert!(entry.modified.is_none_or(|known| known == view.modified), "{key:?} changed without a write");
        entry.modified = Some(view.modified);
    }
}

fn apply(state: &mut State, now: u64, requests: &[Request]) -> Applied {
    let stamp = Stamp { leader: LeaderId::default(), now: LeaseTime(now), wall: WallTime(now) };
    let applied = state.apply(LeaderId::default(), stamp, requests.iter().cloned());
    assert_eq!(applied.void, None);
    applied
}

fn configure(limits: &Limits) -> Request {
    random::as_operator(Command::Configure(Box::new(limits.clone())))
}

/// Tokens of each resource rise in the order of the facts.
#[derive(Default)]
struct Tokens(BTreeMap<(Namespace, ResourceName), Token>);

impl Tokens {
    fn watch(&mut self, applied: &Applied) {
        for event in &applied.events {
            if let Fact::ClaimGranted { resource, token, .. } = &event.fact {
                let last = self.0.entry((event.namespace.clone(), resource.clone())).or_default();
                assert!(*last < *token, "tokens of {resource} rise");
                assert_eq!(token.0, event.revision.0, "a token is the revision of its grant");
                *last = *token;
            }
        }
    }
}

/// `PROPTEST_CASES` sets how long it runs.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases * 2, failure_persistence: None, ..default }
}

fn ended_too(applied: &Applied, granted: LeaseId) -> bool {
    applied.events.iter().any(|event| matches!(&event.fact, Fact::LeaseEnded { lease, .. } if *lease == granted))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_core_agrees_with_the_model(limits in limits(), shots in shots(60)) {
        let (mut state, mut model) = (State::new(), Model::default());
        let (mut resolver, mut tokens) = (Resolver::default(), Tokens::default());
        let (mut now, first) = (0, vec![configure(&limits)]);
        apply(&mut state, 0, &first);
        model.apply(LeaseTime(0), &first);
        for Shot { later, commands } in shots {
            now += later;
            let requests = resolver.requests(&state, &commands);
            let applied = apply(&mut state, now, &requests);
            let expected = model.apply(LeaseTime(now), &requests);
            prop_assert_eq!(answers(&applied), expected, "{:#?} at {}", requests, now);
            tokens.watch(&applied);
            state.check_invariants().map_err(TestCaseError::fail)?;
            prop_assert!(!state.has_backlog());
            teach(&mut model, &state);
            prop_assert_eq!(picture_of_core(&state), picture_of_model(&model), "after {:#?} at {}", requests, now);
        }
    }

    #[test]
    fn a_backlog_changes_nothing_but_when_ends_are_told(shots in shots(60), piece in 1u32..4) {
        let (mut state, mut model) = (State::new(), Model::default());
        let (mut resolver, mut tokens) = (Resolver::default(), Tokens::default());
        let limits = Limits { tombstone_age: leasehold_core::Span(100_000), ..random::roomy() };
        let (mut now, large) = (0, vec![configure(&limits)]);
        apply(&mut state, 0, &[configure(&Limits { sweep_piece: piece, ..limits })]);
        model.apply(LeaseTime(0), &large);
        for Shot { later, commands } in shots {
            now += later;
            let requests = resolver.requests_for_a_backlog(&state, &commands);
            let applied = apply(&mut state, now, &requests);
            tokens.watch(&applied);
            state.check_invariants().map_err(TestCaseError::fail)?;
            model.apply(LeaseTime(now), &requests);
            // Granted is only who lives.
            for event in &applied.events {
                let Fact::ClaimGranted { lease, .. } = &event.fact else { continue };
                let view = state.lease(&event.namespace, *lease);
                prop_assert!(view.is_ok_and(|view| !view.ending) || ended_too(&applied, *lease), "{:?} is over", lease);
            }
            while state.has_backlog() {
                tokens.watch(&apply(&mut state, now, &[]));
                state.check_invariants().map_err(TestCaseError::fail)?;
            }
            teach(&mut model, &state);
            // A command that touches a due parent ends it before its due child; which of the two is told may differ.
            let alike = |lines: Vec<String>| lines.join("\n").replace("parent_ended", "expired");
            let (core, naive) = (alike(picture_of_core(&state)), alike(picture_of_model(&model)));
            prop_assert_eq!(core, naive, "after {:#?} at {}", requests, now);
        }
    }
}
