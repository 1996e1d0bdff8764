//! Watches: how soon a write is seen by all who watch, and how many events in a second are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{Client, Watcher, Work, Writer};
use crate::load::{self, Caller};
use crate::sample::{Latencies, Sample};
use crate::workload::{Connections, Measure, Stage, Window, Workload};

/// What is watched.
const PREFIX: &str = "watched/";
/// How many watches share a connection: fewer than any system permits.
const PER_CONNECTION: usize = 100;
/// What values are filled up to.
const VALUE: usize = 64;

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(Seen { watchers: 1, writes: 200 }),
        Box::new(Seen { watchers: 100, writes: 50 }),
        Box::new(Seen { watchers: 1000, writes: 10 }),
        Box::new(Stream { watchers: 1, writers: 64 }),
        Box::new(Stream { watchers: 10, writers: 64 }),
    ]
}

/// Opens so many watches; none if the system has no such thing. The clients are what keeps the connections.
async fn watchers(
    stage: &Stage<'_>,
    watchers: usize,
) -> Result<Option<(Vec<Box<dyn Watcher>>, Vec<Box<dyn Client>>)>, String> {
    let clients = stage.clients(watchers.div_ceil(PER_CONNECTION), Connections::Own).await?;
    let mut all = Vec::new();
    for number in 0..watchers {
        let Some(watcher) = clients[number / PER_CONNECTION].watcher(PREFIX) else { return Ok(None) };
        all.push(watcher.await?);
    }
    Ok(Some((all, clients)))
}

/// How soon each of many watchers sees a write. Writes come at fixed moments; latency counts from when one was due.
struct Seen {
    watchers: usize,
    /// In a second.
    writes: u32,
}

impl Workload for Seen {
    fn kind(&self) -> &'static str {
        "watch latency"
    }

    fn case(&self) -> String {
        format!("{} watchers, {} writes/s", self.watchers, self.writes)
    }

    fn measure(&self) -> Measure {
        Measure::Latency
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let Some((watchers, _connections)) = watchers(stage, self.watchers).await? else { return Ok(None) };
            let Some(mut writer) = stage.client().await?.writer() else { return Ok(None) };
            let (latencies, window) = (Latencies::new(), stage.window());
            let origin = Instant::now();
            let mut watching = JoinSet::new();
            for watcher in watchers {
                watching.spawn(see(watcher, origin, window, latencies.clone()));
            }
            let writes = self.writes;
            let writing = tokio::spawn(async move { write_when_due(&mut *writer, origin, writes, window).await });
            let used = stage.used_in(window).await?;
            writing.await.map_err(|error| error.to_string())??;
            // What was written last is still under way.
            tokio::time::sleep(Duration::from_millis(200)).await;
            failed(&mut watching).await?;
            Ok(Some(used.sample(latencies.len(), &latencies)))
        })
    }
}

/// Writes at fixed moments; a value begins with the moment its write was due.
async fn write_when_due(writer: &mut dyn Writer, origin: Instant, writes: u32, window: Window) -> Result<(), String> {
    for number in 0.. {
        let due = Duration::from_secs(1) * number / writes;
        tokio::time::sleep_until((origin + due).into()).await;
        if !window.goes_on() {
            return Ok(());
        }
        // Timers are only as fine as a millisecond, so the moment it really begins is what counts.
        writer.put(&format!("{PREFIX}one"), &stamped(origin.elapsed())).await?;
    }
    Ok(())
}

/// Notes how old each value is when it is seen.
async fn see(
    mut watcher: Box<dyn Watcher>,
    origin: Instant,
    window: Window,
    latencies: Latencies,
) -> Result<(), String> {
    loop {
        watcher
            .next(&mut |value: &[u8]| {
                if let Some(written) = stamp(value).map(|stamp| origin + stamp).filter(|at| window.has(*at)) {
                    latencies.add(written.elapsed());
                }
            })
            .await?;
    }
}

fn stamped(moment: Duration) -> Vec<u8> {
    let mut value = (moment.as_nanos() as u64).to_be_bytes().to_vec();
    value.resize(VALUE, b'v');
    value
}

fn stamp(value: &[u8]) -> Option<Duration> {
    value.first_chunk::<8>().map(|bytes| Duration::from_nanos(u64::from_be_bytes(*bytes)))
}

/// The first error of watchers that ended by themselves, if any did.
async fn failed(watching: &mut JoinSet<Result<(), String>>) -> Result<(), String> {
    match watching.try_join_next() {
        Some(ended) => ended.map_err(|error| error.to_string())?.and(Err("a watch ended".to_owned())),
        None => {
            watching.shutdown().await;
            Ok(())
        }
    }
}

/// How many events in a second all watchers together see while callers write as fast as they can.
struct Stream {
    watchers: usize,
    writers: usize,
}

impl Workload for Stream {
    fn kind(&self) -> &'static str {
        "watch rate"
    }

    fn case(&self) -> String {
        format!("{} watchers, {} writers, own", self.watchers, self.writers)
    }

    fn measure(&self) -> Measure {
        Measure::Rate
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let mut watching = JoinSet::new();
            let seen = Arc::new(AtomicU64::new(0));
            let Some((watchers, _connections)) = watchers(stage, self.watchers).await? else { return Ok(None) };
            let clients = stage.clients(self.writers, Connections::Own).await?;
            let (latencies, origin, window) = (Latencies::new(), Instant::now(), stage.window());
            let mut writers: Vec<Box<dyn Caller>> = Vec::new();
            for (number, client) in clients.iter().enumerate() {
                let Some(writer) = client.writer() else { return Ok(None) };
                writers.push(Box::new(Writing { writer, key: format!("{PREFIX}{number}"), origin }));
            }
            for watcher in watchers {
                watching.spawn(count(watcher, origin, window, Arc::clone(&seen), latencies.clone()));
            }
            let written = load::closed(stage, writers).await?;
            failed(&mut watching).await?;
            let (events, seconds) = (seen.load(Ordering::Relaxed) as f64, stage.length.as_secs_f64());
            let each = written.rate * seconds / events.max(1.0);
            Ok(Some(Sample {
                rate: events / seconds,
                p50_ms: latencies.at(0.5),
                p99_ms: latencies.at(0.99),
                p999_ms: latencies.at(0.999),
                max_ms: latencies.at(1.0),
                server_cpu_us: written.server_cpu_us * each,
                client_cpu_us: written.client_cpu_us * each,
                ..written
            }))
        })
    }
}

/// A caller that writes the moment at which it does.
struct Writing {
    writer: Box<dyn Writer>,
    key: String,
    origin: Instant,
}

impl Caller for Writing {
    fn call(&mut self) -> Work<'_> {
        let value = stamped(self.origin.elapsed());
        Box::pin(async move { self.writer.put(&self.key, &value).await })
    }
}

/// Counts what is seen while it counts, and how old it is.
async fn count(
    mut watcher: Box<dyn Watcher>,
    origin: Instant,
    window: Window,
    seen: Arc<AtomicU64>,
    latencies: Latencies,
) -> Result<(), String> {
    loop {
        watcher
            .next(&mut |value: &[u8]| {
                let now = Instant::now();
                if window.has(now)
                    && let Some(stamp) = stamp(value)
                {
                    seen.fetch_add(1, Ordering::Relaxed);
                    latencies.add(now.saturating_duration_since(origin + stamp));
                }
            })
            .await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_when_it_was_written() {
        let moment = Duration::from_micros(1_234_567);
        let value = stamped(moment);
        assert_eq!(value.len(), VALUE);
        assert_eq!(stamp(&value), Some(moment));
        assert_eq!(stamp(b"short"), None);
    }
}
