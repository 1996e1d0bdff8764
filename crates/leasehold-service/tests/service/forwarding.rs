//! Commands taken by a node that does not lead: several services over one log in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId, Outcome, Patience};
use leasehold_service::log::{
    Answered, Committed, Delivered, Leadership, Log, Machine, Parcel, Position, Unavailable, View,
};
use leasehold_service::{Consistency, Done, Failure, Options, Replica, Service, WatchFilter};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::support::{TestClocks, grant, id, namespace, pass, release};

/// What stands in the common log: a take-over or a payload.
type Entry = (LeaderId, Option<Bytes>);

/// Nodes that share a log. Tests decide who leads, who is reached and who has heard of what.
struct Cluster {
    log: Mutex<Vec<Entry>>,
    nodes: Vec<Arc<NodeLog>>,
}

/// How the leader treats what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Well,
    /// It takes parcels and entries and does nothing with them.
    Hangs,
    /// Nobody reaches it.
    Unreachable,
}

struct NodeLog {
    replica: Arc<Replica>,
    leadership: watch::Sender<Leadership>,
    taken: Mutex<Option<mpsc::Receiver<Parcel>>>,
    parcels: mpsc::Sender<Parcel>,
    /// How much of the common log is applied, and whether more may be.
    applied: Mutex<usize>,
    behind: Mutex<bool>,
    leader: Mutex<Leader>,
    /// What a leader that hangs has got.
    swallowed: Mutex<Vec<Bytes>>,
    unanswered: Mutex<Vec<Delivered>>,
    cluster: Mutex<std::sync::Weak<Cluster>>,
}

impl NodeLog {
    fn cluster(&self) -> Arc<Cluster> {
        self.cluster.lock().upgrade().expect("the cluster outlives its nodes")
    }

    /// Applies what is there; gives what became of the newest entry.
    fn catch_up(&self, log: &[Entry]) -> Option<Applied> {
        let mut applied = self.applied.lock();
        if *self.behind.lock() {
            return None;
        }
        let mut last = None;
        for (index, (leader, payload)) in log.iter().enumerate().skip(*applied) {
            let at = Position { index: index as u64, leader: *leader };
            let entry = payload.as_ref().map_or(Committed::TakeOver, |payload| Committed::Payload(payload));
            last = Some(self.replica.apply(at, entry));
        }
        *applied = log.len();
        last
    }
}

impl Log for NodeLog {
    async fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) {
        if *self.leadership.borrow() != Leadership::Leads(leader) {
            return done(Err(Unavailable::NotLeader { leader: None }));
        }
        if *self.leader.lock() == Leader::Hangs {
            return self.swallowed.lock().push(payload);
        }
        let cluster = self.cluster();
        let mut log = cluster.log.lock();
        log.push((leader, Some(payload)));
        let applied = self.catch_up(&log).expect("a leader has applied everything before");
        cluster.nodes.iter().for_each(|node| drop(node.catch_up(&log)));
        drop(log);
        done(Ok(applied));
    }

    async fn forward(&self, to: LeaderId, bytes: Bytes, done: Delivered) {
        let cluster = self.cluster();
        let leader = &cluster.nodes[to.node as usize];
        let treatment = *leader.leader.lock();
        match treatment {
            Leader::Unreachable => done(Err(Unavailable::Unreachable("no route".to_owned()))),
            Leader::Hangs => {
                leader.swallowed.lock().push(bytes);
                leader.unanswered.lock().push(done);
            }
            Leader::Well => leader.parcels.send(Parcel { to, bytes, done }).await.unwrap(),
        }
    }

    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>> {
        self.taken.lock().take()
    }

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    fn staleness(&self) -> Duration {
        Duration::from_millis(7)
    }

    fn name_of(&self, node: u64) -> String {
        format!("n{node}")
    }
}

struct Nodes {
    cluster: Arc<Cluster>,
    services: Vec<Service>,
}

impl Nodes {
    /// Three nodes, led by the first.
    async fn new() -> Nodes {
        let node = |_| {
            let (parcels, taken) = mpsc::channel(16);
            Arc::new(NodeLog {
                replica: Arc::new(Replica::new()),
                leadership: watch::Sender::default(),
                taken: Mutex::new(Some(taken)),
                parcels,
                applied: Mutex::default(),
                behind: Mutex::default(),
                leader: Mutex::new(Leader::Well),
                swallowed: Mutex::default(),
                unanswered: Mutex::default(),
                cluster: Mutex::default(),
            })
        };
        let nodes: Vec<_> = (0..3).map(node).collect();
        let cluster = Arc::new(Cluster { log: Mutex::default(), nodes });
        for node in &cluster.nodes {
            *node.cluster.lock() = Arc::downgrade(&cluster);
        }
        let start = |node: &Arc<NodeLog>| {
            let options = Options { in_flight: 4, ..Options::default() };
            Service::start(Arc::clone(node), Arc::clone(&node.replica), TestClocks::new(), options)
        };
        let services = cluster.nodes.iter().map(start).collect();
        let nodes = Nodes { cluster, services };
        nodes.elect(0, 1).await;
        nodes
    }

