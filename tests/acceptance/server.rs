//! A real server process: started on a free port, waited for, killed, paused, stopped, started again.
//!
//! Every server is ended through its own process handle, at the latest when it is dropped; what it said on stderr is
//! shown if its test fails.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::Client;

/// How long a server may take to start or to end, on a busy machine in debug.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a server is to be started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// The text of a configuration file.
    pub(crate) config: Option<String>,
    /// A data directory elsewhere than in a temporary one.
    pub(crate) data: Option<PathBuf>,
    /// An address; a free one if none is given.
    pub(crate) listen: Option<String>,
    /// More words of its command line.
    pub(crate) args: Vec<String>,
    /// Variables of its environment.
    pub(crate) env: Vec<(String, String)>,
    /// A command that runs it in another place and becomes it.
    pub(crate) through: Vec<String>,
}

/// A server that did not start.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
    pub(crate) after: Duration,
}

/// A server process, and how to start it again.
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) data: PathBuf,
    launch: Launch,
    _home: Arc<TempDir>,
}

impl Server {
    /// Starts a server in an empty directory.
    pub(crate) fn start() -> Server {
        Server::with(Setup::default())
    }

    /// Starts a server in an empty directory, with a configuration file.
    pub(crate) fn configured(config: &str) -> Server {
        Server::with(Setup { config: Some(config.to_owned()), ..Setup::default() })
    }

    /// Starts a server.
    pub(crate) fn with(setup: Setup) -> Server {
        match Server::attempt(setup) {
            Ok(server) => server,
            Err(refused) => panic!("the server did not start: {refused:?}"),
        }
    }

    /// Starts a server, or tells how it refused.
    pub(crate) fn attempt(setup: Setup) -> Result<Server, Refused> {
        let mut server = Server::begin(setup);
        server.until_ready().map(|()| server)
    }

    /// Starts a server and does not wait until it is ready.
    pub(crate) fn begin(setup: Setup) -> Server {
        let home = Arc::new(TempDir::new().unwrap());
        let config = setup.config.map(|text| {
            let path = home.path().join("lease.toml");
            std::fs::write(&path, text).unwrap();
            path
        });
        let launch = Launch {
            listen: setup.listen.unwrap_or_else(|| format!("127.0.0.1:{}", free_port())),
            data: setup.data.unwrap_or_else(|| home.path().join("data")),
            config,
            args: setup.args,
            env: setup.env,
            through: setup.through,
        };
        Server::launched(launch, home)
    }

    /// Starts a second process with other flags beside this one, on the same data directory if `data` is.
    pub(crate) fn attempt_beside(&self, listen: &str, data: &Path) -> Result<Server, Refused> {
        let launch = Launch { listen: listen.to_owned(), data: data.to_path_buf(), ..Launch::default() };
        let mut server = Server::launched(launch, Arc::clone(&self._home));
        server.until_ready().map(|()| server)
    }

    fn launched(launch: Launch, home: Arc<TempDir>) -> Server {
        let process = Process::start(&launch);
        // Replaced by what the server prints; a port of zero stands for any.
        let address = launch.listen.parse().unwrap();
        Server { process, address, data: launch.data.clone(), launch, _home: home }
    }

    /// Waits until the server says that it is ready, or tells how it refused.
    pub(crate) fn until_ready(&mut self) -> Result<(), Refused> {
        self.address = self.process.until_ready()?;
        Ok(())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Tells whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.process.child.try_wait().unwrap().is_none()
    }

