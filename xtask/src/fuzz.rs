//! Fuzzing guided by coverage: `cargo xtask fuzz TARGET [--minutes N]`.
//!
//! Builds the binary of `leasehold-fuzz` with the counters that libFuzzer reads, which stable Rust can do by itself, and
//! runs it on the committed corpus. What it finds worth keeping stays in `target/fuzz/corpus`, what fails in
//! `target/fuzz/failed`. See docs/decisions/0021-fuzzing.md.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Counters at every branch, and the values of comparisons, so that the engine can guess them.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
const USAGE: &str = "cargo xtask fuzz TARGET [--minutes N]; `cargo run -p leasehold-fuzz` lists the targets";

/// Builds and runs one target for a while.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (target, minutes) = asked(arguments)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in the project's root")?;
    let corpus = root.join("crates/leasehold-fuzz/corpus").join(target);
    require_compiler()?;
    let host = host()?;
    let out = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("fuzz");
    build(&out, &host)?;
    let (found, failed) = (out.join("corpus").join(target), out.join("failed").join(target));
    for folder in [&found, &failed, &corpus] {
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let status = Command::new(out.join(&host).join("debug/leasehold-fuzz"))
        .env("LEASEHOLD_FUZZ_TARGET", target)
        .env("LEASEHOLD_FUZZ_SEEDS", &found)
        .args([&found, &corpus])
        .args(["-max_len=16384", "-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-artifact_prefix={}/", failed.display()))
        .status()
        .map_err(|error| format!("the fuzzer could not be started: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "an input failed; it is in {}\n\
         see it again: cargo test -p leasehold-fuzz, once it is copied to {}",
        failed.display(),
        corpus.display()
    ))
}

fn asked(arguments: &[String]) -> Result<(&str, u64), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (target, minutes) = match words[..] {
        [target] => (target, "5"),
        [target, "--minutes", minutes] | ["--minutes", minutes, target] => (target, minutes),
        _ => return Err(USAGE.to_owned()),
    };
    let minutes = minutes.parse().map_err(|_| format!("`{minutes}` is not a number of minutes\n{USAGE}"))?;
    Ok((target, minutes))
}

/// libFuzzer is C++: it comes with its crate and is compiled here.
fn require_compiler() -> Result<(), String> {
    let named = std::env::var("CXX").ok();
    let known = named.iter().map(String::as_str).chain(["c++", "g++", "clang++"]);
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    match known.clone().find(there) {
        Some(_) => Ok(()),
        None => Err("there is no C++ compiler, which libFuzzer is built with; install g++ or clang, or run \
             `cargo run -p leasehold-fuzz -- TARGET MINUTES`, which needs none and is not guided by coverage"
            .to_owned()),
    }
}

fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not tell its host".to_owned())
}

/// With a target named, the flags are not used for build scripts and macros.
fn build(out: &Path, host: &str) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--locked", "--package", "leasehold-fuzz", "--bin", "leasehold-fuzz", "--target", host])
        .env("CARGO_TARGET_DIR", out)
        .env("RUSTFLAGS", COVERAGE)
        // Several times as many inputs a second; debug assertions stay.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the fuzzer was not built: cargo ended with {status}")),
        Err(error) => Err(format!("cargo could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_and_minutes_may_be() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            asked(&words).map(|(target, minutes)| (target.to_owned(), minutes))
        };
        assert_eq!(read(&["http"]), Ok(("http".to_owned(), 5)));
        assert_eq!(read(&["http", "--minutes", "7"]), Ok(("http".to_owned(), 7)));
        assert_eq!(read(&["--minutes", "7", "http"]), Ok(("http".to_owned(), 7)));
        assert!(read(&[]).is_err() && read(&["http", "--minutes", "x"]).is_err());
    }
}
