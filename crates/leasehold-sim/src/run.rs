//! One run: hosts are ticked in turn, faults come and go, and in the end everything is mended and comes to rest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_raft::Formation;
use leasehold_service::ClusterChange;
use leasehold_service::log::{Leadership, Log};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::clients::{self, CLIENTS_FROM, Shared};
use crate::faults::{self, Fault, Open, Targets};
use crate::history::{Bounds, History, Moment, Span};
use crate::host::{Host, Motion};
use crate::net::{HostId, Net};
use crate::node::{self, SimNode, Up};
use crate::plan::{Kind, Plan};
use crate::restored::Backup;
use crate::time::TrueTime;
use crate::trace::Trace;

/// The most nodes there ever are.
const NODES_MAX: usize = 7;
/// How long after the last fault it counts as calm, in milliseconds.
const CALM_AFTER: u64 = 3_000;
/// A cluster that has committed nothing for so long stood still, in milliseconds.
const STANDSTILL: u64 = 700;
/// How often leadership changes while it flaps, in milliseconds.
const FLAP: u64 = 450;

/// What came out of a run.
#[derive(Debug)]
pub struct Report {
    /// What clients saw.
    pub history: History,
    /// What must not happen and is seen without a checker: a node that stops, panics, states that differ.
    pub failures: Vec<String>,
    /// One number for the trace.
    pub sum: u64,
    /// How many entries the log has in the end.
    pub entries: u64,
}

/// Runs a plan, with its files in `root`; `aloud` prints the trace while it grows.
pub fn run(plan: &Plan, root: &Path, aloud: bool) -> Report {
    let mut run = Run::new(plan, root, aloud);
    run.begin();
    for at in 0..plan.busy {
        run.tick();
        match plan.kind {
            Kind::Calm => {}
            Kind::Stormy | Kind::Beyond => run.disturb(),
            Kind::Restored if at == plan.busy / 3 => run.back_up(),
            Kind::Restored if at == plan.busy * 2 / 3 => run.restore(),
            Kind::Restored => {}
        }
    }
    run.settle();
    for _ in 0..plan.rest {
        run.tick();
    }
    run.finish()
}

struct Run {
    plan: Arc<Plan>,
    root: PathBuf,
    time: TrueTime,
    trace: Trace,
    net: Net,
    chance: StdRng,
    nodes: Vec<SimNode>,
    clients: Vec<(HostId, Host)>,
    shared: Shared,
    open: Open,
    next_fault: u64,
    /// Nodes that have been removed from the cluster.
    removed: BTreeSet<HostId>,
    last_fault: u64,
    /// Since when it is calm.
    calm: Option<u64>,
    moved: Moved,
    backup: Option<Backup>,
}

/// When an entry was last applied, or nobody led; the last entry; who led.
#[derive(Default)]
struct Moved {
    at: u64,
    to: u64,
    by: Option<LeaderId>,
}

impl Run {
    fn new(plan: &Plan, root: &Path, aloud: bool) -> Run {
        let (plan, time) = (Arc::new(plan.clone()), TrueTime::default());
        let trace = Trace::new(time.clone(), aloud);
        let net = Net::new(time.clone(), plan.seed ^ 0xae7, plan.weather);
        let bounds = Bounds {
            delivery: (plan.kind == Kind::Calm).then(|| Duration::from_millis(400)),
            grace: Duration::from_millis(plan.limits.grace.0),
            sweep_piece: plan.limits.sweep_piece as usize,
            entry: plan.entry(),
            // Outages are noted from the last entry on; what is left is the time between two entries.
            forgotten: Duration::from_millis(150),
            ..Bounds::default()
        };
        let history = History { bounds, outages: Some(Vec::new()), ..History::default() };
        let shared = Shared {
            net: net.clone(),
            time: time.clone(),
            trace: trace.clone(),
            history: Arc::new(Mutex::new(history)),
            known: Arc::default(),
            resting: Arc::new(AtomicBool::new(false)),
            plan: plan.clone(),
        };
        Run {
            chance: StdRng::seed_from_u64(plan.seed ^ 0xfa17),
            root: root.to_path_buf(),
            nodes: Vec::new(),
            clients: Vec::new(),
            open: Open::default(),
            next_fault: 2_000,
            removed: BTreeSet::new(),
            last_fault: 0,
            calm: None,
            moved: Moved::default(),
            backup: None,
            plan,
            time,
            trace,
            net,
            shared,
        }
    }

