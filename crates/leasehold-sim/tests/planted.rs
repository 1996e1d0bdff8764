//! The checkers can fail: every mistake that can be planted is found within a bounded number of seeds.
//!
//! They need the binary to be fast: `cargo xtask test` runs them in the profile `sim`.
#![cfg(feature = "planted")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use leasehold_core::planted::Bug;

/// Within so many seeds each mistake shows.
const SEEDS: u64 = 60;

/// Plays seeds with a mistake until one shows it; returns the seed and what it said first.
fn find(bug: Bug) -> Option<(String, String)> {
    let last = SEEDS.to_string();
    let words = ["seeds", "1", &last, "--first", "--plant", bug.name()];
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold-sim")).args(words).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let mut lines = told.lines().skip_while(|line| !line.starts_with("seed ") || line.ends_with(": kept"));
    let (line, sentence) = (lines.next()?, lines.next()?);
    assert!(!output.status.success());
    Some((line.split(':').next()?.to_owned(), sentence.trim().to_owned()))
}

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        match find(*bug) {
            Some((seed, sentence)) => eprintln!("{}: {seed}, {sentence}", bug.name()),
            None => missed.push(bug.name()),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
    assert!(Bug::ALL.len() >= 15);
}
