//! A Leasehold server: the real `lease serve`, as the rest of the workspace's tests build it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use leasehold_client::store::{self, Store};
use rustix::process::Signal;

use crate::harness::{Harness, Missing};
use crate::servers::{Server, free_ports, version};

pub(crate) struct Leasehold {
    port: u16,
    version: String,
    server: Mutex<Server>,
}

/// The program beside the tests' own folder.
fn program() -> Result<PathBuf, Missing> {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).map(|folder| folder.join("lease")).filter(|file| file.is_file());
    built.ok_or_else(|| Missing("`lease` is not built; run `cargo build -p leasehold-cli` first".to_owned()))
}

pub(crate) fn start() -> Result<Leasehold, Missing> {
    let program = program()?;
    let home = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let mut lease = Command::new(&program);
    lease.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"]).arg(home.path().join("data"));
    let server = Server::start(lease, home, Signal::KILL);
    Ok(Leasehold { port, version: version(&program), server: Mutex::new(server) })
}

fn at(port: u16) -> Arc<dyn Store> {
    Arc::new(store::Leasehold::new(format!("http://127.0.0.1:{port}").parse().unwrap(), "default"))
}

impl Harness for Leasehold {
    fn client(&self) -> Arc<dyn Store> {
        at(self.port)
    }

    fn absent(&self) -> Option<(Arc<dyn Store>, String)> {
        let [port] = free_ports();
        Some((at(port), format!("127.0.0.1:{port}")))
    }

    fn crash(&self) -> bool {
        self.server.lock().unwrap().crash();
        true
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}
