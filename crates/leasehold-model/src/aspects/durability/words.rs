//! The story of a path in `durability`.

use super::{Action, CLIENTS, DurabilityModel, State};
use crate::raft::NODES;
use crate::words::{asked, leases};

const NAMES: [&str; NODES] = ["n1", "n2", "n3"];
const PEOPLE: [&str; CLIENTS] = ["ann", "bob"];

pub(super) fn story(model: &DurabilityModel, path: &[(State, Option<Action>)]) -> Vec<String> {
    let mut names = NAMES;
    let mut steps = Vec::new();
    for pair in path.windows(2) {
        let [(state, Some(action)), _] = pair else { continue };
        let step = tell(*action, &names);
        let next = model.step(state, *action);
        let mut order: Vec<usize> = (0..NODES).collect();
        order.sort_by(|a, b| next.nodes[*a].cmp(&next.nodes[*b]));
        names = std::array::from_fn(|place| names[order[place]]);
        steps.push(format!("{step}. {}", picture(&next)));
    }
    steps
}

fn tell(action: Action, names: &[&str; NODES]) -> String {
    match action {
        Action::TimePasses => "A tick passes".to_owned(),
        Action::Stamp { leader, client: None, .. } => format!("{} stamps a tick", names[leader]),
        Action::Stamp { leader, command, client: Some(client) } => {
            format!("{} {}: {} stamps and appends it", PEOPLE[client], asked(command), names[leader])
        }
        Action::Replicate { leader, follower } => {
            format!("{} takes over the log of {}", names[follower], names[leader])
        }
        Action::Install { leader, follower } => format!("{} gets the snapshot of {}", names[follower], names[leader]),
        Action::Elect { candidate, voter } => format!("{} is elected by {}", names[candidate], names[voter]),
        Action::Snapshot { node } => format!("{} writes a snapshot and cuts its log", names[node]),
        Action::Crash { node } => format!("{} crashes and starts again", names[node]),
        Action::CrashAll => "All nodes crash and start again".to_owned(),
        Action::Flush { node } => format!("The disk of {} has everything", names[node]),
    }
}

fn picture(state: &State) -> String {
    let valid = (0..CLIENTS).filter(|client| state.holders[*client].is_valid(state.real)).map(|client| PEOPLE[client]);
    leases(&state.committed.core, state.real, &PEOPLE, valid)
}
