//! One node: a data directory, its Raft group and the threads they live on.
//!
//! Raft runs on a runtime of its own, apart from client connections, so that heartbeats are on time whatever the clients
//! do. A node that cannot go on says so through [`Node::stopped`]; ending the process is left to the binary.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_service::log::{Machine, Unavailable};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;

use crate::admission::{self, Claimed};
use crate::agreement::Compared;
use crate::directory::{self, Directory, Identity};
use crate::error::{At, OpenError};
use crate::files::Cut;
use crate::group::{Group, GroupFiles};
use crate::group_commit::FlushTimes;
use crate::options::Options;
use crate::peer::{Local, Secure, Seen};
use crate::roster::Roster;
use crate::world;

/// The one group this build runs; the layout has room for more.
const GROUP: u32 = 0;
/// How soon a request for a snapshot is repeated, see [`Node::snapshot_now`].
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What was found when a node was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The cluster and the node.
    pub identity: Identity,
    /// Whether the directory was empty and has its identity since now.
    pub fresh: bool,
    /// What was cut from the end of the log, if its last write was interrupted.
    pub cut: Option<Cut>,
    /// The last entry of the snapshot that was restored.
    pub restored: Option<u64>,
    /// The last entry of the log.
    pub last_log: Option<u64>,
}

/// Where a node stands, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The last entry applied.
    pub last_applied: Option<u64>,
    /// The last entry appended.
    pub last_log: Option<u64>,
    /// The last entry of the newest snapshot.
    pub last_snapshot: Option<u64>,
    /// Bytes of the log on disk.
    pub log_bytes: u64,
    /// The last checkpoint at which this node's state was compared with another's.
    pub compared: Option<Compared>,
    /// How long flushes took.
    pub flushes: FlushTimes,
}

/// A running node.
pub struct Node<M: Machine> {
    pub(crate) group: Group<M>,
    /// What is given back at the end: the threads, then the directory's lock.
    held: Mutex<Option<(Threads, Directory)>>,
    pub(crate) handle: Handle,
    pub(crate) identity: Identity,
}

/// The runtime of a node; none if it lives on another's. Dropping it never blocks: a plain runtime may not be dropped
/// where async code runs.
struct Threads(Option<Runtime>);