    fn begin(&mut self) {
        self.trace.say(format_args!("seed {} is {}: {} nodes", self.plan.seed, self.plan.kind.name(), self.plan.nodes));
        for id in 0..self.plan.nodes {
            self.nodes.push(SimNode::new(id, &self.root, &self.plan));
            self.start(id);
        }
        for (place, trade) in clients::trades(&self.plan).into_iter().enumerate() {
            let (id, rate) = (CLIENTS_FROM + place as HostId, faults::rate(self.plan.drift, &mut self.chance));
            let host = Host::new(rate);
            host.spawn(clients::run(self.shared.clone(), id, trade, rate));
            self.clients.push((id, host));
        }
    }

    fn start(&mut self, id: HostId) {
        let rate = faults::rate(self.plan.drift, &mut self.chance);
        let formation = if self.plan.kind == Kind::Restored {
            Formation::Alone
        } else if id < self.plan.nodes {
            node::members(self.plan.nodes)
        } else {
            Formation::Join((0..self.plan.nodes).map(|id| Net::address(id).to_string()).collect())
        };
        let node = &mut self.nodes[usize::from(id)];
        node.start(rate, formation, &self.net, &self.plan, &self.trace);
    }

    fn tick(&mut self) {
        let now = self.time.tick();
        self.net.deliver();
        for node in &mut self.nodes {
            node.host.tick();
        }
        for (_, host) in &mut self.clients {
            host.tick();
        }
        self.note_progress(now);
    }

