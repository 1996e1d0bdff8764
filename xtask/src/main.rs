//! One entry for tests, tidy checks and benchmarks: `cargo xtask test`.

mod bench;
mod fuzz;
mod licences;
mod links;
mod peers;
mod tidy;

use std::process::{Command, ExitCode};
use std::time::Instant;

const HELP: &str = "\
cargo xtask COMMAND

  test    everything that CI runs: tidy checks, licences, format, lints, documents, all tests;
          fetches servers and clients of other systems for them if they are missing
  lint    the same without the tests
  peers   find or fetch those, and print the variables that tell tests where they are
  sim     play seeds of the simulation: cargo xtask sim [run SEED [--aloud] | seeds FROM TO | bugs]
  soak    play random seeds of it for long: cargo xtask soak --minutes N
  fuzz    look for inputs that break a reader: cargo xtask fuzz TARGET [--minutes N]
  model   search the models of the rules with larger bounds than tests do, minutes and gigabytes:
          cargo xtask model [check ASPECT [--plant NAME] [--depth N] | list]
  bench   measure this machine: cargo xtask bench [-- NAME...]
          or put systems side by side on it, with fetched servers:
          cargo xtask bench --compare [--only WORKLOAD,..] [--case WORDS] [--systems NAME,..] [--runs N] [--all-runs] [--quick]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("test") => test(&arguments[1..]),
        Some("lint") => lint(),
        Some("peers") => step("servers of other systems", peers::print),
        Some("sim") => sim(&[], &arguments[1..]),
        Some("soak") => sim(&["soak"], &arguments[1..]),
        Some("fuzz") => step("fuzz", || fuzz::run(&arguments[1..])),
        Some("model") => model(&arguments[1..]),
        Some("bench") => bench::run(&arguments[1..]),
        Some("help" | "--help" | "-h") | None => {
            eprint!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(unknown) => {
            eprint!("error: there is no command `{unknown}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Format, lints, documents and what only this project checks.
fn lint() -> bool {
    step("tidy", tidy::check)
        && step("licences", licences::check)
        && step("links", links::check)
        && cargo("format", &["fmt", "--all", "--check"], &[])
        && everything("lints", &["clippy"], &["--all-targets", "--", "-D", "warnings"], &[])
        && everything("documents", &["doc", "--no-deps"], &[], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// A command of cargo for the whole workspace with all features, as far as they can be built here.
fn everything(name: &str, command: &[&str], more: &[&str], environment: &[(&str, &str)]) -> bool {
    let mut arguments = [command, &["--workspace", "--all-features", "--locked"]].concat();
    let tools = bench::tools(environment);
    if tools.is_none() {
        eprintln!("   SKIPPED: the comparison, because its client of etcd needs protoc to be built");
        arguments.extend(["--exclude", bench::COMPARED]);
    }
    let tools = tools.unwrap_or_default();
    let tools = tools.iter().map(|(name, value)| (&**name, &**value));
    let environment: Vec<(&str, &str)> = environment.iter().copied().chain(tools).collect();
    cargo(name, &[&arguments[..], more].concat(), &environment)
}

fn test(more: &[String]) -> bool {
    let mut environment = Vec::new();
    // First, because lints need a protoc as well.
    if !step("servers of other systems", || peers::environment().map(|found| environment = found)) || !lint() {
        return false;
    }
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut arguments = vec!["--exclude", "leasehold-sim", "--no-fail-fast"];
    arguments.extend(more.iter().map(String::as_str));
    // Both, even if one fails: what the other says is worth knowing.
    let tested = everything("tests", &["test"], &arguments, &environment);
    simulate(more) && tested
}

/// The simulation has a profile of its own: unoptimized it would play a tenth of the seeds. One test at a time, because
/// each keeps all cores busy.
fn simulate(more: &[String]) -> bool {
    let mut arguments = vec!["test", "--profile", "sim", "--package", "leasehold-sim", "--all-features", "--locked"];
    arguments.push("--no-fail-fast");
    arguments.extend(more.iter().map(String::as_str));
    if !more.iter().any(|word| word == "--") {
        arguments.push("--");
    }
    arguments.extend(["--test-threads=1", "--nocapture"]);
    cargo("simulation", &arguments, &[])
}

fn sim(first: &[&str], more: &[String]) -> bool {
    let mut arguments =
        vec!["run", "--profile", "sim", "--package", "leasehold-sim", "--all-features", "--locked", "--"];
    arguments.extend(first);
    arguments.extend(more.iter().map(String::as_str));
    cargo("simulation", &arguments, &[])
}

fn model(more: &[String]) -> bool {
    let mut arguments = vec!["run", "--release", "--locked", "--package", "leasehold-model", "--"];
    match more {
        [] => arguments.extend(["check", "--deep"]),
        [command, ..] => {
            arguments.extend(more.iter().map(String::as_str));
            arguments.extend((command == "check").then_some("--deep"));
        }
    }
    cargo("model", &arguments, &[])
}

fn cargo(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    step(name, || {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).args(arguments).envs(environment.iter().copied()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("cargo {} ended with {status}", arguments.join(" "))),
            Err(error) => Err(format!("cargo could not be started: {error}")),
        }
    })
}

fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> bool {
    let started = Instant::now();
    eprintln!("== {name}");
    match run() {
        Ok(()) => {
            eprintln!("== {name}: ok, {:.0} s", started.elapsed().as_secs_f32());
            true
        }
        Err(complaint) => {
            eprintln!("== {name}: FAILED\n{complaint}");
            false
        }
    }
}
