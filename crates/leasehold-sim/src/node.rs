//! A node of the simulated cluster: the real log, replica and service on a host, and the desk that answers clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Namespace, WallTime};
use leasehold_raft::{Connecting, Formation, Node, Options, PeerOptions, Wire, World};
use leasehold_service::{
    Clocks, Cluster, Consistency, Delivery, Options as ServiceOptions, Reading, Replica, Service, WatchFilter,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::disk::Disk;
use crate::host::Host;
use crate::net::{HostId, Letter, Mail, Net};
use crate::plan::Plan;
use crate::talk::{Answer, Question, Seen};
use crate::trace::Trace;

/// The namespace everything happens in.
pub(crate) fn namespace() -> Namespace {
    Namespace::new("sim").expect("it is a well-formed name")
}

/// What a node stands on.
#[derive(Debug)]
struct Ground {
    host: HostId,
    net: Net,
    disk: Disk,
}

impl World for Ground {
    fn connect(&self, address: &str) -> Connecting {
        Box::pin(self.net.clone().connect(self.host, address.to_owned()))
    }

    fn listen(&self, address: SocketAddr) -> std::io::Result<mpsc::UnboundedReceiver<Box<dyn Wire>>> {
        self.net.listen(self.host, address)
    }

    fn flush_takes(&self) -> Duration {
        self.disk.flush_takes()
    }

    fn written(&self, file: &Path, at: u64, bytes: u64) {
        self.disk.written(file, at, bytes);
    }

    fn flushed(&self, _log: &Path) {
        self.disk.flushed();
    }
}

/// The clocks of a node: two that run at slightly different rates, and a time of day that may be wrong.
#[derive(Clone, Debug)]
struct NodeClocks {
    began: Instant,
    offset: Duration,
    /// The bare oscillator against the other clock.
    raw_rate: f64,
    /// How far the time of day is off, in milliseconds.
    wall: Arc<Mutex<i64>>,
}

impl Clocks for NodeClocks {
    fn read(&self) -> Reading {
        let elapsed = self.began.elapsed();
        Reading { monotonic: self.offset + elapsed, raw: self.offset * 2 + elapsed.mul_f64(self.raw_rate) }
    }

    fn wall(&self) -> WallTime {
        wall_time(self.began.elapsed().as_millis() as u64, *self.wall.lock())
    }
}

/// A time of day, so many milliseconds after the first, and off by so many.
fn wall_time(elapsed: u64, off: i64) -> WallTime {
    WallTime((1_800_000_000_000 + elapsed).saturating_add_signed(off))
}

/// What runs on a node that is up.
#[derive(Clone)]
pub(crate) struct Up {
    pub(crate) node: Arc<Node<Replica>>,
    pub(crate) service: Service,
    pub(crate) replica: Arc<Replica>,
}

/// A node: its disk stays, what runs on it comes and goes.
pub(crate) struct SimNode {
    pub(crate) id: HostId,
    pub(crate) host: Host,
    pub(crate) disk: Disk,
    pub(crate) up: Arc<Mutex<Option<Up>>>,
    wall: Arc<Mutex<i64>>,
    starts: u64,
}

/// The name of a node.
pub(crate) fn name(id: HostId) -> String {
    format!("n{id}")
}

impl SimNode {
    pub(crate) fn new(id: HostId, root: &Path, plan: &Plan) -> SimNode {
        let disk = Disk::new(root.join(name(id)), plan.flush, plan.seed ^ (u64::from(id) << 32));
        SimNode { id, host: Host::new(1.0), disk, up: Arc::default(), wall: Arc::default(), starts: 0 }
    }

    /// Its time of day, after so many milliseconds of true time.
    pub(crate) fn wall(&self, elapsed: u64) -> WallTime {
        wall_time(elapsed, *self.wall.lock())
    }

    /// Moves its time of day.
    pub(crate) fn jump_wall(&self, millis: i64) {
        *self.wall.lock() += millis;
    }

    /// Starts the node, on a new host with the files of the old one.
    pub(crate) fn start(&mut self, rate: f64, formation: Formation, net: &Net, plan: &Plan, trace: &Trace) {
        self.host = Host::new(rate);
        self.starts += 1;
        let mut chance = StdRng::seed_from_u64(plan.seed ^ (u64::from(self.id) << 48) ^ self.starts);
        let ground = Ground { host: self.id, net: net.clone(), disk: self.disk.clone() };
        let mut peers = PeerOptions::new(name(self.id), Net::address(self.id));
        peers.formation = formation;
        let options = Options {
            peers: Some(peers),
            heartbeat: plan.heartbeat,
            election_min: plan.heartbeat * 3,
            election_max: plan.heartbeat * 6,
            snapshot_bytes: plan.snapshot_bytes,
            retained_entries: plan.retained_entries,
            log_file_bytes: 64 * 1024,
            log_file_records: 64,
            world: Some(Arc::new(ground)),
            ..Options::new(self.disk.root())
        };
        let service = ServiceOptions {
            limits: Some(plan.limits.clone()),
            leaderless_patience: plan.heartbeat * 20,
            in_flight: 4,
            ..ServiceOptions::default()
        };
        let (offset, raw_rate) = (chance.random_range(0..1_000_000), chance.random_range(0.9995..1.0005));
        let running = Running {
            id: self.id,
            up: self.up.clone(),
            letters: net.letter_box(self.id),
            net: net.clone(),
            trace: trace.clone(),
            chance: Arc::new(Mutex::new(chance)),
            ring: plan.ring,
        };
        let wall = self.wall.clone();
        self.host.spawn(async move {
            let clocks = NodeClocks { began: Instant::now(), offset: Duration::from_millis(offset), raw_rate, wall };
            running.run(options, clocks, service).await;
        });
    }

    /// Ends the node wherever it stands; what was not flushed is lost. Returns how many bytes that were.
    pub(crate) fn crash(&mut self, net: &Net, silently: bool) -> u64 {
        net.remove(self.id, silently);
        *self.up.lock() = None;
        self.host.crash();
        self.disk.crash().expect("the files of a closed log can be cut")
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.lock().is_some()
    }
}

/// A node while it runs.
struct Running {
    id: HostId,
    up: Arc<Mutex<Option<Up>>>,
    letters: mpsc::UnboundedReceiver<Letter>,
    net: Net,
    trace: Trace,
    chance: Arc<Mutex<StdRng>>,
    ring: usize,
}

impl Running {
    async fn run(mut self, options: Options, clocks: NodeClocks, mut service: ServiceOptions) {
        let (name, replica) = (name(self.id), Arc::new(Replica::remembering(self.ring)));
        let node = match Node::open(options, replica.clone()).await {
            Ok((node, opened)) => {
                let cut = opened.cut.as_ref().map_or(0, |cut| cut.bytes);
                self.trace.say(format_args!("{name} starts: log to {:?}, cut {cut}", opened.last_log));
                Arc::new(node)
            }
            Err(error) => return self.trace.fail(format_args!("{name} does not start: {error}")),
        };
        service.cluster = Some(Arc::clone(&node) as Arc<dyn Cluster>);
        let service = Service::start(Arc::clone(&node), replica.clone(), clocks, service);
        let up = Up { node: node.clone(), service: service.clone(), replica };
        *self.up.lock() = Some(up);
        let (trace, watched) = (self.trace.clone(), Arc::downgrade(&node));
        drop(node);
        let fatal = async move {
            // Held weakly: whoever watches must not keep the node.
            let stopped = match watched.upgrade() {
                Some(node) => node.stopped().await,
                None => return,
            };
            trace.fail(format_args!("{name} stopped for good: {stopped}"));
        };
        tokio::spawn(fatal);
        while let Some(letter) = self.letters.recv().await {
            if let Mail::Asks(number, question) = letter.mail {
                let length = self.chance.lock().random_range(500..4000);
                let desk = Desk {
                    service: service.clone(),
                    net: self.net.clone(),
                    from: self.id,
                    to: letter.from,
                    number,
                    watch_for: Duration::from_millis(length),
                };
                tokio::spawn(desk.answer(*question));
            }
        }
    }
}

/// Answers one question.
struct Desk {
    service: Service,
    net: Net,
    from: HostId,
    to: HostId,
    number: u64,
    watch_for: Duration,
}

impl Desk {
    fn say(&self, count: u64, answer: Answer) {
        self.net.send(self.from, self.to, Mail::Answers(self.number, count, Box::new(answer)));
    }

    async fn answer(self, question: Question) {
        let (service, caller, namespace) = (&self.service, self.service.anonymous(), namespace());
        match question {
            Question::Command(command) => {
                let done = service.execute_waiting(&caller, &namespace, command).await;
                self.say(0, Answer::Done(done));
            }
            Question::Queue(command) => {
                let done = service.execute(&caller, &namespace, command).await;
                self.say(0, Answer::Done(done));
            }
            Question::Look(lease, resource) => {
                let look = |state: &leasehold_core::State| {
                    let seen = state.resource(&namespace, &resource);
                    let held = seen.and_then(|seen| seen.holders.first().map(|holder| (holder.lease, holder.token)));
                    (state.lease(&namespace, lease), held)
                };
                let seen = service.read(&caller, &namespace, Consistency::Linearizable, look).await;
                self.say(
                    0,
                    Answer::Seen(seen.map(|seen| {
                        let (lease, held) = seen.value;
                        Seen { now: seen.now, revision: seen.revision, lease, held }
                    })),
                );
            }
            Question::Read(key) => {
                let look = |state: &leasehold_core::State| state.entry(&namespace, &key);
                let read = service.read(&caller, &namespace, Consistency::Linearizable, look).await;
                self.say(0, Answer::Entry(read.map(|read| (read.value, read.revision))));
            }
            Question::Watch(since, prefix) => self.watch(since, prefix).await,
        }
    }

    async fn watch(self, since: Option<leasehold_core::Revision>, prefix: String) {
        let filter = WatchFilter { prefix };
        let mut watch = match self.service.watch(&self.service.anonymous(), &namespace(), filter, since).await {
            Ok(watch) => watch,
            Err(failure) => return self.say(0, Answer::NotOpened(failure)),
        };
        self.say(0, Answer::Opened);
        let (mut count, end) = (0, Instant::now() + self.watch_for);
        loop {
            count += 1;
            match tokio::time::timeout_at(end, watch.next()).await {
                Ok(Some(Delivery::Change(change))) => self.say(count, Answer::Changed(change)),
                Ok(Some(Delivery::Progress(revision))) => self.say(count, Answer::Nothing(revision)),
                Ok(Some(Delivery::TooSlow(_))) => return self.say(count, Answer::TooSlow),
                Ok(None) | Err(_) => return self.say(count, Answer::Over),
            }
        }
    }
}

/// The members of a declared cluster.
pub(crate) fn members(count: u16) -> Formation {
    let members: BTreeMap<String, String> = (0..count).map(|id| (name(id), Net::address(id).to_string())).collect();
    Formation::Members(members)
}
