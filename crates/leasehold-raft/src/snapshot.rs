//! Snapshot files of one group: written from a frozen view, kept one at a time, installed as a whole.
//!
//! A file is written beside, synced, renamed, and its directory synced; then the one before it is removed. Leftovers of
//! an interrupted write go at the next start. There are never two writes at once. All of it runs on blocking threads.
//! A write that finds the disk full is given up and the older snapshot stays: the log, which must not fail, needs the
//! room more, and the next snapshot is due when it has grown again.
//! What the bytes mean is the machine's; their container is `leasehold_log::BlockWriter`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_log::{BlockReader, BlockWriter};
use leasehold_service::log::{Machine, View};
use openraft::alias::SnapshotOf;
use openraft::storage::RaftSnapshotBuilder;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::convert;
use crate::directory;
use crate::error::{At, OpenError};
use crate::types::{SnapshotMeta, Types};

/// A snapshot file, as it is handed to openraft.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFile {
    /// Where it lies.
    pub(crate) path: PathBuf,
}

/// The newest snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) meta: SnapshotMeta,
    pub(crate) file: SnapshotFile,
}

impl Current {
    fn to_raft(&self) -> SnapshotOf<Types, SnapshotFile> {
        SnapshotOf::<Types, SnapshotFile> { meta: self.meta.clone(), snapshot: self.file.clone() }
    }
}

/// The snapshots of one group.
#[derive(Debug)]
pub(crate) struct Snapshots {
    dir: PathBuf,
    /// How many bytes a snapshot must leave free on its disk.
    disk_floor: u64,
    current: watch::Sender<Option<Current>>,
    writing: AtomicBool,
    /// How many snapshots were begun to be received; their temporary files are named so.
    received: AtomicU64,
}

impl Snapshots {
    /// Opens the directory, removes leftovers, and installs the newest snapshot into the machine.
    pub(crate) fn open(dir: &Path, disk_floor: u64, machine: &impl Machine) -> Result<Snapshots, OpenError> {
        let newest = clean_up(dir)?;
        let current = watch::Sender::new(newest.map(|path| restore(&path, machine)).transpose()?);
        Ok(Snapshots {
            dir: dir.to_path_buf(),
            disk_floor,
            current,
            writing: AtomicBool::new(false),
            received: AtomicU64::new(0),
        })
    }

    /// Returns the newest snapshot, and every change of it.
    pub(crate) fn current(&self) -> watch::Receiver<Option<Current>> {
        self.current.subscribe()
    }

    /// Returns the last entry the newest snapshot covers.
    pub(crate) fn last_index(&self) -> Option<u64> {
        self.current.borrow().as_ref().and_then(|current| current.meta.last_log_id).map(|last| last.index)
    }

    pub(crate) fn to_raft(&self) -> Option<SnapshotOf<Types, SnapshotFile>> {
        self.current.borrow().as_ref().map(Current::to_raft)
    }

