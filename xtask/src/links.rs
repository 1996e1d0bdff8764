//! What the binary must not contain: stores over other systems are for those who ask for them.

use std::process::Command;

/// Packages that only a store's feature brings in.
const NOT_IN_THE_BINARY: [&str; 2] = ["redis", "tokio-postgres"];

/// Asks cargo what the binary is built from.
pub(crate) fn check() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--package", "leasehold-cli", "--locked", "--edges", "normal", "--prefix", "none"])
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    match names.into_iter().find(|name| NOT_IN_THE_BINARY.contains(name)) {
        Some(name) => Err(format!("leasehold-cli is built with {name}; a store's feature must stay off by default")),
        None => Ok(()),
    }
}
