//! The disk of a node: real files, of which a crash takes what was not flushed.
//!
//! A flush takes as long as the simulation says; what it covered is noted. When the node crashes, the log keeps what was
//! flushed and, of what was written after that, any beginning: nothing, whole records, or one that is torn. A snapshot
//! that was being written leaves a file without an end behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The disk of one node. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    root: PathBuf,
    chance: StdRng,
    /// How long a flush takes at most, in milliseconds.
    slowness: u64,
    /// The durable length of each log file.
    durable: BTreeMap<PathBuf, u64>,
}

impl Disk {
    pub(crate) fn new(root: PathBuf, slowness: u64, seed: u64) -> Disk {
        let chance = StdRng::seed_from_u64(seed);
        Disk(Arc::new(Mutex::new(State { root, chance, slowness, durable: BTreeMap::new() })))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.lock().root.clone()
    }

    /// Makes flushes take up to so many milliseconds.
    pub(crate) fn set_slowness(&self, millis: u64) {
        self.0.lock().slowness = millis;
    }

    pub(crate) fn flush_takes(&self) -> Duration {
        let mut state = self.0.lock();
        let slowness = state.slowness;
        Duration::from_millis(state.chance.random_range(0..=slowness))
    }

    pub(crate) fn flushed(&self, log: &Path) {
        self.0.lock().durable = lengths(log).unwrap_or_default();
    }

    /// Knows nothing of its files any more: they were replaced.
    pub(crate) fn forget(&self) {
        self.0.lock().durable.clear();
    }

    /// Loses what was not flushed; the files must be closed. Returns how many bytes went.
    pub(crate) fn crash(&self) -> io::Result<u64> {
        let state = &mut *self.0.lock();
        let (log, snapshots) = (state.root.join("groups/0/log"), state.root.join("groups/0/snapshots"));
        let present = lengths(&log)?;
        let volatile = |file: &PathBuf, length: u64| length - state.durable.get(file).copied().unwrap_or(0).min(length);
        let total: u64 = present.iter().map(|(file, length)| volatile(file, *length)).sum();
        let mut kept = match state.chance.random_range(0..10) {
            0..4 => 0,
            4..6 => total,
            _ => state.chance.random_range(0..=total),
        };
        let lost = total - kept;
        for (file, length) in &present {
            let volatile = volatile(file, *length);
            let stays = volatile.min(kept);
            kept -= stays;
            // A file that was begun is there, with whatever is in it: its name is made durable first.
            if stays < volatile {
                File::options().write(true).open(file)?.set_len(length - volatile + stays)?;
            }
        }
        if snapshots.is_dir() && state.chance.random_bool(0.2) {
            File::create(snapshots.join("writing.tmp"))?.write_all(b"an unfinished snapshot")?;
        }
        Ok(lost)
    }
}

/// The log files and their lengths, oldest first.
fn lengths(log: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let mut lengths = BTreeMap::new();
    if !log.is_dir() {
        return Ok(lengths);
    }
    for entry in std::fs::read_dir(log)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            lengths.insert(path.clone(), path.metadata()?.len());
        }
    }
    Ok(lengths)
}
