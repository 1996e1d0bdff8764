//! A real etcd: one server or several that belong together, on free ports, each ended through its own process.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::clients::found;
use crate::http::Client;
use crate::runs::soon;
use crate::server::free_port;

/// Where the shared libraries are that came with it.
const LIBRARIES: &str = "LEASEHOLD_PEER_LIBRARIES";

/// Servers that belong together.
pub(super) struct Etcd {
    servers: Vec<Server>,
    home: TempDir,
}

struct Server {
    process: Child,
    endpoint: String,
}

impl Etcd {
    /// Starts a server that is alone; none if there is no etcd on this machine.
    pub(super) fn alone() -> Option<Etcd> {
        Etcd::of(1)
    }

    /// Starts so many servers, and waits until they answer.
    pub(super) fn of(size: usize) -> Option<Etcd> {
        let program = found("LEASEHOLD_ETCD")?;
        let home = TempDir::new().unwrap();
        let urls: Vec<[String; 2]> =
            (0..size).map(|_| [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()))).collect();
        let members: Vec<String> =
            urls.iter().enumerate().map(|(number, [_, peer])| format!("e{number}={peer}")).collect();
        let servers = urls.iter().enumerate().map(|(number, [endpoint, peer])| {
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", std::env::var_os(LIBRARIES).unwrap_or_default());
            command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH.replace("aarch64", "arm64"));
            command
                .args(["--name", &format!("e{number}")])
                .arg("--data-dir")
                .arg(home.path().join(format!("e{number}")));
            command.args(["--listen-client-urls", endpoint, "--advertise-client-urls", endpoint]);
            command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
            command.args(["--initial-cluster", &members.join(",")]);
            let log = File::create(home.path().join(format!("e{number}.log"))).unwrap();
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            Server { process: command.spawn().unwrap(), endpoint: endpoint.clone() }
        });
        let etcd = Etcd { servers: servers.collect(), home };
        for server in &etcd.servers {
            soon("etcd", || server.is_healthy().then_some(()));
        }
        Some(etcd)
    }

    /// Where clients reach the only one, or the first.
    pub(super) fn endpoint(&self) -> &str {
        &self.servers[0].endpoint
    }

    /// All endpoints, the leader's first, and its number.
    pub(super) fn leader_first(&self) -> (usize, Vec<String>) {
        let leader = soon("a leader", || self.servers.iter().position(Server::leads));
        let others = self.servers.iter().enumerate().filter(|(number, _)| *number != leader);
        let endpoints = std::iter::once(&self.servers[leader]).chain(others.map(|(_, server)| server));
        (leader, endpoints.map(|server| server.endpoint.clone()).collect())
    }

    /// `kill -9` of the leader, and waits until another one leads.
    pub(super) fn kill_leader(&mut self, number: usize) {
        self.servers.remove(number).kill();
        soon("another leader", || self.servers.iter().any(Server::leads).then_some(()));
    }

    /// `kill -9` of all but one.
    pub(super) fn kill_all_but(&mut self, endpoint: &str) {
        for server in self.servers.iter_mut().filter(|server| server.endpoint != endpoint) {
            server.kill();
        }
    }
}

impl Server {
    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn leads(&self) -> bool {
        let mut client = Client::new(self.endpoint.trim_start_matches("http://").parse().unwrap());
        client.patience = Duration::from_secs(2);
        let Ok(answer) = client.send("POST", "/v3/maintenance/status", &[], b"{}") else { return false };
        answer.status == 200 && answer.json["leader"] == answer.json["header"]["member_id"]
    }

    fn is_healthy(&self) -> bool {
        let mut client = Client::new(self.endpoint.trim_start_matches("http://").parse().unwrap());
        client.patience = Duration::from_secs(2);
        client.send("GET", "/health", &[], b"").is_ok_and(|answer| answer.json["health"] == "true")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for server in &mut self.servers {
            server.kill();
        }
        if thread::panicking() {
            for number in 0..self.servers.len() {
                let log = std::fs::read_to_string(self.home.path().join(format!("e{number}.log"))).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                println!(
                    "--- the last words of etcd e{number}:\n{}\n---",
                    lines[lines.len().saturating_sub(20)..].join("\n")
                );
            }
        }
    }
}
