//! The search for an order: Wing and Gong's, with Lowe's memory of what was tried.
//!
//! Calls overlap; each must seem to happen at one moment between its beginning and its end. The search takes a call that
//! may be first, applies it to the object, and goes on with the rest; a set of calls that led to the same state before
//! is not tried again, nor is a way on which a number goes that somebody has still to see. Calls without an end may happen at any later moment or never.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::history::Moment;

/// What the object is, and what calls do to it.
pub(super) trait Step {
    /// How the object stands.
    type State: Clone + Default + Eq + Hash;

    /// The object after this step; none if the step did not go so in that state.
    fn apply(&self, state: &Self::State) -> Option<Self::State>;

    /// Whether the step may change the object in any state.
    fn changes(&self) -> bool;

    /// The number that the object shows.
    fn shown(state: &Self::State) -> Option<u64>;

    /// The number that the object must show for this step.
    fn needs(&self) -> Option<u64>;

    /// The number that the object shows after this step, if it changes.
    fn brings(&self) -> Option<u64>;
}

/// A call: what it did, and when it must have done so.
#[derive(Clone, Debug)]
pub(super) struct Op<S> {
    pub(super) step: S,
    pub(super) from: Moment,
    /// None if it may never have happened.
    pub(super) to: Option<Moment>,
    pub(super) words: String,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an order.
    Fits,
    /// There is none.
    Never,
    /// There were too many orders to try.
    Undecided,
}

/// How many sets of calls are tried before the search gives up.
const TRIES_MAX: usize = 200_000;

/// Searches for an order of the calls that end by `until`; later ones may happen or not.
pub(super) fn search<S: Step>(ops: &[Op<S>], until: Moment) -> Verdict {
    let mut open = Open::new(ops, until);
    let mut tried = HashSet::new();
    let mut path = vec![Try::at(S::State::default(), ops, &open, None)];
    let mut taken: u128 = 0;
    while let Some(here) = path.last_mut() {
        if open.required == 0 {
            return Verdict::Fits;
        }
        let Some(op) = here.candidates.get(here.next).copied() else {
            if let Some(op) = here.taken {
                taken ^= mark(op);
                open.put_back(op);
            }
            path.pop();
            continue;
        };
        here.next += 1;
        let Some(state) = ops[op].step.apply(&here.state) else { continue };
        if S::shown(&state) != S::shown(&here.state) && open.is_needed(S::shown(&here.state), ops[op].step.needs()) {
            continue;
        }
        if !tried.insert((taken ^ mark(op), state.clone())) {
            continue;
        }
        if tried.len() > TRIES_MAX {
            return Verdict::Undecided;
        }
        taken ^= mark(op);
        open.take(op);
        path.push(Try::at(state, ops, &open, Some(op)));
    }
    Verdict::Never
}

/// The smallest moment until which there is no order, given that there is none at all.
pub(super) fn first_misfit<S: Step>(ops: &[Op<S>]) -> Moment {
    let mut ends: Vec<Moment> = ops.iter().filter_map(|op| op.to.map(|to| to.max(op.from))).collect();
    ends.sort_unstable();
    ends.dedup();
    let at = ends.partition_point(|until| search(ops, *until) != Verdict::Never);
    ends.get(at).copied().unwrap_or(Moment::NEVER)
}

/// One step of the search: what was taken to come here, and what may be taken next.
struct Try<T> {
    state: T,
    candidates: Vec<usize>,
    next: usize,
    taken: Option<usize>,
}

impl<T> Try<T> {
    fn at<S: Step<State = T>>(state: T, ops: &[Op<S>], open: &Open, taken: Option<usize>) -> Try<T> {
        let mut candidates = open.candidates();
        // A call that never changes anything and may happen now can only do harm by happening later.
        let idle = |op: &&usize| !ops[**op].step.changes() && ops[**op].step.apply(&state).is_some();
        if let Some(op) = candidates.iter().find(idle).copied() {
            candidates = vec![op];
        }
        Try { state, candidates, next: 0, taken }
    }
}

