//! STUB for the cli branch: signatures only, the body arrives with the merge.

use std::path::PathBuf;
use std::process::ExitCode;

/// The flags of `lease serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Where to listen.
    pub listen: Option<String>,
    /// Where to keep the data.
    pub data: Option<PathBuf>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Whether to permit what is otherwise refused.
    pub insecure: bool,
}

/// Runs a server until it is told to stop.
pub fn run(_flags: Flags) -> ExitCode {
    eprintln!("error: this build has no server");
    ExitCode::from(69)
}
