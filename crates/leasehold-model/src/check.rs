//! Runs a model and tells what was found.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use crate::audit::Aspect;

/// How far a search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The larger bounds.
    pub deep: bool,
    /// Stop at paths of this length, if the bounds do not end them before.
    pub depth: Option<usize>,
}

/// A property that does not hold, with the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which property.
    pub property: &'static str,
    /// The shortest way to it, in words.
    pub steps: Vec<String>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How many different states it saw.
    pub states: usize,
    /// The longest of the shortest paths to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Every state within the bounds was seen.
    pub exhausted: bool,
    /// The property that does not hold.
    pub violation: Option<Violation>,
    /// Situations that the model should reach and did not: what holds there was not tested.
    pub unreached: Vec<&'static str>,
}

impl Report {
    /// Tells whether every property holds in every state, and every situation was reached.
    pub fn holds(&self) -> bool {
        self.exhausted && self.violation.is_none() && self.unreached.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { states, depth, took, .. } = self;
        write!(f, "{states} states, depth {depth}, {:.1} s: ", took.as_secs_f32())?;
        match &self.violation {
            None if !self.exhausted => write!(f, "holds as far as it went")?,
            None => write!(f, "holds everywhere")?,
            Some(violation) => {
                write!(f, "violated after {} steps: {}", violation.steps.len(), violation.property)?;
                for (number, step) in violation.steps.iter().enumerate() {
                    write!(f, "\n  {:>2}. {step}", number + 1)?;
                }
            }
        }
        for situation in &self.unreached {
            write!(f, "\n  never reached: {situation}")?;
        }
        Ok(())
    }
}

/// Searches a model, breadth first, so that the way to a violation is a shortest one.
pub fn check<M>(model: M, reach: Reach) -> Report
where
    M: Aspect + Send + Sync + 'static,
    M::State: Clone + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + PartialEq,
{
    let started = Instant::now();
    let properties = model.properties();
    let searched = Searched { model, properties, violated: OnceLock::new(), reached: AtomicU64::new(0) };
    let mut builder = searched.checker().finish_when(HasDiscoveries::Any);
    if let Some(depth) = reach.depth {
        builder = builder.target_max_depth(depth);
    }
    let checker = builder.spawn_bfs().join();
    let searched = checker.model();
    let violation = checker.discovery(Searched::<M>::PROMISES).and_then(|path| {
        let property = searched.properties[*searched.violated.get()?].name;
        Some(Violation { property, steps: searched.model.story(&path.into_vec()) })
    });
    Report {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: started.elapsed(),
        exhausted: violation.is_none() && reach.depth.is_none_or(|depth| checker.max_depth() < depth),
        unreached: if violation.is_some() { Vec::new() } else { searched.unreached() },
        violation,
    }
}

/// A model under search. The checker knows one property, and it fails once: for the first state that breaks a promise.
/// Otherwise the checker would tell of the last such state that it came across.
struct Searched<M: Aspect> {
    model: M,
    properties: Vec<Property<M>>,
    /// Which property does not hold.
    violated: OnceLock<usize>,
    /// Which situations were reached: a bit for each property.
    reached: AtomicU64,
}

impl<M: Aspect> Searched<M> {
    const PROMISES: &'static str = "every promise is kept";

    fn judge(&self, state: &M::State) -> bool {
        let reached = self.reached.load(Ordering::Relaxed);
        for (number, property) in self.properties.iter().enumerate() {
            let holds = || (property.condition)(&self.model, state);
            match property.expectation {
                Expectation::Sometimes if reached & (1 << number) == 0 && holds() => {
                    self.reached.fetch_or(1 << number, Ordering::Relaxed);
                }
                Expectation::Sometimes | Expectation::Eventually => {}
                Expectation::Always if holds() => {}
                Expectation::Always => return self.violated.set(number).is_err(),
            }
        }
        true
    }

    fn unreached(&self) -> Vec<&'static str> {
        let reached = self.reached.load(Ordering::Relaxed);
        let missed = |(number, property): &(usize, &Property<M>)| {
            property.expectation == Expectation::Sometimes && reached & (1 << number) == 0
        };
        self.properties.iter().enumerate().filter(missed).map(|(_, property)| property.name).collect()
    }
}

impl<M: Aspect> Model for Searched<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<Self::State> {
        self.model.init_states()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        self.model.actions(state, actions);
    }

    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        self.model.next_state(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always(Self::PROMISES, |searched, state| searched.judge(state))]
    }
}
