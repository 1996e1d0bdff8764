//! What goes wrong, and when: drawn from the seed while the run goes on, and mended after a while.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::StdRng;

use crate::net::{HostId, Weather};

/// Something that goes wrong with nodes, clients or what is between them.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A node dies: its process, so that its connections break, or its machine, silently.
    Crash { node: HostId, silently: bool },
    /// All nodes die at once.
    CrashAll,
    /// A node stands still while its clock runs on.
    Freeze { node: HostId },
    /// A client does.
    FreezeClient { client: HostId },
    /// A machine and its clock stand still: beyond what is promised.
    Suspend { host: HostId },
    /// Nothing comes from these hosts to those.
    Cut { from: Vec<HostId>, to: Vec<HostId> },
    /// Messages are late, lost and doubled.
    Storm(Weather),
    /// Flushes of a node take up to so many milliseconds.
    SlowDisk { node: HostId, millis: u64 },
    /// The time of day of a node jumps.
    WallJump { node: HostId, millis: i64 },
    /// The clock of a node runs at another rate.
    Rate { node: HostId, rate: f64 },
    /// Leadership is handed to another node.
    Transfer,
    /// Again and again.
    Flap,
    /// A node writes a snapshot, and its log is cut.
    Snapshot { node: HostId },
    /// A new node joins the cluster.
    Join,
    /// A node is removed from the cluster.
    Remove { node: HostId },
}

/// What faults can hit.
pub(crate) struct Targets {
    /// Nodes that are up and belong to the cluster.
    pub(crate) nodes: Vec<HostId>,
    pub(crate) leader: Option<HostId>,
    pub(crate) clients: Vec<HostId>,
    pub(crate) drift: f64,
    pub(crate) beyond: bool,
    /// Whether the members may be changed.
    pub(crate) changes: bool,
}

impl Targets {
    /// A node; the leader more often than others.
    fn node(&self, chance: &mut StdRng) -> Option<HostId> {
        if let Some(leader) = self.leader.filter(|_| chance.random_bool(0.4)) {
            return Some(leader);
        }
        (!self.nodes.is_empty()).then(|| self.nodes[chance.random_range(0..self.nodes.len())])
    }

    fn client(&self, chance: &mut StdRng) -> HostId {
        self.clients[chance.random_range(0..self.clients.len())]
    }
}

/// Draws the next fault and how long it lasts, in milliseconds; zero for what is done at once.
pub(crate) fn draw(targets: &Targets, chance: &mut StdRng) -> Option<(Fault, u64)> {
    let node = targets.node(chance)?;
    let short = chance.random_range(50..1500);
    let long = chance.random_range(500..6000);
    let lasts = if chance.random_bool(0.6) { short } else { long };
    Some(match chance.random_range(0..24) {
        0..4 => (Fault::Crash { node, silently: chance.random_bool(0.4) }, lasts),
        4 => (Fault::CrashAll, short),
        5..8 => (Fault::Freeze { node }, lasts),
        8..10 => (Fault::FreezeClient { client: targets.client(chance) }, lasts),
        10..14 => (cut(targets, node, chance), lasts),
        14 => (cut_off_client(targets, chance), lasts),
        15 => (Fault::Storm(storm(chance)), long),
        16 => (Fault::SlowDisk { node, millis: chance.random_range(20..1200) }, lasts),
        17 => (Fault::WallJump { node, millis: chance.random_range(-7_200_000..7_200_000) }, 0),
        18 => (Fault::Rate { node, rate: rate(targets.drift, chance) }, 0),
        19 => match chance.random_range(0..3) {
            0 => (Fault::Flap, long + 4000),
            _ => (Fault::Transfer, 0),
        },
        20 => (Fault::Snapshot { node }, 0),
        21 if targets.changes => (Fault::Join, 0),
        22 if targets.changes && targets.nodes.len() > 3 => (Fault::Remove { node }, 0),
        23 if targets.beyond => {
            let host = if chance.random_bool(0.5) { node } else { targets.client(chance) };
            (Fault::Suspend { host }, lasts)
        }
        _ => (Fault::Snapshot { node }, 0),
    })
}

/// A rate within the bound; often at its edge.
pub(crate) fn rate(drift: f64, chance: &mut StdRng) -> f64 {
    match chance.random_range(0..4) {
        0 => 1.0 - drift,
        1 => 1.0 + drift,
        _ => chance.random_range(1.0 - drift..=1.0 + drift),
    }
}

fn cut(targets: &Targets, node: HostId, chance: &mut StdRng) -> Fault {
    let others: Vec<HostId> = targets.nodes.iter().copied().filter(|other| *other != node).collect();
    let some = others.iter().copied().filter(|_| chance.random_bool(0.5)).collect::<Vec<_>>();
    match chance.random_range(0..4) {
        // It is heard and hears nothing, or the other way round.
        0 => Fault::Cut { from: others, to: vec![node] },
        1 => Fault::Cut { from: vec![node], to: others },
        2 => Fault::Cut { from: some.clone(), to: vec![node] },
        // Half of the clients go with it.
        _ => {
            let clients = targets.clients.iter().copied().filter(|_| chance.random_bool(0.5));
            Fault::Cut { from: vec![node], to: others.into_iter().chain(clients).collect() }
        }
    }
}

fn cut_off_client(targets: &Targets, chance: &mut StdRng) -> Fault {
    let client = vec![targets.client(chance)];
    match chance.random_range(0..3) {
        0 => Fault::Cut { from: client, to: targets.nodes.clone() },
        1 => Fault::Cut { from: targets.nodes.clone(), to: client },
        _ => {
            let some = targets.nodes.iter().copied().filter(|_| chance.random_bool(0.6)).collect();
            Fault::Cut { from: some, to: client }
        }
    }
}

fn storm(chance: &mut StdRng) -> Weather {
    Weather {
        delay: chance.random_range(1..60),
        late: chance.random_range(0..200),
        late_by: chance.random_range(50..1500),
        lost: chance.random_range(0..250),
        twice: chance.random_range(0..200),
    }
}

/// Faults that are not mended yet, by when they will be.
#[derive(Default)]
pub(crate) struct Open {
    faults: BTreeMap<(u64, u64), Fault>,
    count: u64,
}

impl Open {
    pub(crate) fn add(&mut self, until: u64, fault: Fault) {
        self.count += 1;
        self.faults.insert((until, self.count), fault);
    }

    /// The next fault that is to be mended by now.
    pub(crate) fn due(&mut self, now: u64) -> Option<Fault> {
        let first = self.faults.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Everything is to be mended now.
    pub(crate) fn end_all(&mut self, now: u64) {
        let open = std::mem::take(&mut self.faults);
        for ((until, count), fault) in open {
            self.faults.insert((until.min(now), count), fault);
        }
    }

    pub(crate) fn flaps(&self) -> bool {
        self.faults.values().any(|fault| matches!(fault, Fault::Flap))
    }

    /// Those that are still open.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.values()
    }
}
