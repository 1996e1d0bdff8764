//! A real network between nodes: each in a network namespace of its own, joined by one that routes between them.
//!
//! A cut is a rule of the router that forwards packets from one node to another nowhere, so one way is one way for
//! packets; a slow node has a token bucket before its link. The test itself reaches all nodes always. It needs
//! root and `ip`; where that is missing the test says so and is skipped.

use std::cell::RefCell;
use std::process::Command;

use crate::cluster::Place;
use crate::wires::Net;

/// Addresses set aside for tests of networks.
const PREFIX: &str = "198.18";

/// The namespaces; they go when this is dropped.
pub(crate) struct Namespaces {
    /// Where nodes run.
    pub(crate) places: Vec<Place>,
    /// The beginning of all names, of this process.
    name: String,
    rules: RefCell<Vec<(usize, usize)>>,
    slow: RefCell<Vec<usize>>,
}

impl Namespaces {
    /// A network for so many nodes; none where the machine does not allow it, which is said.
    pub(crate) fn of(size: usize) -> Option<Namespaces> {
        let name = format!("lh{}", std::process::id());
        let places = (0..size).map(|node| Place {
            host: format!("{PREFIX}.{node}.2"),
            through: ["ip", "netns", "exec", &format!("{name}n{node}")].map(str::to_owned).to_vec(),
        });
        let made = Namespaces { places: places.collect(), name, rules: RefCell::default(), slow: RefCell::default() };
        match made.make() {
            Ok(()) => Some(made),
            Err(why) => {
                println!("SKIPPED: no network of namespaces on this machine: {why}");
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        let (name, router) = (&self.name, self.router());
        ip(&format!("netns add {router}"))?;
        ip(&format!("-n {router} link set lo up"))?;
        ip(&format!("netns exec {router} sysctl -qw net.ipv4.ip_forward=1"))?;
        for node in 0..self.places.len() {
            let (space, link) = (format!("{name}n{node}"), self.link(node));
            ip(&format!("netns add {space}"))?;
            ip(&format!("link add {link} netns {router} type veth peer name eth0 netns {space}"))?;
            ip(&format!("-n {router} addr add {PREFIX}.{node}.1/24 dev {link}"))?;
            ip(&format!("-n {router} link set {link} up"))?;
            ip(&format!("-n {space} addr add {PREFIX}.{node}.2/24 dev eth0"))?;
            ip(&format!("-n {space} link set eth0 up"))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("-n {space} route add default via {PREFIX}.{node}.1"))?;
        }
        // The test's own way to all of them.
        ip(&format!("link add {name}t type veth peer name {name}r netns {router}"))?;
        ip(&format!("-n {router} addr add {PREFIX}.250.1/24 dev {name}r"))?;
        ip(&format!("-n {router} link set {name}r up"))?;
        ip(&format!("addr add {PREFIX}.250.2/24 dev {name}t"))?;
        ip(&format!("link set {name}t up"))?;
        ip(&format!("route add {PREFIX}.0.0/16 via {PREFIX}.250.1"))
    }

    fn router(&self) -> String {
        format!("{}router", self.name)
    }

    /// The router's end of a node's link.
    fn link(&self, node: usize) -> String {
        format!("{}l{node}", self.name)
    }

    fn rule(&self, word: &str, from: usize, to: usize) {
        let (from, to) = (&self.places[from].host, &self.places[to].host);
        ip(&format!("-n {} rule {word} from {from} to {to} blackhole", self.router())).unwrap();
    }
}

impl Net for Namespaces {
    fn size(&self) -> usize {
        self.places.len()
    }

    fn cut_one_way(&self, from: usize, to: usize) {
        self.rule("add", from, to);
        self.rules.borrow_mut().push((from, to));
    }

    fn slow_down(&self, node: usize, bytes_per_second: u32) {
        let rate = format!("rate {}bit burst 16kb latency 300ms", bytes_per_second * 8);
        let made = run("tc", &format!("-n {} qdisc add dev {} root tbf {rate}", self.router(), self.link(node)));
        match made {
            Ok(()) => self.slow.borrow_mut().push(node),
            Err(why) => println!("SKIPPED: no slow link on this machine: {why}"),
        }
    }

    fn heal(&self) {
        for (from, to) in self.rules.borrow_mut().drain(..) {
            self.rule("del", from, to);
        }
        for node in self.slow.borrow_mut().drain(..) {
            run("tc", &format!("-n {} qdisc del dev {} root", self.router(), self.link(node))).unwrap();
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // What was not made cannot be taken away.
        let _ = ip(&format!("link del {}t", self.name));
        let _ = ip(&format!("netns del {}", self.router()));
        for node in 0..self.places.len() {
            let _ = ip(&format!("netns del {}n{node}", self.name));
        }
    }
}

fn ip(words: &str) -> Result<(), String> {
    run("ip", words)
}

fn run(program: &str, words: &str) -> Result<(), String> {
    let output =
        Command::new(program).args(words.split(' ')).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {words}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
