//! The files in `deploy/` say what the binary understands: every flag they give exists, every key of theirs is known.

#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

fn lease(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lease")).args(arguments).env_remove("LEASE_ADDR").output().unwrap()
}

/// The flags that a text gives, without their values.
fn flags(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "\"[],=".contains(c));
    let is_flag =
        |word: &&str| word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_alphabetic()));
    words.filter(is_flag).map(str::to_owned).collect()
}

#[test]
fn every_flag_exists() {
    let help = String::from_utf8(lease(&["serve", "--help"]).stdout).unwrap();
    let known = flags(&help);
    let manifest = text("kubernetes/leasehold.yaml");
    let command = text("docker/Dockerfile").lines().find(|line| line.starts_with("CMD")).unwrap().to_owned();
    let unit = text("systemd/leasehold.service").lines().find(|line| line.starts_with("ExecStart")).unwrap().to_owned();
    for (given, least) in [(manifest, 8), (command, 3), (unit, 1)] {
        let given = flags(&given);
        assert!(given.len() >= least, "{given:?}");
        for flag in given {
            assert!(known.contains(&flag), "`lease serve` has no {flag}");
        }
    }
}

#[test]
fn the_configuration_of_the_unit_is_one() {
    let path = file("systemd/lease.toml");
    let checked = lease(&["config", "check", path.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_probes_ask_what_is_there() {
    let manifest = text("kubernetes/leasehold.yaml");
    let paths: Vec<&str> = manifest.split("path: ").skip(1).filter_map(|rest| rest.split(',').next()).collect();
    assert_eq!(paths, ["/healthz", "/healthz", "/readyz"]);
}
