//! Every dependency must be under a permissive licence.

use std::process::Command;

/// Licences that permit use in products of any kind.
const PERMISSIVE: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Asks cargo for all packages and names those without a permissive licence.
pub(crate) fn check() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--all-features", "--locked", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}|{l}"])
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let packages: std::collections::BTreeSet<&str> = listed.lines().filter(|line| line.contains('|')).collect();
    let refused: Vec<String> = packages
        .iter()
        .filter_map(|line| line.split_once('|'))
        .filter(|(_, licence)| !is_permissive(licence.trim_end_matches(" (*)")))
        .map(|(package, licence)| format!("{package} is under `{licence}`, which is not known to be permissive"))
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(refused.join("\n")) }
}

/// Every part that applies must offer a permissive choice.
fn is_permissive(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain.split(" AND ").all(|part| {
        part.split(" OR ").any(|licence| {
            let name = licence.split(" WITH ").next().unwrap_or_default().trim();
            PERMISSIVE.contains(&name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_needs_one_permissive_licence_and_a_sum_needs_all() {
        assert!(is_permissive("MIT OR Apache-2.0"));
        assert!(is_permissive("MIT/Apache-2.0"));
        assert!(is_permissive("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(is_permissive("Apache-2.0 WITH LLVM-exception OR GPL-3.0"));
        assert!(!is_permissive("GPL-3.0"));
        assert!(!is_permissive("MIT AND GPL-2.0"));
        assert!(!is_permissive(""));
    }
}
