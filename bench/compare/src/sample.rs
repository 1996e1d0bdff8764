//! What one measurement yields, and what several of the same say together.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies collected by many callers, in nanoseconds. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Arc<Mutex<Histogram<u64>>>);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(Arc::new(Mutex::new(Histogram::new(3).expect("three digits are possible"))))
    }

    pub(crate) fn add(&self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.lock().record(nanoseconds).expect("it grows as needed");
    }

    pub(crate) fn len(&self) -> u64 {
        self.lock().len()
    }

    /// The latency that this share of all does not exceed, in milliseconds.
    pub(crate) fn at(&self, share: f64) -> f64 {
        self.lock().value_at_quantile(share) as f64 / 1e6
    }

    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().expect("nobody panics while recording")
    }
}

/// What one measurement yields. Latencies in milliseconds, processor time in microseconds for each operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Operations in a second.
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// Of all processes of the system.
    pub(crate) server_cpu_us: f64,
    /// Of the load generator.
    pub(crate) client_cpu_us: f64,
    /// Of all processes of the system, in megabytes.
    pub(crate) peak_rss_mb: f64,
    /// How many cores others kept busy meanwhile: who else is on the machine, and the machine itself.
    pub(crate) others_cores: f64,
    /// What only this kind of work has.
    pub(crate) more: Vec<Figure>,
}

/// A figure that only some kinds of work have: less is better, where it has a unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The heading of its column.
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    /// None for what only describes the others: it is not compared.
    pub(crate) unit: Option<&'static str>,
}

/// The figure that tells how many leases there were, where a system may have had fewer than it should.
pub(crate) const LEASES: &str = "leases";

impl Figure {
    /// One that is compared.
    pub(crate) fn new(name: &'static str, value: f64, unit: &'static str) -> Figure {
        Figure { name, value, unit: Some(unit) }
    }

    /// One that tells how many there were.
    pub(crate) fn count(name: &'static str, count: usize) -> Figure {
        Figure { name, value: count as f64, unit: None }
    }
}

impl Sample {
    /// All figures with their names, in a fixed order.
    pub(crate) fn figures(&self) -> [(&'static str, f64); 9] {
        [
            ("rate", self.rate),
            ("p50_ms", self.p50_ms),
            ("p99_ms", self.p99_ms),
            ("p999_ms", self.p999_ms),
            ("max_ms", self.max_ms),
            ("server_cpu_us", self.server_cpu_us),
            ("client_cpu_us", self.client_cpu_us),
            ("peak_rss_mb", self.peak_rss_mb),
            ("others_cores", self.others_cores),
        ]
    }

    /// The figure of this name that only some kinds of work have.
    pub(crate) fn figure(&self, name: &str) -> Option<&Figure> {
        self.more.iter().find(|figure| figure.name == name)
    }

    /// The median of each figure.
    pub(crate) fn median(samples: &[Sample]) -> Sample {
        let middle = |figure: fn(&Sample) -> f64| middle(samples.iter().map(figure).collect());
        let mut more: Vec<Figure> = Vec::new();
        for figure in samples.iter().flat_map(|sample| &sample.more) {
            if more.iter().all(|known| known.name != figure.name) {
                let all = samples.iter().filter_map(|sample| sample.figure(figure.name));
                more.push(Figure { value: self::middle(all.map(|one| one.value).collect()), ..figure.clone() });
            }
        }
        Sample {
            rate: middle(|s| s.rate),
            p50_ms: middle(|s| s.p50_ms),
            p99_ms: middle(|s| s.p99_ms),
            p999_ms: middle(|s| s.p999_ms),
            max_ms: middle(|s| s.max_ms),
            server_cpu_us: middle(|s| s.server_cpu_us),
            client_cpu_us: middle(|s| s.client_cpu_us),
            peak_rss_mb: middle(|s| s.peak_rss_mb),
            others_cores: middle(|s| s.others_cores),
            more,
        }
    }
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => all[odd / 2],
        even => f64::midpoint(all[even / 2 - 1], all[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_each_figure_stands_alone() {
        let sample = |rate, p50_ms| Sample { rate, p50_ms, ..Sample::default() };
        let three = Sample::median(&[sample(1.0, 9.0), sample(3.0, 1.0), sample(2.0, 5.0)]);
        assert_eq!((three.rate, three.p50_ms), (2.0, 5.0));
        let two = Sample::median(&[sample(1.0, 0.0), sample(4.0, 0.0)]);
        assert_eq!(two.rate, 2.5);
        assert_eq!(Sample::median(&[]), Sample::default());
    }

    #[test]
    fn figures_that_only_some_runs_have_are_the_medians_of_those() {
        let sample = |more: Vec<Figure>| Sample { more, ..Sample::default() };
        let restart = |value| Figure::new("restart", value, "ms");
        let runs = [sample(vec![restart(3.0)]), sample(vec![]), sample(vec![Figure::count("leases", 7), restart(5.0)])];
        assert_eq!(Sample::median(&runs).more, [restart(4.0), Figure::count("leases", 7)]);
    }

    #[test]
    fn latencies_are_told_in_milliseconds() {
        let latencies = Latencies::new();
        for ms in 1..=100 {
            latencies.add(Duration::from_millis(ms));
        }
        assert_eq!(latencies.len(), 100);
        assert!((latencies.at(0.5) - 50.0).abs() < 0.1, "{}", latencies.at(0.5));
        assert!((latencies.at(1.0) - 100.0).abs() < 0.2, "{}", latencies.at(1.0));
    }
}
