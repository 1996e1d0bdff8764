//! Durations collected, and what is said of them.

use std::time::Duration;

/// A collection of durations.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Duration>);

impl Figures {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn join(&mut self, other: Figures) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The duration that this share of all does not exceed.
    pub(crate) fn at(&mut self, share: f64) -> Duration {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    /// The usual shares in one line.
    pub(crate) fn line(&mut self) -> String {
        let ms = |duration: Duration| format!("{:.3}", duration.as_secs_f64() * 1e3);
        let shares = [0.5, 0.99, 0.999, 1.0].map(|share| ms(self.at(share)));
        format!("p50 {} ms, p99 {} ms, p99.9 {} ms, max {} ms", shares[0], shares[1], shares[2], shares[3])
    }
}
