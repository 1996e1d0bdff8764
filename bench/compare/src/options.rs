//! What is measured, and for how long: the words behind `cargo xtask bench --compare`.

use std::path::PathBuf;
use std::time::Duration;

use super::workload::Effort;

/// What the words mean.
pub(crate) const USAGE: &str = "\
cargo xtask bench --compare [WORDS]

  --only WORKLOAD,..    only workloads that begin so: put, grant, keep-alive, lock, hand-over, expiry, mass, live,
                        fail-over, mixed, watch
  --case WORDS          only cases with these words in their names; may be said more than once
  --systems NAME,..     only these systems, as the tables name them
  --runs N              how often everything is measured; 5 without it, and what takes long less often
  --all-runs            what takes long as often as the rest
  --seconds S           how long one measurement takes; 2 without it
  --quick               one short run, without what takes long
  --calm CORES          measure again what was measured while others kept more cores busy
  --out DIR             where tables, JSON and plots go; target/bench without it

Everything together takes hours; after each run the files have what is known. An example, some minutes:
  cargo xtask bench --compare --only lock --case '64 callers' --systems etcd,leasehold";

/// What is measured, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Only workloads whose name begins so; all if there are none.
    pub(crate) only: Vec<String>,
    /// And only cases with one of these in their names; all if there are none.
    pub(crate) cases: Vec<String>,
    /// Only these systems; all if there are none.
    pub(crate) systems: Vec<String>,
    /// How often everything is measured.
    pub(crate) runs: usize,
    /// Whether that is also true of what takes long.
    pub(crate) all_runs: bool,
    pub(crate) warm_up: Duration,
    /// How long one measurement takes.
    pub(crate) length: Duration,
    /// Whether what takes long is left out, and the rest kept short.
    pub(crate) quick: bool,
    /// What is measured while others keep more cores busy does not count, and is measured again.
    pub(crate) calm: Option<f64>,
    /// Where the results go.
    pub(crate) out: PathBuf,
}

impl Options {
    /// Reads the words of the command line.
    pub(crate) fn read(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            only: Vec::new(),
            cases: Vec::new(),
            systems: Vec::new(),
            runs: 5,
            all_runs: false,
            warm_up: Duration::from_millis(500),
            length: Duration::from_secs(2),
            quick: false,
            calm: None,
            out: PathBuf::from("target/bench"),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--quick" {
                options = Options {
                    runs: 1,
                    warm_up: Duration::from_millis(200),
                    length: Duration::from_millis(700),
                    quick: true,
                    ..options
                };
                continue;
            }
            if word == "--all-runs" {
                options.all_runs = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
            let list = || value.split(',').map(str::to_owned).collect();
            match word.as_str() {
                "--only" => options.only = list(),
                "--case" => options.cases.push(value.clone()),
                "--systems" => options.systems = list(),
                "--calm" => {
                    options.calm = Some(value.parse().map_err(|_| format!("{value} is no number of cores"))?);
                }
                "--out" => options.out = value.into(),
                "--runs" => options.runs = value.parse().map_err(|_| format!("{value} is no number of runs"))?,
                "--seconds" => {
                    let seconds = value.parse().ok().filter(|seconds| *seconds > 0.0);
                    let length = seconds.map(Duration::from_secs_f64);
                    options.length = length.ok_or_else(|| format!("{value} is no number of seconds"))?;
                }
                _ => return Err(format!("there is no {word}\n{USAGE}")),
            }
        }
        Ok(options)
    }

    /// How often something is measured that takes so long.
    pub(crate) fn runs_of(&self, effort: Effort) -> usize {
        match effort {
            _ if self.all_runs => self.runs,
            Effort::Short => self.runs,
            Effort::Long => self.runs.div_ceil(2),
            Effort::Longest => self.runs.min(1),
        }
    }

    /// Whether a workload is wanted.
    pub(crate) fn wants_workload(&self, kind: &str, case: &str) -> bool {
        let name = format!("{kind} {case}");
        let only = self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only.as_str()));
        only && (self.cases.is_empty() || self.cases.iter().any(|words| case.contains(words.as_str())))
    }

    /// Refuses the name of a system that there is not.
    pub(crate) fn check_systems(&self, known: &[&str]) -> Result<(), String> {
        match self.systems.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(format!("there is no system {name}; there are {}", known.join(", "))),
            None => Ok(()),
        }
    }

    /// Whether a system is wanted.
    pub(crate) fn wants_system(&self, name: &str) -> bool {
        self.systems.is_empty() || self.systems.iter().any(|system| system == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options, String> {
        Options::read(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn everything_is_measured_five_times_unless_said_otherwise() {
        let options = read("").unwrap();
        assert_eq!(options.runs, 5);
        assert!(options.wants_workload("put", "1 callers, own") && options.wants_system("etcd"));
    }

    #[test]
    fn a_misspelt_system_is_told_with_those_there_are() {
        let misspelt = read("--systems etcd,redis").unwrap();
        let told = misspelt.check_systems(&["etcd", "redis-always"]);
        assert_eq!(told, Err("there is no system redis; there are etcd, redis-always".to_owned()));
        assert_eq!(read("").unwrap().check_systems(&["etcd"]), Ok(()));
    }

    #[test]
    fn workloads_and_systems_are_chosen_by_name() {
        let options = read("--only put,watch --systems etcd --runs 3 --seconds 0.5").unwrap();
        assert!(options.wants_workload("watch rate", "1") && !options.wants_workload("grant", "1"));
        assert!(options.wants_system("etcd") && !options.wants_system("leasehold-etcd"));
        assert_eq!((options.runs, options.length), (3, Duration::from_millis(500)));
        let options = read("--only put --case own --case 64").unwrap();
        assert!(options.wants_workload("put", "1 callers, own") && options.wants_workload("put", "64 callers, shared"));
        assert!(
            !options.wants_workload("put", "1 callers, shared") && !options.wants_workload("lock", "1 callers, own")
        );
    }

    #[test]
    fn what_takes_long_is_measured_less_often_unless_it_is_asked_for() {
        let runs =
            |words| [Effort::Short, Effort::Long, Effort::Longest].map(|effort| read(words).unwrap().runs_of(effort));
        assert_eq!(runs(""), [5, 3, 1]);
        assert_eq!(runs("--all-runs --runs 4"), [4, 4, 4]);
        assert_eq!(runs("--quick"), [1, 1, 1]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in ["--runs", "--runs many", "--seconds 0", "--seconds -1", "--often 3"] {
            assert!(read(words).is_err(), "{words}");
        }
    }
}
