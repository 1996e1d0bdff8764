//! The warden with plain processes: no lease, no supervisor but this test.
//!
//! What is below the warden is told apart by the files it writes: each process of a tree puts its id into one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../src/run/wire.rs"]
#[allow(dead_code, reason = "the warden uses the rest")]
mod wire;

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use wire::{Inbox, Message as _, Order, Report};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A tree of three: the command, a child that ignores TERM, and one that left for a session of its own.
const STUBBORN: &str = r#"
    setsid sh -c 'trap "" TERM; echo $$ > far; while :; do sleep 0.01; done' &
    sh -c 'trap "" TERM; echo $$ > near; while :; do sleep 0.01; done' &
    trap "" TERM; echo $$ > self; while :; do sleep 0.01; done"#;

struct Warden {
    process: Child,
    channel: UnixStream,
    inbox: Inbox,
    home: TempDir,
}

impl Warden {
    /// Starts `command` below a warden, with this kill grace and margin in milliseconds.
    fn start(command: &[&str], kill_grace: u64, margin: u64, stdin: &str) -> Warden {
        let home = TempDir::new().unwrap();
        let (channel, theirs) = UnixStream::pair().unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_lease"))
            .args(["__warden", "15", &(kill_grace * 1_000_000).to_string(), &(margin * 1_000_000).to_string()])
            .args(command)
            .current_dir(home.path())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(stdin.as_bytes()).unwrap();
        wire::pass(&channel, &here).unwrap();
        channel.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut warden = Warden { process, channel, inbox: Inbox::default(), home };
        assert!(matches!(warden.next(), Some(Report::Placed(_))));
        warden.tell(Order::Start);
        warden
    }

    fn sh(script: &str, kill_grace: u64, margin: u64) -> Warden {
        let mut warden = Warden::start(&["sh", "-c", script], kill_grace, margin, "");
        assert_eq!(warden.next(), Some(Report::Running));
        warden
    }

    fn tell(&mut self, order: Order) {
        self.channel.write_all(&order.frame()).unwrap();
    }

    fn next(&mut self) -> Option<Report> {
        let mut piece = [0; 64];
        loop {
            if let Some(report) = self.inbox.next() {
                return Some(report);
            }
            match self.channel.read(&mut piece).unwrap() {
                0 => return None,
                count => self.inbox.add(&piece[..count]),
            }
        }
    }

