//! Time: leader changes, stamps, renewals, grace and drift.
//!
//! Three nodes under abstract Raft and two clients that want one resource. The first holds it at the beginning. Leaders
//! are elected at any moment, deposed ones go on stamping, logs are overwritten, stamped entries end up under another
//! leader. Sending takes no time and an answer comes with the commit, which is the worst case: a holder that sent
//! earlier or hears later believes less. Three bounds of it are searched: `time`, `drift` with clocks that are as
//! wrong as the bound on drift allows, and `flapping`, where leaders change all the time and the dead must still end.

mod steps;
mod words;

use stateright::{Model, Property};

use crate::audit::{Aspect, Audit, promises};
use crate::clock::Clock;
use crate::core::{Command, Core, LeaseId, RESOURCES, ResourceId, Stamp, Term, Time};
use crate::holder::{Holder, Rates};
use crate::plant::{Plant, Rules};
use crate::raft::{Cluster, NODES};

/// How many clients there are; each has the lease of its number.
pub(super) const CLIENTS: usize = 2;
/// What they want.
pub(super) const RESOURCE: ResourceId = 0;

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct TimeModel {
    /// The rules.
    pub rules: Rules,
    /// How fast clocks run.
    pub rates: Rates,
    /// The ttl of all leases.
    pub ttl: Time,
    /// A shorter one that renewals may ask for.
    pub short: Option<Time>,
    /// Whether clients release.
    pub releases: bool,
    /// Real time ends here.
    pub horizon: Time,
    /// The last leadership.
    pub terms: Term,
    /// The longest tail of a log.
    pub tail: usize,
    /// How often each client asks for something.
    pub asks: [u8; CLIENTS],
    /// How many ticks leaders stamp.
    pub ticks: u8,
    /// How many entries are stamped under one leader and may be appended under another.
    pub parked: u8,
    /// How often a follower gets entries and its answer is lost.
    pub unheard: u8,
    /// Whether a leader also ticks by itself as time passes, so that the life of the dead can be bounded.
    pub bounded_life: bool,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) real: Time,
    pub(super) cluster: Cluster,
    pub(super) core: Core,
    pub(super) holders: [Holder; CLIENTS],
    pub(super) audit: Audit,
    pub(super) left: Left,
    /// Real time since the first lease was granted, and how much of it was an outage.
    pub(super) age: Option<(Time, Time)>,
    /// Situations seen on the way: an old-term entry that counted, an entry that was void.
    pub(super) seen: [bool; 2],
}

/// What is left of the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    asks: [u8; CLIENTS],
    ticks: u8,
    parked: u8,
    unheard: u8,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of real time passes and nobody does anything.
    TimePasses,
    /// A tick of real time passes, and the leader commits an entry without commands.
    HealthyTick {
        /// Which node.
        leader: usize,
    },
    /// A node is elected.
    Elect {
        /// Who.
        candidate: usize,
        /// By whose vote besides its own.
        voter: usize,
    },
    /// A follower takes over the log of a leader.
    Replicate {
        /// From whom.
        leader: usize,
        /// To whom.
        follower: usize,
        /// Whether the leader hears of it.
        heard: bool,
    },
    /// A leader stamps an entry.
    Stamp {
        /// Which node.
        leader: usize,
        /// What it is for.
        command: Command,
        /// Who asks.
        client: Option<usize>,
        /// Whether it stays outside of the log for now.
        parked: bool,
    },
    /// A leader puts a parked entry into its log.
    Append {
        /// Which node.
        leader: usize,
    },
    /// A parked entry reaches another leader.
    Forward {
        /// From whom.
        from: usize,
        /// To whom.
        to: usize,
    },
    /// A leader reads a stamp for an entry that is still empty.
    Open {
        /// Which node.
        leader: usize,
    },
}

impl TimeModel {
    /// Leader changes, stamps and renewals.
    pub fn time(plant: Option<Plant>, deep: bool) -> Self {
        let model = Self {
            rules: Rules { plant, ahead: 3, ..Rules::DESIGN },
            rates: Rates::EQUAL,
            ttl: 2,
            short: None,
            releases: false,
            horizon: 4,
            terms: 2,
            tail: 2,
            asks: [1, 1],
            ticks: 1,
            parked: 1,
            unheard: 1,
            bounded_life: false,
        };
        if deep { Self { horizon: 5, terms: 3, ..model } } else { model }
    }