    /// Makes a node lead; those behind hear of it when they catch up.
    async fn elect(&self, node: usize, term: u64) {
        self.take_over(node, term);
        self.settle().await;
    }

    fn take_over(&self, node: usize, term: u64) {
        let leader = LeaderId { term, node: node as u64 };
        let mut log = self.cluster.log.lock();
        log.push((leader, None));
        for (i, one) in self.cluster.nodes.iter().enumerate() {
            one.catch_up(&log);
            let role = if i == node { Leadership::Leads(leader) } else { Leadership::Follows(leader) };
            one.leadership.send_replace(role);
        }
    }

    fn nobody_leads(&self) {
        for node in &self.cluster.nodes {
            node.leadership.send_replace(Leadership::Unknown);
        }
    }

    async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    fn ask(&self, node: usize, command: leasehold_core::Command) -> tokio::task::JoinHandle<Result<Done, Failure>> {
        let service = self.services[node].clone();
        tokio::spawn(async move { service.execute(&service.anonymous(), &namespace(), command).await })
    }

    fn holds(&self, node: usize, lease: u64) -> bool {
        self.cluster.nodes[node].replica.look(|state| state.lease(&namespace(), id(lease)).is_ok())
    }

    /// How many commands of one kind went through the log, by the tokens they took.
    fn revision(&self) -> u64 {
        self.services[0].present().1.0
    }
}

