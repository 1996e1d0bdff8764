//! The clients, how each is started, and what it answered: one JSON object per line and scene.
//!
//! `cargo xtask test` says where they are through the environment. A client that is not there is an error in CI; elsewhere
//! its tests say that they were skipped.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::collect;

/// Longer than any client needs for all its scenes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    /// What the declared differences call it.
    pub(super) id: &'static str,
    /// What people call it.
    pub(super) name: &'static str,
    /// The variable that tells where the program is that plays its scenes, or what the program needs.
    variable: &'static str,
    start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// A script that the Python of the variable runs.
    Python(&'static str),
    /// A script that any Python runs; it finds its program through the variable.
    AnyPython(&'static str),
    /// A script that node runs with the modules of the variable.
    Node(&'static str),
    /// The program of the variable itself.
    Itself,
}

/// All clients.
pub(super) const CLIENTS: [Client; 8] = [
    Client {
        id: "python-etcd3",
        name: "Python etcd3 0.12.0",
        variable: "LEASEHOLD_PYTHON_ETCD3",
        start: Start::Python("python_etcd3.py"),
    },
    Client {
        id: "python-wire",
        name: "Python etcd3 0.12.0, call by call",
        variable: "LEASEHOLD_PYTHON_ETCD3",
        start: Start::Python("python_wire.py"),
    },
    Client {
        id: "etcdctl",
        name: "etcdctl 3.4 (Go)",
        variable: "LEASEHOLD_ETCDCTL",
        start: Start::AnyPython("etcdctl.py"),
    },
    Client {
        id: "rust",
        name: "Rust etcd-client 0.21.1",
        variable: "LEASEHOLD_RUST_ETCD_CLIENT",
        start: Start::Itself,
    },
    Client {
        id: "gateway",
        name: "JSON gateway, plain HTTP",
        variable: "LEASEHOLD_PYTHON_OTHERS",
        start: Start::Python("gateway.py"),
    },
    Client {
        id: "python-etcd3gw",
        name: "Python etcd3gw 2.7.0",
        variable: "LEASEHOLD_PYTHON_OTHERS",
        start: Start::Python("python_etcd3gw.py"),
    },
    Client {
        id: "python-aetcd",
        name: "Python aetcd 1.0.0",
        variable: "LEASEHOLD_PYTHON_OTHERS",
        start: Start::Python("python_aetcd.py"),
    },
    Client {
        id: "npm-etcd3",
        name: "npm etcd3 1.1.2",
        variable: "LEASEHOLD_NODE_MODULES",
        start: Start::Node("npm_etcd3.js"),
    },
];

/// What a client answered, in the order of its scenes.
pub(super) type Answers = Vec<(String, Value)>;

/// Where the scripts are.
pub(super) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/etcd").canonicalize().unwrap()
}

/// What a variable names, or a word about what is missing.
pub(in crate::scenarios) fn found(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    if path.is_none() {
        let ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty());
        assert!(!ci, "in CI nothing is skipped, but {variable} is not set");
        println!("SKIPPED: {variable} is not set; `cargo xtask test` sets it, and `eval \"$(cargo xtask peers)\"`");
    }
    path
}

impl Client {
    /// Whether it is on this machine.
    pub(super) fn is_there(&self) -> bool {
        found(self.variable).is_some()
    }

    /// Plays all scenes with the server at an endpoint, to a good end.
    pub(super) fn play(&self, endpoint: &str) -> Answers {
        let mut playing = self.start(&[endpoint]);
        playing.end();
        playing.answers()
    }

    /// Plays all scenes as far as it can, and tells which ones broke: they are missing in the answers.
    pub(super) fn try_to_play(&self, endpoint: &str) -> Answers {
        let mut playing = self.start(&[endpoint]);
        if !playing.wait().success() {
            println!("--- {}:\n{}---", self.name, playing.stderr.lock().unwrap());
        }
        playing.answers()
    }

    /// Starts it with these words.
    pub(super) fn start(&self, words: &[&str]) -> Playing {
        let place = found(self.variable).expect("it was asked for before");
        let mut command = match self.start {
            Start::Python(script) => with_script(&place, script),
            Start::AnyPython(script) => with_script(Path::new("python3"), script),
            Start::Node(script) => {
                let mut command = with_script(Path::new("node"), script);
                command.env("NODE_PATH", place);
                command
            }
            Start::Itself => Command::new(place),
        };
        command.args(words).env("PYTHONDONTWRITEBYTECODE", "1");
        Playing::start(self.name, command)
    }
}

fn with_script(program: &Path, script: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(scripts().join(script));
    command
}

/// A client at play; it ends when this is dropped.
pub(super) struct Playing {
    name: &'static str,
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<thread::JoinHandle<()>>,
    stderr: Arc<Mutex<String>>,
}

impl Playing {
    fn start(name: &'static str, mut command: Command) -> Playing {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{name}: {command:?}: {error}"));
        let (stderr, _) = collect(process.stderr.take().unwrap());
        let stdout = process.stdout.take().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                into.lock().unwrap().push(line);
            }
        });
        Playing { name, stdin: process.stdin.take(), process, lines, reader: Some(reader), stderr }
    }

    /// Waits until it says that it has come so far.
    pub(super) fn until(&mut self, stage: &str) {
        let asked = Instant::now();
        let wanted = serde_json::json!({ "reached": stage });
        while !self
            .lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| serde_json::from_str::<Value>(line).ok().as_ref() == Some(&wanted))
        {
            assert!(
                self.process.try_wait().unwrap().is_none(),
                "{} ended early: {}",
                self.name,
                self.stderr.lock().unwrap()
            );
            assert!(
                asked.elapsed() < PATIENCE,
                "{} does not reach `{stage}`: {}",
                self.name,
                self.stderr.lock().unwrap()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tells it to go on.
    pub(super) fn go_on(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    }

    /// Waits for its end, which must be a good one.
    #[track_caller]
    pub(super) fn end(&mut self) {
        let status = self.wait();
        assert!(status.success(), "{} ended with {status}:\n{}", self.name, self.stderr.lock().unwrap());
    }

    fn wait(&mut self) -> ExitStatus {
        self.stdin = None;
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(asked.elapsed() < PATIENCE, "{} takes too long: {}", self.name, self.stderr.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        };
        self.reader.take().unwrap().join().unwrap();
        status
    }

    /// The answers it has written down.
    pub(super) fn answers(&self) -> Answers {
        let lines = self.lines.lock().unwrap();
        let answers = lines.iter().filter_map(|line| {
            let line: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", self.name));
            Some((line["scene"].as_str()?.to_owned(), line["answer"].clone()))
        });
        answers.collect()
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
