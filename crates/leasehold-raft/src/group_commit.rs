//! Group commit: whoever waits for the disk waits on one list, and one flush serves the whole list.
//!
//! An append gathers its record, puts its callback on the list and, if no flush runs, takes one out and has it run: by the
//! thread that flushes, or on the spot where that is sooner. Whoever ran a flush completes everybody it covered and runs
//! the next one. A failed write or sync is final: everybody waiting hears of it, nothing is flushed again, and the process must end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use openraft::storage::IOFlushed;
use tokio::sync::watch;

use crate::files::{self, Flush, Flushed};
use crate::store::{Files, Shared};
use crate::types::Types;
use crate::world::World;

/// A flush of this many microseconds is no longer quick.
const QUICK: u64 = 1000;

/// Says once, to everybody who asks, why the log has stopped for good.
#[derive(Clone, Debug)]
pub(crate) struct Fatal {
    reason: Arc<watch::Sender<Option<String>>>,
}

impl Fatal {
    pub(crate) fn new() -> Fatal {
        Fatal { reason: Arc::new(watch::Sender::new(None)) }
    }

    /// Records the reason; the first one stays.
    pub(crate) fn set(&self, reason: impl FnOnce() -> String) {
        self.reason.send_if_modified(|present| {
            let first = present.is_none();
            if first {
                let reason = reason();
                tracing::error!(%reason, "the log has stopped; this process must end");
                *present = Some(reason);
            }
            first
        });
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.borrow().clone()
    }

    pub(crate) async fn wait(&self) -> String {
        let mut receiver = self.reason.subscribe();
        let reason = receiver.wait_for(Option::is_some).await.expect("the sender is held by self");
        reason.clone().expect("waited until there is a reason")
    }
}

/// How long flushes took: write and fdatasync, as waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushTimes {
    /// Flushes so far.
    pub count: u64,
    /// Their time together, in microseconds.
    pub total_micros: u64,
    /// The longest since the last reading, in microseconds.
    pub max_micros: u64,
}

#[derive(Debug, Default)]
pub(crate) struct FlushClock {
    count: AtomicU64,
    total_micros: AtomicU64,
    max_micros: AtomicU64,
    last_micros: AtomicU64,
    pub(crate) fail_next: AtomicBool,
}

impl FlushClock {
    pub(crate) fn read(&self) -> FlushTimes {
        FlushTimes {
            count: self.count.load(Ordering::Relaxed),
            total_micros: self.total_micros.load(Ordering::Relaxed),
            max_micros: self.max_micros.swap(0, Ordering::Relaxed),
        }
    }

    fn note(&self, started: Instant) {
        let micros = started.elapsed().as_micros() as u64;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_micros.fetch_add(micros, Ordering::Relaxed);
        self.max_micros.fetch_max(micros, Ordering::Relaxed);
        self.last_micros.store(micros, Ordering::Relaxed);
    }

    /// Whether the last one was quick.
    fn was_quick(&self) -> bool {
        self.last_micros.load(Ordering::Relaxed) < QUICK
    }
}

/// Those who wait for the disk.
#[derive(Default)]
pub(crate) struct Waiting {
    list: Vec<IOFlushed<Types>>,
    flushing: bool,
}

impl Waiting {
    pub(crate) fn push(&mut self, callback: IOFlushed<Types>) {
        self.list.push(callback);
    }
}

/// A flush and those it serves.
pub(crate) struct Job {
    shared: Weak<Shared>,
    flush: Flush,
    list: Vec<IOFlushed<Types>>,
    started: Instant,
}

impl Job {
    /// Carries out the flush and tells everybody it served; returns the next one, if somebody has come meanwhile.
    fn run(self) -> Option<Job> {
        let flushed = self.flush.carry_out();
        complete_flush(&self.shared, self.list, self.started, flushed)
    }

    /// The same for all that follow, each when the world's disk is done, in the world's order.
    async fn run_in_world(self, world: Arc<dyn World>) {
        let mut next = Some(self);
        while let Some(job) = next {
            let written = job.flush.write_ahead();
            if let Ok(Some((file, at, bytes))) = &written {
                world.written(file, *at, *bytes);
            }
            tokio::time::sleep(world.flush_takes()).await;
            let Some(shared) = job.shared.upgrade() else { return };
            let flushed = written.and_then(|_| job.flush.carry_out());
            world.flushed(&shared.dir);
            next = complete_flush(&job.shared, job.list, job.started, flushed);
        }
    }
}

