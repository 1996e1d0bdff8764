//! `leasehold-sim`: plays a seed in this process, or many seeds, each in a process of its own.

mod chance;
mod many;
mod one;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold_sim::{Kind, Plan};

/// Plays a cluster of Leasehold with clients and faults under virtual time, and checks what its clients saw.
#[derive(Parser)]
#[command(
    after_help = "Examples:\n  leasehold-sim run 42             one seed; the same seed gives the same trace\n  \
                        leasehold-sim run 42 --aloud     and tells what happens\n  \
                        leasehold-sim seeds 1 200        two hundred seeds\n  \
                        leasehold-sim soak --minutes 60  random seeds for an hour"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays one seed.
    Run {
        /// Where everything comes from.
        seed: u64,
        #[command(flatten)]
        how: How,
        /// Prints the trace while it grows.
        #[arg(long)]
        aloud: bool,
        /// Prints what the nodes log, for instance `leasehold_raft=debug`.
        #[arg(long, value_name = "FILTER")]
        log: Option<String>,
    },
    /// Plays all seeds from one to another.
    Seeds {
        /// The first one.
        from: u64,
        /// The last one.
        to: u64,
        #[command(flatten)]
        how: How,
        /// Stops at the first seed that contradicts a promise.
        #[arg(long)]
        first: bool,
    },
    /// Plays random seeds for a while.
    Soak {
        /// For how long.
        #[arg(long)]
        minutes: f64,
        #[command(flatten)]
        how: How,
    },
    /// Lists the mistakes that can be planted.
    Bugs,
}

#[derive(Args, Clone, Default)]
struct How {
    /// What kind of run it is; usually that follows from the seed.
    #[arg(long)]
    kind: Option<KindName>,
    /// A mistake to plant first.
    #[arg(long, value_name = "BUG")]
    plant: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindName {
    Calm,
    Stormy,
    Beyond,
    Restored,
}

impl How {
    fn plan(&self, seed: u64) -> Plan {
        match self.kind {
            None => Plan::new(seed),
            Some(KindName::Calm) => Plan::of(Kind::Calm, seed),
            Some(KindName::Stormy) => Plan::of(Kind::Stormy, seed),
            Some(KindName::Beyond) => Plan::of(Kind::Beyond, seed),
            Some(KindName::Restored) => Plan::of(Kind::Restored, seed),
        }
    }

    /// The same as words on a command line.
    fn words(&self) -> Vec<String> {
        let kind = self.kind.and_then(|kind| kind.to_possible_value()).map(|kind| kind.get_name().to_owned());
        let flag = |name: &str, value: &Option<String>| value.clone().map(|value| [name.to_owned(), value]);
        [flag("--kind", &kind), flag("--plant", &self.plant)].into_iter().flatten().flatten().collect()
    }
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { seed, how, aloud, log } => {
            // First of all: whatever draws later draws from the seed.
            chance::seed(seed);
            one::play(&how.plan(seed), how.plant.as_deref(), aloud, log.as_deref())
        }
        Command::Seeds { from, to, how, first } => many::play(from..=to, &how, None, first),
        Command::Soak { minutes, how } => {
            let time = Duration::from_secs_f64(minutes.max(0.0) * 60.0);
            let start = many::random_seed();
            eprintln!("random seeds from {start} on, for {:.0} s", time.as_secs_f64());
            many::play(start..=u64::MAX, &how, Some(time), false)
        }
        Command::Bugs => {
            one::list_bugs();
            ExitCode::SUCCESS
        }
    }
}
