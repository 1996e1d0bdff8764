//! The other way: renewals in the leader's memory. Not our design, and the reason for it.
//!
//! The replicated state knows who has a lease, but only the leader knows until when. It extends deadlines in memory and
//! acknowledges at once, without a commit; when a deadline has passed by its own clock, it proposes the end of the
//! lease. A new leader gives every lease its whole ttl. That is fast, and wrong when there are two nodes that believe to
//! lead: one that was paused wakes up, finds in its memory a deadline that others have extended, and ends the lease.
//! Refusing ends of deposed leaders (`fenced`) does not help: one that does not know of its deposition still
//! acknowledges renewals that its successor never hears of.

use stateright::{Model, Property};

use crate::audit::{Aspect, Audit, promises};
use crate::core::{Answer, Command, Core, LeaseId, ResourceId, Stamp, Time};
use crate::holder::{Holder, Rates};
use crate::plant::Rules;
use crate::words;

const NODES: usize = 2;
const CLIENTS: usize = 2;
const NODE_NAMES: [&str; NODES] = ["n1", "n2"];
const NAMES: [&str; CLIENTS] = ["ann", "bob"];
const RESOURCE: ResourceId = 0;
/// In the replicated state no lease ends by time.
const ENDLESS: Time = 200;

/// The model and its bounds.
#[derive(Clone, Debug)]
pub struct LeaderMemoryModel {
    rules: Rules,
    ttl: Time,
    horizon: Time,
    /// Ends that a deposed leader proposed are refused.
    fenced: bool,
}

/// What a node has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// It believes that it leads.
    leads: bool,
    paused: bool,
    /// Until when the lease of each client lives, as far as it knows.
    deadlines: [Option<Time>; CLIENTS],
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    real: Time,
    nodes: [Node; NODES],
    /// Which node leads indeed.
    leader: usize,
    /// What all nodes know.
    core: Core,
    holders: [Holder; CLIENTS],
    /// The end of a lease that a node proposed.
    ending: Option<(usize, LeaseId)>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A tick of real time passes.
    TimePasses,
    /// A client renews at a node that believes to lead, which acknowledges at once.
    Renew(usize, usize),
    /// bob asks for what ann has.
    Grant,
    /// A node stops, and does not know that it does.
    Pause(usize),
    /// It goes on.
    Wake(usize),
    /// The other node is elected.
    TakeOver,
    /// A node finds a deadline passed and proposes the end of the lease.
    Propose(usize, LeaseId),
    /// That is committed.
    End,
}

impl LeaderMemoryModel {
    /// The plain form, or with ends of deposed leaders refused.
    pub fn new(fenced: bool) -> Self {
        Self { rules: Rules::DESIGN, ttl: 2, horizon: 6, fenced }
    }

    fn apply(&self, state: &mut State, command: Command) -> Answer {
        state.core.apply(&self.rules, 1, Stamp { leader: 1, now: 0 }, command, &mut Vec::new())
    }

    fn grant(&self, state: &mut State, lease: LeaseId) {
        let ask = Some((RESOURCE, 0));
        let answer = self.apply(state, Command::Grant { lease, ttl: ENDLESS, parent: None, ask, seen: 0 });
        if let Answer::Lease { .. } = answer {
            self.renew(state, lease, state.leader);
        }
    }

    fn renew(&self, state: &mut State, lease: LeaseId, node: usize) {
        let real = state.real;
        state.nodes[node].deadlines[lease] = Some(real + self.ttl);
        state.holders[lease].hears(&self.rules, &Rates::EQUAL, real, self.ttl, real);
    }

    fn take_over(&self, state: &mut State) {
        state.leader = 1 - state.leader;
        // What the old leader had on its way is lost; that it may also survive makes it no better.
        state.ending = None;
        let living = |lease: LeaseId| state.core.leases[lease].is_living().then_some(state.real + self.ttl);
        let deadlines = std::array::from_fn(living);
        state.nodes[state.leader] = Node { leads: true, paused: false, deadlines };
    }

