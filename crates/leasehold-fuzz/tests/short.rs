//! Every target for about a second: its seeds and corpus, then mutations of a fixed seed, then of a new one.
//!
//! One test per target, one at a time: what an input takes of memory is counted for the whole process. A failure prints
//! the seed and keeps the input; add it to the corpus with its fix. `LEASEHOLD_FUZZ_SEED` repeats a random part.

use std::sync::Mutex;
use std::time::Duration;

use leasehold_fuzz::{Failure, beginnings, keep, mutations, once, reduced, target};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The seed that every run has.
const FIXED: u64 = 0x1ea5_e401_d000_0001;
/// The most that the fixed part may take, where a machine is slow.
const FIXED_WITHIN: Duration = Duration::from_millis(1500);
/// How long new inputs are tried.
const RANDOM_WITHIN: Duration = Duration::from_millis(700);

fn run(name: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let target = target(name).expect("it is a target");
    let stopped = |seed: u64, failure: Failure| -> u64 {
        let failure = reduced(target, failure);
        panic!("{failure}\nseed {seed:#018x}; the input is in {}", keep(&failure).display())
    };
    let seeds = beginnings(target);
    assert!(!seeds.is_empty());
    for input in &seeds {
        once(target, input).unwrap_or_else(|failure| panic!("{failure}\nof its corpus: {:?}", failure.input));
    }
    let given = std::env::var("LEASEHOLD_FUZZ_SEED").ok();
    let given = given.and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let seed = given.unwrap_or_else(rand::random);
    let fixed = mutations(target, FIXED, target.short, FIXED_WITHIN);
    let fixed = fixed.unwrap_or_else(|failure| stopped(FIXED, failure));
    let random = mutations(target, seed, u64::MAX, RANDOM_WITHIN);
    let random = random.unwrap_or_else(|failure| stopped(seed, failure));
    eprintln!("{name}: {} inputs, seed {seed:#018x}", seeds.len() as u64 + fixed + random);
}

macro_rules! targets {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })+

        #[test]
        fn every_target_has_its_test() {
            let tested = [$(stringify!($name)),+];
            assert!(leasehold_fuzz::TARGETS.iter().all(|target| tested.contains(&target.name)));
        }
    };
}

targets! {
    apply entry record membership body file log_file frames hello config words http grpc events answers stream
}
