//! One name that many want: the time from when its holder begins to give it back until the next one knows, and whether those
//! who asked first had it first.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{Life, Locker, Work};
use crate::sample::{Figure, Latencies, Sample};
use crate::workload::{Connections, Measure, Stage, Window, Workload};

const NAME: &str = "wanted";
/// They begin to want it one after the other, so that there is an order.
const APART: Duration = Duration::from_millis(1);
/// Who asked so much earlier than another is before it in every order: more contenders are longer on their way.
fn clearly_earlier(contenders: usize) -> Duration {
    APART * u32::try_from(contenders / 40).unwrap_or(u32::MAX).max(5)
}

struct HandOver {
    contenders: usize,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![Box::new(HandOver { contenders: 32 }), Box::new(HandOver { contenders: 1000 })]
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

    fn is_quick(&self) -> bool {
        self.contenders < 1000
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
            let begun = Instant::now();
            let first = |number: usize| begun + APART * u32::try_from(number).unwrap_or(u32::MAX);
            let from = first(lockers.len()) + stage.warm_up;
            let (latencies, window) = (Latencies::new(), Window { from, until: from + stage.length });
            let queue = Queue { earlier: clearly_earlier(self.contenders), ..Queue::default() };
            let queue = Arc::new(Mutex::new(queue));
            let mut tasks = JoinSet::new();
            for (number, locker) in lockers.into_iter().enumerate() {
                let contend = contend(locker, number, Arc::clone(&queue), window, latencies.clone());
                let first = first(number);
                tasks.spawn(async move {
                    tokio::time::sleep_until(first.into()).await;
                    contend.await
                });
            }
            let used = stage.used_in(window).await?;
            // Not all have their turn once more: with many that takes long.
            while let Some(ended) = tasks.try_join_next() {
                ended.map_err(|error| error.to_string())??;
            }
            tasks.shutdown().await;
            let (handed_over, out_of_order) = (latencies.len(), locked(&queue).out_of_order);
            if handed_over == 0 {
                return Err("it was never handed over in that time".to_owned());
            }
            let mut sample = used.sample(handed_over, &latencies);
            sample.more.push(Figure::new("out of order", out_of_order as f64 * 100.0 / handed_over as f64, "%"));
            Ok(Some(sample))
        })
    }
}

/// Who wants the name.
#[derive(Debug, Default)]
struct Queue {
    /// Since when each waits.
    waits: BTreeSet<(Instant, usize)>,
    /// When the last holder began to give it back.
    given_back: Option<Instant>,
    out_of_order: u64,
    /// How much earlier is clearly earlier.
    earlier: Duration,
}

impl Queue {
    /// Notes who has it now, and tells whether somebody who asked clearly earlier still waits.
    fn is_overtaken(&mut self, asked: Instant, contender: usize) -> bool {
        self.waits.remove(&(asked, contender));
        self.waits.first().is_some_and(|(oldest, _)| *oldest + self.earlier < asked)
    }
}

/// Takes the name and gives it back at once, again and again. Only the holder writes when it began to give it back.
async fn contend(
    mut locker: Box<dyn Locker>,
    number: usize,
    queue: Arc<Mutex<Queue>>,
    window: Window,
    latencies: Latencies,
) -> Result<(), String> {
    while window.goes_on() {
        let asked = Instant::now();
        locked(&queue).waits.insert((asked, number));
        locker.lock(NAME).await?;
        let known = Instant::now();
        {
            let mut queue = locked(&queue);
            let overtaken = queue.is_overtaken(asked, number);
            let before = queue.given_back.replace(Instant::now());
            if let Some(before) = before
                && window.has(known)
            {
                latencies.add(known.saturating_duration_since(before));
                queue.out_of_order += u64::from(overtaken);
            }
        }
        locker.unlock().await?;
    }
    Ok(())
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().expect("nobody panics with it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_clearly_earlier_and_still_waits_was_overtaken() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let waits = [(at(0), 1), (at(3), 2), (at(20), 3)].into();
        let mut queue = Queue { waits, earlier: clearly_earlier(32), ..Queue::default() };
        // Requests of almost the same time may arrive either way.
        assert!(!queue.is_overtaken(at(3), 2));
        assert!(queue.is_overtaken(at(20), 3));
        assert!(!queue.is_overtaken(at(0), 1));
    }
}