    /// Takes the right to write a snapshot; there is one.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Writing> {
        let free = !self.writing.swap(true, Ordering::AcqRel);
        free.then(|| Writing { snapshots: self.clone() })
    }

    fn write(&self, view: &impl View, meta: SnapshotMeta) -> io::Result<Current> {
        let unfinished = self.dir.join("writing.tmp");
        if let Err(error) = self.write_file(&unfinished, view, &meta) {
            // What it took of a full disk is needed by the log; a leftover goes at the next start anyway.
            let _ = std::fs::remove_file(&unfinished);
            return Err(error);
        }
        self.publish(&unfinished, meta)
    }

    fn write_file(&self, path: &Path, view: &impl View, meta: &SnapshotMeta) -> io::Result<()> {
        let file = directory::create_private(path)?;
        let file = Careful { file, dir: &self.dir, floor: self.disk_floor, since_look: LOOK_EVERY };
        let mut out = BlockWriter::new(BufWriter::new(file), &convert::snapshot_header(meta))?;
        view.write(&mut out)?;
        let careful = out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        careful.file.sync_all()
    }

    /// What openraft is told when no newer snapshot could be written: it keeps what it has.
    fn as_before(&self) -> SnapshotOf<Types, SnapshotFile> {
        let nothing = || Current { meta: SnapshotMeta::default(), file: SnapshotFile { path: self.dir.join("none") } };
        self.current.borrow().clone().unwrap_or_else(nothing).to_raft()
    }

    /// Verifies a received file, swaps the machine's state for it, and keeps it as the newest.
    pub(crate) fn install(&self, meta: SnapshotMeta, file: &Path, machine: &impl Machine) -> io::Result<()> {
        // The whole file is read once before the machine sees a byte: a damaged one changes nothing.
        self.check(&meta, file)?;
        let mut reader = open_file(file)?;
        machine.install(&mut reader)?;
        reader.finish()?;
        if self.current.borrow().as_ref().is_some_and(|current| current.meta == meta) {
            return Ok(());
        }
        let unfinished = self.dir.join("installing.tmp");
        let mut copy = directory::create_private(&unfinished)?;
        io::copy(&mut File::open(file)?, &mut copy)?;
        copy.sync_all()?;
        self.publish(&unfinished, meta)?;
        Ok(())
    }

    /// Reads a whole file and compares it with what its sender said of it.
    pub(crate) fn check(&self, meta: &SnapshotMeta, file: &Path) -> io::Result<()> {
        let reader = open_file(file)?;
        if *reader.header() != convert::snapshot_header(meta) {
            let text = format!("snapshot {} does not cover what its sender said", file.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        reader.finish().map(drop)
    }

    /// Returns where the next snapshot from another node may be written; a leftover there goes at the next start.
    pub(crate) fn receiving_path(&self) -> PathBuf {
        self.dir.join(format!("receiving-{}.tmp", self.received.fetch_add(1, Ordering::Relaxed)))
    }

    /// Says whether the disk has room for more of a snapshot.
    pub(crate) fn leaves_room(&self) -> io::Result<()> {
        leaves_room(&self.dir, self.disk_floor)
    }

    fn publish(&self, unfinished: &Path, meta: SnapshotMeta) -> io::Result<Current> {
        let path = self.dir.join(file_name(&meta));
        directory::publish(unfinished, &path)?;
        let current = Current { meta, file: SnapshotFile { path } };
        let before = self.current.send_replace(Some(current.clone()));
        if let Some(before) = before.filter(|before| before.file.path != current.file.path) {
            std::fs::remove_file(&before.file.path)?;
            directory::sync_directory(&self.dir)?;
        }
        tracing::info!(file = %current.file.path.display(), "snapshot written");
        Ok(current)
    }
}

/// The right to write a snapshot, given back when dropped.
#[derive(Debug)]
pub(crate) struct Writing {
    snapshots: Arc<Snapshots>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.snapshots.writing.store(false, Ordering::Release);
    }
}

/// Writes one snapshot from a frozen view.
#[derive(Debug)]
pub(crate) struct Builder<V> {
    /// A mutex only because a view need not be shareable between threads and a builder must be.
    work: Mutex<Option<(V, SnapshotMeta, Writing)>>,
}

impl<V: View> Builder<V> {
    pub(crate) fn new(view: V, meta: SnapshotMeta, writing: Writing) -> Builder<V> {
        Builder { work: Mutex::new(Some((view, meta, writing))) }
    }
}

impl<V: View> RaftSnapshotBuilder<Types> for Builder<V> {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, SnapshotFile>> {
        let (view, meta, writing) =
            self.work.get_mut().take().ok_or_else(|| io::Error::other("a builder serves once"))?;
        let write = move || match writing.snapshots.write(&view, meta) {
            Ok(current) => Ok(current.to_raft()),
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, "no room for a snapshot; the log keeps growing until there is");
                Ok(writing.snapshots.as_before())
            }
            Err(error) => Err(error),
        };
        crate::world::blocking(write).await.map_err(io::Error::other)?
    }
}

/// A snapshot can wait for room; other failures tell of a broken disk.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// How many bytes are written between two looks at the disk.
const LOOK_EVERY: usize = 1 << 20;

/// A file that refuses to grow when it would leave too little room for the log.
struct Careful<'a> {
    file: File,
    dir: &'a Path,
    floor: u64,
    since_look: usize,
}

impl Write for Careful<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.since_look >= LOOK_EVERY {
            leaves_room(self.dir, self.floor)?;
            self.since_look = 0;
        }
        let written = self.file.write(bytes)?;
        self.since_look += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn leaves_room(dir: &Path, floor: u64) -> io::Result<()> {
    let disk = rustix::fs::statvfs(dir)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < floor.saturating_add(LOOK_EVERY as u64) {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "too little room would be left on the disk"));
    }
    Ok(())
}