fn complete_flush(
    shared: &Weak<Shared>,
    list: Vec<IOFlushed<Types>>,
    started: Instant,
    flushed: io::Result<Flushed>,
) -> Option<Job> {
    let Some(shared) = shared.upgrade() else {
        complete(list, &flushed.map(drop));
        return None;
    };
    shared.flushes.note(started);
    let injected = shared.flushes.fail_next.swap(false, Ordering::Relaxed);
    let flushed = if injected { Err(io::Error::other("a test made this flush fail")) } else { flushed };
    let flushed = match flushed {
        Ok(flushed) => flushed,
        Err(error) => {
            shared.fatal.set(|| failure(&shared, &error));
            let failed = Err(error);
            complete(list, &failed);
            // Those who came while this flush ran; later ones are refused. `flushing` stays up: nothing is flushed
            // after a failure.
            let late = std::mem::take(&mut shared.files.lock().waiting.list);
            complete(late, &failed);
            return None;
        }
    };
    complete(list, &Ok(()));
    let (next, gone) = {
        let mut files = shared.files.lock();
        files.waiting.flushing = false;
        let gone = files.log.as_mut().map(|log| log.flushed(flushed)).unwrap_or_default();
        (next_job(&shared, &mut files), gone)
    };
    if let Err(error) = files::remove(&gone) {
        tracing::warn!(%error, "a file of the log that is no longer needed cannot be removed");
    }
    next
}

/// A flush, if somebody waits and none runs. It must be dispatched once the files are no longer locked.
pub(crate) fn next_job(shared: &Arc<Shared>, files: &mut Files) -> Option<Job> {
    if files.waiting.flushing || files.waiting.list.is_empty() {
        return None;
    }
    let list = std::mem::take(&mut files.waiting.list);
    let Some(log) = files.log.as_mut() else {
        complete(list, &Err(closed()));
        return None;
    };
    let Some(flush) = log.take_flush() else {
        complete(list, &Ok(()));
        return None;
    };
    files.waiting.flushing = true;
    Some(Job { shared: Arc::downgrade(shared), flush, list, started: Instant::now() })
}

impl Job {
    /// Has it run: here if it is small, the disk is quick and this node is alone, so that nobody waits for this thread;
    /// else by the thread that flushes. On its way there and back two threads would have to be woken, which takes as long
    /// as what could be done meanwhile.
    pub(crate) fn dispatch(self, shared: &Shared) {
        if let Some(world) = &shared.world {
            drop(tokio::spawn(self.run_in_world(Arc::clone(world))));
        } else if self.flush.is_small() && shared.flushes.was_quick() && shared.is_alone.load(Ordering::Relaxed) {
            if let (Some(next), Some(flusher)) = (self.run(), &shared.flusher) {
                flusher.run(next);
            }
        } else if let Some(flusher) = &shared.flusher {
            flusher.run(self);
        }
    }
}

/// The thread that flushes. It ends when nobody can ask it any more.
#[derive(Debug)]
pub(crate) struct Flusher(std::sync::mpsc::Sender<Job>);

impl Flusher {
    pub(crate) fn start() -> io::Result<Flusher> {
        let (ask, asked) = std::sync::mpsc::channel::<Job>();
        let flush = move || {
            for job in asked {
                let mut next = Some(job);
                while let Some(job) = next {
                    next = job.run();
                }
            }
        };
        std::thread::Builder::new().name("log-flush".to_owned()).spawn(flush)?;
        Ok(Flusher(ask))
    }

    fn run(&self, job: Job) {
        // The thread lives for as long as this.
        if let Err(unsent) = self.0.send(job) {
            complete(unsent.0.list, &Err(closed()));
        }
    }
}

fn failure(shared: &Shared, error: &io::Error) -> String {
    format!("writing the log in {} failed: {error}", shared.dir.display())
}

pub(crate) fn closed() -> io::Error {
    io::Error::other("the log is closed")
}

fn complete(list: Vec<IOFlushed<Types>>, result: &io::Result<()>) {
    for callback in list {
        callback.io_completed(match result {
            Ok(()) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        });
    }
}