#[tokio::test(start_paused = true)]
async fn any_node_takes_a_command_and_says_who_led() {
    let nodes = Nodes::new().await;
    for node in 0..3 {
        let name = format!("r{node}");
        let done = nodes.ask(node, grant(node as u64 + 1, 5_000, &[&name], Patience::None)).await.unwrap().unwrap();
        assert!(matches!(done.outcome, Outcome::Granted(_)));
        assert_eq!(done.forwarded_to, (node > 0).then(|| "n0".to_owned()));
        assert!(nodes.holds(node, node as u64 + 1), "the node that answers has applied it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_answers_when_it_has_applied_the_command_itself() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[1].behind.lock() = true;
    let asked = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None));
    nodes.settle().await;
    assert!(nodes.holds(0, 1) && !asked.is_finished());
    *nodes.cluster.nodes[1].behind.lock() = false;
    nodes.cluster.nodes[1].catch_up(&nodes.cluster.log.lock());
    asked.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_core_comes_back_through_a_follower() {
    let nodes = Nodes::new().await;
    nodes.ask(0, grant(1, 5_000, &["a"], Patience::None)).await.unwrap().unwrap();
    let refused = nodes.ask(2, grant(2, 5_000, &["a"], Patience::None)).await.unwrap();
    assert!(matches!(refused, Err(Failure::Rejected(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_on_a_follower_is_served_when_the_resource_is_released_through_another() {
    let nodes = Nodes::new().await;
    nodes.ask(0, grant(1, 60_000, &["a"], Patience::None)).await.unwrap().unwrap();
    let service = nodes.services[1].clone();
    let waiting = tokio::spawn(async move {
        let command = grant(2, 5_000, &["a"], Patience::Endless);
        service.execute_waiting(&service.anonymous(), &namespace(), command).await
    });
    // Longer than its own ttl: the follower keeps it alive through the leader.
    pass(12_000).await;
    assert!(!waiting.is_finished());
    nodes.ask(2, release(1)).await.unwrap().unwrap();
    assert!(matches!(waiting.await.unwrap().unwrap().outcome, Outcome::Granted(_)));
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_leader_did_not_append_is_sent_to_the_next_one_and_happens_once() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[0].leader.lock() = Leader::Hangs;
    let on_follower = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None));
    let on_leader = nodes.ask(0, grant(2, 5_000, &["b"], Patience::None));
    nodes.settle().await;
    assert_eq!(nodes.cluster.nodes[0].swallowed.lock().len(), 2, "both are on their way");
    let before = nodes.revision();
    nodes.nobody_leads();
    pass(900).await;
    nodes.elect(2, 2).await;
    let (one, two) = (on_follower.await.unwrap().unwrap(), on_leader.await.unwrap().unwrap());
    assert_eq!(one.forwarded_to.as_deref(), Some("n2"));
    assert_eq!(two.forwarded_to.as_deref(), Some("n2"), "the old leader passes its own on, too");
    assert!(nodes.holds(2, 1) && nodes.holds(2, 2));
    assert_eq!(nodes.revision(), before + 2, "each took effect once");
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_leader_had_spread_is_answered_and_not_sent_again() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[1].behind.lock() = true;
    let asked = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None));
    nodes.settle().await;
    let before = nodes.revision();
    assert!(nodes.holds(0, 1) && !asked.is_finished());
    nodes.nobody_leads();
    *nodes.cluster.nodes[1].behind.lock() = false;
    nodes.elect(2, 2).await;
    let done = asked.await.unwrap().unwrap();
    assert_eq!(done.forwarded_to.as_deref(), Some("n0"), "the leader that stamped it");
    assert_eq!(nodes.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_commands_are_kept_for_an_election_and_then_refused_at_once() {
    let nodes = Nodes::new().await;
    nodes.nobody_leads();
    nodes.settle().await;
    let began = Instant::now();
    let refused = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None)).await.unwrap();
    assert!(
        matches!(&refused, Err(Failure::NoQuorum { may_have_happened: false, why }) if why.contains("nobody leads"))
    );
    assert!((1_900..=2_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let again = Instant::now();
    nodes.ask(1, grant(1, 5_000, &["a"], Patience::None)).await.unwrap().unwrap_err();
    assert!(again.elapsed() < Duration::from_millis(10));
    nodes.elect(1, 2).await;
    nodes.ask(1, grant(1, 5_000, &["a"], Patience::None)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_refuses_at_once_and_says_why() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[0].leader.lock() = Leader::Hangs;
    let under_way = nodes.ask(0, grant(1, 5_000, &["a"], Patience::None));
    nodes.settle().await;
    let leader = LeaderId { term: 1, node: 0 };
    nodes.cluster.nodes[0].leadership.send_replace(Leadership::CutOff(leader));
    let began = Instant::now();
    let unknown = under_way.await.unwrap();
    assert!(matches!(unknown, Err(Failure::NoQuorum { may_have_happened: true, .. })), "{unknown:?}");
    let refused = nodes.ask(0, grant(2, 5_000, &["b"], Patience::None)).await.unwrap();
    assert!(
        matches!(&refused, Err(Failure::NoQuorum { may_have_happened: false, why }) if why.contains("no majority"))
    );
    assert!(began.elapsed() < Duration::from_millis(10));
    assert!(!nodes.services[0].health().ready);
    *nodes.cluster.nodes[0].leader.lock() = Leader::Well;
    nodes.cluster.nodes[0].leadership.send_replace(Leadership::Leads(leader));
    nodes.ask(0, grant(3, 5_000, &["c"], Patience::None)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_not_reached_is_tried_for_an_election_and_then_told() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[0].leader.lock() = Leader::Unreachable;
    let began = Instant::now();
    let short = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None));
    pass(500).await;
    *nodes.cluster.nodes[0].leader.lock() = Leader::Well;
    short.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_millis(600), "a short absence is only a delay");

    *nodes.cluster.nodes[0].leader.lock() = Leader::Unreachable;
    let refused = nodes.ask(1, grant(2, 5_000, &["b"], Patience::None)).await.unwrap();
    assert!(
        matches!(&refused, Err(Failure::NoQuorum { may_have_happened: false, why }) if why.contains("n0 leads; the leader is not reached: no route")),
        "{refused:?}"
    );
    *nodes.cluster.nodes[0].leader.lock() = Leader::Well;
    nodes.ask(1, grant(3, 5_000, &["c"], Patience::None)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_way_that_breaks_with_a_parcel_on_it_leaves_its_outcome_open() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[0].leader.lock() = Leader::Hangs;
    let began = Instant::now();
    let asked = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None));
    nodes.settle().await;
    let done = nodes.cluster.nodes[0].unanswered.lock().pop().unwrap();
    done(Err(Unavailable::Unknown("the connection broke".to_owned())));
    let unknown = asked.await.unwrap();
    assert!(matches!(unknown, Err(Failure::NoQuorum { may_have_happened: true, .. })), "{unknown:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "not as long as a caller waits at most");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_in_place_of_entries_leaves_the_outcome_open() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[1].behind.lock() = true;
    let asked = nodes.ask(1, grant(1, 5_000, &["a"], Patience::None));
    nodes.settle().await;
    let mut bytes = Vec::new();
    nodes.cluster.nodes[0].replica.view().write(&mut bytes).unwrap();
    nodes.cluster.nodes[1].replica.install(&mut &bytes[..]).unwrap();
    let unknown = asked.await.unwrap();
    assert!(matches!(unknown, Err(Failure::NoQuorum { may_have_happened: true, .. })), "{unknown:?}");
    assert!(nodes.holds(1, 1));
}

#[tokio::test(start_paused = true)]
async fn commands_of_all_nodes_share_a_busy_leader() {
    let nodes = Nodes::new().await;
    let mut asked = Vec::new();
    for lease in 1..=300 {
        let name = format!("r{lease}");
        asked.push(nodes.ask(lease as usize % 3, grant(lease, 60_000, &[&name], Patience::None)));
    }
    for one in asked {
        one.await.unwrap().unwrap();
    }
    assert!((1..=300).all(|lease| (0..3).all(|node| nodes.holds(node, lease))));
}

#[tokio::test(start_paused = true)]
async fn a_parcel_for_an_earlier_leadership_is_not_proposed() {
    let nodes = Nodes::new().await;
    let before = nodes.cluster.log.lock().len();
    let (tell, told) = tokio::sync::oneshot::channel();
    let pack = leasehold_log::Pack::new().parcel(leasehold_log::Origin { run: 1, number: 1 });
    let done: Delivered = Box::new(move |result| drop(tell.send(result)));
    let to = LeaderId { term: 0, node: 0 };
    nodes.cluster.nodes[0].parcels.send(Parcel { to, bytes: pack.into(), done }).await.unwrap();
    assert!(matches!(told.await.unwrap(), Err(Unavailable::NotLeader { leader: Some(_) })));
    assert_eq!(nodes.cluster.log.lock().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_follower_answers_stale_reads_and_watches_itself_without_a_leader() {
    let nodes = Nodes::new().await;
    nodes.ask(0, grant(1, 60_000, &["a"], Patience::None)).await.unwrap().unwrap();
    nodes.nobody_leads();
    nodes.settle().await;
    let (service, caller) = (&nodes.services[2], nodes.services[2].anonymous());
    let seen = service.read(&caller, &namespace(), Consistency::Stale, |state| state.revision()).await.unwrap();
    assert_eq!((seen.value.0, seen.age), (nodes.revision(), Some(Duration::from_millis(7))));
    service.watch(&caller, &namespace(), WatchFilter::default(), Some(seen.value)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_a_node_that_is_behind_waits_until_it_has_what_its_watcher_saw() {
    let nodes = Nodes::new().await;
    *nodes.cluster.nodes[1].behind.lock() = true;
    nodes.ask(0, grant(1, 60_000, &["a"], Patience::None)).await.unwrap().unwrap();
    let (service, seen) = (nodes.services[1].clone(), nodes.services[0].present().1);
    let opening = tokio::spawn(async move {
        service.watch(&service.anonymous(), &namespace(), WatchFilter::default(), Some(seen)).await.map(drop)
    });
    pass(500).await;
    assert!(!opening.is_finished());
    *nodes.cluster.nodes[1].behind.lock() = false;
    nodes.cluster.nodes[1].catch_up(&nodes.cluster.log.lock());
    opening.await.unwrap().unwrap();
}

fn waiting_on(nodes: &Nodes, node: usize) -> tokio::task::JoinHandle<Result<Done, Failure>> {
    let service = nodes.services[node].clone();
    let command = grant(2, 9_000, &["a"], Patience::Endless);
    tokio::spawn(async move { service.execute_waiting(&service.anonymous(), &namespace(), command).await })
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_moved_to_another_node_keeps_its_place_when_the_first_notices() {
    let nodes = Nodes::new().await;
    nodes.ask(0, grant(1, 60_000, &["a"], Patience::None)).await.unwrap().unwrap();
    let first = waiting_on(&nodes, 1);
    pass(500).await;
    let second = waiting_on(&nodes, 2);
    pass(500).await;
    first.abort();
    pass(500).await;
    assert!(nodes.holds(0, 2), "the call at the other node keeps it");
    nodes.ask(0, release(1)).await.unwrap().unwrap();
    assert!(matches!(second.await.unwrap().unwrap().outcome, Outcome::Granted(_)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_cut_off_does_not_speak_for_a_waiter_that_may_have_left_it() {
    let nodes = Nodes::new().await;
    nodes.ask(0, grant(1, 60_000, &["a"], Patience::None)).await.unwrap().unwrap();
    let first = waiting_on(&nodes, 1);
    pass(500).await;
    // Its renewal of the waiting lease fails.
    *nodes.cluster.nodes[0].leader.lock() = Leader::Unreachable;
    pass(5_000).await;
    *nodes.cluster.nodes[0].leader.lock() = Leader::Well;
    pass(100).await;
    first.abort();
    pass(500).await;
    assert!(nodes.holds(0, 2), "its ttl decides");
    pass(7_000).await;
    assert!(!nodes.holds(0, 2));
}
