//! A workload: one case of one kind of work, done by any system that offers it.

use std::time::{Duration, Instant};

use super::client::{Client, Work};
use super::process::{Usage, machine_cpu};
use super::sample::{Latencies, Sample};
use super::system::{Running, System};

/// One case of one kind of work.
pub(crate) trait Workload: Send + Sync {
    /// The kind of work: what the command line and the heading of a table call it.
    fn kind(&self) -> &'static str;

    /// The case: what its row is called.
    fn case(&self) -> String;

    /// The figure by which systems are compared.
    fn measure(&self) -> Measure;

    /// Does the work; none if the system has nothing of the kind.
    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>>;
}

/// The figure by which systems are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Operations in a second: more is better.
    Rate,
    /// The median latency: less is better.
    Latency,
}

impl Measure {
    /// How many times better a sample is than another.
    pub(crate) fn ratio(self, better: &Sample, than: &Sample) -> f64 {
        match self {
            Measure::Rate => better.rate / than.rate,
            Measure::Latency => than.p50_ms / better.p50_ms,
        }
    }
}

/// How callers are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connections {
    /// One for each caller.
    Own,
    /// One for all.
    Shared,
}

impl Connections {
    /// So many callers each, on connections of their own and on a shared one. One caller is alone on its connection in any
    /// case.
    pub(crate) fn cases<const N: usize>(callers: [usize; N]) -> impl Iterator<Item = (usize, Connections)> {
        let both = [Connections::Own, Connections::Shared];
        let all = callers.into_iter().flat_map(move |callers| both.map(|connections| (callers, connections)));
        all.filter(|(callers, connections)| *callers > 1 || *connections == Connections::Own)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Connections::Own => "own",
            Connections::Shared => "shared",
        }
    }
}

/// A system that was started for one measurement, and how long that takes.
pub(crate) struct Stage<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) running: &'a Running,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
}

impl Stage<'_> {
    /// One connection.
    pub(crate) async fn client(&self) -> Result<Box<dyn Client>, String> {
        self.system.connect(self.running).await
    }

    /// A handle for each caller.
    pub(crate) async fn clients(
        &self,
        callers: usize,
        connections: Connections,
    ) -> Result<Vec<Box<dyn Client>>, String> {
        let mut clients: Vec<Box<dyn Client>> = Vec::with_capacity(callers);
        for _ in 0..callers {
            let client = match (connections, clients.first()) {
                (Connections::Shared, Some(first)) => first.share(),
                (Connections::Own | Connections::Shared, _) => self.client().await?,
            };
            client.greet().await?;
            clients.push(client);
        }
        Ok(clients)
    }

    /// The stretch of time that counts, from now on.
    pub(crate) fn window(&self) -> Window {
        let from = Instant::now() + self.warm_up;
        Window { from, until: from + self.length }
    }

    /// Waits until a stretch of time is over, and tells what was used in it.
    pub(crate) async fn used_in(&self, window: Window) -> Used {
        tokio::time::sleep_until(window.from.into()).await;
        let (server, client, machine) = (Usage::all(&self.running.servers), Usage::own(), machine_cpu());
        tokio::time::sleep_until(window.until.into()).await;
        let (server_after, client_after, machine_after) =
            (Usage::all(&self.running.servers), Usage::own(), machine_cpu());
        let server = server_after.cpu.saturating_sub(server.cpu);
        let client = client_after.cpu.saturating_sub(client.cpu);
        Used {
            seconds: (window.until - window.from).as_secs_f64(),
            server,
            client,
            others: machine_after.saturating_sub(machine).saturating_sub(server + client),
            peak_rss: server_after.peak_rss,
        }
    }
}

/// The stretch of time that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Window {
    /// Whether what was done at this moment counts.
    pub(crate) fn has(&self, moment: Instant) -> bool {
        self.from <= moment && moment < self.until
    }

    /// Whether callers go on.
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }
}

/// What was used in a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    seconds: f64,
    server: Duration,
    client: Duration,
    others: Duration,
    peak_rss: u64,
}

impl Used {
    /// The sample of so many operations with these latencies.
    pub(crate) fn sample(&self, operations: u64, latencies: &Latencies) -> Sample {
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / operations.max(1) as f64;
        Sample {
            rate: operations as f64 / self.seconds,
            p50_ms: latencies.at(0.5),
            p99_ms: latencies.at(0.99),
            p999_ms: latencies.at(0.999),
            max_ms: latencies.at(1.0),
            server_cpu_us: each(self.server),
            client_cpu_us: each(self.client),
            peak_rss_mb: self.peak_rss as f64 / f64::from(1 << 20),
            others_cores: self.others.as_secs_f64() / self.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_for_rates_and_for_latencies() {
        let fast = Sample { rate: 200.0, p50_ms: 1.0, ..Sample::default() };
        let slow = Sample { rate: 100.0, p50_ms: 4.0, ..Sample::default() };
        assert_eq!(Measure::Rate.ratio(&fast, &slow), 2.0);
        assert_eq!(Measure::Latency.ratio(&fast, &slow), 4.0);
    }
}