    /// The ids that the tree wrote into these files.
    fn pids(&self, names: &[&str]) -> Vec<Pid> {
        names.iter().map(|name| written(&self.home.path().join(name))).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.process.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn written(path: &Path) -> Pid {
    let asked = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let (true, Ok(pid)) = (text.ends_with('\n'), text.trim().parse()) {
            return Pid::from_raw(pid).unwrap();
        }
        assert!(asked.elapsed() < PATIENCE, "{} was not written", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process runs: it is there and not only waiting to be reaped.
fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

fn all_die(pids: &[Pid]) {
    let asked = Instant::now();
    while pids.iter().any(|pid| lives(*pid)) {
        assert!(asked.elapsed() < PATIENCE, "some of {pids:?} live on");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

fn status(report: Option<Report>) -> ExitStatus {
    match report {
        Some(Report::Ended(raw)) => ExitStatus::from_raw(u32::try_from(raw).unwrap().cast_signed()),
        other => panic!("{other:?} instead of an end"),
    }
}

#[test]
fn the_command_gets_its_standard_input_and_its_exit_code_is_told() {
    let mut warden = Warden::start(&["sh", "-c", "read a; test \"$a\" = hello && exit 7"], 1000, 100, "hello\n");
    assert_eq!(warden.next(), Some(Report::Running));
    assert_eq!(status(warden.next()).code(), Some(7));
    assert_eq!(warden.next(), Some(Report::Gone));
    assert!(warden.process.wait().unwrap().success());
}

#[test]
fn the_command_inherits_nothing_of_ours() {
    let mut warden = Warden::start(&["sh", "-c", "ls -l /proc/$$/fd > fds"], 1000, 100, "");
    while warden.next() != Some(Report::Gone) {}
    let fds = std::fs::read_to_string(warden.home.path().join("fds")).unwrap();
    let sockets = fds.lines().filter(|line| line.contains("socket:")).count();
    assert_eq!(sockets, 1, "only its standard input is a socket:\n{fds}");
}

#[test]
fn the_command_blocks_and_ignores_the_signals_that_its_caller_does() {
    /// SIGPIPE, which this test ignores as every Rust program does, and which no command should.
    const PIPE: u64 = 1 << 12;
    let mask = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
    };
    let mut warden = Warden::start(&["sh", "-c", "exec cat /proc/self/status > status"], 1000, 100, "");
    while warden.next() != Some(Report::Gone) {}
    let theirs = std::fs::read_to_string(warden.home.path().join("status")).unwrap();
    let ours = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert_eq!(mask(&theirs, "SigBlk"), mask(&ours, "SigBlk"));
    // The two above the named ones belong to the C library.
    const NAMED: u64 = (1 << 31) - 1;
    assert_eq!(mask(&theirs, "SigIgn") & NAMED, mask(&ours, "SigIgn") & NAMED & !PIPE);
}

#[test]
fn a_command_that_cannot_be_executed_is_told_with_its_error() {
    for (command, errno) in [("/nowhere/to/be/found", 2), ("no-such-command-anywhere", 2), ("/etc/passwd", 13)] {
        let mut warden = Warden::start(&[command], 1000, 100, "");
        assert_eq!(warden.next(), Some(Report::NotExecuted(errno)), "{command}");
    }
}

#[test]
fn nothing_is_executed_before_the_start_is_told() {
    let home = TempDir::new().unwrap();
    let (channel, theirs) = UnixStream::pair().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_lease"))
        .args(["__warden", "15", "1000000000", "100000000", "touch", "done"])
        .current_dir(home.path())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    wire::pass(&channel, std::io::stdin()).unwrap();
    drop(channel);
    process.wait().unwrap();
    assert!(!home.path().join("done").exists());
}

#[test]
fn near_the_deadline_the_command_is_asked_and_then_all_are_killed() {
    let mut warden = Warden::sh(STUBBORN, 300, 200);
    let pids = warden.pids(&["far", "near", "self"]);
    let deadline = now() + 1_000_000_000;
    warden.tell(Order::Deadline(deadline));
    assert_eq!(warden.next(), Some(Report::Lapsing));
    let asked = now();
    assert!((deadline - 500_000_000..deadline).contains(&asked), "asked {} ns before", deadline - asked);
    assert_eq!(status(warden.next()).signal(), Some(9));
    assert_eq!(warden.next(), Some(Report::Gone));
    assert!(now() < deadline, "the tree is gone before the deadline");
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[test]
fn a_later_deadline_keeps_the_command_running() {
    let mut warden = Warden::sh("sleep 0.6; exit 3", 100, 50);
    for _ in 0..20 {
        warden.tell(Order::Deadline(now() + 400_000_000));
        std::thread::sleep(Duration::from_millis(25));
    }
    warden.tell(Order::Deadline(wire::NEVER));
    assert_eq!(status(warden.next()).code(), Some(3));
}

#[test]
fn a_command_that_follows_the_wish_to_end_is_not_killed() {
    let mut warden = Warden::sh("trap 'exit 5' TERM; echo $$ > self; while :; do sleep 0.01; done", 10_000, 100);
    warden.pids(&["self"]);
    warden.tell(Order::Stop);
    assert_eq!(status(warden.next()).code(), Some(5));
    assert_eq!(warden.next(), Some(Report::Gone));
}

#[test]
fn a_stopped_command_hears_the_wish_to_end() {
    let mut warden = Warden::sh("echo $$ > self; kill -STOP $$; exit 4", 10_000, 100);
    assert_eq!(warden.next(), Some(Report::Suspended(19)));
    warden.tell(Order::Stop);
    assert_eq!(status(warden.next()).signal(), Some(15));
}

#[test]
fn the_end_of_the_supervisor_is_the_end_of_the_whole_tree() {
    let warden = Warden::sh(STUBBORN, 60_000, 100);
    let pids = warden.pids(&["far", "near", "self"]);
    warden.channel.shutdown(std::net::Shutdown::Both).unwrap();
    all_die(&pids);
}

#[test]
fn the_end_of_the_warden_is_the_end_of_the_command() {
    let mut warden = Warden::sh("echo $$ > self; while :; do sleep 0.01; done", 60_000, 100);
    let pids = warden.pids(&["self"]);
    warden.process.kill().unwrap();
    all_die(&pids);
}

#[test]
fn the_warden_ends_only_after_its_tree() {
    let mut warden = Warden::sh("echo $$ > self; while :; do sleep 0.01; done", 60_000, 100);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::USR1] {
        warden.signal(signal);
    }
    let pids = warden.pids(&["self"]);
    warden.tell(Order::Signal(10));
    assert_eq!(status(warden.next()).signal(), Some(10));
    assert_eq!(warden.next(), Some(Report::Gone));
    assert!(!lives(pids[0]));
}

#[test]
fn signals_reach_the_whole_group() {
    let mut warden = Warden::sh(
        "sh -c 'trap \"echo $$ > heard; exit\" USR1; echo $$ > near; while :; do sleep 0.01; done' &
         trap 'wait; exit 6' USR1; while :; do sleep 0.01; done",
        60_000,
        100,
    );
    warden.pids(&["near"]);
    warden.tell(Order::Signal(10));
    assert_eq!(status(warden.next()).code(), Some(6));
    warden.pids(&["heard"]);
}

#[test]
fn what_the_command_leaves_behind_is_ended_before_all_is_gone() {
    let mut warden = Warden::sh(
        "(setsid sh -c 'trap \"\" TERM; echo $$ > far; while :; do sleep 0.01; done' &)
         while [ ! -s far ]; do sleep 0.01; done; exit 0",
        200,
        50,
    );
    assert_eq!(status(warden.next()).code(), Some(0));
    // The loop's own `sleep` may be alive in that moment.
    assert!(matches!(warden.next(), Some(Report::LeftBehind(1 | 2))));
    assert_eq!(warden.next(), Some(Report::Gone));
    assert!(!lives(warden.pids(&["far"])[0]));
}

#[test]
fn a_tree_that_forks_without_pause_is_killed() {
    let mut warden = Warden::sh(
        "echo $$ > self; while :; do (sleep 0.02; sleep 0.02 &) & setsid sleep 0.03 & sleep 0.001; done",
        60_000,
        100,
    );
    warden.pids(&["self"]);
    std::thread::sleep(Duration::from_millis(200));
    warden.tell(Order::Kill);
    assert_eq!(status(warden.next()).signal(), Some(9));
    assert_eq!(warden.next(), Some(Report::Gone));
}
