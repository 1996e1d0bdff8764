//! The thread of a client: a runtime of its own, so that renewals go on whatever its callers do.
//!
//! All futures of the store run here. Callers talk to it by channels and need no runtime themselves. Every poll is
//! counted and the thread tells when it is idle, so that a clock moved by a test knows when all that had to
//! happen has happened ([`Settle`]).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;

use tokio::sync::{mpsc, watch};

/// The name of the thread.
const NAME: &str = "lease-client";

/// Lets a clock wait until a client has done all that there is to do for now.
#[derive(Clone, Debug)]
pub struct Settle {
    pulse: Arc<Pulse>,
    pings: mpsc::UnboundedSender<u64>,
}

/// How busy the thread of a client is.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// How often a poll of one of its tasks began or ended.
    polls: AtomicU64,
    /// The last ping that arrived.
    seen: AtomicU64,
    /// The number of the next ping.
    next: AtomicU64,
    /// The last ping after which the thread had nothing left to do.
    idle: watch::Sender<u64>,
}

impl Settle {
    /// Returns when the client is idle: the count of its polls so far. None if it has ended.
    pub(crate) async fn idle(&self) -> Option<u64> {
        let mut idle = self.pulse.idle.subscribe();
        let ping = self.pulse.next.fetch_add(1, Ordering::AcqRel) + 1;
        self.pings.send(ping).ok()?;
        tokio::select! {
            _ = idle.wait_for(|seen| *seen >= ping) => Some(self.polls()),
            () = self.pings.closed() => None,
        }
    }

    /// How often a poll of the client's tasks began or ended so far.
    pub(crate) fn polls(&self) -> u64 {
        self.pulse.polls.load(Ordering::Acquire)
    }
}

impl Pulse {
    /// Counts the polls of a task.
    pub(crate) fn counted<F: Future + Send + 'static>(self: &Arc<Self>, task: F) -> Counted<F> {
        Counted { pulse: Arc::clone(self), task: Box::pin(task) }
    }

    fn note_idle(&self) {
        let seen = self.seen.load(Ordering::Acquire);
        self.idle.send_if_modified(|idle| {
            let later = seen > *idle;
            *idle = seen.max(*idle);
            later
        });
    }
}

/// A task whose polls are counted.
pub(crate) struct Counted<F> {
    pulse: Arc<Pulse>,
    task: Pin<Box<F>>,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Counted twice: one that is under way when somebody looks counts again when it is done.
        self.pulse.polls.fetch_add(1, Ordering::AcqRel);
        let polled = self.task.as_mut().poll(context);
        self.pulse.polls.fetch_add(1, Ordering::AcqRel);
        polled
    }
}

/// Starts a thread that runs the task that `main` makes, until it returns.
pub(crate) fn start<F>(main: impl FnOnce(Arc<Pulse>) -> F + Send + 'static) -> Settle
where
    F: Future<Output = ()> + Send + 'static,
{
    let pulse = Arc::new(Pulse::default());
    let (pings, pinged) = mpsc::unbounded_channel();
    let settle = Settle { pulse: Arc::clone(&pulse), pings };
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || run(&pulse, pinged, main))
        .expect("a process that cannot start a thread cannot keep leases");
    settle
}

fn run<F>(pulse: &Arc<Pulse>, mut pinged: mpsc::UnboundedReceiver<u64>, main: impl FnOnce(Arc<Pulse>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let parked = Arc::clone(pulse);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || parked.note_idle())
        .build()
        .expect("a process that cannot start a runtime cannot keep leases");
    let seen = Arc::clone(pulse);
    runtime.spawn(async move {
        while let Some(ping) = pinged.recv().await {
            seen.seen.fetch_max(ping, Ordering::AcqRel);
        }
    });
    runtime.block_on(pulse.counted(main(Arc::clone(pulse))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_is_idle_when_its_tasks_wait() {
        let (send, mut receive) = mpsc::unbounded_channel::<u32>();
        let settle = start(|_| async move {
            let mut left = receive.recv().await.unwrap();
            while left > 0 {
                tokio::task::yield_now().await;
                left -= 1;
            }
            receive.recv().await;
        });
        settle.idle().await.unwrap();
        send.send(100).unwrap();
        assert!(settle.idle().await.unwrap() > 100);
        drop(send);
        while settle.idle().await.is_some() {}
    }
}
