//! Fuzzes one target for a while: guided by coverage if it was built so (`cargo xtask fuzz`), else by mutations alone.
//!
//! `leasehold-fuzz TARGET [MINUTES] [SEED]`; without arguments it lists the targets.
#![cfg_attr(fuzzing, no_main)]
#![allow(clippy::print_stdout, reason = "what a person asked for")]

#[cfg(fuzzing)]
mod guided {
    //! The target is named by `LEASEHOLD_FUZZ_TARGET`; seeds go to `LEASEHOLD_FUZZ_SEEDS` before the engine looks there.

    use std::sync::OnceLock;

    static TARGET: OnceLock<&'static leasehold_fuzz::Target> = OnceLock::new();

    fn begin() {
        let name = std::env::var("LEASEHOLD_FUZZ_TARGET").unwrap_or_default();
        let target = leasehold_fuzz::target(&name).unwrap_or_else(|| panic!("there is no target `{name}`"));
        TARGET.get_or_init(|| target);
        if let Ok(folder) = std::env::var("LEASEHOLD_FUZZ_SEEDS") {
            for (number, seed) in (target.seeds)().iter().enumerate() {
                std::fs::write(format!("{folder}/seed-{number}"), seed).expect("the folder takes a seed");
            }
        }
    }

    libfuzzer_sys::fuzz_target!(init: begin(), |bytes: &[u8]| {
        let target = TARGET.get().expect("it was set at the beginning");
        if let Err(failure) = leasehold_fuzz::once(target, bytes) {
            panic!("{failure}");
        }
    });
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;
    use std::time::Duration;

    let mut arguments = std::env::args().skip(1);
    let Some(target) = arguments.next().and_then(|name| leasehold_fuzz::target(&name)) else {
        println!("leasehold-fuzz TARGET [MINUTES] [SEED]\n");
        leasehold_fuzz::TARGETS.iter().for_each(|target| println!("  {:<11} {}", target.name, target.about));
        return ExitCode::from(2);
    };
    let minutes: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let seed = arguments.next().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("{}: seed {seed:#018x}", target.name);
    leasehold_fuzz::be_quiet();
    let within = Duration::from_secs_f64(minutes.max(0.0) * 60.0);
    let begun = leasehold_fuzz::beginnings(target).iter().try_for_each(|input| leasehold_fuzz::once(target, input));
    match begun.and_then(|()| leasehold_fuzz::mutations(target, seed, u64::MAX, within)) {
        Ok(count) => {
            println!("{}: {count} inputs, seed {seed:#018x}", target.name);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let failure = leasehold_fuzz::reduced(target, failure);
            println!("{failure}\nseed {seed:#018x}; the input is in {}", leasehold_fuzz::keep(&failure).display());
            ExitCode::FAILURE
        }
    }
}
