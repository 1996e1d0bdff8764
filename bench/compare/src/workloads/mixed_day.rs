//! A mixed day: many leases that clients keep alive, some that come and go, and watchers. Latency is that of renewals.
//!
//! Each client keeps its leases over a connection of its own and renews all of them together, every third of their ttl, at
//! moments that are spread evenly; latency counts from the moment that was due. Beside that one in a hundred leases is
//! granted and given back each second, and each watcher sees a hundredth of that. What the servers used is told for each
//! renewal, but is that of everything.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{Client, Life, Locker, Renewer, Watcher, Work};
use crate::load::{self, Caller, finish};
use crate::sample::{Latencies, Sample};
use crate::workload::{Connections, Effort, Measure, Stage, Window, Workload};

const CLIENTS: usize = 100;
/// Of each client.
const LEASES: usize = 500;
const TTL: Duration = Duration::from_secs(10);
/// A hundredth of all leases.
const CHURN: u32 = (CLIENTS * LEASES / 100) as u32;
const CHURNERS: usize = 64;
const WATCHERS: usize = 100;
/// How many watches share a connection.
const PER_CONNECTION: usize = 50;
/// How long it is measured; in a quick look, shorter.
const LENGTH: Duration = Duration::from_secs(10);
const LENGTH_QUICK: Duration = Duration::from_secs(4);

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![Box::new(MixedDay)]
}

struct MixedDay;

impl Workload for MixedDay {
    fn kind(&self) -> &'static str {
        "mixed day"
    }

    fn case(&self) -> String {
        format!(
            "{} leases renewed every {:.1} s, {CHURN}/s come and go, {WATCHERS} watchers",
            CLIENTS * LEASES,
            EVERY.as_secs_f64()
        )
    }

    fn measure(&self) -> Measure {
        Measure::Tail
    }

    fn effort(&self) -> Effort {
        Effort::Long
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let clients = stage.clients(CLIENTS, Connections::Own).await?;
            let Some(renewers) = renewers(&clients).await? else { return Ok(None) };
            let watching = stage.clients(WATCHERS.div_ceil(PER_CONNECTION), Connections::Own).await?;
            let Some(watchers) = watchers(&watching).await? else { return Ok(None) };
            let churning = stage.clients(CHURNERS, Connections::Shared).await?;
            let Some(churners) = churners(&churning).await? else { return Ok(None) };
            let length = if stage.quick { LENGTH_QUICK } else { LENGTH };
            let stage = Stage { length, ..*stage };
            let mut seen = JoinSet::new();
            for watcher in watchers {
                seen.spawn(see(watcher));
            }
            let (churned, renewed) = tokio::join!(load::open(&stage, churners, CHURN), keep(&stage, renewers));
            churned?;
            if let Some(ended) = seen.try_join_next() {
                ended.map_err(|error| error.to_string())??;
            }
            seen.shutdown().await;
            renewed.map(Some)
        })
    }
}

/// A third of the ttl.
const EVERY: Duration = TTL.checked_div(3).expect("three is not zero");

async fn renewers(clients: &[Box<dyn Client>]) -> Result<Option<Vec<Box<dyn Renewer>>>, String> {
    let mut all = Vec::new();
    for client in clients {
        let Some(renewer) = client.renewer(LEASES) else { return Ok(None) };
        all.push(renewer.await?);
    }
    Ok(Some(all))
}

async fn watchers(clients: &[Box<dyn Client>]) -> Result<Option<Vec<Box<dyn Watcher>>>, String> {
    let mut all = Vec::new();
    for number in 0..WATCHERS {
        let prefix = format!("churn/{number}/");
        let Some(watcher) = clients[number / PER_CONNECTION].watcher(&prefix) else { return Ok(None) };
        all.push(watcher.await?);
    }
    Ok(Some(all))
}

async fn churners(clients: &[Box<dyn Client>]) -> Result<Option<Vec<Box<dyn Caller>>>, String> {
    let mut all: Vec<Box<dyn Caller>> = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let Some(locker) = client.locker(Life::PerLock) else { return Ok(None) };
        all.push(Box::new(Churning { locker: locker.await?, number, next: number }));
    }
    Ok(Some(all))
}

/// A caller that takes a lock with a lease of its own and gives it back, each time where another watcher looks.
struct Churning {
    locker: Box<dyn Locker>,
    number: usize,
    next: usize,
}

impl Caller for Churning {
    fn call(&mut self) -> Work<'_> {
        let name = format!("churn/{}/{}", self.next % WATCHERS, self.number);
        self.next += 1;
        Box::pin(async move {
            self.locker.lock(&name).await?;
            self.locker.unlock().await
        })
    }
}

/// Sees what there is to see.
async fn see(mut watcher: Box<dyn Watcher>) -> Result<(), String> {
    loop {
        watcher.next(&mut |_| {}).await?;
    }
}

/// Keeps all leases alive.
async fn keep(stage: &Stage<'_>, renewers: Vec<Box<dyn Renewer>>) -> Result<Sample, String> {
    let (latencies, window, begun) = (Latencies::new(), stage.window(), Instant::now());
    let mut tasks = JoinSet::new();
    for (number, renewer) in renewers.into_iter().enumerate() {
        let first = begun + EVERY.mul_f64(number as f64 / CLIENTS as f64);
        tasks.spawn(renew_when_due(renewer, first, window, latencies.clone()));
    }
    let used = stage.used_in(window).await?;
    finish(tasks).await?;
    Ok(used.sample(latencies.len() * LEASES as u64, &latencies))
}

async fn renew_when_due(
    mut renewer: Box<dyn Renewer>,
    first: Instant,
    window: Window,
    latencies: Latencies,
) -> Result<(), String> {
    let mut due = first;
    while due < window.until {
        tokio::time::sleep_until(due.into()).await;
        renewer.renew().await?;
        if window.has(due) {
            latencies.add(due.elapsed());
        }
        due += EVERY;
    }
    Ok(())
}
