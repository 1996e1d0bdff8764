//! A cluster goes on after its backup, is lost, and comes back from the copy: what must hold whatever had happened.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

#[allow(dead_code, reason = "the model uses the rest of it")]
mod random;

use leasehold_core::{
    Applied, Command, Fact, LeaderId, LeaseFilter, LeaseTime, Namespace, Remaining, Restore, Span, Stamp, State, Ttl,
    WallTime,
};
use proptest::prelude::*;
use random::{Resolver, Shot, limits, shots};

fn apply(state: &mut State, resolver: &mut Resolver, shot: &Shot) -> Applied {
    let now = LeaseTime(state.now().0 + shot.later.min(1000));
    let stamp = Stamp { leader: LeaderId::default(), now, wall: WallTime(now.0) };
    let requests = resolver.requests(state, &shot.commands);
    let applied = state.apply(LeaderId::default(), stamp, requests);
    state.check_invariants().unwrap();
    applied
}

fn tokens(applied: &Applied) -> impl Iterator<Item = u64> + '_ {
    applied
        .events
        .iter()
        .filter_map(|event| if let Fact::ClaimGranted { token, .. } = &event.fact { Some(token.0) } else { None })
}

fn copy(state: &State) -> State {
    State::from_records(state.view().records()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_rise_over_what_is_lost_and_nothing_is_granted_before_the_rest_is_over(
        limits in limits(), before in shots(30), lost in shots(20), after in shots(30), rest in 0u64..5000,
    ) {
        let (mut state, mut resolver) = (State::new(), Resolver::default());
        let configure = random::as_operator(Command::Configure(Box::new(limits)));
        state.apply(LeaderId::default(), Stamp::default(), [configure]);
        for shot in &before {
            apply(&mut state, &mut resolver, shot);
        }
        let backup = copy(&state);
        let highest = lost.iter().flat_map(|shot| tokens(&apply(&mut state, &mut resolver, shot)).collect::<Vec<_>>());
        let highest = highest.max().unwrap_or(0);

        let restore = Restore { rest: Span(rest), ..Restore::new(&backup, WallTime(1_000_000)) };
        let leases = backup.counts().leases;
        let mut state = backup.restored(restore);
        state.check_invariants().unwrap();
        prop_assert!(state.counts().leases <= leases);
        check_whole_ttls(&state);

        let over = restore.now.after(Span(rest));
        for shot in &after {
            let applied = apply(&mut state, &mut resolver, shot);
            for token in tokens(&applied) {
                prop_assert!(token > highest, "{token} is not above {highest}");
                prop_assert!(rest == 0 || over < applied.now, "granted at {:?}, the rest is over at {over:?}", applied.now);
            }
        }
    }
}

/// Every lease has at least its ttl ahead, unless its parent has less.
fn check_whole_ttls(state: &State) {
    for name in random::NAMESPACES {
        let all = LeaseFilter { limit: 1000, ..LeaseFilter::default() };
        for lease in state.leases(&Namespace::new(name).unwrap(), &all).items {
            assert!(lease.waits.is_empty(), "{lease:?} waits");
            assert_eq!(lease.changed, state.revision(), "{lease:?} does not tell that it was restored");
            match (lease.ttl, lease.remaining) {
                (Ttl::For(ttl), Remaining::For(left)) => assert!(left >= ttl || lease.parent.is_some(), "{lease:?}"),
                (Ttl::For(_) | Ttl::Endless, Remaining::Endless) | (Ttl::Endless, Remaining::For(_)) => {}
            }
        }
    }
}
