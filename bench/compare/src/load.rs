//! The load generator: callers in a closed loop, and arrivals in an open one.
//!
//! In a closed loop a caller begins its next operation when it has the answer to the last, so a slow system is asked less
//! often. In an open loop operations are due at fixed moments whatever the system does, and latency counts from the moment an
//! operation was due: one that had to wait for those before it is late, and is counted so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::client::Work;
use super::sample::{Latencies, Sample};
use super::workload::{Stage, Window};

/// Does one operation after the other.
pub(crate) trait Caller: Send {
    /// Does the next one.
    fn call(&mut self) -> Work<'_>;

    /// How many operations a call is.
    fn operations(&self) -> u64 {
        1
    }
}

/// Measures callers that each begin the next call when the last is answered.
pub(crate) async fn closed(stage: &Stage<'_>, callers: Vec<Box<dyn Caller>>) -> Result<Sample, String> {
    let (latencies, window) = (Latencies::new(), stage.window());
    let each = callers.first().map_or(1, |caller| caller.operations());
    let mut tasks = JoinSet::new();
    for caller in callers {
        tasks.spawn(call_again_and_again(caller, window, latencies.clone()));
    }
    let used = stage.used_in(window).await?;
    finish(tasks).await?;
    Ok(used.sample(latencies.len() * each, &latencies))
}

async fn call_again_and_again(mut caller: Box<dyn Caller>, window: Window, latencies: Latencies) -> Result<(), String> {
    while window.goes_on() {
        let begun = Instant::now();
        caller.call().await?;
        let done = Instant::now();
        if window.has(done) {
            latencies.add(done - begun);
        }
    }
    Ok(())
}

/// Measures calls that are due so many times a second, done by whichever caller is free.
pub(crate) async fn open(stage: &Stage<'_>, callers: Vec<Box<dyn Caller>>, rate: u32) -> Result<Sample, String> {
    let (latencies, window) = (Latencies::new(), stage.window());
    let each = callers.first().map_or(1, |caller| caller.operations());
    let (due, arrivals) = unbounded_channel();
    let arrivals = Arc::new(Mutex::new(arrivals));
    let mut tasks = JoinSet::new();
    for caller in callers {
        tasks.spawn(call_when_due(caller, Arc::clone(&arrivals), window, latencies.clone()));
    }
    // A thread, because timers of the runtime are only as fine as a millisecond.
    let pace = std::thread::spawn(move || arrive(&due, rate, window.until));
    let used = stage.used_in(window).await?;
    finish(tasks).await?;
    pace.join().map_err(|_| "the thread that sets the pace panicked".to_owned())?;
    Ok(used.sample(latencies.len() * each, &latencies))
}

/// Says when each call is due, until all are.
fn arrive(due: &UnboundedSender<Instant>, rate: u32, until: Instant) {
    let begun = Instant::now();
    for number in 0.. {
        let moment = begun + moment_of(number, rate);
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        if moment >= until || due.send(moment).is_err() {
            return;
        }
    }
}

/// When a call is due, counted from the first.
fn moment_of(number: u64, rate: u32) -> Duration {
    Duration::from_nanos(number.saturating_mul(1_000_000_000) / u64::from(rate.max(1)))
}

async fn call_when_due(
    mut caller: Box<dyn Caller>,
    arrivals: Arc<Mutex<UnboundedReceiver<Instant>>>,
    window: Window,
    latencies: Latencies,
) -> Result<(), String> {
    loop {
        let arrived = arrivals.lock().await.recv().await;
        let Some(due) = arrived else { return Ok(()) };
        caller.call().await?;
        // By the moment it was due: those that are answered too late belong to the picture.
        if window.has(due) {
            latencies.add(due.elapsed());
        }
    }
}

/// Waits for all tasks; the first error, if there is any.
pub(crate) async fn finish(mut tasks: JoinSet<Result<(), String>>) -> Result<(), String> {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::system::{Running, System as _};
    use crate::systems::Nothing;

    /// Stalls once for long, and is quick otherwise.
    struct Stalls(Option<Duration>);

    impl Caller for Stalls {
        fn call(&mut self) -> Work<'_> {
            Box::pin(async move {
                if let Some(stall) = self.0.take() {
                    tokio::time::sleep(stall).await;
                }
                Ok(())
            })
        }
    }

    fn stage(running: &Running) -> Stage<'_> {
        let length = Duration::from_millis(400);
        Stage { system: &Nothing, running, warm_up: Duration::ZERO, length, quick: true }
    }

    /// A stall of half the time makes half of all calls late in an open loop, and one call in a closed one.
    #[tokio::test]
    async fn only_an_open_loop_shows_a_stall_to_all_who_had_to_wait() {
        let running = Nothing.start(Path::new("")).unwrap();
        let stall = Some(Duration::from_millis(250));
        let opened = open(&stage(&running), vec![Box::new(Stalls(stall))], 200).await.unwrap();
        assert!(opened.p50_ms > 10.0, "{opened:?}");
        let closed = closed(&stage(&running), vec![Box::new(Stalls(stall))]).await.unwrap();
        assert!(closed.p50_ms < opened.p50_ms / 10.0, "{closed:?} beside {opened:?}");
    }

    #[test]
    fn calls_are_due_at_even_distances() {
        assert_eq!(moment_of(0, 1000), Duration::ZERO);
        assert_eq!(moment_of(1500, 1000), Duration::from_millis(1500));
    }

    #[tokio::test]
    async fn an_error_of_any_caller_ends_the_measurement() {
        struct Fails;
        impl Caller for Fails {
            fn call(&mut self) -> Work<'_> {
                Box::pin(async { Err("no".to_owned()) })
            }
        }
        let running = Nothing.start(Path::new("")).unwrap();
        assert_eq!(closed(&stage(&running), vec![Box::new(Fails)]).await, Err("no".to_owned()));
    }
}
