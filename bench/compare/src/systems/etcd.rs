//! etcd: a cluster of one, as Debian packages it, with its own settings.

use std::path::Path;

use super::etcd_wire;
use crate::client::{Client, Work};
use crate::process::{Server, command, free_address, program, version};
use crate::system::{About, Running, System};

/// Where the program is.
const VARIABLE: &str = "LEASEHOLD_ETCD";

pub(super) struct Etcd;

impl System for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn find(&self) -> Result<(), String> {
        etcd_wire::find().and_then(|()| program(VARIABLE, "etcd")).map(drop)
    }

    fn about(&self) -> About {
        About {
            version: program(VARIABLE, "etcd").map_or_else(|why| why, |program| version(&program)),
            durability: "fdatasync, of grants and releases; keep-alives in memory only, forgotten by a restart",
            fencing: "revision of the lock's key, checked by the client in a transaction",
            queue: "in order of arrival, by the revisions of their keys; each watches the one before it, in the server",
            client: etcd_wire::CLIENT,
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let (clients, peers) = (format!("http://{}", free_address()?), format!("http://{}", free_address()?));
        let mut etcd = command(&program(VARIABLE, "etcd")?);
        etcd.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH.replace("aarch64", "arm64"));
        etcd.arg("--data-dir").arg(directory.join("data"));
        etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        etcd.args(["--initial-cluster", &format!("default={peers}")]);
        Ok(Running { endpoint: clients, servers: vec![Server::start(etcd, directory)?] })
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        etcd_wire::connect(&running.endpoint)
    }
}
