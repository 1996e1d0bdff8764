//! A cluster of real processes: each node on its own directory and ports, hurt and healed one by one.
//!
//! Nodes reach each other directly on loopback, or over [`Wires`] that can be cut, or over a real network of namespaces.
//! Which node leads is asked of the nodes themselves; nothing here knows how they agree.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{Answer, Client};
use crate::runs::soon;
use crate::server::{Refused, Server, Setup, free_port};
use crate::wires::Wires;

/// Timeouts for nodes that are close to each other.
pub(crate) const LAN: &str = "[raft]\nheartbeat = \"50ms\"\nelection_min = \"150ms\"\nelection_max = \"300ms\"\n";
/// The longest election timeout unless it is configured.
pub(crate) const ELECTION_MAX: Duration = Duration::from_millis(600);

/// How a cluster is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The text of every node's configuration file.
    pub(crate) config: String,
    /// Whether nodes reach each other over wires.
    pub(crate) wired: bool,
    /// The data directories, where they are not temporary, by node.
    pub(crate) data: Vec<Option<PathBuf>>,
    /// Variables of the environment, by node.
    pub(crate) env: Vec<Vec<(String, String)>>,
    /// Where nodes are, if not on loopback, by node.
    pub(crate) places: Vec<Place>,
    /// More words of every command line.
    pub(crate) args: Vec<String>,
    /// More words of each command line, by node.
    pub(crate) own_args: Vec<Vec<String>>,
}

/// Where a node runs, if not beside the test.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its own address there.
    pub(crate) host: String,
    /// A command that runs it there.
    pub(crate) through: Vec<String>,
}

/// One node.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) server: Server,
    /// Where it meets other nodes.
    pub(crate) peer: SocketAddr,
    stopped: bool,
}

/// Nodes that belong together.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Option<Wires>,
    plan: Plan,
    /// Where the declared nodes meet others.
    peers: Vec<SocketAddr>,
    /// The list that declares them.
    members: String,
}

impl Cluster {
    /// Three declared nodes with the usual timeouts, ready.
    pub(crate) fn of_three() -> Cluster {
        Cluster::with(3, Plan::default())
    }

    /// Declared nodes, ready.
    pub(crate) fn with(size: usize, plan: Plan) -> Cluster {
        let mut cluster = Cluster::begin(size, plan, &(0..size).collect::<Vec<_>>());
        cluster.until_ready();
        cluster
    }

    /// Declared nodes, started in this order and not waited for.
    pub(crate) fn begin(size: usize, plan: Plan, order: &[usize]) -> Cluster {
        let peers: Vec<SocketAddr> = (0..size).map(|number| plan.free_address(number)).collect();
        let wires = plan.wired.then(|| Wires::before(&peers));
        let listed: Vec<SocketAddr> = wires.as_ref().map_or(peers.clone(), |wires| wires.addresses.clone());
        let members: Vec<String> = (1..).zip(&listed).map(|(number, address)| format!("n{number}={address}")).collect();
        let mut cluster = Cluster { nodes: Vec::new(), wires, plan, peers, members: members.join(",") };
        cluster.begin_rest(order);
        cluster
    }

    /// Starts more of the declared nodes and does not wait for them. Nodes stand in the order of their start.
    pub(crate) fn begin_rest(&mut self, order: &[usize]) {
        for number in order {
            let words = ["--members".to_owned(), self.members.clone()];
            self.nodes.push(self.plan.begin(*number, self.peers[*number], &words));
        }
    }

    /// A node that is alone and can be joined, ready.
    pub(crate) fn alone(plan: Plan) -> Cluster {
        let peer = plan.free_address(0);
        let node = plan.begin(0, peer, &[]);
        let mut cluster = Cluster { nodes: vec![node], wires: None, plan, peers: vec![peer], members: String::new() };
        cluster.until_ready();
        cluster
    }

    /// Waits until every node says that it is ready.
    pub(crate) fn until_ready(&mut self) {
        for node in &mut self.nodes {
            if let Err(refused) = node.server.until_ready() {
                panic!("{} did not start: {refused:?}", node.name);
            }
        }
    }

    /// Starts one more node that joins, and waits until it is ready.
    pub(crate) fn join(&mut self) -> Result<usize, Refused> {
        let number = self.nodes.len();
        let peers: Vec<String> = self.nodes.iter().map(|node| node.peer.to_string()).collect();
        let words = ["--join".to_owned(), peers.join(",")];
        let mut node = self.plan.begin(number, self.plan.free_address(number), &words);
        node.server.until_ready()?;
        self.nodes.push(node);
        Ok(number)
    }

    /// Ends a node that was removed, by SIGTERM; the numbers of later ones fall by one.
    pub(crate) fn forget(&mut self, number: usize) {
        let mut node = self.nodes.remove(number);
        let (status, _) = node.server.terminate();
        assert!(status.success(), "{}: {status}: {}", node.name, node.server.stderr());
    }

