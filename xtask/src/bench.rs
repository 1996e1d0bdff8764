//! Measuring: the service alone, or whole systems side by side.
//!
//! The comparison drives etcd's wire with the client that most programs in Rust use, and that one needs protoc to be
//! built. So it is a feature of a package of its own, built only where there is a protoc. That package links clients only,
//! so that it is built in a fraction of the time of the server.

use std::path::{Path, PathBuf};

use crate::{cargo, peers, step};

/// The package that measures the service alone.
const ALONE: &str = "leasehold-bench";
/// The package that puts systems side by side.
pub(crate) const COMPARED: &str = "leasehold-compare";
/// The word that puts systems side by side.
const COMPARE: &str = "--compare";

/// Runs it with these words.
pub(crate) fn run(words: &[String]) -> bool {
    match words {
        [compare, more @ ..] if compare == COMPARE => compare_systems(more),
        _ => {
            let mut arguments = vec!["run", "--release", "--locked", "--package", ALONE];
            arguments.extend(words.iter().map(String::as_str));
            cargo("bench", &arguments, &[])
        }
    }
}

/// Builds the binary that is measured and what measures it, finds the other servers, and compares.
fn compare_systems(words: &[String]) -> bool {
    let mut found = Vec::new();
    step("servers of other systems", || {
        found = peers::compared();
        Ok(())
    });
    let mut environment: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
    let Some(tools) = tools(&environment) else {
        eprintln!(
            "error: there is no protoc to build the client of etcd with; install protobuf-compiler or set PROTOC"
        );
        return false;
    };
    environment.extend(tools.iter().map(|(name, value)| (&**name, &**value)));
    let mut arguments = vec!["run", "--release", "--locked", "--package", COMPARED, "--features", "etcd", "--"];
    let (binary, out) = (target().join("release/lease"), target().join("bench"));
    let (binary, out) = (binary.display().to_string(), out.display().to_string());
    arguments.extend(["--out", &out]);
    arguments.extend(words.iter().map(String::as_str));
    environment.push(("LEASEHOLD_LEASE", &binary));
    cargo("the binary", &["build", "--release", "--locked", "--package", "leasehold-cli"], &[])
        && cargo("bench", &arguments, &environment)
}

/// What must be in the environment for the client of etcd to be built; none where it cannot be.
pub(crate) fn tools(environment: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
    let given = |name: &str| {
        let passed = environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        passed.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
    };
    if given("PROTOC").is_some() || on_path("protoc") {
        return Some(Vec::new());
    }
    // One that was fetched may need the libraries that came with it.
    let (protoc, libraries) = match given("LEASEHOLD_PROTOC") {
        Some(protoc) => (protoc, given("LEASEHOLD_PEER_LIBRARIES")),
        None => peers::protoc().map(|(protoc, libraries)| (protoc, Some(libraries)))?,
    };
    let mut tools = vec![("PROTOC".to_owned(), protoc)];
    tools.extend(libraries.map(|libraries| ("LD_LIBRARY_PATH".to_owned(), libraries)));
    Some(tools)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |given| root.join(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_protoc_comes_with_its_libraries() {
        let given = [("LEASEHOLD_PROTOC", "/p/protoc"), ("LEASEHOLD_PEER_LIBRARIES", "/p/lib")];
        let tools = tools(&given).expect("there is one");
        if !on_path("protoc") && std::env::var_os("PROTOC").is_none() {
            let told: Vec<(&str, &str)> = tools.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(told, [("PROTOC", "/p/protoc"), ("LD_LIBRARY_PATH", "/p/lib")]);
        }
    }
}