/// Sorted as text, later positions come later.
pub(crate) fn file_name(meta: &SnapshotMeta) -> String {
    let (index, term) = meta.last_log_id.map_or((0, 0), |last| (last.index, last.leader_id.term));
    format!("{index:020}-{term}.snap")
}

fn open_file(path: &Path) -> io::Result<BlockReader<io::BufReader<File>>> {
    BlockReader::new(io::BufReader::with_capacity(256 * 1024, File::open(path)?), path.display().to_string())
}

/// Removes unfinished and older files; returns the newest.
fn clean_up(dir: &Path) -> Result<Option<PathBuf>, OpenError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let path = entry.at("list", dir)?.path();
        let is = |name: &str| path.extension().is_some_and(|extension| extension == name);
        if is("tmp") {
            std::fs::remove_file(&path).at("remove", &path)?;
        } else if is("snap") {
            files.push(path);
        }
    }
    files.sort();
    let newest = files.pop();
    for older in files {
        std::fs::remove_file(&older).at("remove", &older)?;
    }
    Ok(newest)
}

fn restore(path: &Path, machine: &impl Machine) -> Result<Current, OpenError> {
    let read = || {
        let mut reader = open_file(path)?;
        let meta = convert::snapshot_meta(reader.header())?;
        machine.install(&mut reader)?;
        reader.finish()?;
        io::Result::Ok(meta)
    };
    let meta = read().map_err(|source| OpenError::DamagedSnapshot { file: path.to_path_buf(), source })?;
    Ok(Current { meta, file: SnapshotFile { path: path.to_path_buf() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LogId;
    use leasehold_core::{Applied, LeaderId};
    use leasehold_service::log::{Committed, Position};
    use std::io::{Read, Write};

    /// A machine whose state is a text.
    struct Text(Mutex<String>);

    impl Machine for Text {
        type View = State;

        fn apply(&self, _: Position, _: Committed<'_>) -> Applied {
            Applied::default()
        }

        fn view(&self) -> State {
            State(self.0.lock().clone())
        }

        fn install(&self, snapshot: &mut dyn Read) -> io::Result<()> {
            let mut text = String::new();
            snapshot.read_to_string(&mut text)?;
            *self.0.lock() = text;
            Ok(())
        }
    }

    struct State(String);

    impl View for State {
        fn write(&self, out: &mut dyn Write) -> io::Result<()> {
            out.write_all(self.0.as_bytes())
        }
    }

    fn meta(index: u64) -> SnapshotMeta {
        let last_log_id = Some(LogId { leader_id: LeaderId { term: 1, node: 1 }, index });
        SnapshotMeta { last_log_id, ..SnapshotMeta::default() }
    }

    fn text(text: &str) -> Text {
        Text(Mutex::new(text.into()))
    }

    #[test]
    fn a_received_snapshot_replaces_the_state_and_the_one_before() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sender = Snapshots::open(from.path(), 0, &text("")).unwrap();
        let sent = sender.write(&State("new".into()), meta(7)).unwrap();
        let machine = text("old");
        let receiver = Snapshots::open(to.path(), 0, &machine).unwrap();
        receiver.write(&State("old".into()), meta(3)).unwrap();
        receiver.install(meta(7), &sent.file.path, &machine).unwrap();
        assert_eq!(*machine.0.lock(), "new");
        let restarted = text("");
        let receiver = Snapshots::open(to.path(), 0, &restarted).unwrap();
        assert_eq!((restarted.0.lock().as_str(), receiver.last_index()), ("new", Some(7)));
        assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_received_snapshot_that_is_damaged_or_mislabelled_changes_nothing() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sender = Snapshots::open(from.path(), 0, &text("")).unwrap();
        let sent = sender.write(&State("new".into()), meta(7)).unwrap().file.path;
        let machine = text("old");
        let receiver = Snapshots::open(to.path(), 0, &machine).unwrap();
        receiver.install(meta(8), &sent, &machine).unwrap_err();
        let mut bytes = std::fs::read(&sent).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&sent, bytes).unwrap();
        receiver.install(meta(7), &sent, &machine).unwrap_err();
        assert_eq!((machine.0.lock().as_str(), receiver.last_index()), ("old", None));
    }

    #[test]
    fn there_is_one_writer_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let snapshots = Arc::new(Snapshots::open(dir.path(), 0, &text("")).unwrap());
        let writing = snapshots.begin().unwrap();
        assert!(snapshots.begin().is_none());
        drop(writing);
        assert!(snapshots.begin().is_some());
    }
}
