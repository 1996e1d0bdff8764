//! etcd: a cluster of one or of three, as Debian packages it, with its own settings.

use std::fs;
use std::path::Path;

use super::{etcd_wire, said};
use crate::client::{Client, Work};
use crate::process::{Server, command, free_address, program, version};
use crate::system::{About, Running, System};

/// Where the program is.
const VARIABLE: &str = "LEASEHOLD_ETCD";

/// How many nodes there are.
pub(super) enum Etcd {
    One,
    Three,
}

impl System for Etcd {
    fn name(&self) -> &'static str {
        match self {
            Etcd::One => "etcd",
            Etcd::Three => "etcd-3",
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Etcd::One => 1,
            Etcd::Three => 3,
        }
    }

    fn find(&self) -> Result<(), String> {
        etcd_wire::find().and_then(|()| program(VARIABLE, "etcd")).map(drop)
    }

    fn about(&self) -> About {
        About {
            version: program(VARIABLE, "etcd").map_or_else(|why| why, |program| version(&program)),
            durability: match self {
                Etcd::One => "fdatasync, of grants and releases; keep-alives in memory only, forgotten by a restart",
                Etcd::Three => {
                    "fdatasync on two of three nodes, of grants and releases; keep-alives in the leader's memory only, and \
                     the next leader begins every ttl anew"
                }
            },
            fencing: "revision of the lock's key, checked by the client in a transaction",
            queue: "in order of arrival, by the revisions of their keys; each watches the one before it, in the server",
            client: etcd_wire::CLIENT,
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let addresses = |_| Ok((format!("http://{}", free_address()?), format!("http://{}", free_address()?)));
        let nodes: Vec<(String, String)> = (0..self.nodes()).map(addresses).collect::<Result<_, String>>()?;
        let cluster: Vec<String> =
            nodes.iter().enumerate().map(|(number, (_, peers))| format!("n{number}={peers}")).collect();
        let mut servers = Vec::new();
        for (number, (clients, peers)) in nodes.iter().enumerate() {
            let directory = directory.join(format!("n{number}"));
            fs::create_dir_all(&directory).map_err(said)?;
            let mut etcd = command(&program(VARIABLE, "etcd")?);
            etcd.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH.replace("aarch64", "arm64"));
            etcd.args(["--name", &format!("n{number}")]).arg("--data-dir").arg(directory.join("data"));
            etcd.args(["--listen-client-urls", clients, "--advertise-client-urls", clients]);
            etcd.args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]);
            etcd.args(["--initial-cluster", &cluster.join(",")]);
            servers.push(Server::start(etcd, &directory)?);
        }
        let clients: Vec<String> = nodes.into_iter().map(|(clients, _)| clients).collect();
        Ok(Running { endpoint: clients.join(","), servers })
    }

    fn leader<'a>(&'a self, running: &'a Running) -> Option<Work<'a, usize>> {
        Some(Box::pin(async move {
            for (number, endpoint) in running.endpoint.split(',').enumerate() {
                if etcd_wire::leads(endpoint).await? {
                    return Ok(number);
                }
            }
            Err("nobody leads".to_owned())
        }))
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        etcd_wire::connect(&running.endpoint)
    }
}