    /// Waits until this node tells of so many voters.
    #[track_caller]
    pub(crate) fn until_voters(&mut self, number: usize, count: usize) {
        soon(&format!("{count} voters"), || {
            let status = self.status(number)?;
            let members = status["members"].as_array().cloned().unwrap_or_default();
            let voters = members.iter().filter(|member| member["voter"] == true).count();
            (voters == count && members.len() == count).then_some(())
        });
    }

    /// Where clients reach the nodes.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.server.address).collect()
    }

    pub(crate) fn client(&self, number: usize) -> Client {
        self.nodes[number].server.client()
    }

    /// The node that leads, once it is one only.
    #[track_caller]
    pub(crate) fn leader(&mut self) -> usize {
        self.leader_among(&(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// The node of these that leads, once it is one only.
    #[track_caller]
    pub(crate) fn leader_among(&mut self, numbers: &[usize]) -> usize {
        soon("a leader", || {
            let leading: Vec<usize> = numbers.iter().copied().filter(|number| self.leads(*number)).collect();
            match leading.as_slice() {
                [one] => Some(*one),
                [] | [..] => None,
            }
        })
    }

    /// The nodes that do not lead, in order.
    #[track_caller]
    pub(crate) fn followers(&mut self) -> Vec<usize> {
        let leader = self.leader();
        (0..self.nodes.len()).filter(|number| *number != leader).collect()
    }

    /// Whether a node runs and says that it leads.
    pub(crate) fn leads(&mut self, number: usize) -> bool {
        self.status(number).is_some_and(|status| status["leads"] == true && status["ready"] == true)
    }

    /// What a node tells about the cluster, if it can.
    pub(crate) fn status(&mut self, number: usize) -> Option<Value> {
        let node = &mut self.nodes[number];
        if node.stopped || !node.server.runs() {
            return None;
        }
        let answer = quick(&node.server, "/v1/cluster")?;
        (answer.status == 200).then_some(answer.json)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, number: usize) {
        self.nodes[number].server.kill();
        self.nodes[number].stopped = false;
    }

    /// SIGTERM, and the end that follows.
    pub(crate) fn terminate(&mut self, number: usize) -> (ExitStatus, Duration) {
        self.nodes[number].server.terminate()
    }

    /// Starts a node again and waits until it is ready.
    pub(crate) fn restart(&mut self, number: usize) {
        self.nodes[number].server.restart();
    }

    /// Starts all nodes again, none waiting for another.
    pub(crate) fn restart_all(&mut self) {
        for node in &mut self.nodes {
            node.server.begin_again();
        }
        self.until_ready();
    }

    /// SIGSTOP.
    pub(crate) fn pause(&mut self, number: usize) {
        self.nodes[number].server.pause();
        self.nodes[number].stopped = true;
    }

    /// SIGCONT.
    pub(crate) fn resume(&mut self, number: usize) {
        self.nodes[number].server.resume();
        self.nodes[number].stopped = false;
    }

    /// Hands leadership to another node; returns how long that took.
    #[track_caller]
    pub(crate) fn transfer(&mut self, to: usize) -> Duration {
        let leader = self.leader();
        let asked = Instant::now();
        let body = serde_json::json!({ "to": self.nodes[to].name });
        self.client(leader).post("/v1/cluster/transfer", &body).expect(200);
        soon("the new leader", || self.leads(to).then_some(()));
        asked.elapsed()
    }

    /// Waits until a node has applied what another node has now.
    #[track_caller]
    pub(crate) fn caught_up(&mut self, number: usize, with: usize) -> Duration {
        let began = Instant::now();
        let goal = self.status(with).expect("it can be asked")["revision"].as_u64().unwrap();
        soon("catching up", || {
            let status = self.status(number)?;
            (status["revision"].as_u64()? >= goal).then_some(())
        });
        began.elapsed()
    }
}

impl Plan {
    fn free_address(&self, number: usize) -> SocketAddr {
        let host = self.places.get(number).map_or("127.0.0.1", |place| place.host.as_str());
        format!("{host}:{}", free_port()).parse().unwrap()
    }

    fn begin(&self, number: usize, peer: SocketAddr, way: &[String]) -> Node {
        let name = format!("n{}", number + 1);
        let mut args = vec!["--name".to_owned(), name.clone(), "--peer-listen".to_owned(), peer.to_string()];
        args.extend(way.iter().cloned());
        args.extend(self.args.iter().cloned());
        args.extend(self.own_args.get(number).into_iter().flatten().cloned());
        let server = Server::begin(Setup {
            config: Some(self.config.clone()),
            data: self.data.get(number).cloned().flatten(),
            listen: Some(self.free_address(number).to_string()),
            args,
            env: self.env.get(number).cloned().unwrap_or_default(),
            through: self.places.get(number).map(|place| place.through.clone()).unwrap_or_default(),
        });
        Node { name, server, peer, stopped: false }
    }
}

/// Asks a node that may be silent.
fn quick(server: &Server, path: &str) -> Option<Answer> {
    let mut client = server.client();
    client.patience = Duration::from_secs(1);
    client.send("GET", path, &[], b"").ok()
}
