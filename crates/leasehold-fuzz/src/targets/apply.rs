//! The state machine under any commands at any times: invariants hold after every entry, tokens and revisions rise, a
//! restored replica and one that never stopped stay the same, and what goes through the log's bytes arrives unchanged.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};

use leasehold_core::{
    Applied, Fact, LeaderId, LeaseFilter, LeaseTime, Request, Restore, Revision, Stamp, State, Token, WallTime,
};
use leasehold_log::{Origin, Pack};

use super::commands;
use crate::Source;

const ENTRIES_MAX: usize = 150;
const LEADERS: [LeaderId; 2] = [LeaderId { term: 1, node: 1 }, LeaderId { term: 2, node: 2 }];

pub(crate) fn run(bytes: &[u8]) {
    play(bytes);
}

fn play(bytes: &[u8]) -> Seen {
    let mut source = Source::new(bytes);
    let (mut state, mut replica) = (State::new(), State::new());
    let mut seen = Seen::default();
    for _ in 0..ENTRIES_MAX {
        if source.is_empty() {
            break;
        }
        match source.byte() {
            0..230 => {}
            230..240 => {
                assert_eq!(state.take_over(), replica.take_over());
                continue;
            }
            240..248 => {
                replica = through_bytes(&state);
                continue;
            }
            248..250 => {
                state = begun_anew(state, &mut source);
                replica = through_bytes(&state);
                continue;
            }
            250..=255 => look(&mut source, &state),
        }
        let (appended_by, stamp) = stamp(&mut source, &state);
        let requests: Vec<Request> = (0..source.below(4)).map(|_| commands::request(&mut source, &state)).collect();
        let applied = apply(&mut state, appended_by, stamp, &requests);
        assert_eq!(applied, apply(&mut replica, appended_by, stamp, &requests), "two replicas answer the same");
        state.check_invariants().unwrap_or_else(|broken| panic!("{broken}\nafter {requests:#?}"));
        seen.note(&applied);
    }
    assert_eq!(body(&state), body(&replica), "two replicas have the same bytes");
    assert_eq!(body(&through_bytes(&state)), body(&state), "a restored state has the same bytes");
    seen
}

/// What must only rise, and what kinds of facts there were.
#[derive(Default)]
struct Seen {
    now: LeaseTime,
    revision: Revision,
    tokens: BTreeMap<(String, String), Token>,
    facts: Vec<Discriminant<Fact>>,
}

impl Seen {
    fn note(&mut self, applied: &Applied) {
        assert!(applied.now >= self.now && applied.revision >= self.revision, "time and revision never fall");
        (self.now, self.revision) = (applied.now, applied.revision);
        let mut last = Revision(0);
        for event in &applied.events {
            assert!(event.revision >= last && event.revision <= applied.revision, "events are in order");
            last = event.revision;
            if !self.facts.contains(&discriminant(&event.fact)) {
                self.facts.push(discriminant(&event.fact));
            }
            if let Fact::ClaimGranted { resource, token, .. } = &event.fact {
                let of = (event.namespace.to_string(), resource.to_string());
                let before = self.tokens.insert(of, *token);
                assert!(before.is_none_or(|before| before < *token), "tokens of {resource} rise: {before:?}, {token}");
            }
        }
    }
}

fn stamp(source: &mut Source<'_>, state: &State) -> (LeaderId, Stamp) {
    let later = match source.byte() {
        0..100 => 0,
        small @ 100..200 => u64::from(small) % 60,
        200..230 => 100,
        230..250 => 1000,
        250..=255 => source.number(),
    };
    let now = match source.chance(6) {
        true => LeaseTime(source.number()),
        false => LeaseTime(state.now().0.saturating_add(later)),
    };
    let leader = if source.chance(4) { LEADERS[1] } else { LEADERS[0] };
    (LEADERS[0], Stamp { leader, now, wall: WallTime(source.number()) })
}

/// Applies requests as a node does: as the log's bytes.
fn apply(state: &mut State, appended_by: LeaderId, stamp: Stamp, requests: &[Request]) -> Applied {
    let mut pack = Pack::new();
    requests.iter().for_each(|request| pack.push(request));
    let origin = Origin { run: 1, number: 2 };
    let bytes = pack.seal(stamp, origin);
    let opened = leasehold_log::open(&bytes).expect("what was packed opens");
    assert_eq!((opened.stamp, opened.origin), (stamp, origin));
    let read: Vec<Request> = opened.requests.collect::<Result<_, _>>().expect("what was packed is read");
    assert_eq!(read, requests);
    state.apply(appended_by, stamp, read)
}

pub(crate) fn body(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    let view = state.view();
    leasehold_log::write_body(view.records(), state.revision(), [].iter(), &mut out).expect("memory takes all");
    out
}

fn through_bytes(state: &State) -> State {
    let bytes = body(state);
    let mut loader = State::loader();
    leasehold_log::read_body(&mut &bytes[..], |record| Ok(loader.load(record)?), |_| Ok(())).expect("it was written");
    loader.finish().expect("the records of a state fit together")
}

/// Begins anew, as from a backup.
fn begun_anew(state: State, source: &mut Source<'_>) -> State {
    let backup = through_bytes(&state);
    let restore = Restore::new(&backup, WallTime(source.number() % (1 << 42)));
    let restored = backup.restored(restore);
    restored.check_invariants().unwrap_or_else(|broken| panic!("{broken} after a restore"));
    assert!(restored.revision() > state.revision() && restored.now() > state.now());
    restored
}

/// Every query with any question.
fn look(source: &mut Source<'_>, state: &State) {
    let namespace = commands::namespace(source);
    let (name, id, key) = (commands::resource(source), commands::lease(source), commands::key(source));
    let limit = source.number() as usize;
    let after = source.chance(100).then(|| commands::resource(source));
    let filter = LeaseFilter {
        holder: source.chance(100).then(|| commands::holder(source)),
        after: source.chance(100).then(|| Revision(source.number())),
        limit,
    };
    let _ = state.lease(&namespace, id);
    let _ = state.leases(&namespace, &filter);
    let _ = state.resource(&namespace, &name);
    let _ = state.resources(&namespace, source.pick(&["", "a", "a/", "zz"]), after.as_ref(), limit);
    let _ = state.queue(&namespace, &name, limit);
    let _ = state.history(&namespace, &name);
    let _ = state.check(&namespace, &name, Token(source.number()));
    let _ = state.entry(&namespace, &key);
    let _ = state.entries(&namespace, &commands::range(source), limit);
    let _ = state.obstacle(&namespace, &name, source.pick(&[0, i32::MAX, i32::MIN]));
    let _ = (state.counts(), state.next_deadline(), state.rests());
}

/// Random choices are valid inputs here; these are long ones of different kinds.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use rand::rngs::SmallRng;
    use rand::{RngCore, SeedableRng};
    let of = |seed: u64| {
        let mut bytes = vec![0; 300 + 100 * seed as usize];
        SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        if seed.is_multiple_of(2) {
            bytes.iter_mut().for_each(|byte| *byte /= 2); // Usual commands more often.
        }
        bytes
    };
    (0..20).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that are all refused would prove nothing.
    #[test]
    fn the_seeds_make_every_kind_of_fact_happen() {
        let mut facts = Vec::new();
        for seed in seeds() {
            let new = play(&seed).facts.into_iter().filter(|fact| !facts.contains(fact)).collect::<Vec<_>>();
            facts.extend(new);
        }
        assert_eq!(facts.len(), 9, "of {facts:?}");
    }
}