    /// Everything the present process said on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// What it said on stderr, once that contains `text`: being ready is told on stdout, and the two are read apart.
    pub(crate) fn stderr_with(&self, text: &str) -> String {
        let asked = Instant::now();
        loop {
            let said = self.stderr();
            if said.contains(text) || asked.elapsed() > Duration::from_secs(10) {
                return said;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait_for_end();
    }

    /// SIGTERM; returns how the process ended and how long that took.
    pub(crate) fn terminate(&mut self) -> (ExitStatus, Duration) {
        let asked = Instant::now();
        self.signal(Signal::TERM);
        (self.wait_for_end(), asked.elapsed())
    }

    /// SIGINT, as by Ctrl-C; returns how the process ended.
    pub(crate) fn interrupt(&mut self) -> ExitStatus {
        self.signal(Signal::INT);
        self.wait_for_end()
    }

    /// SIGHUP: the configuration is read again.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Writes the configuration file anew; only for a server that was started with one.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.launch.config.as_ref().unwrap(), text).unwrap();
    }

    /// SIGSTOP: all its threads stand still.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts again after an end, on the same directory and address.
    pub(crate) fn restart(&mut self) {
        if let Err(refused) = self.try_restart() {
            panic!("the server did not start again: {refused:?}");
        }
    }

    /// Starts again, or tells how it refused.
    pub(crate) fn try_restart(&mut self) -> Result<(), Refused> {
        self.begin_again();
        self.until_ready()
    }

    /// Starts again and does not wait until it is ready.
    pub(crate) fn begin_again(&mut self) {
        self.launch.listen = self.address.to_string();
        self.process = Process::start(&self.launch);
    }

    /// The words of the command line beside address, directory and configuration.
    pub(crate) fn args(&self) -> Vec<String> {
        self.launch.args.clone()
    }

    /// Changes the words of the command line that later starts use.
    pub(crate) fn change_args(&mut self, args: Vec<String>) {
        self.launch.args = args;
    }

    /// The log files, oldest first.
    pub(crate) fn log_files(&self) -> Vec<PathBuf> {
        let dir = self.data.join("groups/0/log");
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
        files.sort();
        files
    }

    /// The names of the snapshots.
    pub(crate) fn snapshots(&self) -> Vec<String> {
        let Ok(dir) = std::fs::read_dir(self.data.join("groups/0/snapshots")) else { return Vec::new() };
        dir.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the process has ended, and tells how.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        self.process.end_within(PATIENCE).expect("the server ends when told to")
    }
}

/// What a process is started from, again and again.
#[derive(Clone, Debug, Default)]
struct Launch {
    listen: String,
    data: PathBuf,
    config: Option<PathBuf>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    through: Vec<String>,
}

impl Launch {
    fn command(&self) -> Command {
        let mut command = command(&self.listen, &self.data, self.config.as_deref());
        command.args(&self.args).envs(self.env.iter().cloned());
        let [through, words @ ..] = self.through.as_slice() else { return command };
        let mut outer = Command::new(through);
        outer.args(words).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        outer
    }
}

/// One process; it ends when this is dropped.
struct Process {
    child: Child,
    listen: String,
    started: Instant,
    /// The address, when it says that it is ready.
    ready: mpsc::Receiver<Option<SocketAddr>>,
    /// The address, once it has said that it is ready.
    address: Option<SocketAddr>,
    stderr: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Process {
    fn start(launch: &Launch) -> Process {
        let started = Instant::now();
        let mut child = launch.command().spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (stderr, reader) = collect(child.stderr.take().unwrap());
        let (send, ready) = mpsc::channel();
        thread::spawn(move || {
            let mut address = None;
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let listens = line.trim().strip_prefix("listen").and_then(|rest| rest.trim().strip_prefix("http://"));
                if let Some(rest) = listens {
                    address = rest.split_whitespace().next().and_then(|text| text.parse::<SocketAddr>().ok());
                }
                if line.starts_with("ready in ") {
                    // The rest is read and forgotten, so that the server never writes into a closed pipe.
                    let _ = send.send(address);
                }
            }
        });
        Process { child, listen: launch.listen.clone(), started, ready, address: None, stderr, reader: Some(reader) }
    }

    fn until_ready(&mut self) -> Result<SocketAddr, Refused> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        match self.ready.recv_timeout(PATIENCE) {
            Ok(address) => {
                self.address = address;
                Ok(address.expect("the address is printed before `ready`"))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("not ready within {PATIENCE:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = self.end_within(PATIENCE).expect("a server without stdout is ending");
                Err(Refused { status, stderr: self.stderr(), after: self.started.elapsed() })
            }
        }
    }

    fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    fn end_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let status = ended_within(&mut self.child, patience)?;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Some(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if thread::panicking() {
            println!("--- stderr of the server on {}:\n{}---", self.listen, self.stderr());
        }
    }
}

/// The command line of `lease serve`.
pub(crate) fn command(listen: &str, data: &Path, config: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
    command.arg("serve").args(["--listen", listen]).arg("--data").arg(data);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    // What a developer has set must not reach the server under test.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASE_") || name == "RUST_LOG") {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn collect(mut from: impl Read + Send + 'static) -> (Arc<Mutex<String>>, thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    let reader = thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    });
    (text, reader)
}

fn ended_within(process: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let asked = Instant::now();
    while asked.elapsed() < patience {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// A port that is free and that no outgoing connection will be given: a restarted server needs the same one.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 20_000 + (std::process::id() % 100) as u16 * 100;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed) % 2000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Held by tests that load the machine, so that they do not disturb each other.
pub(crate) fn heavy() -> MutexGuard<'static, ()> {
    static HEAVY: Mutex<()> = Mutex::new(());
    HEAVY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