    /// Notes whether the cluster goes on, and whether it is calm.
    fn note_progress(&mut self, now: u64) {
        let applied = self.ups().iter().filter_map(|(_, up)| up.node.metrics().last_applied).max().unwrap_or(0);
        // On a slow disk time goes on in steps, and many leases end one entry after the other: as if nobody led meanwhile.
        let slow = self.plan.has_slow_disks() || self.open.iter().any(|fault| matches!(fault, Fault::SlowDisk { .. }));
        let leader = self.latest_leader();
        let (led, anew) = (leader.is_some(), leader != self.moved.by);
        let goes_on = led && !slow;
        if applied > self.moved.to || !goes_on {
            let span = Span { from: Moment::millis(self.moved.at), to: Moment::millis(now) };
            if now - self.moved.at > STANDSTILL || !goes_on {
                self.shared.history.lock().outages.get_or_insert_default().push(span);
            } else if anew {
                self.shared.history.lock().changes.push(span);
            }
            self.moved = Moved { at: now, to: applied.max(self.moved.to), by: leader };
        }
        let whole = self.nodes.iter().all(|node| node.is_up() || self.removed.contains(&node.id));
        let calm = self.open.is_empty()
            && !self.plan.has_slow_disks()
            && self.net.is_gentle()
            && whole
            && led
            && now > self.last_fault + CALM_AFTER
            && now - self.moved.at <= STANDSTILL;
        match (calm, self.calm) {
            (true, None) => self.calm = Some(now),
            (false, Some(from)) => {
                self.calm = None;
                let span = Span { from: Moment::millis(from), to: Moment::millis(now) };
                self.shared.history.lock().calm.push(span);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    fn ups(&self) -> Vec<(HostId, Up)> {
        self.nodes.iter().filter_map(|node| node.up.lock().clone().map(|up| (node.id, up))).collect()
    }

    fn leader(&self) -> Option<HostId> {
        let leads = |up: &Up| matches!(*up.node.leadership().borrow(), Leadership::Leads(_));
        self.ups().into_iter().find(|(_, up)| leads(up)).map(|(id, _)| id)
    }

    /// Who took over last of those who think that they lead: one that is frozen or cut off does not know better.
    fn latest_leader(&self) -> Option<LeaderId> {
        let leads = |up: &Up| match *up.node.leadership().borrow() {
            Leadership::Leads(leader) => Some(leader),
            Leadership::Follows(_) | Leadership::CutOff(_) | Leadership::Unknown => None,
        };
        self.ups().iter().filter_map(|(_, up)| leads(up)).max_by_key(|leader| leader.term)
    }

    /// Mends what is due, and lets the next thing go wrong.
    fn disturb(&mut self) {
        let now = self.time.now();
        self.mend(now);
        if self.open.flaps() && now.is_multiple_of(FLAP) {
            self.change(ClusterChange::Transfer { to: None });
        }
        if now < self.next_fault {
            return;
        }
        self.next_fault = now + self.chance.random_range(50..=self.plan.fault_pause);
        let targets = Targets {
            nodes: self.ups().iter().map(|(id, _)| *id).filter(|id| !self.removed.contains(id)).collect(),
            leader: self.leader(),
            clients: self.clients.iter().map(|(id, _)| *id).collect(),
            drift: self.plan.drift,
            beyond: self.plan.kind == Kind::Beyond,
            changes: self.plan.nodes > 1 && self.nodes.len() < NODES_MAX,
        };
        if let Some((fault, lasts)) = faults::draw(&targets, &mut self.chance) {
            self.last_fault = now + lasts;
            self.trace.say(format_args!("fault for {lasts} ms: {fault:?}"));
            if lasts > 0 {
                self.open.add(now + lasts, fault.clone());
            }
            self.inflict(fault);
        }
    }

    fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Crash { node, silently } => self.crash(node, silently),
            Fault::CrashAll => (0..self.nodes.len() as HostId).for_each(|node| self.crash(node, false)),
            Fault::Freeze { node } => self.nodes[usize::from(node)].host.motion = Motion::Frozen,
            Fault::FreezeClient { client } => self.client(client).motion = Motion::Frozen,
            Fault::Suspend { host } if host < CLIENTS_FROM => {
                self.nodes[usize::from(host)].host.motion = Motion::Suspended;
            }
            Fault::Suspend { host } => self.client(host).motion = Motion::Suspended,
            Fault::Cut { from, to } => {
                for from in from {
                    to.iter().for_each(|to| self.net.cut(from, *to));
                }
            }
            Fault::Storm(weather) => self.net.set_weather(weather),
            Fault::SlowDisk { node, millis } => self.nodes[usize::from(node)].disk.set_slowness(millis),
            Fault::WallJump { node, millis } => self.nodes[usize::from(node)].jump_wall(millis),
            Fault::Rate { node, rate } => self.nodes[usize::from(node)].host.set_rate(rate),
            Fault::Transfer | Fault::Flap => self.change(ClusterChange::Transfer { to: None }),
            Fault::Snapshot { node } => self.snapshot(node),
            Fault::Join => {
                let id = self.nodes.len() as HostId;
                self.nodes.push(SimNode::new(id, &self.root, &self.plan));
                self.start(id);
            }
            Fault::Remove { node } => self.remove(node),
        }
    }

    fn client(&mut self, id: HostId) -> &mut Host {
        &mut self.clients[usize::from(id - CLIENTS_FROM)].1
    }

    fn crash(&mut self, node: HostId, silently: bool) {
        let node = &mut self.nodes[usize::from(node)];
        let lost = node.crash(&self.net, silently);
        self.trace.say(format_args!("{} crashes and loses {lost} bytes", node::name(node.id)));
    }

    fn mend(&mut self, now: u64) {
        while let Some(fault) = self.open.due(now) {
            self.trace.say(format_args!("mended: {fault:?}"));
            match fault {
                Fault::Crash { node, .. } => self.start_if_down(node),
                Fault::CrashAll => (0..self.nodes.len() as HostId).for_each(|node| self.start_if_down(node)),
                Fault::Freeze { node } => self.nodes[usize::from(node)].host.motion = Motion::Runs,
                Fault::FreezeClient { client } => self.client(client).motion = Motion::Runs,
                Fault::Suspend { host } if host < CLIENTS_FROM => {
                    self.nodes[usize::from(host)].host.motion = Motion::Runs;
                }
                Fault::Suspend { host } => self.client(host).motion = Motion::Runs,
                Fault::Cut { .. } => self.heal(),
                Fault::Storm(_) => self.net.set_weather(self.plan.weather),
                Fault::SlowDisk { node, .. } => self.nodes[usize::from(node)].disk.set_slowness(self.plan.flush),
                Fault::WallJump { .. }
                | Fault::Rate { .. }
                | Fault::Transfer
                | Fault::Flap
                | Fault::Snapshot { .. }
                | Fault::Join
                | Fault::Remove { .. } => {}
            }
        }
    }

    /// Heals all links, and cuts again what other faults have cut.
    fn heal(&mut self) {
        self.net.heal();
        for fault in self.open.iter() {
            if let Fault::Cut { from, to } = fault {
                for from in from {
                    to.iter().for_each(|to| self.net.cut(*from, *to));
                }
            }
        }
    }

    fn start_if_down(&mut self, node: HostId) {
        let is_down = self.nodes.get(usize::from(node)).is_some_and(|node| !node.host.is_alive());
        if is_down && !self.removed.contains(&node) {
            self.start(node);
        }
    }

    /// Changes the cluster from some node; whether it succeeds is not known here.
    fn change(&mut self, change: ClusterChange) {
        let ups = self.ups();
        if ups.is_empty() {
            return;
        }
        let (id, up) = ups[self.chance.random_range(0..ups.len())].clone();
        let trace = self.trace.clone();
        self.nodes[usize::from(id)].host.spawn(async move {
            let done = up.service.change_cluster(&up.service.anonymous(), change.clone()).await;
            match done {
                Ok(done) => trace.say(format_args!("{} made it so: {done:?}", node::name(id))),
                Err(failure) => trace.say(format_args!("{} could not: {failure}", node::name(id))),
            }
        });
    }

    fn remove(&mut self, node: HostId) {
        let Some((_, up)) = self.ups().into_iter().find(|(id, _)| *id == node) else { return };
        let number = up.node.identity().node;
        self.removed.insert(node);
        self.change(ClusterChange::Remove { node: number });
    }

    fn snapshot(&mut self, node: HostId) {
        let Some((_, up)) = self.ups().into_iter().find(|(id, _)| *id == node) else { return };
        let trace = self.trace.clone();
        self.nodes[usize::from(node)].host.spawn(async move {
            let covers = up.node.snapshot_now().await;
            trace.say(format_args!("{} has a snapshot: {covers:?}", node::name(node)));
        });
    }

    fn back_up(&mut self) {
        self.backup = self.ups().first().map(|(_, up)| Backup::of(up));
        self.trace.say(format_args!("a backup is taken"));
    }

    /// Replaces the node by one that is made from the backup.
    fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        self.crash(0, false);
        let node = &self.nodes[0];
        let (root, wall) = (node.disk.root(), node.wall(self.time.now()));
        let made = std::fs::remove_dir_all(&root).map_err(|error| error.to_string());
        match made.and_then(|()| backup.restore(&root, wall)) {
            Ok(()) => self.trace.say(format_args!("the cluster is restored from its backup")),
            Err(error) => self.trace.fail(format_args!("the cluster cannot be restored: {error}")),
        }
        node.disk.forget();
        self.start(0);
    }

