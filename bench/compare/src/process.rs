//! Processes of the systems that are measured: started with their output in a file, ended by their own ids, and asked
//! what they have used.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where the shared libraries are that came with servers of other systems.
const LIBRARIES: &str = "LEASEHOLD_PEER_LIBRARIES";

/// A server's process. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program whose output goes to `log` in a directory.
    pub(crate) fn start(mut command: Command, directory: &Path) -> Result<Server, String> {
        let path = directory.join("log");
        let log = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let both = log.try_clone().map_err(|error| format!("{}: {error}", path.display()))?;
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::null()).stdout(both).stderr(log).spawn();
        Ok(Server { process: started.map_err(|error| format!("{name}: {error}"))?, log: path })
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Usage {
        Usage::of(&self.process.id().to_string())
    }

    /// The last thing it said.
    pub(crate) fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().last().unwrap_or("nothing").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It keeps nothing that anybody needs.
        let _ = self.process.kill();
        let _ = self.process.wait();
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
        servers
            .iter()
            .map(Server::usage)
            .fold(Usage::default(), |sum, one| Usage { cpu: sum.cpu + one.cpu, peak_rss: sum.peak_rss + one.peak_rss })
    }

    fn of(process: &str) -> Usage {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        Usage { cpu: cpu(&read("stat")), peak_rss: peak_rss(&read("status")) }
    }
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
fn cpu(stat: &str) -> Duration {
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / rustix::param::clock_ticks_per_second())
}

/// The peak in `/proc/PID/status`.
fn peak_rss(status: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// The program to start: the one that `variable` names, or the first on the path.
pub(crate) fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|file| file.is_file()).ok_or_else(|| format!("there is no `{name}`; set {variable}"))
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
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 4 0 100";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(cpu(stat), Duration::from_millis(200 * 1000 / ticks));
        assert_eq!(cpu(""), Duration::ZERO);
    }

    #[test]
    fn a_machine_that_waits_is_not_busy() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = "cpu  10 1 20 5000 700 2 3 4 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy(stat), Duration::from_millis(40 * 1000 / ticks));
    }

    #[test]
    fn the_peak_of_memory_is_in_bytes() {
        assert_eq!(peak_rss("Name:\tlease\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n"), 2 << 20);
        assert!(Usage::own().peak_rss > 0);
    }
}
