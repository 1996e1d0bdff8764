//! Many seeds, each in a process of its own, as many at a time as there are cores.

use std::io::Read;
use std::ops::RangeInclusive;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::How;

/// A seed that takes longer hangs: its time stands still.
const PATIENCE: Duration = Duration::from_secs(300);

/// Plays seeds, for at most so long; `first` stops at the first one that contradicts a promise.
pub(crate) fn play(seeds: RangeInclusive<u64>, how: &How, time: Option<Duration>, first: bool) -> ExitCode {
    let (next, last) = (AtomicU64::new(*seeds.start()), *seeds.end());
    let (kept, broken, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let late = time.is_some_and(|time| started.elapsed() >= time);
                    if seed > last || late || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    if play_one(seed, how) {
                        kept.fetch_add(1, Ordering::Relaxed);
                    } else {
                        broken.fetch_add(1, Ordering::Relaxed);
                        stop.fetch_or(first, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (kept, broken) = (kept.into_inner(), broken.into_inner());
    eprintln!("{kept} passed, {broken} failed, {:.0} s", started.elapsed().as_secs_f64());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A seed that nobody chose.
pub(crate) fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

fn play_one(seed: u64, how: &How) -> bool {
    let command = std::env::current_exe().and_then(|this| {
        Command::new(this).arg("run").arg(seed.to_string()).args(how.words()).stderr(Stdio::piped()).spawn()
    });
    let mut child = match command {
        Ok(child) => child,
        Err(error) => {
            eprintln!("seed {seed} could not be played: {error}");
            return false;
        }
    };
    // Read elsewhere, or a child that has much to tell would wait for its reader.
    let told = child.stderr.take().map(|mut stderr| {
        std::thread::spawn(move || {
            let mut told = String::new();
            stderr.read_to_string(&mut told).map(|_| told)
        })
    });
    let kept = wait(&mut child);
    let told = told.and_then(|reader| reader.join().ok()?.ok()).unwrap_or_default();
    eprint!("{told}");
    if kept.is_none() {
        eprintln!("seed {seed} hangs: its time stood still for {} s", PATIENCE.as_secs());
    }
    kept == Some(true)
}

/// Waits for a process; none if it took too long and was ended.
fn wait(child: &mut Child) -> Option<bool> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if started.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}
