//! A PostgreSQL server with a new cluster. It refuses to run as root, so root starts it as `nobody`.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use leasehold_client::store::{self, Store};
use rustix::process::Signal;

use super::{Server, command, free_ports, program, version};
use crate::harness::{Harness, Missing};

/// The user and group `nobody` of Debian.
const NOBODY: u32 = 65534;

pub(crate) struct Postgres {
    port: u16,
    version: String,
    server: Mutex<Server>,
}

pub(crate) fn start() -> Result<Postgres, Missing> {
    let program = program("LEASEHOLD_POSTGRES", "postgres", "the package postgresql", &places())?;
    // A link may lead to the program, but what belongs to it lies beside the file itself.
    let program = fs::canonicalize(&program).unwrap_or(program);
    let home = tempfile::tempdir().unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let data = home.path().join("data");
    let mut initdb = as_user(&program.with_file_name("initdb"), root, home.path());
    initdb.args(["--username", "leasehold", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C"]);
    let made = initdb.arg("--pgdata").arg(&data).output().unwrap();
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    let [port] = free_ports();
    let mut postgres = as_user(&program, root, home.path());
    postgres.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", "", "-F"]);
    // SIGQUIT ends all its processes at once, without writing anything down.
    let server = Server::start(postgres, home, Signal::QUIT);
    Ok(Postgres { port, version: version(&program), server: Mutex::new(server) })
}

/// Where Debian puts it: the newest first.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    places.sort();
    places.reverse();
    places
}

fn as_user(program: &Path, root: bool, home: &Path) -> Command {
    let mut command = command(program);
    command.current_dir(home);
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

impl Postgres {
    /// Where a program finds it.
    pub(crate) fn url(&self) -> String {
        format!("postgres://leasehold@127.0.0.1:{}/postgres", self.port)
    }
}

impl Harness for Postgres {
    fn client(&self) -> Arc<dyn Store> {
        Arc::new(store::Postgres::at(&self.url()).unwrap())
    }

    fn absent(&self) -> Option<(Arc<dyn Store>, String)> {
        let [port] = free_ports();
        let absent = store::Postgres::at(&format!("postgres://me:secret@127.0.0.1:{port}/postgres")).unwrap();
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
