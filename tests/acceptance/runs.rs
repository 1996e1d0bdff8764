//! `lease run` and `lease elect` as processes, and the trees of processes below them.
//!
//! The processes of a tree put their ids into files of a common directory, so a test knows them; one of them writes
//! down the time again and again, and the last line tells when it died.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::clients::{LEASES, RESOURCES, grant};
use crate::http::Client;
use crate::server::collect;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A tree that does not follow the wish to end: the command, and a grandchild in a session of its own.
pub(crate) const STUBBORN: &str = r#"
    (setsid sh -c 'trap "" TERM INT HUP; echo $$ > far; while :; do date +%s%N >> ticks; sleep 0.01; done' &)
    trap "" TERM INT HUP; echo $$ > self; while :; do sleep 0.05; done"#;

/// A directory that a tree of processes writes into.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Home {
        Home(TempDir::new().unwrap())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What was written into a file, once it is a whole line.
    pub(crate) fn line(&self, name: &str) -> String {
        soon(&format!("a line in {name}"), || {
            std::fs::read_to_string(self.path(name)).ok().filter(|text| text.ends_with('\n'))
        })
        .trim_end()
        .to_owned()
    }

    /// The processes that wrote their ids into these files.
    pub(crate) fn pids(&self, names: &[&str]) -> Vec<Pid> {
        names.iter().map(|name| Pid::from_raw(self.line(name).parse().unwrap()).unwrap()).collect()
    }

    /// The grandchild and the command of [`STUBBORN`], once both are at work.
    pub(crate) fn stubborn(&self) -> Vec<Pid> {
        self.line("ticks");
        self.pids(&["far", "self"])
    }

    /// The last time that the grandchild wrote down, in milliseconds of wall time.
    pub(crate) fn last_tick(&self) -> u64 {
        let ticks = std::fs::read_to_string(self.path("ticks")).unwrap();
        let last: u64 = ticks.lines().rfind(|line| line.len() == 19).unwrap().parse().unwrap();
        last / 1_000_000
    }
}

/// A running `lease run` or `lease elect`.
pub(crate) struct Supervised {
    process: Child,
    stderr: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Supervised {
    /// Starts `lease` with these arguments against a server.
    pub(crate) fn start(address: SocketAddr, home: &Home, args: &[&str]) -> Supervised {
        Supervised::with(address, home, args, |_| {})
    }

    /// Starts it after a last touch.
    pub(crate) fn with(
        address: SocketAddr,
        home: &Home,
        args: &[&str],
        touch: impl FnOnce(&mut Command),
    ) -> Supervised {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
        for name in ["LEASE_TOKEN", "LEASE_NAMESPACE", "LEASE_OUTPUT", "NOTIFY_SOCKET"] {
            command.env_remove(name);
        }
        command.env("LEASE_ADDR", format!("http://{address}")).env("LEASE_HOLDER", "ann").args(args);
        command.current_dir(home.folder()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        touch(&mut command);
        let mut process = command.spawn().unwrap();
        let (stderr, reader) = collect(process.stderr.take().unwrap());
        Supervised { process, stderr, reader: Some(reader) }
    }

    /// The supervisor's process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// What it said, once that contains `text`.
    pub(crate) fn said(&self, text: &str) -> String {
        soon(&format!("`{text}` on stderr"), || Some(self.stderr()).filter(|said| said.contains(text)))
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Its exit code and all it said. Nothing of its tree has its stderr any more then.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = soon("the end of lease", || self.process.try_wait().unwrap());
        soon("the end of the tree", || self.reader.as_ref().is_none_or(thread::JoinHandle::is_finished).then_some(()));
        (status.code(), self.stderr())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|status| status.is_none()) {
            // A stopped process dies too.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        if thread::panicking() {
            println!("--- stderr of lease:\n{}---", self.stderr());
        }
    }
}

/// Runs `lease` to its end: its exit code and what it said.
pub(crate) fn lease(address: SocketAddr, home: &Home, args: &[&str]) -> (Option<i32>, String) {
    Supervised::start(address, home, args).end()
}

/// Waits for something to be there.
#[track_caller]
pub(crate) fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let asked = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(asked.elapsed() < PATIENCE, "{what} takes too long");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process runs: it is there and not only waiting to be reaped.
pub(crate) fn lives(pid: Pid) -> bool {
    field(pid, 0).is_some_and(|state| state != "Z")
}

/// The parent of a process.
pub(crate) fn parent(pid: Pid) -> Pid {
    Pid::from_raw(field(pid, 1).unwrap().parse().unwrap()).unwrap()
}

/// A field of what the system tells about a process, from its state on.
fn field(pid: Pid, number: usize) -> Option<String> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(number).map(str::to_owned)
}

/// Waits until all of them are dead.
#[track_caller]
pub(crate) fn all_die(pids: &[Pid]) {
    soon(&format!("the end of {pids:?}"), || (!pids.iter().any(|pid| lives(*pid))).then_some(()));
}

/// Waits for a resource at the server itself; the moment of the grant by the server's wall clock, in milliseconds.
pub(crate) fn next_grant(server: &Client, resource: &str) -> u64 {
    let mut client = Client::new(server.address);
    client.patience = PATIENCE * 2;
    client.post(&format!("{LEASES}?wait=50s"), &grant("next", 60_000, resource)).expect(201);
    let found = client.get(&format!("{RESOURCES}/{resource}")).expect(200);
    let since: &Value = &found.json["holders"][0]["since"];
    let since: leasehold_api::Timestamp = since.as_str().unwrap().parse().unwrap();
    since.0.0
}

/// How many wait for a resource.
pub(crate) fn waiting(server: &mut Client, resource: &str) -> u64 {
    let answer = server.get(&format!("{RESOURCES}/{resource}"));
    answer.json["queue"]["length"].as_u64().unwrap_or(0)
}
