//! An etcd server: a cluster of one.

use std::sync::{Arc, Mutex};

use leasehold_client::store::{self, Store};
use leasehold_core::Span;
use rustix::process::Signal;

use super::{Server, command, free_ports, program, version};
use crate::harness::{Harness, Missing};

pub(crate) struct Etcd {
    port: u16,
    version: String,
    server: Mutex<Server>,
}

pub(crate) fn start() -> Result<Etcd, Missing> {
    let program = program("LEASEHOLD_ETCD", "etcd", "the package etcd-server", &[])?;
    let home = tempfile::tempdir().unwrap();
    let [port, peer] = free_ports();
    let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let mut etcd = command(&program);
    etcd.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH.replace("aarch64", "arm64"));
    etcd.arg("--data-dir").arg(home.path().join("data"));
    etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    etcd.args(["--initial-cluster", &format!("default={peers}")]);
    let server = Server::start(etcd, home, Signal::KILL);
    Ok(Etcd { port, version: version(&program), server: Mutex::new(server) })
}

impl Harness for Etcd {
    fn client(&self) -> Arc<dyn Store> {
        Arc::new(store::Etcd::at(&format!("http://127.0.0.1:{}", self.port)).unwrap())
    }

    fn shortest_ttl(&self) -> Span {
        Span::seconds(2)
    }

    fn absent(&self) -> Option<(Arc<dyn Store>, String)> {
        let [port] = free_ports();
        let absent = store::Etcd::at(&format!("http://127.0.0.1:{port}")).unwrap();
        Some((Arc::new(absent), format!("127.0.0.1:{port}")))
    }

    fn crash(&self) -> bool {
        self.server.lock().unwrap().crash();
        true
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}
