//! The disk of a node: real files, of which a crash takes what was not flushed.
//!
//! A flush takes as long as the simulation says. When the node crashes before it is done, each sector of what was written is
//! on the disk or not: nothing of it, all of it, or any part. A snapshot that was being written leaves a file without an
//! end behind.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What is written at once.
const SECTOR: usize = 512;

/// The disk of one node. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    root: PathBuf,
    chance: StdRng,
    /// How long a flush takes at most, in milliseconds.
    slowness: u64,
    /// What was written and is not durable: bytes of a file.
    volatile: Option<(PathBuf, u64, u64)>,
}

impl Disk {
    pub(crate) fn new(root: PathBuf, slowness: u64, seed: u64) -> Disk {
        let chance = StdRng::seed_from_u64(seed);
        Disk(Arc::new(Mutex::new(State { root, chance, slowness, volatile: None })))
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

    /// Notes what is written and not durable until the flush is done.
    pub(crate) fn written(&self, file: &Path, at: u64, bytes: u64) {
        self.0.lock().volatile = Some((file.to_path_buf(), at, bytes));
    }

    pub(crate) fn flushed(&self) {
        self.0.lock().volatile = None;
    }

    /// Knows nothing of its files any more: they were replaced.
    pub(crate) fn forget(&self) {
        self.flushed();
    }

    /// Loses what was not flushed; the files must be closed. Returns how many bytes went.
    pub(crate) fn crash(&self) -> io::Result<u64> {
        let state = &mut *self.0.lock();
        let snapshots = state.root.join("groups/0/snapshots");
        let mut lost = 0;
        if let Some((file, at, bytes)) = state.volatile.take()
            && file.is_file()
        {
            let stays = match state.chance.random_range(0..10) {
                0..4 => 0.0,
                4..6 => 1.0,
                _ => state.chance.random_range(0.0..1.0),
            };
            let file = File::options().write(true).open(file)?;
            for sector in (at..at + bytes).step_by(SECTOR) {
                if !state.chance.random_bool(stays) {
                    file.write_all_at(&[0; SECTOR], sector)?;
                    lost += SECTOR as u64;
                }
            }
        }
        if snapshots.is_dir() && state.chance.random_bool(0.2) {
            File::create(snapshots.join("writing.tmp"))?.write_all(b"an unfinished snapshot")?;
        }
        Ok(lost)
    }
}
