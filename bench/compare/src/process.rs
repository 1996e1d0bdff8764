//! Processes of the systems that are measured: started with their output in a file, ended by their own ids, and asked
//! what they have used, with the processes they started themselves.

use std::fs::{self, File};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Where the shared libraries are that came with servers of other systems.
const LIBRARIES: &str = "LEASEHOLD_PEER_LIBRARIES";

/// Where `/proc/PID/stat` has the time of a process behind its name, and that of its children which are gone.
const OF_ITSELF: Range<usize> = 11..13;
const OF_THOSE_GONE: Range<usize> = 13..15;
const WITH_THOSE_GONE: Range<usize> = 11..15;

/// A server's process. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// What starts it, and starts it again.
    command: Mutex<Command>,
    process: Mutex<Child>,
    /// What it had used when it crashed.
    before: Mutex<Usage>,
    log: PathBuf,
    /// What ends it without cleaning up.
    end: Signal,
}

impl Server {
    /// Starts a program whose output goes to `log` in a directory.
    pub(crate) fn start(mut command: Command, directory: &Path) -> Result<Server, String> {
        let path = directory.join("log");
        let log = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let both = log.try_clone().map_err(|error| format!("{}: {error}", path.display()))?;
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::null()).stdout(both).stderr(log).spawn();
        let process = started.map_err(|error| format!("{name}: {error}"))?;
        Ok(Server {
            command: Mutex::new(command),
            process: Mutex::new(process),
            before: Mutex::default(),
            log: path,
            end: Signal::KILL,
        })
    }

    /// Ends it at once, as a crash would, and waits until it is gone.
    pub(crate) fn crash(&self) {
        *self.before.lock().expect("nobody panics with it") = self.usage();
        let mut process = self.process();
        // It keeps nothing that anybody needs.
        let _ = kill_process(Pid::from_child(&process), self.end);
        let _ = process.wait();
    }

    /// Starts it again with what it has on its disk, after a crash.
    pub(crate) fn start_again(&self) -> Result<(), String> {
        let mut command = self.command.lock().expect("nobody panics with it");
        *self.process() = command.spawn().map_err(|error| error.to_string())?;
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().expect("nobody panics with it")
    }

    /// Lets another signal end it: one that also ends what it has started.
    pub(crate) fn end_with(&mut self, signal: Signal) {
        self.end = signal;
    }

    /// What it has used so far, with all the processes it started.
    pub(crate) fn usage(&self) -> Usage {
        let own = self.process().id().to_string();
        let children = children(&own);
        let now = children.iter().map(|child| Usage::of_child(child)).fold(Usage::of_server(&own), Usage::and);
        let before = *self.before.lock().expect("nobody panics with it");
        Usage { cpu: before.cpu + now.cpu, peak_rss: before.peak_rss.max(now.peak_rss) }
    }

    /// The memory that it has now for itself, with all the processes it started, in bytes: nothing that lies in files and
    /// could be read again, and what its processes share only once.
    pub(crate) fn memory(&self) -> u64 {
        let own = self.process().id().to_string();
        let family: Vec<String> =
            children(&own).into_iter().chain([own]).map(|process| read(&process, "status")).collect();
        let shared = family.iter().map(|status| bytes(status, "RssShmem:")).max().unwrap_or_default();
        family.iter().map(|status| bytes(status, "RssAnon:")).sum::<u64>() + shared
    }

    /// The last thing it said.
    pub(crate) fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().last().unwrap_or("nothing").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time of all threads, in the program and in the system.
    pub(crate) cpu: Duration,
    /// The most memory it had resident, in bytes.
    pub(crate) peak_rss: u64,
}

impl Usage {
    /// What this program has used.
    pub(crate) fn own() -> Usage {
        Usage::of("self")
    }

    /// What several processes have used together.
    pub(crate) fn all(servers: &[Server]) -> Usage {
        servers.iter().map(Server::usage).fold(Usage::default(), Usage::and)
    }

    fn and(self, other: Usage) -> Usage {
        Usage { cpu: self.cpu + other.cpu, peak_rss: self.peak_rss + other.peak_rss }
    }

    fn of(process: &str) -> Usage {
        Usage { cpu: cpu(&read(process, "stat"), OF_ITSELF), peak_rss: bytes(&read(process, "status"), "VmHWM:") }
    }

    /// What the first process of a server has used, with those that it started and that are gone.
    fn of_server(process: &str) -> Usage {
        Usage { cpu: cpu(&read(process, "stat"), WITH_THOSE_GONE), ..Usage::of(process) }
    }

    /// What a process has used that a server started. There may be many that do little, too little for the ticks of their
    /// time, so this reads what the scheduler counts. They share their memory with the one that started them: only what they
    /// have for themselves counts.
    fn of_child(process: &str) -> Usage {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let all = threads.map(|thread| fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default());
        let cpu =
            all.map(|counted| on_processor(&counted)).sum::<Duration>() + cpu(&read(process, "stat"), OF_THOSE_GONE);
        Usage { cpu, peak_rss: bytes(&read(process, "status"), "RssAnon:") }
    }
}

