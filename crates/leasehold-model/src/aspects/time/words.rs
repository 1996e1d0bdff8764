//! The story of a path in `time`.
//!
//! Nodes are sorted in every state, since which is which does not matter; the story follows each by its name.

use super::{Action, CLIENTS, State, TimeModel};
use crate::core::Command;
use crate::raft::NODES;
use crate::words::{asked, leases};

const NAMES: [&str; NODES] = ["n1", "n2", "n3"];
const PEOPLE: [&str; CLIENTS] = ["ann", "bob"];

pub(super) fn story(model: &TimeModel, path: &[(State, Option<Action>)]) -> Vec<String> {
    let mut names = NAMES;
    let mut steps = Vec::new();
    for (state, action) in path {
        let Some(action) = action else { break };
        let step = tell(*action, &names);
        let mut next = model.step(state, *action);
        next.settle(model);
        let mut order: Vec<usize> = (0..NODES).collect();
        order.sort_by(|a, b| next.cluster.nodes[*a].cmp(&next.cluster.nodes[*b]));
        names = std::array::from_fn(|place| names[order[place]]);
        steps.push(format!("{step}. {}", picture(model, &next)));
    }
    steps
}

fn tell(action: Action, names: &[&str; NODES]) -> String {
    match action {
        Action::TimePasses => "A tick passes".to_owned(),
        Action::HealthyTick { leader } => format!("A tick passes, and {} commits a tick", names[leader]),
        Action::Elect { candidate, voter } => format!("{} is elected by {}", names[candidate], names[voter]),
        Action::Replicate { leader, follower, heard } => {
            let lost = if heard { "" } else { ", but its answer is lost" };
            format!("{} takes over the log of {}{lost}", names[follower], names[leader])
        }
        Action::Stamp { leader, command, client, parked } => {
            let place = if parked { "stamps it, not in its log yet" } else { "stamps and appends it" };
            format!("{}: {} {place}", said(command, client), names[leader])
        }
        Action::Append { leader } => format!("{} appends the entry that it stamped before", names[leader]),
        Action::Forward { from, to } => format!("The entry that {} stamped is appended by {}", names[from], names[to]),
        Action::Open { leader } => format!("{} reads a stamp for an entry that is empty yet", names[leader]),
    }
}

fn said(command: Command, client: Option<usize>) -> String {
    match client {
        None => "Nobody asks for anything".to_owned(),
        Some(client) => format!("{} {}", PEOPLE[client], asked(command)),
    }
}

fn picture(model: &TimeModel, state: &State) -> String {
    let clock = model.holder_clock(state.real);
    let valid = (0..CLIENTS).filter(|client| state.holders[*client].is_valid(clock)).map(|client| PEOPLE[client]);
    leases(&state.core, state.real, &PEOPLE, valid)
}
