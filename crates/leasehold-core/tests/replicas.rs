//! The same entries give the same state: on every replica, over a restore, and whatever is looked at in between.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[allow(dead_code, reason = "the model uses the rest of it")]
mod random;

use std::collections::BTreeMap;

use leasehold_core::{
    Applied, Command, Event, Fact, LeaderId, LeaseTime, Limits, Namespace, Record, Request, ResourceName, Revision,
    Stamp, State, Token, WallTime,
};
use proptest::prelude::*;
use random::{Resolver, Shot, limits, shots};

/// What an entry of the log holds.
#[derive(Clone)]
struct Logged {
    now: u64,
    requests: Vec<Request>,
}

fn apply(state: &mut State, entry: &Logged) -> Applied {
    let stamp = Stamp { leader: LeaderId::default(), now: LeaseTime(entry.now), wall: WallTime(7 * entry.now) };
    state.apply(LeaderId::default(), stamp, entry.requests.iter().cloned())
}

fn records(state: &State) -> Vec<Record> {
    state.view().records().collect()
}

fn restored(state: &State) -> State {
    State::from_records(state.view().records()).unwrap()
}

/// A log as one leader would write it, and what it led to.
fn run(limits: Limits, piece: u32, shots: &[Shot]) -> (Vec<Logged>, Vec<Applied>, State) {
    let (mut state, mut resolver) = (State::new(), Resolver::default());
    let configure = Command::Configure(Box::new(Limits { sweep_piece: piece, ..limits }));
    let mut log = vec![Logged { now: 0, requests: vec![random::as_operator(configure)] }];
    let mut applied = vec![apply(&mut state, &log[0])];
    let mut now = 0;
    for Shot { later, commands } in shots {
        now += later;
        let entry = Logged { now, requests: resolver.requests(&state, commands) };
        applied.push(apply(&mut state, &entry));
        log.push(entry);
    }
    (log, applied, state)
}

/// Everything that watches and fences rely on, over all facts of a run.
fn check_facts(applied: &[Applied]) {
    let mut last = Revision(0);
    for entry in applied {
        assert!(last <= entry.revision, "revisions never go back");
        for event in &entry.events {
            assert!(last <= event.revision, "facts come in order of their revision");
            last = event.revision;
        }
        assert!(last <= entry.revision, "no fact is ahead of its entry");
    }
    let events: Vec<&Event> = applied.iter().flat_map(|entry| &entry.events).collect();
    check_tokens(&events);
    check_ends(&events);
}

fn check_tokens(events: &[&Event]) {
    let mut tokens = BTreeMap::<(Namespace, ResourceName), Token>::new();
    for event in events {
        if let Fact::ClaimGranted { resource, token, .. } = &event.fact {
            let last = tokens.entry((event.namespace.clone(), resource.clone())).or_default();
            assert!(*last < *token, "tokens of {resource} rise strictly");
            *last = *token;
        }
    }
}

/// What a lease carried goes in the revision of its end, and nothing is told of it afterwards.
fn check_ends(events: &[&Event]) {
    let mut carried = BTreeMap::<_, Vec<String>>::new();
    let mut ended = BTreeMap::new();
    for event in events {
        let Some(lease) = event.fact.lease() else { continue };
        let key = (event.namespace.clone(), lease);
        let things = carried.entry(key.clone()).or_default();
        match &event.fact {
            Fact::LeaseGranted { .. } => {
                ended.remove(&key);
                things.clear();
            }
            Fact::ClaimGranted { resource, .. } => {
                things.retain(|thing| *thing != format!("place {resource}"));
                things.push(format!("claim {resource}"));
            }
            Fact::Queued { resource, .. } => things.push(format!("place {resource}")),
            Fact::ClaimEnded { resource, .. } => things.retain(|thing| *thing != format!("claim {resource}")),
            Fact::Unqueued { resource, .. } => things.retain(|thing| *thing != format!("place {resource}")),
            Fact::LeaseEnded { .. } => {
                let twice = ended.insert(key.clone(), event.revision);
                assert_eq!(twice, None, "{key:?} ended twice");
            }
            Fact::HandoverAsked { resource, .. } => {
                assert!(
                    things.contains(&format!("claim {resource}")),
                    "only who holds {resource} is asked, not {key:?}"
                );
            }
            Fact::EntryPut { .. } | Fact::EntryDeleted { .. } => {}
        }
        if let Some(at) = ended.get(&key) {
            assert_eq!(event.revision, *at, "all facts of the end of {key:?} share one revision");
        }
    }
    for (key, _) in ended {
        assert_eq!(carried[&key], Vec::<String>::new(), "{key:?} ended and still carries something");
    }
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn replicas_do_not_differ(limits in limits(), shots in shots(60), piece in 1u32..5, cut in 0usize..60) {
        let (log, first, state) = run(limits, piece, &shots);
        check_facts(&first);

        let mut second = State::new();
        let again: Vec<Applied> = log.iter().map(|entry| apply(&mut second, entry)).collect();
        prop_assert_eq!(&first, &again, "the same entries lead to the same answers and facts");
        prop_assert_eq!(records(&state), records(&second));

        let cut = cut.min(log.len());
        let mut third = State::new();
        log[..cut].iter().for_each(|entry| drop(apply(&mut third, entry)));
        let frozen = third.view();
        let before: Vec<Record> = frozen.records().collect();
        let mut fourth = restored(&third);
        for (entry, expected) in log[cut..].iter().zip(&first[cut..]) {
            prop_assert_eq!(&apply(&mut third, entry), expected);
            prop_assert_eq!(&apply(&mut fourth, entry), expected, "a restored replica goes on as the others");
        }
        prop_assert_eq!(records(&state), records(&fourth));
        prop_assert_eq!(before, frozen.records().collect::<Vec<_>>(), "a view does not see what comes later");
        prop_assert_eq!(records(&restored(&state)), records(&state));
    }
}
