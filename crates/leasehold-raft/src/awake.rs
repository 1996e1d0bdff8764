//! Keeps the thread of the log awake while a lone proposal is on its way to the disk.
//!
//! A lone proposal crosses threads four times; on an otherwise idle machine each crossing waits for a sleeping core,
//! which costs more than everything else but the disk. So while something is in flight, and only for as long as a
//! flush takes, the runtime's thread looks for its answer instead of going to sleep. Under load it never sleeps
//! anyway, and without proposals it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// An entry with more bytes carries the commands of many callers: there is load, and the cores are needed for that.
const LONE: usize = 512;
/// A flush that takes longer than this is not waited for so eagerly.
const EAGER: Duration = Duration::from_micros(400);

/// How long it stays awake for a next proposal: callers that come one after the other find it so.
const LINGER: Duration = Duration::from_micros(50);

/// Proposals in flight.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    in_flight: AtomicUsize,
    begun: Notify,
}

impl Awake {
    /// Notes a proposal of so many bytes; one that is lone is in flight until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, bytes: usize) -> Option<InFlight> {
        if bytes > LONE {
            return None;
        }
        if self.in_flight.fetch_add(1, Ordering::AcqRel) == 0 {
            self.begun.notify_one();
        }
        Some(InFlight(Arc::clone(self)))
    }

    /// Runs on the runtime that is kept awake.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            self.begun.notified().await;
            let mut busy = Instant::now();
            let began = busy;
            while began.elapsed() < EAGER && busy.elapsed() < LINGER {
                if self.in_flight.load(Ordering::Acquire) > 0 {
                    busy = Instant::now();
                }
                // The system may have put the thread that flushes on this very core, behind this one.
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
        }
    }
}

/// A proposal in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Awake>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
