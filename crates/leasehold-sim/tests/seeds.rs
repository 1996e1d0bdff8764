//! Seeds that are played: the same twice, a fixed number of them, those that found something once, and random ones.
//!
//! They need the binary to be fast: `cargo xtask test` runs them in the profile `sim`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn sim(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold-sim")).args(words).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn kept(words: &[&str]) {
    let (kept, told) = sim(words);
    let last = told.lines().last().unwrap_or_default();
    assert!(kept, "{}", told.lines().filter(|line| !line.ends_with(": kept")).collect::<Vec<_>>().join("\n"));
    eprintln!("{}: {last}", words.join(" "));
}

/// The number that stands for a whole trace.
fn sum(told: &str) -> String {
    let (_, after) = told.split_once("trace ").unwrap();
    after.split(',').next().unwrap().to_owned()
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    let played = |seed: &str| sum(&sim(&["run", seed]).1);
    // A calm one, stormy ones with one, three and five nodes, one beyond the bounds, and one that is restored.
    for seed in ["2", "8", "12", "13", "5", "11"] {
        assert_eq!(played(seed), played(seed), "seed {seed}");
    }
    assert_ne!(played("12"), played("13"));
}

#[test]
fn the_same_seed_gives_the_same_words() {
    let aloud = |seed: &str| {
        let told = sim(&["run", seed, "--aloud"]).1;
        // The last lines tell how long it took.
        told.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (aloud("4"), aloud("4"));
    assert!(first.len() > 200, "{} lines", first.len());
    assert_eq!(first, second);
}

#[test]
fn a_hundred_seeds_keep_every_promise() {
    kept(&["seeds", "1", "100"]);
}

/// Each of these once showed a mistake in the product; docs/guide/failure-model.md tells which.
#[test]
fn seeds_that_found_a_mistake_keep_every_promise() {
    for seed in ["1", "15", "27"] {
        kept(&["run", seed]);
    }
}

/// Five minutes where everything is tested, a few seconds elsewhere; the first line tells where the seeds begin.
#[test]
fn random_seeds_keep_every_promise() {
    let minutes = if std::env::var_os("CI").is_some() { "5" } else { "0.3" };
    let (kept, told) = sim(&["soak", "--minutes", minutes]);
    eprintln!("{}", told.lines().next().unwrap_or_default());
    assert!(kept, "{}", told.lines().filter(|line| !line.ends_with(": kept")).collect::<Vec<_>>().join("\n"));
    eprintln!("{}", told.lines().last().unwrap_or_default());
}