/// The time that a thread has run, the first figure of its `schedstat`.
fn on_processor(schedstat: &str) -> Duration {
    let nanoseconds = schedstat.split_whitespace().next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// All processes that one has started, and those that they have.
fn children(of: &str) -> Vec<String> {
    let parents = parents();
    let mut family: Vec<String> = vec![of.to_owned()];
    let mut at = 0;
    while let Some(parent) = family.get(at).cloned() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child.clone()));
        at += 1;
    }
    family.split_off(1)
}

/// All processes of this machine, each with the one that started it. What the system lists as the children of a process may
/// lack some while others end.
fn parents() -> Vec<(String, String)> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let all = all.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.parse::<u32>().is_ok());
    all.filter_map(|process| {
        let stat = read(&process, "stat");
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.to_owned();
        Some((process, parent))
    })
    .collect()
}

fn read(process: &str, file: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}

/// Processor time of everybody on this machine, and what its host took from it.
pub(crate) fn machine_cpu() -> Duration {
    busy(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The time in `/proc/stat` in which no processor was idle or waited for a disk.
fn busy(stat: &str) -> Duration {
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = fields.map(|text| text.parse().unwrap_or(0)).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    let busy: u64 = ticks.iter().take(8).enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, t)| t).sum();
    Duration::from_millis(busy * 1000 / rustix::param::clock_ticks_per_second())
}

/// The processor time in `/proc/PID/stat`, where the program's name may contain anything.
fn cpu(stat: &str, of: Range<usize>) -> Duration {
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(of.start).take(of.len()).filter_map(|text| text.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// A figure in `/proc/PID/status`.
fn bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// The program to start: the one that `variable` names, or the first on the path.
pub(crate) fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|file| file.is_file()).ok_or_else(|| {
        format!("there is no `{name}` here; `cargo xtask bench --compare` fetches it, or {variable} says where it is")
    })
}

/// A command with the libraries that came with servers of other systems.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(libraries) = std::env::var_os(LIBRARIES).filter(|libraries| !libraries.is_empty()) {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command
}

/// The first line of what a program says about its version.
pub(crate) fn version(program: &Path) -> String {
    let said = command(program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().next().unwrap_or("unknown").to_owned()
}

/// An address of the loopback that nobody listens at.
pub(crate) fn free_address() -> Result<String, String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    free.map(|address| address.to_string()).map_err(|error| format!("no port is free: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name_of_a_program() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 1 0 0 0 150 50 7 3 20 0 4 0 100";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(cpu(stat, OF_ITSELF), Duration::from_millis(200 * 1000 / ticks));
        assert_eq!(cpu(stat, WITH_THOSE_GONE), Duration::from_millis(210 * 1000 / ticks));
        assert_eq!(cpu("", OF_ITSELF), Duration::ZERO);
    }

    #[test]
    fn the_scheduler_counts_finer_than_ticks() {
        assert_eq!(on_processor("1234567 89 10"), Duration::from_nanos(1_234_567));
        assert_eq!(on_processor(""), Duration::ZERO);
    }

    #[test]
    fn a_machine_that_waits_is_not_busy() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = "cpu  10 1 20 5000 700 2 3 4 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy(stat), Duration::from_millis(40 * 1000 / ticks));
    }

    #[test]
    fn the_peak_of_memory_is_in_bytes() {
        assert_eq!(bytes("Name:\tlease\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n", "VmHWM:"), 2 << 20);
        assert!(Usage::own().peak_rss > 0);
    }

    #[test]
    fn a_server_that_crashed_starts_again_with_the_same_words() {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo started; exec sleep 600"]);
        let server = Server::start(shell, directory.path()).unwrap();
        let first = server.process().id();
        server.crash();
        assert_eq!(server.memory(), 0);
        server.start_again().unwrap();
        assert_ne!(server.process().id(), first);
        let begun = std::time::Instant::now();
        while server.memory() == 0 || server.last_words() != "started" {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", server.last_words());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn what_a_server_has_started_counts_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        // The busy one is a child, and ends by itself; its parent only waits.
        let busy = "(i=0; while [ $i -lt 5000000 ]; do i=$((i+1)); done) & echo $! > child; wait";
        shell.args(["-c", busy]).current_dir(directory.path());
        let server = Server::start(shell, directory.path()).unwrap();
        let begun = std::time::Instant::now();
        while server.usage().cpu < Duration::from_millis(50) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", server.usage());
            std::thread::sleep(Duration::from_millis(20));
        }
        let child: i32 = fs::read_to_string(directory.path().join("child")).unwrap().trim().parse().unwrap();
        drop(server);
        let _ = kill_process(Pid::from_raw(child).unwrap(), Signal::KILL);
    }
}
