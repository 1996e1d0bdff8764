//! One name that many want: the time from when its holder begins to give it back until the next one knows.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::client::{Life, Locker, Work};
use crate::load::finish;
use crate::sample::{Latencies, Sample};
use crate::workload::{Connections, Measure, Stage, Window, Workload};

const NAME: &str = "wanted";

struct HandOver {
    contenders: usize,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![Box::new(HandOver { contenders: 32 })]
}

impl Workload for HandOver {
    fn kind(&self) -> &'static str {
        "hand-over"
    }

    fn case(&self) -> String {
        format!("{} contenders, own", self.contenders)
    }

    fn measure(&self) -> Measure {
        Measure::Latency
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let clients = stage.clients(self.contenders, Connections::Own).await?;
            let mut lockers = Vec::new();
            for client in &clients {
                // Where no lease can be kept for several locks, each has its own.
                let locker = client.locker(Life::Kept).or_else(|| client.locker(Life::PerLock));
                let Some(locker) = locker else { return Ok(None) };
                lockers.push(locker.await?);
            }
            let (latencies, window) = (Latencies::new(), stage.window());
            let given_back = Arc::new(Mutex::new(None));
            let mut tasks = JoinSet::new();
            for locker in lockers {
                tasks.spawn(contend(locker, Arc::clone(&given_back), window, latencies.clone()));
            }
            let used = stage.used_in(window).await;
            finish(tasks).await?;
            Ok(Some(used.sample(latencies.len(), &latencies)))
        })
    }
}

/// Takes the name and gives it back at once, again and again. Only the holder writes when it began to give it back.
async fn contend(
    mut locker: Box<dyn Locker>,
    given_back: Arc<Mutex<Option<Instant>>>,
    window: Window,
    latencies: Latencies,
) -> Result<(), String> {
    while window.goes_on() {
        locker.lock(NAME).await?;
        let known = Instant::now();
        let before = given_back.lock().expect("nobody panics with it").replace(Instant::now());
        if let Some(before) = before
            && window.has(known)
        {
            latencies.add(known.saturating_duration_since(before));
        }
        locker.unlock().await?;
    }
    Ok(())
}
