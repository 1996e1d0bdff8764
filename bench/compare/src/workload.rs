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

    /// How long it takes.
    fn effort(&self) -> Effort {
        Effort::Short
    }

    /// Whether a quick look has it.
    fn is_quick(&self) -> bool {
        true
    }

    /// Whether systems of so many nodes do it.
    fn fits(&self, nodes: usize) -> bool {
        nodes == 1
    }

    /// Where its case lies on an axis, if the cases of its kind differ in how much there is.
    fn amount(&self) -> Option<f64> {
        None
    }

    /// Does the work; none if the system has nothing of the kind.
    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>>;
}

/// How long a workload takes, and so how often it is measured unless more is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Seconds: in every run.
    Short,
    /// Half a minute: in every other run.
    Long,
    /// More than that: in the first run.
    Longest,
}

/// The figure by which systems are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Operations in a second: more is better.
    Rate,
    /// The median latency: less is better.
    Latency,
    /// The latency that 99 of 100 do not exceed: less is better.
    Tail,
    /// A figure that only this kind of work has: less is better.
    Figure(&'static str),
}

impl Measure {
    /// What is compared; none if a sample lacks it.
    pub(crate) fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            // Zero is that of work which a system could not do.
            Measure::Rate => Some(sample.rate).filter(|rate| *rate > 0.0),
            Measure::Latency => Some(sample.p50_ms),
            Measure::Tail => Some(sample.p99_ms),
            Measure::Figure(name) => sample.figure(name).map(|figure| figure.value),
        }
    }

    /// Its unit, with what stands between it and a number.
    pub(crate) fn unit(self, sample: &Sample) -> String {
        match self {
            Measure::Rate => "/s".to_owned(),
            Measure::Latency | Measure::Tail => " ms".to_owned(),
            Measure::Figure(name) => {
                let unit = sample.figure(name).and_then(|figure| figure.unit);
                unit.map_or(String::new(), |unit| format!(" {unit}"))
            }
        }
    }

    /// What programs call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Rate => "rate",
            Measure::Latency => "p50_ms",
            Measure::Tail => "p99_ms",
            Measure::Figure(name) => name,
        }
    }

    /// How many times better a sample is than another.
    pub(crate) fn ratio(self, better: &Sample, than: &Sample) -> Option<f64> {
        let (better, than) = (self.of(better)?, self.of(than)?);
        let ratio = if self == Measure::Rate { better / than } else { than / better };
        ratio.is_finite().then_some(ratio)
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

/// How late a measurement may begin.
const LATE_MAX: Duration = Duration::from_millis(100);

/// A system that was started for one measurement, and how long that takes.
pub(crate) struct Stage<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) running: &'a Running,
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
    /// Whether only a quick look is wanted.
    pub(crate) quick: bool,
}

impl Stage<'_> {
    /// One connection.
    pub(crate) async fn client(&self) -> Result<Box<dyn Client>, String> {
        self.system.connect(self.running).await
    }

    /// One connection that knows all nodes, this one first, counted round and round.
    pub(crate) async fn client_at(&self, node: usize) -> Result<Box<dyn Client>, String> {
        let mut nodes: Vec<&str> = self.running.endpoint.split(',').collect();
        let first = node % nodes.len();
        nodes.rotate_left(first);
        self.system.connect(&Running { endpoint: nodes.join(","), servers: Vec::new() }).await
    }

    /// One connection that knows this node only.
    pub(crate) async fn client_of(&self, node: usize) -> Result<Box<dyn Client>, String> {
        let endpoint = self.running.endpoint.split(',').nth(node).ok_or("there is no such node")?.to_owned();
        self.system.connect(&Running { endpoint, servers: Vec::new() }).await
    }

    /// A handle for each caller; those with connections of their own are spread over the nodes.
    pub(crate) async fn clients(
        &self,
        callers: usize,
        connections: Connections,
    ) -> Result<Vec<Box<dyn Client>>, String> {
        let mut clients: Vec<Box<dyn Client>> = Vec::with_capacity(callers);
        for number in 0..callers {
            let client = match (connections, clients.first()) {
                (Connections::Shared, Some(first)) => first.share(),
                (Connections::Own | Connections::Shared, _) => self.client_at(number).await?,
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

    /// Waits until a stretch of time is over, and tells what was used in it. Refused where it had begun long before: what was
    /// counted in it and what was used would not belong together.
    pub(crate) async fn used_in(&self, window: Window) -> Result<Used, String> {
        let (length, late) = (window.until - window.from, window.from.elapsed());
        if late > (length / 10).max(LATE_MAX) {
            return Err(format!("it was ready to measure {} ms too late", late.as_millis()));
        }
        tokio::time::sleep_until(window.from.into()).await;
        let before = self.used_until_now();
        tokio::time::sleep_until(window.until.into()).await;
        Ok(Used { seconds: length.as_secs_f64(), ..self.used_since(&before) })
    }

    /// What was used until now.
    pub(crate) fn used_until_now(&self) -> Before {
        Before {
            moment: Instant::now(),
            server: Usage::all(&self.running.servers),
            client: Usage::own(),
            machine: machine_cpu(),
        }
    }

    /// What was used since then.
    pub(crate) fn used_since(&self, before: &Before) -> Used {
        let after = self.used_until_now();
        let server = after.server.cpu.saturating_sub(before.server.cpu);
        let client = after.client.cpu.saturating_sub(before.client.cpu);
        Used {
            seconds: (after.moment - before.moment).as_secs_f64(),
            server,
            client,
            others: after.machine.saturating_sub(before.machine).saturating_sub(server + client),
            peak_rss: after.server.peak_rss,
        }
    }
}

/// What was used until a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    moment: Instant,
    server: Usage,
    client: Usage,
    machine: Duration,
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
            more: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Figure;

    /// What was counted before anybody looked at what is used must not be told as a rate.
    #[tokio::test]
    async fn a_measurement_that_begins_too_late_is_refused() {
        let running = Running { endpoint: String::new(), servers: Vec::new() };
        let length = Duration::from_millis(50);
        let stage = Stage { system: &crate::systems::Nothing, running: &running, warm_up: length, length, quick: true };
        assert!(stage.used_in(stage.window()).await.is_ok());
        let from = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        assert!(stage.used_in(Window { from, until: from + Duration::from_secs(3) }).await.is_err());
    }

    #[test]
    fn a_ratio_above_one_is_better_for_rates_and_for_latencies() {
        let fast = Sample { rate: 200.0, p50_ms: 1.0, ..Sample::default() };
        let slow = Sample { rate: 100.0, p50_ms: 4.0, ..Sample::default() };
        assert_eq!(Measure::Rate.ratio(&fast, &slow), Some(2.0));
        assert_eq!(Measure::Latency.ratio(&fast, &slow), Some(4.0));
    }

    #[test]
    fn a_figure_of_its_own_is_compared_where_both_have_it() {
        let with = |value| Sample { more: vec![Figure::new("restart", value, "ms")], ..Sample::default() };
        let restart = Measure::Figure("restart");
        assert_eq!(restart.ratio(&with(2.0), &with(6.0)), Some(3.0));
        assert_eq!(restart.ratio(&with(2.0), &Sample::default()), None);
        assert_eq!((restart.unit(&with(1.0)), restart.of(&with(1.0))), (" ms".to_owned(), Some(1.0)));
    }
}
