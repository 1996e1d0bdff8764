//! Runs a target: the committed inputs first, then a fixed number of mutations of one seed, then others until time is over.
//!
//! A failure names the target, the seed and a file with the input. What a target must not do is checked here for all of
//! them: panic, take more memory than its bound, take longer than an input may.

use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Target;
use crate::mutate::{INPUT_MAX, mutate};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The longest that one input may take: far more than any needs, so that a busy machine fails nothing.
const INPUT_WITHIN: Duration = Duration::from_secs(20);
/// How many inputs that were made are kept to be changed further.
const POOL_MAX: usize = 256;

/// An input that a target did not stand.
#[derive(Debug)]
pub struct Failure {
    /// The target.
    pub target: &'static str,
    /// What was wrong.
    pub problem: String,
    /// The input.
    pub input: Vec<u8>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes fail: {}", self.target, self.input.len(), self.problem)
    }
}

/// Keeps panics that are caught from being told each time: what fails is told once, with its input.
pub fn be_quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Gives one input to a target and checks all that must hold.
pub fn once(target: &Target, input: &[u8]) -> Result<(), Failure> {
    let fail = |problem| Err(Failure { target: target.name, problem, input: input.to_vec() });
    let started = Instant::now();
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panics");
        return fail(words.to_owned());
    }
    let took = MEMORY.peak_usage().saturating_sub(before);
    if took > target.memory {
        return fail(format!("it takes {took} bytes of memory, at most {} are right", target.memory));
    }
    if started.elapsed() > INPUT_WITHIN {
        return fail(format!("it takes {:.0} s", started.elapsed().as_secs_f32()));
    }
    Ok(())
}

/// The inputs that every run begins with: valid ones that are made, then those that are committed.
pub fn beginnings(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = (target.seeds)();
    let folder = corpus(target.name);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    inputs.extend(files.iter().filter_map(|file| fs::read(file).ok()));
    inputs
}

/// Where the committed inputs of a target lie.
pub fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Mutates the beginnings with this seed until `enough` inputs were given or time is over; tells how many were.
pub fn mutations(target: &Target, seed: u64, enough: u64, within: Duration) -> Result<u64, Failure> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut pool = beginnings(target);
    pool.push(Vec::new());
    let kept = pool.len();
    let started = Instant::now();
    let mut count = 0;
    while count < enough && started.elapsed() < within {
        let mut input = pool[random.random_range(0..pool.len())].clone();
        input.truncate(INPUT_MAX);
        mutate(&mut random, &mut input, &pool[..kept], target.words);
        once(target, &input)?;
        count += 1;
        // Some inputs are changed further, so that changes add up.
        if random.random_range(0..16) == 0 {
            if pool.len() < kept + POOL_MAX {
                pool.push(input);
            } else {
                let at = random.random_range(kept..pool.len());
                pool[at] = input;
            }
        }
    }
    Ok(count)
}

/// Makes a failing input shorter and plainer while it still fails.
pub fn reduced(target: &Target, failure: Failure) -> Failure {
    let started = Instant::now();
    let mut best = failure;
    let mut chunk = best.input.len().div_ceil(2).max(1);
    while started.elapsed() < INPUT_WITHIN {
        let mut at = 0;
        let mut better = false;
        while at < best.input.len() && started.elapsed() < INPUT_WITHIN {
            let mut shorter = best.input.clone();
            shorter.drain(at..(at + chunk).min(best.input.len()));
            match once(target, &shorter) {
                Err(failure) => (best, better) = (failure, true),
                Ok(()) => at += chunk,
            }
        }
        if chunk == 1 && !better {
            break;
        }
        chunk = chunk.div_ceil(2).max(1);
    }
    best
}

/// Keeps a failing input in a file, to be looked at and added to the corpus.
pub fn keep(failure: &Failure) -> PathBuf {
    let folder = std::env::temp_dir().join("leasehold-fuzz");
    let sum = leasehold_log::checksum(&failure.input);
    let file = folder.join(format!("{}-{sum:08x}", failure.target));
    // Without the file the input is still in the message of the test.
    let _ = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, &failure.input));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process take memory at the same time: the bound is far above theirs.
    const MUCH: usize = 256 << 20;

    const PICKY: Target = Target {
        name: "picky",
        about: "stands anything but an x, and takes much memory for a y",
        run: |bytes| {
            assert!(!bytes.contains(&b'x'), "there is an x");
            if bytes.contains(&b'y') {
                drop(std::hint::black_box(Vec::<u8>::with_capacity(2 * MUCH)));
            }
        },
        seeds: || vec![b"some words to begin with".to_vec()],
        words: &["x"],
        memory: MUCH,
        short: 10,
    };

    #[test]
    fn what_a_target_does_not_stand_is_found_and_made_short() {
        once(&PICKY, b"abc").unwrap();
        let failure = once(&PICKY, b"why").unwrap_err();
        assert!(failure.problem.contains("bytes of memory"), "{failure}");
        let found = mutations(&PICKY, 7, 100_000, INPUT_WITHIN).unwrap_err();
        let found = reduced(&PICKY, found);
        assert!(matches!(&found.input[..], b"x" | b"y"), "{found}");
    }
}
