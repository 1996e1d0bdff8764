//! `lease run` and `lease elect`: a command that runs only while a lease is held.
//!
//! Three processes take part. The *supervisor* is the one that was typed: it holds the lease and decides. The *warden*
//! (`warden.rs`) is its child: it ends the tree in time whatever happens to the supervisor. The *command* is the
//! warden's child and becomes itself through an exec step that binds its life to the warden's. Supervisor and warden
//! talk through `wire.rs`; the reasons are in docs/decisions/0012-run-supervision.md.

mod bell;
pub(crate) mod campaign;
mod handle;
mod hook;
mod plan;
pub(crate) mod signals;
pub(crate) mod supervise;
mod terminal;
pub(crate) mod timing;
mod tree;
mod warden;
mod wire;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The first argument of a warden's process.
const WARDEN: &str = "__warden";
/// The first argument of the exec step.
const EXEC: &str = "__exec";

/// Runs as one of the processes below a supervisor, if the arguments are theirs.
pub(crate) fn inner(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let first = args.nth(1)?;
    match first.to_str()? {
        WARDEN => Some(warden::main(args)),
        EXEC => Some(warden::exec(args)),
        _ => None,
    }
}

/// This same program, even if its file has been replaced since it was started.
fn own_binary() -> Command {
    #[cfg(target_os = "linux")]
    let program = std::path::PathBuf::from("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe().unwrap_or_else(|_| "lease".into());
    let mut command = Command::new(program);
    command.arg0("lease");
    command
}