    fn tell(&self, action: Action) -> String {
        match action {
            Action::TimePasses => "A tick passes".to_owned(),
            Action::Renew(client, node) => {
                format!("{} renews; {} notes it in memory and acknowledges", NAMES[client], NODE_NAMES[node])
            }
            Action::Grant => "bob asks for a lease on r".to_owned(),
            Action::Pause(node) => format!("{} is paused", NODE_NAMES[node]),
            Action::Wake(node) => format!("{} wakes up and believes that it still leads", NODE_NAMES[node]),
            Action::TakeOver => "The other node is elected and gives every lease its whole ttl".to_owned(),
            Action::Propose(node, lease) => {
                format!("{} finds the deadline of {} passed and proposes its end", NODE_NAMES[node], NAMES[lease])
            }
            Action::End => "That end is committed".to_owned(),
        }
    }
}

impl Model for LeaderMemoryModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let idle = Node { leads: false, paused: false, deadlines: [None; CLIENTS] };
        let mut state = State {
            real: 0,
            nodes: [Node { leads: true, ..idle }, idle],
            leader: 0,
            core: Core::new(),
            holders: [Holder::NEW; CLIENTS],
            ending: None,
        };
        self.grant(&mut state, 0);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.real < self.horizon {
            actions.push(Action::TimePasses);
        }
        for (number, node) in state.nodes.iter().enumerate() {
            if node.paused {
                actions.push(Action::Wake(number));
                continue;
            }
            if !node.leads {
                continue;
            }
            actions.push(Action::Pause(number));
            for lease in 0..CLIENTS {
                // A node knows what is committed; what it does not know is until when a lease lives.
                let Some(deadline) = node.deadlines[lease].filter(|_| state.core.leases[lease].is_living()) else {
                    continue;
                };
                // What is over by its clock it does not extend any more.
                if deadline >= state.real {
                    actions.push(Action::Renew(lease, number));
                } else if state.ending.is_none() {
                    actions.push(Action::Propose(number, lease));
                }
            }
        }
        // Somebody else is elected because the leader does not answer.
        if state.nodes[state.leader].paused && !state.nodes[1 - state.leader].leads {
            actions.push(Action::TakeOver);
        }
        if !state.nodes[state.leader].paused {
            actions.extend(state.ending.map(|_| Action::End));
            actions.push(Action::Grant);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::TimePasses => next.real += 1,
            Action::Renew(client, node) => self.renew(&mut next, client, node),
            Action::Grant => self.grant(&mut next, 1),
            Action::Pause(node) => next.nodes[node].paused = true,
            Action::Wake(node) => next.nodes[node].paused = false,
            Action::TakeOver => self.take_over(&mut next),
            Action::Propose(node, lease) => next.ending = Some((node, lease)),
            Action::End => {
                let (by, lease) = next.ending.take()?;
                if !self.fenced || by == next.leader {
                    self.apply(&mut next, Command::Release { lease });
                }
            }
        }
        for holder in &mut next.holders {
            holder.settle(next.real);
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::<Self>()
    }
}

impl Aspect for LeaderMemoryModel {
    fn core<'a>(&self, state: &'a State) -> &'a Core {
        &state.core
    }

    fn audit(&self, _: &State) -> Audit {
        Audit::default()
    }

    fn acts(&self, state: &State, lease: LeaseId, resource: ResourceId) -> bool {
        resource == RESOURCE && state.holders.get(lease).is_some_and(|holder| holder.is_valid(state.real))
    }

    fn story(&self, path: &[(State, Option<Action>)]) -> Vec<String> {
        words::tell(
            path,
            |action| self.tell(*action),
            |state| {
                let known = |lease: LeaseId| {
                    let until =
                        state.nodes.map(|node| node.deadlines[lease].map_or("-".to_owned(), |at| at.to_string()));
                    format!("{} until {} for n1, {} for n2", NAMES[lease], until[0], until[1])
                };
                let living = (0..CLIENTS).filter(|lease| state.core.leases[*lease].is_living()).map(known);
                let acting = (0..CLIENTS).filter(|lease| self.acts(state, *lease, RESOURCE)).map(|lease| NAMES[lease]);
                let (living, acting) =
                    (living.collect::<Vec<_>>().join(", "), acting.collect::<Vec<_>>().join(" and "));
                format!("[real {}: {living}; acting: {acting}]", state.real)
            },
        )
    }
}
