//! Durability: crashes of all nodes, snapshots that take the place of entries, logs that are cut.
//!
//! Three nodes, each with a disk: a term with its vote, a snapshot, and the log after it. A node that crashes rebuilds its
//! state from these; all may crash at once. A node that lacks entries which its leader has cut from the log gets the
//! leader's snapshot. ann holds `r` at the beginning and renews; bob wants it.

mod node;
mod steps;
mod words;

use stateright::{Model, Property};

use crate::audit::{Aspect, Audit, promises};
use crate::clock::Clock;
use crate::core::{Command, Core, Event, LeaseId, ResourceId, Stamp, Term, Time};
use crate::holder::{Holder, Rates};
use crate::plant::{Plant, Rules};
use crate::raft::NODES;
use node::{Applied, Node};

const CLIENTS: usize = 2;
const RESOURCE: ResourceId = 0;

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct DurabilityModel {
    rules: Rules,
    ttl: Time,
    horizon: Time,
    terms: Term,
    asks: [u8; CLIENTS],
    ticks: u8,
    crashes: u8,
    outages: u8,
    snapshots: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    real: Time,
    nodes: Vec<Node>,
    holders: [Holder; CLIENTS],
    /// The furthest that any node ever applied: all of that is committed.
    committed: Applied,
    audit: Audit,
    left: Left,
    /// Two nodes applied different entries.
    diverged: bool,
    /// A snapshot took the place of entries.
    installed: bool,
}

/// What is left of the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    asks: [u8; CLIENTS],
    ticks: u8,
    crashes: u8,
    outages: u8,
    snapshots: u8,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of real time passes.
    TimePasses,
    /// A ready leader stamps and appends an entry.
    Stamp {
        /// Which node.
        leader: usize,
        /// What it is for.
        command: Command,
        /// Who asks.
        client: Option<usize>,
    },
    /// A follower takes over the log of a leader, and both learn what is committed.
    Replicate {
        /// From whom.
        leader: usize,
        /// To whom.
        follower: usize,
    },
    /// A follower gets the snapshot of a leader.
    Install {
        /// From whom.
        leader: usize,
        /// To whom.
        follower: usize,
    },
    /// A node is elected.
    Elect {
        /// Who.
        candidate: usize,
        /// By whose vote besides its own.
        voter: usize,
    },
    /// A node writes a snapshot and cuts its log.
    Snapshot {
        /// Which node.
        node: usize,
    },
    /// A node crashes and starts again.
    Crash {
        /// Which node.
        node: usize,
    },
    /// All nodes crash and start again.
    CrashAll,
    /// The disk of a node has all that it was given; only where it may be late.
    Flush {
        /// Which node.
        node: usize,
    },
}

impl DurabilityModel {
    /// Crashes, snapshots and cut logs.
    pub fn durability(plant: Option<Plant>, deep: bool) -> Self {
        let rules = Rules { plant, ..Rules::DESIGN };
        let (asks, ticks) = ([1, 1], 0);
        let model = Self { rules, ttl: 1, horizon: 2, terms: 3, asks, ticks, crashes: 0, outages: 1, snapshots: 1 };
        if deep { Self { horizon: 3, crashes: 1, ..model } } else { model }
    }

    fn grant(&self, lease: LeaseId) -> Command {
        Command::Grant { lease, ttl: self.ttl, parent: None, ask: Some((RESOURCE, 0)), seen: 0 }
    }
}

impl Model for DurabilityModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (mut core, mut audit, mut events) = (Core::new(), Audit::default(), Vec::<Event>::new());
        let before = core;
        core.apply(&self.rules, 1, Stamp { leader: 1, now: 0 }, self.grant(0), &mut events);
        audit.see(&before, &core, &events);
        let committed = Applied { index: 0, term: 1, core };
        let mut nodes = vec![Node::new(committed); NODES];
        nodes[0].leads = true;
        nodes[0].clock = Some(Clock::start(0, 0, 0));
        let mut holders = [Holder::NEW; CLIENTS];
        holders[0].hears(&self.rules, &Rates::EQUAL, 0, self.ttl, 0);
        let Self { asks, ticks, crashes, outages, snapshots, .. } = *self;
        let left = Left { asks, ticks, crashes, outages, snapshots };
        let state = State { real: 0, nodes, holders, committed, audit, left, diverged: false, installed: false };
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.real < self.horizon {
            actions.push(Action::TimePasses);
        }
        if state.left.outages > 0 {
            actions.push(Action::CrashAll);
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
        next.nodes.sort_unstable();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = promises::<Self>();
        all.push(Property::<Self>::always("what is committed survives", |_, state| {
            let ready = |node: &&Node| node.leads && node.clock.is_some() && node.term >= state.committed.term;
            state.nodes.iter().filter(ready).all(|node| node.applied.index >= state.committed.index)
        }));
        all.push(Property::<Self>::always("nodes agree", |_, state| {
            let behind = |node: &Node| node.applied.index < state.committed.index;
            !state.diverged && state.nodes.iter().all(|node| behind(node) || node.applied == state.committed)
        }));
        all.push(Property::<Self>::sometimes("a renewal survives the crash of all nodes", |model, state| {
            let leads = state.nodes.iter().any(|node| node.leads && node.clock.is_some());
            state.left.outages == 0 && state.left.asks[0] == 0 && leads && model.acts(state, 0, RESOURCE)
        }));
        all.push(Property::<Self>::sometimes("a node with a snapshot in place of entries leads", |_, state| {
            let leads = |node: &Node| node.leads && node.clock.is_some() && node.term > 1;
            state.installed && state.nodes.iter().any(leads)
        }));
        all.push(Property::<Self>::sometimes("bob holds what ann had, in the last leadership", |model, state| {
            model.acts(state, 1, RESOURCE) && state.committed.term == model.terms
        }));
        all
    }
}

impl Aspect for DurabilityModel {
    fn core<'a>(&self, state: &'a State) -> &'a Core {
        &state.committed.core
    }

    fn audit(&self, state: &State) -> Audit {
        state.audit
    }

    fn acts(&self, state: &State, lease: LeaseId, resource: ResourceId) -> bool {
        resource == RESOURCE && state.holders.get(lease).is_some_and(|holder| holder.is_valid(state.real))
    }

    fn story(&self, path: &[(State, Option<Action>)]) -> Vec<String> {
        words::story(self, path)
    }
}