impl Threads {
    fn start(options: &Options) -> Result<Threads, OpenError> {
        if options.world.is_some() {
            return Ok(Threads(None));
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("raft").enable_all().build();
        Ok(Threads(Some(runtime.at("start threads for", &options.data)?)))
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl<M: Machine> Node<M> {
    /// Opens a data directory and starts the node, and returns what was found: when it leads, if it is the only voter;
    /// otherwise at once, and [`leadership`](leasehold_service::log::Log::leadership) tells the rest. An empty directory
    /// that is to join a cluster waits here until it is admitted; dropping the future gives up.
    pub async fn open(options: Options, machine: Arc<M>) -> Result<(Node<M>, Opened), OpenError> {
        Node::open_telling(options, machine, |words| tracing::info!("{words}")).await
    }

    /// Opens a node like [`Node::open`]; `tell` hears, once each, the reasons why it is not admitted to its cluster yet.
    pub async fn open_telling(
        options: Options,
        machine: Arc<M>,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(Node<M>, Opened), OpenError> {
        options.raft_config(0)?;
        let threads = Threads::start(&options)?;
        let handle = threads.handle();

        let claimed = handle.spawn(admission::claim(options.clone(), tell)).await;
        let Claimed { directory, secure, listener } = claimed.unwrap_or_else(died)?;
        let (directory, files, local) = {
            let (options, machine) = (options.clone(), machine.clone());
            let open = move || open_files((directory, secure), &options, &*machine);
            blocking_on(&handle, open).await.unwrap_or_else(died)?
        };
        let identity = directory.identity;
        let restored = files.snapshots.last_index();
        let started = handle.spawn(Group::start(options, identity, files.clone(), machine, local, listener)).await;
        let group = match started.unwrap_or_else(died) {
            Ok(group) => group,
            Err(error) => {
                let _ = blocking_on(&handle, move || files.store.close()).await;
                return Err(error);
            }
        };
        let last_log = group.files.store.last_index();
        let opened = Opened { identity, fresh: directory.fresh, cut: files.cut, restored, last_log };
        Ok((Node { group, held: Mutex::new(Some((threads, directory))), handle, identity }, opened))
    }

    /// The cluster and the node.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns, with the reason, when the node cannot go on: a failed write or sync, damage, a bug. The process must
    /// end then; nothing is retried.
    pub async fn stopped(&self) -> String {
        self.group.files.fatal.wait().await
    }

    /// Stops the node: everything appended is flushed, the files are closed, the directory is unlocked.
    pub async fn shutdown(&self) {
        let Some((threads, directory)) = self.held.lock().take() else { return };
        self.group.close_door().await;
        if let Err(error) = self.group.raft.shutdown().await {
            tracing::warn!(%error, "the log did not stop cleanly");
        }
        let store = self.group.files.store.clone();
        let close = move || {
            store.close();
            drop(directory);
        };
        if let Err(error) = blocking_on(&self.handle, close).await {
            tracing::error!(%error, "closing the log failed");
        }
        drop(threads);
    }

    /// Writes a snapshot of all that is applied now; returns the last entry it covers.
    pub async fn snapshot_now(&self) -> Result<u64, Unavailable> {
        let Group { raft, progress, files, .. } = &self.group;
        let Some(wanted) = progress.next().checked_sub(1) else {
            return Err(Unavailable::Unknown("there is nothing to write yet".into()));
        };
        let mut current = files.snapshots.current();
        loop {
            current.borrow_and_update();
            if let Some(covered) = files.snapshots.last_index().filter(|covered| *covered >= wanted) {
                return Ok(covered);
            }
            let stopped = |error: String| Unavailable::Stopped(files.fatal.reason().unwrap_or(error));
            raft.trigger().snapshot().await.map_err(|error| stopped(error.to_string()))?;
            // A request is lost if another snapshot is just being written; so it is repeated.
            let again = self.handle.spawn(async { tokio::time::sleep(ASK_AGAIN).await });
            tokio::select! {
                _ = current.changed() => {}
                _ = again => {}
                reason = files.fatal.wait() => return Err(Unavailable::Stopped(reason)),
            }
        }
    }

    /// Returns where the node stands. Cheap, but it resets the longest flush.
    pub fn metrics(&self) -> Metrics {
        let files = &self.group.files;
        Metrics {
            last_applied: self.group.progress.next().checked_sub(1),
            last_log: files.store.last_index(),
            last_snapshot: files.snapshots.last_index(),
            log_bytes: files.store.bytes(),
            compared: self.group.comparison.compared(),
            flushes: files.store.flushes().read(),
        }
    }

    /// Changes how many bytes must be free on the disk for entries of other nodes. For tests.
    #[doc(hidden)]
    pub fn set_entry_floor(&self, bytes: u64) {
        self.group.room.set_floor(bytes);
    }

    /// How often this node has asked its leader for the proof of a read. For tests.
    #[doc(hidden)]
    pub fn proofs_asked(&self) -> u64 {
        self.group.reader.asked()
    }

    /// Makes the next flush report failure, as a disk would. For tests.
    #[doc(hidden)]
    pub fn fail_next_flush(&self) {
        self.group.files.store.flushes().fail_next.store(true, Ordering::Relaxed);
    }
}

impl<M: Machine> Drop for Node<M> {
    /// Lets go of everything without waiting; [`Node::shutdown`] is the clean way.
    fn drop(&mut self) {
        let Some((threads, directory)) = self.held.lock().take() else { return };
        let store = self.group.files.store.clone();
        let close = move || {
            store.close();
            drop(directory);
        };
        // In a world everything happens in its order, this too.
        if threads.0.is_none() {
            return close();
        }
        drop(threads);
        std::thread::spawn(close);
    }
}

type OpenFiles = (Directory, GroupFiles, Option<Local>);

fn open_files(
    (directory, secure): (Directory, Option<Arc<Secure>>),
    options: &Options,
    machine: &impl Machine,
) -> Result<OpenFiles, OpenError> {
    directory::refuse_diverged(&options.data)?;
    let local = match options.peers {
        Some(_) => {
            let seen = Arc::new(Seen::open(&options.data)?);
            if seen.knows_any() && !directory.has_log(GROUP) {
                return Err(OpenError::LostLog { dir: options.data.clone() });
            }
            let roster = Arc::new(Roster::new(directory.identity.node, seen.gone()));
            Some(Local {
                identity: directory.identity,
                group: GROUP,
                seen,
                secure,
                roster,
                world: options.world.clone(),
            })
        }
        None => None,
    };
    let files = GroupFiles::open(&directory.group(GROUP)?, options, machine)?;
    Ok((directory, files, local))
}

async fn blocking_on<T: Send + 'static>(
    handle: &Handle,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    handle.spawn(world::blocking(work)).await?
}

fn died<T>(error: JoinError) -> Result<T, OpenError> {
    Err(OpenError::Stopped(error.to_string()))
}