    /// Mends everything and lets clients come to rest.
    fn settle(&mut self) {
        let now = self.time.now();
        self.open.end_all(now);
        self.mend(now);
        self.net.heal();
        self.net.set_weather(self.plan.weather.gentle());
        self.last_fault = now;
        (0..self.nodes.len() as HostId).for_each(|node| self.start_if_down(node));
        self.shared.resting.store(true, Ordering::Relaxed);
        self.trace.say(format_args!("everything is mended"));
    }

    fn finish(mut self) -> Report {
        let now = self.time.now();
        if let Some(from) = self.calm.take() {
            let span = Span { from: Moment::millis(from), to: Moment::millis(now) };
            self.shared.history.lock().calm.push(span);
        }
        let states = self.compare_states();
        let entries = self.ups().iter().filter_map(|(_, up)| up.node.metrics().last_applied).max().unwrap_or(0);
        let mut failures = self.trace.failures();
        failures.extend(states);
        self.trace.say(format_args!("the end: {entries} entries"));
        // Clients first: they hold nothing of the nodes.
        self.clients.clear();
        for node in &mut self.nodes {
            node.crash(&self.net, false);
        }
        let history = std::mem::take(&mut *self.shared.history.lock());
        Report { history, failures, sum: self.trace.sum(), entries }
    }

    /// Nodes that have applied the same entries must have the same state.
    fn compare_states(&self) -> Vec<String> {
        let mut found = Vec::new();
        let ups = self.ups();
        let members: Vec<_> = ups.iter().filter(|(id, _)| !self.removed.contains(id)).collect();
        if members.is_empty() || self.leader().is_none() {
            found.push("nobody leads although everything was mended".to_owned());
        }
        let states: Vec<(HostId, Option<u64>, Vec<u8>)> =
            members.iter().map(|(id, up)| (*id, up.node.metrics().last_applied, bytes_of(up))).collect();
        for pair in states.windows(2) {
            let [(a, at_a, state_a), (b, at_b, state_b)] = pair else { continue };
            if at_a == at_b && state_a != state_b {
                found.push(format!("{} and {} have applied up to {at_a:?} and differ", node::name(*a), node::name(*b)));
            }
        }
        let ahead = states.iter().filter_map(|(_, at, _)| *at).max().unwrap_or(0);
        for (id, at, _) in &states {
            if at.unwrap_or(0) + 20 < ahead {
                found.push(format!("{} has applied up to {at:?} only, others {ahead}", node::name(*id)));
            }
        }
        found
    }
}

fn bytes_of(up: &Up) -> Vec<u8> {
    use leasehold_service::log::{Machine, View};
    let mut bytes = Vec::new();
    up.replica.view().write(&mut bytes).expect("memory takes everything");
    bytes
}
