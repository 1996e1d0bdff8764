//! What tests and the comparison need of other systems: their servers, and the clients that people use with them. Found, or
//! fetched.
//!
//! Servers and `etcdctl` come from Debian's packages (`debian.rs`), clients written in Python and JavaScript from their
//! registries at the versions written down in `tests/` (`languages.rs`). What runs on Java is for the comparison only
//! (`java.rs`). Everything fetched lies in a folder that git ignores. In CI a missing one of those for tests is an error;
//! elsewhere its tests say that they were skipped.

mod debian;
mod java;
mod languages;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the cache is if its usual place is closed to the user that a server must run as.
const OPEN_CACHE: &str = "/var/tmp/leasehold-peers";

/// What was found: the name, the variable that tells tests where it is, the place, and its version.
struct Found {
    name: &'static str,
    variable: &'static str,
    path: PathBuf,
    version: String,
}

/// Finds or fetches all that tests need, and tells them where it is through these variables.
pub(crate) fn environment() -> Result<Vec<(String, String)>, String> {
    let cache = cache();
    let (environment, missing) = told(&cache, debian::all(&cache).into_iter().chain(languages::all(&cache)));
    if std::env::var("CI").is_ok_and(|ci| !ci.is_empty()) && !missing.is_empty() {
        return Err(format!("in CI nothing is skipped, but these are missing\n{}", missing.join("\n")));
    }
    for why in missing {
        eprintln!("   SKIPPED: the tests with {why}");
    }
    Ok(environment)
}

/// Finds or fetches all that is compared, and tells where it is. What is missing is left out.
pub(crate) fn compared() -> Vec<(String, String)> {
    let cache = cache();
    let (environment, missing) = told(&cache, debian::all(&cache).into_iter().chain(java::all(&cache)));
    for why in missing {
        eprintln!("   LEFT OUT: {why}");
    }
    environment
}

/// The variables that tell of what was found, and why the rest was not.
fn told(cache: &Path, all: impl Iterator<Item = Result<Found, String>>) -> (Vec<(String, String)>, Vec<String>) {
    let (mut environment, mut missing) = (Vec::new(), Vec::new());
    for found in all {
        match found {
            Ok(found) => {
                eprintln!("   {}: {} ({})", found.name, found.path.display(), found.version);
                environment.push((found.variable.to_owned(), found.path.display().to_string()));
            }
            Err(why) => missing.push(why),
        }
    }
    environment.push(debian::libraries_variable(cache));
    (environment, missing)
}

/// The compiler of protocol files and the shared libraries it may need, if it was found or fetched before.
pub(crate) fn protoc() -> Option<(String, String)> {
    let cache = cache();
    let (_, libraries) = debian::libraries_variable(&cache);
    debian::protoc(&cache).map(|path| (path.display().to_string(), libraries))
}

/// Prints the variables for a shell: `eval "$(cargo xtask peers)"`, then `cargo test` as usual.
#[allow(clippy::print_stdout, reason = "it is what was asked for")]
pub(crate) fn print() -> Result<(), String> {
    for (name, value) in environment()? {
        println!("export {name}='{value}'");
    }
    Ok(())
}

/// The project's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder for what is downloaded: open to others, because some servers refuse to run as root.
fn cache() -> PathBuf {
    let is_open = |folder: &Path| fs::metadata(folder).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0);
    if root().ancestors().all(is_open) { root().join(".cache/peers") } else { PathBuf::from(OPEN_CACHE) }
}

fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_owned();
    Err(format!("{name} ended with {}: {complaint}", output.status))
}
