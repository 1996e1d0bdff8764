//! The checkers can fail: every mistake that can be planted is found within a bounded number of seeds.
//!
//! They need the binary to be fast: `cargo xtask test` runs them in the profile `sim`.
#![cfg(feature = "planted")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use leasehold_core::planted::Bug;

/// Within so many seeds each mistake shows.
const SEEDS: u64 = 40;

/// Those that need a rare mixture of faults are looked for from here on.
const LATER: [(Bug, u64); 3] = [(Bug::DeadWaiterGranted, 100), (Bug::FsyncSkipped, 40), (Bug::ParcelSentTwice, 80)];

/// What no client can see while clocks and disks are as promised. The models find these, and tests where they are planted
/// show what they do.
const UNSEEN: [(Bug, &str); 3] = [
    (Bug::ForeignEntryCounts, "an entry that comes back is at most as far ahead as its leader was, some milliseconds"),
    (Bug::ClockRunsAhead, "it ends leases in a stall, but not before their promised time"),
    (Bug::VoteNotDurable, "a node that has just started refuses its vote for longer than the vote it forgot counts"),
];

/// Plays seeds with a mistake until one shows it; returns the seed and what it said first.
fn find(bug: Bug) -> Option<(String, String)> {
    let first = LATER.iter().find(|(later, _)| *later == bug).map_or(1, |(_, seed)| *seed);
    let (first, last) = (first.to_string(), (first + SEEDS - 1).to_string());
    let words = ["seeds", &first, &last, "--first", "--plant", bug.name()];
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
    let seen = Bug::ALL.iter().filter(|bug| UNSEEN.iter().all(|(unseen, _)| unseen != *bug));
    for bug in seen.clone() {
        match find(*bug) {
            Some((seed, sentence)) => eprintln!("{}: {seed}, {sentence}", bug.name()),
            None => missed.push(bug.name()),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
    eprintln!("{} mistakes found", seen.count());
}
