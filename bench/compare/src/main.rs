//! Systems side by side: the same work, the same client machine, one after the other within each run.
//!
//! Every measurement starts its servers anew in an empty directory as processes of their own and ends them by their ids.
//! Systems take turns within a run, in an order that turns with it, so that a machine that grows slower does so for all; the
//! medians of all runs are what is told. A further system is a file in `systems/`, a further workload one in `workloads/`.
//! `cargo xtask bench --compare` builds the binary that is measured, finds the other servers, and runs this program, which
//! links clients only.

#![allow(clippy::print_stdout, reason = "figures go to stdout")]

mod client;
mod ends;
mod lending;
mod load;
mod options;
mod process;
mod report;
mod sample;
mod system;
mod systems;
mod workload;
mod workloads;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::options::Options;
use crate::report::{Report, Row};
use crate::sample::Sample;
use crate::system::{Running, System};
use crate::workload::{Stage, Workload};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a server may take until it serves.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often something is measured again because others were busy, and how long it waits before.
const AGAIN_MAX: usize = 60;
const AGAIN_AFTER: Duration = Duration::from_secs(3);
/// How long one question may take: what asks too early may never be answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// How often it is asked whether it does.
const ASKED_EVERY: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    match Options::read(&words).and_then(|options| compare(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    let mut systems = systems::all();
    options.check_systems(&systems.iter().map(|system| system.name()).collect::<Vec<_>>())?;
    systems.retain(|system| options.wants_system(system.name()));
    systems.retain(|system| match system.find() {
        Ok(()) => true,
        Err(why) => {
            eprintln!("{} is left out: {why}", system.name());
            false
        }
    });
    let mut workloads = workloads::all();
    workloads.retain(|workload| options.wants_workload(workload.kind(), &workload.case()));
    workloads.retain(|workload| workload.is_quick() || !options.quick);
    if systems.is_empty() || workloads.is_empty() {
        return Err("nothing of that name can be measured".to_owned());
    }
    std::fs::create_dir_all(&options.out).map_err(|error| format!("{}: {error}", options.out.display()))?;
    let runtime = runtime();
    let mut report = Report::new(&systems, options);
    for workload in &workloads {
        let fit = systems.iter().filter(|system| workload.fits(system.nodes()));
        report.rows.extend(fit.map(|system| Row::new(&**workload, &**system)));
    }
    let in_run = |run| workloads.iter().filter(move |workload| run < options.runs_of(workload.effort()));
    let rows = |workload: &dyn Workload| systems.iter().filter(|system| workload.fits(system.nodes())).count();
    let total: usize = (0..options.runs).flat_map(in_run).map(|workload| rows(&**workload)).sum();
    let mut done = 0;
    for run in 0..options.runs {
        let begun = Instant::now();
        for workload in in_run(run) {
            for turn in 0..systems.len() {
                let system = &*systems[(turn + run) % systems.len()];
                let Some(row) = report.row(&**workload, system) else { continue };
                let measured = runtime.block_on(measure_calmly(&**workload, system, options));
                done += 1;
                eprintln!("{done}/{total}  {}", row.line(&measured));
                row.take(measured);
            }
        }
        // A comparison takes long; what is known is kept if it is stopped.
        report.save(&options.out)?;
        let (minutes, out) = (begun.elapsed().as_secs_f64() / 60.0, options.out.display());
        eprintln!("run {} of {} took {minutes:.1} minutes; {out} has all that is known", run + 1, options.runs);
    }
    report.print();
    Ok(())
}

/// Half of the cores: the servers need the others.
fn runtime() -> Runtime {
    let workers = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all().build().expect("threads can be started")
}

/// A measurement while others leave the machine alone, if that is wanted; the last one if they never do.
async fn measure_calmly(
    workload: &dyn Workload,
    system: &dyn System,
    options: &Options,
) -> Result<Option<Sample>, String> {
    let mut measured = measure(workload, system, options).await;
    for _ in 0..AGAIN_MAX {
        match (&measured, options.calm) {
            (Ok(Some(sample)), Some(calm)) if sample.others_cores > calm => {
                eprintln!("     others kept {:.2} cores busy: again", sample.others_cores);
                tokio::time::sleep(AGAIN_AFTER).await;
                measured = measure(workload, system, options).await;
            }
            (_, _) => break,
        }
    }
    measured
}

/// One measurement, on a server of its own.
async fn measure(workload: &dyn Workload, system: &dyn System, options: &Options) -> Result<Option<Sample>, String> {
    let empty = || {
        let directory = tempfile::Builder::new().prefix("data").tempdir_in(&options.out);
        directory.map_err(|error| format!("{}: {error}", options.out.display()))
    };
    let mut directory = empty()?;
    let mut started = start(system, directory.path()).await;
    // A port that was free may be taken before its server listens there.
    if matches!(&started, Err(why) if why.contains("address already in use")) {
        directory = empty()?;
        started = start(system, directory.path()).await;
    }
    let running = started?;
    let (warm_up, length) = (options.warm_up * system.warm_up_times(), options.length);
    let stage = Stage { system, running: &running, warm_up, length, quick: options.quick };
    workload.run(&stage).await
}

/// Starts a system and waits until it serves.
async fn start(system: &dyn System, directory: &Path) -> Result<Running, String> {
    let running = system.start(directory)?;
    let until = Instant::now() + READY_WITHIN;
    loop {
        let greeted = tokio::time::timeout(ANSWERED_WITHIN, async { system.connect(&running).await?.greet().await });
        let greeted = greeted.await.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        let Err(why) = greeted else { return Ok(running) };
        if Instant::now() > until {
            let words: Vec<String> = running.servers.iter().map(|server| server.last_words()).collect();
            return Err(format!("{} does not serve: {why}; it said: {}", system.name(), words.join("; ")));
        }
        tokio::time::sleep(ASKED_EVERY).await;
    }
}