/// A number for each call, so that a set of calls is the exclusive or of its numbers.
fn mark(op: usize) -> u128 {
    let scatter = |seed: u64| {
        let mut x = (op as u64).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    (u128::from(scatter(1)) << 64) | u128::from(scatter(0x5851_f42d_4c95_7f2d))
}

/// The calls not yet taken, as a list of their beginnings and ends in order.
struct Open {
    /// For each place in the list: the call, and whether it is its end.
    marks: Vec<(usize, bool)>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// The places of each call.
    places: Vec<(usize, Option<usize>)>,
    /// The end of each call, to take the most urgent first.
    ends: Vec<Option<Moment>>,
    /// How many calls with an end are left.
    required: usize,
    /// The number that each call needs.
    needs: Vec<Option<u64>>,
    /// How many calls with an end are left that need each number which only one call brings: once gone, it never comes
    /// again.
    needed: HashMap<u64, usize>,
}

impl Open {
    fn new<S: Step>(ops: &[Op<S>], until: Moment) -> Open {
        let end = |op: &Op<S>| op.to.map(|to| to.max(op.from)).filter(|to| *to <= until);
        let ends: Vec<Option<Moment>> = ops.iter().map(end).collect();
        // At one moment beginnings come first: then the calls overlap, and nobody is blamed for a tie.
        let mut order: Vec<(Moment, bool, usize)> = Vec::new();
        for (number, op) in ops.iter().enumerate().filter(|(_, op)| op.from <= until) {
            order.push((op.from, false, number));
            order.extend(ends[number].map(|to| (to, true, number)));
        }
        order.sort_unstable();
        let mut places = vec![(0, None); ops.len()];
        for (place, (_, end, op)) in order.iter().enumerate() {
            if *end { places[*op].1 = Some(place + 1) } else { places[*op].0 = place + 1 }
        }
        let count = order.len() + 2;
        let mut marks = vec![(usize::MAX, false)];
        marks.extend(order.into_iter().map(|(_, end, op)| (op, end)));
        let required = places.iter().filter(|(_, end)| end.is_some()).count();
        let (next, before) = ((1..=count).collect(), (0..count).map(|at| at.saturating_sub(1)).collect());
        let mut brought: HashMap<u64, usize> = HashMap::new();
        ops.iter().filter_map(|op| op.step.brings()).for_each(|number| *brought.entry(number).or_default() += 1);
        let once = |number: &u64| brought.get(number) == Some(&1);
        let ended = ops.iter().zip(&ends).map(|(op, end)| op.step.needs().filter(|_| end.is_some()).filter(once));
        let needs: Vec<Option<u64>> = ended.collect();
        let mut needed: HashMap<u64, usize> = HashMap::new();
        needs.iter().flatten().for_each(|number| *needed.entry(*number).or_default() += 1);
        Open { marks, next, before, places, ends, required, needs, needed }
    }

    /// Tells whether a number must not go yet, because calls beside the one that makes it go need it.
    fn is_needed(&self, number: Option<u64>, by_itself: Option<u64>) -> bool {
        let left = number.and_then(|number| self.needed.get(&number)).copied().unwrap_or(0);
        left > usize::from(number == by_itself)
    }

    /// The calls that may be next: those that began before the first end. The most urgent come first.
    fn candidates(&self) -> Vec<usize> {
        let mut found = Vec::new();
        let mut at = self.next[0];
        while let Some((op, false)) = self.marks.get(at) {
            found.push(*op);
            at = self.next[at];
        }
        found.sort_by_key(|op| (self.ends[*op].is_none(), self.ends[*op], *op));
        found
    }

    fn take(&mut self, op: usize) {
        let (begin, end) = self.places[op];
        for place in std::iter::once(begin).chain(end) {
            let (before, next) = (self.before[place], self.next[place]);
            self.next[before] = next;
            self.before[next] = before;
        }
        self.required -= usize::from(end.is_some());
        if let Some(left) = self.needs[op].and_then(|number| self.needed.get_mut(&number)) {
            *left -= 1;
        }
    }

    /// Undoes the latest `take` that was not yet undone.
    fn put_back(&mut self, op: usize) {
        let (begin, end) = self.places[op];
        for place in end.into_iter().chain([begin]) {
            let (before, next) = (self.before[place], self.next[place]);
            self.next[before] = place;
            self.before[next] = place;
        }
        self.required += usize::from(end.is_some());
        if let Some(left) = self.needs[op].and_then(|number| self.needed.get_mut(&number)) {
            *left += 1;
        }
    }
}
