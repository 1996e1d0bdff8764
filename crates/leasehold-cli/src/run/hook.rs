//! Commands of the user's that are run when something happens: `--on-lost`, `--on-handover`.
//!
//! They are lines for the shell, run beside the command and not below the warden: a hook that tells of the loss must
//! not be killed for it.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};

use crate::output;

/// Variables to set, and those without a value to remove.
pub(crate) type Env = Vec<(OsString, Option<OsString>)>;

/// A hook that runs.
#[derive(Debug)]
pub(crate) struct Hook {
    name: &'static str,
    child: Option<Child>,
}

impl Hook {
    /// Starts a hook; one that cannot be started is told and counts as failed.
    pub(crate) fn start(name: &'static str, line: &str, env: &Env) -> Hook {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).stdin(Stdio::null()).kill_on_drop(true);
        for (key, value) in env {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let child = command.spawn().map_err(|error| output::message(format!("lease: cannot run {name}: {error}")));
        Hook { name, child: child.ok() }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.child.as_ref().and_then(Child::id).and_then(|pid| i32::try_from(pid).ok())
    }

    /// Its end; none if it never began.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await.ok(),
            None => None,
        }
    }

    /// What it was started for.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}
