//! One seed in this process: played, judged, told.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use leasehold_core::planted::Bug;
use leasehold_sim::{Plan, checkers, run};

/// Panics of any task or thread; each is a failure.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How many contradictions are told.
const TOLD: usize = 12;

pub(crate) fn play(plan: &Plan, plant: Option<&str>, aloud: bool, log: Option<&str>) -> ExitCode {
    if let Some(name) = plant
        && let Err(error) = plant_bug(name)
    {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    if let Some(filter) = log {
        let filter = tracing_subscriber::EnvFilter::new(filter);
        tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stderr).init();
    }
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}");
        if let Ok(mut panics) = PANICS.lock() {
            panics.push(info.to_string());
        }
    }));
    let started = Instant::now();
    let root = scratch();
    // Of another process with this number that was killed.
    let _ = std::fs::remove_dir_all(&root);
    let report = run(plan, &root, aloud);
    // What is left there is of no use: the seed makes it again.
    let _ = std::fs::remove_dir_all(&root);
    let judged = Instant::now();
    let mut found = report.failures.clone();
    found.extend(PANICS.lock().map(|panics| panics.clone()).unwrap_or_default());
    let unpromised = plan.unpromised();
    let contradictions = checkers::check_all(&report.history);
    found.extend(contradictions.iter().filter(|c| !unpromised.contains(&c.checker)).map(ToString::to_string));
    eprintln!(
        "seed {}: {}, {} nodes, {} entries, {} acks, {} holds, {} calls, {} changes, trace {:016x}, {:.1} + {:.1} s: {}",
        plan.seed,
        plan.kind.name(),
        plan.nodes,
        report.entries,
        report.history.acks.len(),
        report.history.holds.len(),
        report.history.calls.len() + report.history.key_calls.len(),
        report.history.change_count(),
        report.sum,
        (judged - started).as_secs_f64(),
        judged.elapsed().as_secs_f64(),
        if found.is_empty() { "kept".to_owned() } else { format!("{} contradictions", found.len()) }
    );
    for sentence in found.iter().take(TOLD) {
        eprintln!("  {sentence}");
    }
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn list_bugs() {
    for bug in Bug::ALL {
        eprintln!("{:32} breaks promises {:?}", bug.name(), bug.breaks());
    }
}

#[cfg(feature = "planted")]
fn plant_bug(name: &str) -> Result<(), String> {
    let bug = Bug::from_name(name).ok_or_else(|| format!("there is no mistake {name:?}; `bugs` lists them"))?;
    leasehold_core::planted::plant(bug);
    Ok(())
}

#[cfg(not(feature = "planted"))]
fn plant_bug(_: &str) -> Result<(), String> {
    Err("this build cannot plant mistakes; build it with the feature `planted`".to_owned())
}

/// A directory for the files of a run: in memory where there is such a place, because they are flushed often.
fn scratch() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    base.join(format!("leasehold-sim-{}", std::process::id()))
}