    /// Renewals that ask for less, and releases.
    pub fn renewals(plant: Option<Plant>, deep: bool) -> Self {
        let (rules, short, asks) = (Rules { plant, ..Rules::DESIGN }, Some(1), [2, 1]);
        let model = Self { rules, short, releases: true, asks, parked: 0, unheard: 0, ..Self::time(plant, false) };
        if deep { Self { horizon: 5, terms: 3, unheard: 1, ..model } } else { model }
    }

    /// Servers' clocks fast and holders' slow, as much as the bound allows.
    pub fn drift(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, grace: 4, ahead: 24, ..Rules::DESIGN };
        let (rates, ttl) = (Rates::APART, 15);
        let model = Self { rules, rates, ttl, horizon: 5, parked: 0, ..Self::time(plant, false) };
        if deep { Self { horizon: 6, terms: 3, parked: 1, ..model } } else { model }
    }

    /// Nobody renews and leaders change all the time.
    pub fn flapping(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, grace: 2, ahead: 4, ..Rules::DESIGN };
        let (asks, ticks, parked, unheard) = ([0, 1], 0, 0, 0);
        let (horizon, terms) = if deep { (12, 7) } else { (10, 6) };
        let model = Self::time(plant, false);
        Self { rules, asks, ticks, parked, unheard, horizon, terms, bounded_life: true, ..model }
    }

    /// The longest real time that a lease which nobody renews may live, outages not counted.
    fn life_max(&self) -> Time {
        2 * self.ttl + self.rules.grace + 1
    }

    pub(super) fn server_clock(&self, real: Time) -> Time {
        real * self.rates.server
    }

    pub(super) fn holder_clock(&self, real: Time) -> Time {
        real * self.rates.holder
    }
}

impl Model for TimeModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (mut core, mut audit, mut events) = (Core::new(), Audit::default(), Vec::new());
        core.take_over(&self.rules);
        let before = core;
        let command = self.grant(0);
        core.apply(&self.rules, 1, Stamp { leader: 1, now: 0 }, command, &mut events);
        audit.see(&before, &core, &events);
        let mut holders = [Holder::NEW; CLIENTS];
        holders[0].hears(&self.rules, &self.rates, 0, self.ttl, 0);
        let left = Left { asks: self.asks, ticks: self.ticks, parked: self.parked, unheard: self.unheard };
        let cluster = Cluster::new(Clock::start(0, 0, 0));
        let age = self.bounded_life.then_some((0, 0));
        vec![State { real: 0, cluster, core, holders, audit, left, age, seen: [false; 2] }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self.is_over(state) {
            return;
        }
        if state.real < self.horizon {
            actions.push(Action::TimePasses);
        }
        for node in 0..NODES {
            self.node_actions(state, node, actions);
            for other in (0..NODES).filter(|other| *other != node) {
                self.pair_actions(state, node, other, actions);
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = self.step(state, action);
        next.settle(self);
        next.cluster.nodes.sort_unstable();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = promises::<Self>();
        if self.bounded_life {
            all.push(Property::<Self>::always("the dead end within 2 ttl + grace + outages", |model, state| {
                let living = state.core.leases[0].is_living();
                !living || state.age.is_none_or(|(age, outage)| age <= model.life_max() + outage)
            }));
            all.push(Property::<Self>::sometimes("a dead lease ends in the last leadership", |model, state| {
                !state.core.leases[0].is_living() && state.cluster.committed == model.terms
            }));
            return all;
        }
        all.push(Property::<Self>::sometimes("a lease is granted after another expired", |_, state| {
            state.core.leases[1].is_living() && !state.core.leases[0].is_living() && !state.holders[0].stopped
        }));
        all.push(Property::<Self>::sometimes("a holder is valid under a later leader", |model, state| {
            state.cluster.committed == model.terms && model.acts(state, 0, RESOURCE)
        }));
        all.push(Property::<Self>::sometimes("an entry of an old term counts", |_, state| state.seen[0]));
        if self.parked > 0 {
            all.push(Property::<Self>::sometimes("an entry is void", |_, state| state.seen[1]));
        }
        all
    }
}

impl Aspect for TimeModel {
    fn core<'a>(&self, state: &'a State) -> &'a Core {
        &state.core
    }

    fn audit(&self, state: &State) -> Audit {
        state.audit
    }

    fn acts(&self, state: &State, lease: LeaseId, resource: ResourceId) -> bool {
        let clock = self.holder_clock(state.real);
        resource == RESOURCE && state.holders.get(lease).is_some_and(|holder| holder.is_valid(clock))
    }

    fn story(&self, path: &[(State, Option<Action>)]) -> Vec<String> {
        words::story(self, path)
    }
}

const _: () = assert!(RESOURCE < RESOURCES);
