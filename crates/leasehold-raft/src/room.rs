//! Whether the disk has room for entries of another node.
//!
//! A failed write of the log is final, so a node that follows refuses entries before its disk is full. It goes on hearing its
//! leader and votes; the others go on without it, and it catches up when there is room again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a look at the disk counts.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Watches the room on the disk of a directory.
#[derive(Debug)]
pub(crate) struct Room {
    dir: PathBuf,
    /// How many bytes must be free.
    floor: AtomicU64,
    looked: Mutex<Option<(Instant, bool)>>,
}

impl Room {
    pub(crate) fn new(dir: &Path, floor: u64) -> Room {
        Room { dir: dir.to_path_buf(), floor: AtomicU64::new(floor), looked: Mutex::new(None) }
    }

    /// Changes how many bytes must be free.
    pub(crate) fn set_floor(&self, floor: u64) {
        self.floor.store(floor, Ordering::Relaxed);
        *self.looked.lock() = None;
    }

    /// Says in words that there is no room.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut looked = self.looked.lock();
        let fresh = looked.filter(|(when, _)| when.elapsed() < LOOK_EVERY);
        let has_room = fresh.map_or_else(|| self.look(), |(_, has_room)| has_room);
        if fresh.is_none() {
            let had_room = looked.replace((Instant::now(), has_room)).is_none_or(|(_, had_room)| had_room);
            match (had_room, has_room) {
                (true, false) => tracing::warn!(dir = %self.dir.display(), "no room on the disk; entries are refused"),
                (false, true) => tracing::info!(dir = %self.dir.display(), "the disk has room again"),
                (true, true) | (false, false) => {}
            }
        }
        if has_room { Ok(()) } else { Err("its disk has no room for entries".into()) }
    }

    /// A disk that does not answer is found out by the log itself.
    fn look(&self) -> bool {
        let floor = self.floor.load(Ordering::Relaxed);
        rustix::fs::statvfs(&self.dir).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_the_floor_there_is_no_room_and_above_it_there_is_again() {
        let room = Room::new(&std::env::temp_dir(), 0);
        room.check().unwrap();
        room.set_floor(u64::MAX);
        assert_eq!(room.check().unwrap_err(), "its disk has no room for entries");
        room.set_floor(1);
        room.check().unwrap();
    }
}
