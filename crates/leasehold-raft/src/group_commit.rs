//! Group commit: whoever waits for the disk waits on one list, and one flush serves the whole list.
//!
//! The thread is raft-log's flush thread, the only one that writes and syncs. An append buffers its record, puts its
//! callback on the list and, if no flush runs, asks for one. When a flush ends, that thread completes everybody the
//! flush covered and asks for the next one itself: no second thread to wake, so a lone write pays for one hand-over.
//! A failed write or sync is final: everybody waiting hears of it, nothing is flushed again, and the process must end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use openraft::storage::IOFlushed;
use raft_log::api::raft_log_writer::RaftLogWriter;
use tokio::sync::watch;

use crate::store::{Files, Shared};
use crate::types::Types;
use crate::world::World;

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

/// Those one flush serves; raft-log calls it back when the flush has ended.
pub(crate) struct Batch {
    shared: Weak<Shared>,
    list: Vec<IOFlushed<Types>>,
    started: Instant,
    /// Who is told instead of completing the batch on the flush thread.
    relay: Option<std::sync::mpsc::SyncSender<io::Result<()>>>,
}

impl raft_log::Callback for Batch {
    fn send(mut self, result: io::Result<()>) {
        match self.relay.take() {
            Some(relay) => relay.send(result),
            None => self.complete(result),
        }
    }
}

impl Batch {
    fn complete(self, result: io::Result<()>) {
        let Some(shared) = self.shared.upgrade() else { return complete(self.list, &result) };
        shared.flushes.note(self.started);
        let injected = shared.flushes.fail_next.swap(false, Ordering::Relaxed);
        let result = if injected { Err(io::Error::other("a test made this flush fail")) } else { result };
        if let Err(error) = &result {
            shared.fatal.set(|| failure(&shared, error));
            complete(self.list, &result);
            // Those who came while this flush ran; later ones are refused. `flushing` stays up: nothing is flushed
            // after a failure.
            let late = std::mem::take(&mut shared.files.lock().waiting.list);
            return complete(late, &result);
        }
        complete(self.list, &result);
        let mut files = shared.files.lock();
        files.waiting.flushing = false;
        flush_if_waited_for(&shared, &mut files);
    }
}

/// Asks for a flush if somebody waits and none runs.
pub(crate) fn flush_if_waited_for(shared: &Arc<Shared>, files: &mut Files) {
    if files.waiting.flushing || files.waiting.list.is_empty() {
        return;
    }
    let list = std::mem::take(&mut files.waiting.list);
    let Some(log) = files.log.as_mut() else { return complete(list, &Err(closed())) };
    files.waiting.flushing = true;
    let batch = Batch { shared: Arc::downgrade(shared), list, started: Instant::now(), relay: None };
    if let Some(world) = &shared.world {
        return drop(tokio::spawn(flush_in_world(batch, world.clone())));
    }
    if let Err(error) = log.flush(true, Some(batch)) {
        // The batch went down with the request; its callbacks are gone, and so is the log.
        shared.fatal.set(|| failure(shared, &error));
    }
}

/// Flushes when the world's disk is done, and completes the batch in the world's order instead of on the flush thread.
async fn flush_in_world(batch: Batch, world: Arc<dyn World>) {
    tokio::time::sleep(world.flush_takes()).await;
    let Some(shared) = batch.shared.upgrade() else { return };
    let (relay, flushed) = std::sync::mpsc::sync_channel(1);
    let probe = Batch { shared: Weak::new(), list: Vec::new(), started: batch.started, relay: Some(relay) };
    let asked = match shared.files.lock().log.as_mut() {
        Some(log) => log.flush(true, Some(probe)),
        None => Err(closed()),
    };
    let result = asked.and_then(|()| flushed.recv().map_err(io::Error::other)?);
    world.flushed(&shared.dir);
    batch.complete(result);
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
