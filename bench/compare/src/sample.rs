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

    /// The median of each figure.
    pub(crate) fn median(samples: &[Sample]) -> Sample {
        let middle = |figure: fn(&Sample) -> f64| {
            let mut all: Vec<f64> = samples.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            match all.len() {
                0 => 0.0,
                odd if odd % 2 == 1 => all[odd / 2],
                even => f64::midpoint(all[even / 2 - 1], all[even / 2]),
            }
        };
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
        }
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
