//! What is told of a comparison: JSON for programs, a Markdown table and plots for people.

mod json;
mod lines;
mod plot;
mod table;

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::options::Options;
use super::sample::Sample;
use super::system::{About, System};
use super::workload::{Measure, Workload};

/// Everything that was measured, and on what.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) systems: Vec<(&'static str, About)>,
    pub(crate) runs: usize,
    pub(crate) seconds: f64,
    /// Workload by workload, within it system by system.
    pub(crate) rows: Vec<Row>,
}

/// The machine that it was measured on.
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) system: String,
    /// How busy it was before the first and after the last measurement.
    pub(crate) load: (String, String),
    /// Seconds since 1970.
    pub(crate) when: u64,
}

/// One workload done by one system.
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) case: String,
    pub(crate) measure: Measure,
    pub(crate) amount: Option<f64>,
    pub(crate) system: &'static str,
    pub(crate) nodes: usize,
    pub(crate) samples: Vec<Sample>,
    /// Why there are fewer samples than runs.
    pub(crate) missing: Option<String>,
}

impl Report {
    pub(crate) fn new(systems: &[Box<dyn System>], options: &Options) -> Report {
        Report {
            machine: Machine::here(),
            systems: systems.iter().map(|system| (system.name(), system.about())).collect(),
            runs: options.runs,
            seconds: options.length.as_secs_f64(),
            rows: Vec::new(),
        }
    }

    /// Writes everything that is known into a directory.
    pub(crate) fn save(&mut self, directory: &Path) -> Result<(), String> {
        self.machine.load.1 = load();
        let table = table::markdown(self);
        let mut files = vec![("compare.json".to_owned(), json::text(self)), ("compare.md".to_owned(), table)];
        files.extend(plot::all(self));
        for (name, text) in files {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the tables to stdout.
    pub(crate) fn print(&self) {
        println!("{}", table::markdown(self));
    }

    /// The row of a workload done by a system, if it has one.
    pub(crate) fn row(&mut self, workload: &dyn Workload, system: &dyn System) -> Option<&mut Row> {
        let (kind, case, system) = (workload.kind(), workload.case(), system.name());
        self.rows.iter_mut().find(|row| row.kind == kind && row.case == case && row.system == system)
    }

    /// The kinds of work, in order.
    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.rows.iter().map(|row| row.kind).collect();
        kinds.dedup();
        kinds
    }

    /// How many times better a row is than that of the first system with as many nodes, by what is compared; none for
    /// that one itself.
    fn ratio(&self, row: &Row, measure: Measure) -> Option<f64> {
        let same = |other: &&Row| other.kind == row.kind && other.case == row.case && other.nodes == row.nodes;
        let first = self.rows.iter().find(same)?;
        if first.system == row.system {
            return None;
        }
        measure.ratio(&row.median()?, &first.median()?)
    }
}

impl Row {
    pub(crate) fn new(workload: &dyn Workload, system: &dyn System) -> Row {
        Row {
            kind: workload.kind(),
            case: workload.case(),
            measure: workload.measure(),
            amount: workload.amount(),
            system: system.name(),
            nodes: system.nodes(),
            samples: Vec::new(),
            missing: None,
        }
    }

    /// Adds what came of one run.
    pub(crate) fn take(&mut self, measured: Result<Option<Sample>, String>) {
        match measured {
            Ok(Some(sample)) => self.samples.push(sample),
            Ok(None) => self.missing = Some("has nothing of the kind".to_owned()),
            Err(why) => self.missing = Some(why),
        }
    }

    /// One run in a line.
    pub(crate) fn line(&self, measured: &Result<Option<Sample>, String>) -> String {
        let name = format!("{}, {}, {}", self.kind, self.case, self.system);
        match measured {
            Ok(Some(sample)) => {
                let more = sample.more.iter().map(|figure| format!(", {} {}", figure.name, table::shown(figure)));
                format!(
                    "{name}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, CPU {:.0} µs, others {:.2} cores{}",
                    sample.rate,
                    sample.p50_ms,
                    sample.p99_ms,
                    sample.server_cpu_us,
                    sample.others_cores,
                    more.collect::<String>()
                )
            }
            Ok(None) => format!("{name}: nothing of the kind"),
            Err(why) => format!("{name}: FAILED: {why}"),
        }
    }

    /// The medians of all runs, if there are any.
    fn median(&self) -> Option<Sample> {
        (!self.samples.is_empty()).then(|| Sample::median(&self.samples))
    }
}

impl Machine {
    fn here() -> Machine {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: model.unwrap_or("unknown").to_owned(),
            system: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            load: (load(), String::new()),
            when: since.as_secs(),
        }
    }
}

/// How busy the machine is: over one, five and fifteen minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) fn example() -> Report {
    let sample = |rate, p50_ms| Sample {
        rate,
        p50_ms,
        p99_ms: 3.0,
        server_cpu_us: 40.0,
        more: vec![
            crate::sample::Figure::new("restart", 6.0 * p50_ms, "ms"),
            crate::sample::Figure::count("leases", 12_000),
        ],
        ..Sample::default()
    };
    let row = |system, samples: Vec<Sample>, missing| Row {
        kind: "put",
        case: "64 callers, <own>".to_owned(),
        measure: Measure::Rate,
        amount: None,
        system,
        nodes: 1,
        samples,
        missing,
    };
    let about = || About {
        version: "1 | 2".to_owned(),
        durability: "all",
        fencing: "none",
        queue: "first come",
        client: "some",
    };
    Report {
        machine: Machine::here(),
        systems: vec![("old", about()), ("new", about()), ("broken", about())],
        runs: 2,
        seconds: 1.0,
        rows: vec![
            row("old", vec![sample(1000.0, 2.0), sample(1200.0, 2.0)], None),
            row("new", vec![sample(3300.0, 1.0)], None),
            row("broken", Vec::new(), Some("it is broken".to_owned())),
        ],
    }
}
