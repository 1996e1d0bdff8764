//! Runs the scenario scripts in `tests/scripts/`, one scenario per file.
//!
//! A script is a list of blocks separated by blank lines: input up to `---`, then the output it led to. Lines that
//! begin with `#` are comments. `UPDATE_SCRIPTS=1 cargo test -p leasehold-core` records the output; without it
//! every difference fails. Each script runs twice, the second time with a snapshot and a restore after every
//! entry, which must not be visible.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod script;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use script::Session;

#[test]
fn every_script_leads_to_what_was_recorded() {
    let update = std::env::var_os("UPDATE_SCRIPTS").is_some();
    let mut failures = String::new();
    for path in script_files() {
        let recorded = fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(recorded.starts_with("# "), "{name} must begin with a sentence that states the behaviour");
        let ran = run(&name, &recorded, false);
        let restarted = run(&name, &recorded, true);
        if ran != restarted {
            writeln!(failures, "== {name}: a restart is visible\n{}", diff(&ran, &restarted)).unwrap();
        }
        if ran == recorded {
            continue;
        }
        if update {
            fs::write(&path, &ran).unwrap();
        } else {
            writeln!(failures, "== {name}\n{}", diff(&recorded, &ran)).unwrap();
        }
    }
    assert!(failures.is_empty(), "scripts differ (- recorded, + now):\n{failures}");
}

fn script_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a script and gives it back with the output it leads to now.
fn run(name: &str, text: &str, restart: bool) -> String {
    let mut session = Session::new(restart);
    let blocks: Vec<String> = blocks(text).into_iter().map(|input| run_block(name, &mut session, &input)).collect();
    blocks.join("\n")
}

fn run_block(name: &str, session: &mut Session, input: &[&str]) -> String {
    let mut text: String = input.iter().map(|line| format!("{line}\n")).collect();
    if input.iter().all(|line| line.starts_with('#')) {
        return text;
    }
    text.push_str("---\n");
    for line in input.iter().filter(|line| !line.starts_with('#')) {
        session.run(line).unwrap_or_else(|complaint| panic!("{name}: `{line}`: {complaint}"));
    }
    text.push_str(&session.take_output());
    text
}

/// The inputs of all blocks; recorded output is left out.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    for block in text.split("\n\n") {
        let input: Vec<&str> = block.lines().take_while(|line| *line != "---").collect();
        if !input.is_empty() {
            blocks.push(input);
        }
    }
    blocks
}

/// What differs, line by line, with what stands around it left out.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut text = format!("  (after line {head})\n");
    for line in &old[head..old.len() - tail] {
        writeln!(text, "- {line}").unwrap();
    }
    for line in &new[head..new.len() - tail] {
        writeln!(text, "+ {line}").unwrap();
    }
    text
}
