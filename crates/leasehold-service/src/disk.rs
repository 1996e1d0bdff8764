//! Whether there is room on the disk for what the log will write.
//!
//! A log that fails to write must stop, so the service refuses before that: below the reserve it takes no new
//! work, and below a quarter of it nothing at all is proposed. Lease time stands still then, as in every stall,
//! and goes on when space returns.

use std::path::PathBuf;

use parking_lot::Mutex;
use tracing::{info, warn};

/// How much room there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Enough.
    #[default]
    Ample,
    /// Not enough for new work; renewals and releases go on.
    Low,
    /// Too little for anything.
    None,
}

/// Watches the room on the disk of a directory.
#[derive(Debug)]
pub(crate) struct DiskGuard {
    directory: Option<PathBuf>,
    reserve: u64,
    room: Mutex<Room>,
}

impl DiskGuard {
    /// Keeps `reserve` bytes free on the disk of `directory`; without one, room is ample.
    pub(crate) fn new(directory: Option<PathBuf>, reserve: u64) -> Self {
        Self { directory, reserve, room: Mutex::default() }
    }

    /// The room found by the latest look.
    pub(crate) fn room(&self) -> Room {
        *self.room.lock()
    }

    /// Looks again.
    pub(crate) fn look(&self) -> Room {
        let Some(directory) = &self.directory else { return Room::Ample };
        let room = match rustix::fs::statvfs(directory) {
            Ok(disk) => self.judge(disk.f_bavail.saturating_mul(disk.f_frsize)),
            // A disk that does not answer is found out by the log itself.
            Err(_) => Room::Ample,
        };
        let before = std::mem::replace(&mut *self.room.lock(), room);
        if room > before {
            warn!(directory = %directory.display(), reserve = self.reserve, ?room, "disk is filling up; refusing new work");
        } else if room < before {
            info!(directory = %directory.display(), ?room, "disk has room again");
        }
        room
    }

    fn judge(&self, free: u64) -> Room {
        match free {
            free if free < self.reserve / 4 => Room::None,
            free if free < self.reserve => Room::Low,
            _ => Room::Ample,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_work_stops_before_everything_does() {
        let guard = DiskGuard::new(None, 1000);
        assert_eq!([guard.judge(1000), guard.judge(999), guard.judge(249)], [Room::Ample, Room::Low, Room::None]);
        assert_eq!(guard.look(), Room::Ample);
    }

    #[test]
    fn a_reserve_larger_than_the_disk_leaves_no_room() {
        let guard = DiskGuard::new(Some(std::env::temp_dir()), u64::MAX);
        assert_eq!(guard.look(), Room::None);
        assert_eq!(guard.room(), Room::None);
    }
}
