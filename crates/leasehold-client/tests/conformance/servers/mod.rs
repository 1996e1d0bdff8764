//! Real servers: found, started on a free loopback port in a directory of their own, ended through their own process.
//!
//! `cargo xtask test` says where the programs are through the environment; without it they are looked for in the usual
//! places. Shared libraries that came with them are for these processes only.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::fs::File;
use std::net::TcpListener;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
use crate::harness::Missing;

/// Where the shared libraries are that came with the programs.
const LIBRARIES: &str = "LEASEHOLD_PEER_LIBRARIES";

/// A running server. It is ended when this is dropped.
pub(crate) struct Server {
    process: Child,
    command: Command,
    end: Signal,
    _home: TempDir,
}

impl Server {
    /// Starts a program whose output goes to `log` in its directory, and that `end` ends without cleaning up.
    pub(crate) fn start(mut command: Command, home: TempDir, end: Signal) -> Server {
        let log = File::create(home.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap();
        Server { process, command, end, _home: home }
    }

    /// Ends it without a warning and starts it again.
    pub(crate) fn crash(&mut self) {
        self.stop();
        self.process = self.command.spawn().unwrap();
    }

    fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), self.end);
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
/// The program to start: the one that `variable` names, or the first in the usual places.
pub(crate) fn program(variable: &str, name: &str, package: &str, places: &[PathBuf]) -> Result<PathBuf, Missing> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain(places.iter().cloned()).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        Missing(format!("there is no `{name}`; run `cargo xtask test`, install {package}, or set {variable}"))
    })
}

/// A command with the libraries that came with the programs.
pub(crate) fn command(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    if let Some(libraries) = std::env::var_os(LIBRARIES).filter(|libraries| !libraries.is_empty()) {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command
}

/// The first line of what a program says about its version.
pub(crate) fn version(program: &std::path::Path) -> String {
    let output = command(program).arg("--version").output().unwrap();
    assert!(output.status.success(), "{} does not run: {output:?}", program.display());
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

/// Different ports that were free a moment ago. They lie below those that the system gives to clients, and no two calls
/// get the same one, so that nobody takes them before a server does.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    [(); N].map(|()| {
        loop {
            let next = std::process::id().wrapping_mul(97).wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed));
            let port = 12_000 + u16::try_from(next % 8_000).unwrap();
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    })
}
