//! A Redis server without files.

use std::sync::{Arc, Mutex};

use leasehold_client::store::{self, Store};
use rustix::process::Signal;

use super::{Server, command, free_ports, program, version};
use crate::harness::{Harness, Missing};

pub(crate) struct Redis {
    port: u16,
    version: String,
    server: Mutex<Server>,
}

pub(crate) fn start() -> Result<Redis, Missing> {
    let program = program("LEASEHOLD_REDIS_SERVER", "redis-server", "the package redis-server", &[])?;
    let home = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let mut redis = command(&program);
    redis.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    redis.arg("--port").arg(port.to_string()).arg("--dir").arg(home.path());
    let server = Server::start(redis, home, Signal::KILL);
    Ok(Redis { port, version: version(&program), server: Mutex::new(server) })
}

impl Harness for Redis {
    fn client(&self) -> Arc<dyn Store> {
        Arc::new(store::Redis::at(&format!("redis://127.0.0.1:{}", self.port)).unwrap())
    }

    fn absent(&self) -> Option<(Arc<dyn Store>, String)> {
        let [port] = free_ports();
        let absent = store::Redis::at(&format!("redis://:secret@127.0.0.1:{port}")).unwrap();
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
