//! One node: a data directory, its Raft group and the runtime they live in.
//!
//! A node runs Raft on a runtime of its own, apart from client connections, so that heartbeats are on time
//! whatever the clients do. An empty directory becomes a cluster of one; the only voter elects itself at once
//! instead of waiting for a leader that cannot exist. A node that cannot go on says so through [`Node::stopped`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_service::log::{Leadership, Machine, Unavailable};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Raft, ServerState};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use crate::directory::{Directory, Identity};
use crate::error::{At, OpenError};
use crate::group_commit::{Fatal, FlushTimes};
use crate::machine::{Applier, Progress};
use crate::network::NoPeers;
use crate::options::Options;
use crate::snapshot::Snapshots;
use crate::store::LogStore;
use crate::types::{Member, Types};
use crate::wal::Cut;

/// Room for one group is what this build uses; the layout has room for more.
const GROUP: u32 = 0;

/// What was found when a node was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The cluster and the node.
    pub identity: Identity,
    /// Whether the directory was empty and is a new cluster of one now.
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
    /// How long flushes took.
    pub flushes: FlushTimes,
}

/// A running node.
pub struct Node<M: Machine> {
    pub(crate) raft: Raft<Types, Applier<M>>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) fatal: Fatal,
    pub(crate) leadership: watch::Receiver<Leadership>,
    store: LogStore,
    snapshots: Arc<Snapshots>,
    /// What must be given back at the end, last of all the directory's lock.
    held: Mutex<Option<(Runtime, Directory)>>,
    handle: Handle,
}

/// What is on disk, opened.
struct Disk {
    directory: Directory,
    store: LogStore,
    cut: Option<Cut>,
    snapshots: Arc<Snapshots>,
}

impl<M: Machine> Node<M> {
    /// Opens a data directory and starts the node; returns when it leads, with what was found.
    pub async fn open(options: Options, machine: Arc<M>) -> Result<(Node<M>, Opened), OpenError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("raft").enable_all().build();
        let runtime = runtime.at("start threads for", &options.data)?;
        let handle = runtime.handle().clone();
        let fatal = Fatal::new();
        let opened = {
            let (options, machine, fatal) = (options.clone(), machine.clone(), fatal.clone());
            handle.spawn_blocking(move || Disk::open(&options, &*machine, fatal)).await
        };
        let disk = match opened.unwrap_or_else(|panic| Err(OpenError::Stopped(panic.to_string()))) {
            Ok(disk) => disk,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let started = handle.spawn(start(options, machine, disk.parts(), fatal.clone())).await;
        let (raft, progress, leadership) =
            match started.unwrap_or_else(|panic| Err(OpenError::Stopped(panic.to_string()))) {
                Ok(started) => started,
                Err(error) => {
                    runtime.shutdown_background();
                    let _ = tokio::task::spawn_blocking(move || disk.store.close()).await;
                    return Err(error);
                }
            };
        let opened = disk.report();
        let Disk { directory, store, snapshots, .. } = disk;
        let held = Mutex::new(Some((runtime, directory)));
        Ok((Node { raft, progress, fatal, leadership, store, snapshots, held, handle }, opened))
    }

    /// Returns, with the reason, when the node cannot go on: a failed write or sync, damage, a bug. The process must
    /// end then; nothing is retried.
    pub async fn stopped(&self) -> String {
        self.fatal.wait().await
    }

    /// Stops the node: everything appended is flushed, the files are closed, the directory is unlocked.
    pub async fn shutdown(&self) {
        let Some((runtime, directory)) = self.held.lock().take() else { return };
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "the log did not stop cleanly");
        }
        let store = self.store.clone();
        let close = move || {
            store.close();
            drop(directory);
        };
        if let Err(error) = self.handle.spawn_blocking(close).await {
            tracing::error!(%error, "closing the log failed");
        }
        runtime.shutdown_background();
    }

    /// Writes a snapshot of all that is applied now; returns the last entry it covers.
    pub async fn snapshot_now(&self) -> Result<u64, Unavailable> {
        let Some(wanted) = self.progress.next().checked_sub(1) else {
            return Err(Unavailable::Unknown("there is nothing to write yet".into()));
        };
        let mut current = self.snapshots.current();
        loop {
            let covered = current.borrow_and_update().as_ref().and_then(|current| current.last_index());
            if let Some(covered) = covered.filter(|covered| *covered >= wanted) {
                return Ok(covered);
            }
            let stopped = |error| Unavailable::Stopped(self.fatal.reason().unwrap_or(error));
            self.raft.trigger().snapshot().await.map_err(|error| stopped(error.to_string()))?;
            // A request is lost if another snapshot is just being written; so it is repeated.
            let again = self.handle.spawn(async { tokio::time::sleep(Duration::from_millis(200)).await });
            tokio::select! {
                _ = current.changed() => {}
                _ = again => {}
                reason = self.fatal.wait() => return Err(Unavailable::Stopped(reason)),
            }
        }
    }

    /// Returns where the node stands. Cheap, but it resets the longest flush.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            last_applied: self.progress.next().checked_sub(1),
            last_log: self.store.last_index(),
            last_snapshot: self.snapshots.current().borrow().as_ref().and_then(|current| current.last_index()),
            log_bytes: self.store.bytes(),
            flushes: self.store.flushes().read(),
        }
    }

    /// Makes the next flush report failure, as a disk would. For tests.
    #[doc(hidden)]
    pub fn fail_next_flush(&self) {
        self.store.flushes().fail_next.store(true, Ordering::Relaxed);
    }
}

impl<M: Machine> Drop for Node<M> {
    /// Lets go of everything without waiting; [`Node::shutdown`] is the clean way.
    fn drop(&mut self) {
        let Some((runtime, directory)) = self.held.lock().take() else { return };
        runtime.shutdown_background();
        let store = self.store.clone();
        std::thread::spawn(move || {
            store.close();
            drop(directory);
        });
    }
}

impl Disk {
    fn open(options: &Options, machine: &impl Machine, fatal: Fatal) -> Result<Disk, OpenError> {
        let directory = Directory::open(&options.data)?;
        let group = directory.group(GROUP)?;
        let (store, cut) = LogStore::open(&group.join("log"), options.chunk_limits(), fatal)?;
        let snapshots = Arc::new(Snapshots::open(&group.join("snapshots"), options.disk_floor, machine)?);
        refuse_gap(&group, store.purged_index(), last_covered(&snapshots))?;
        Ok(Disk { directory, store, cut, snapshots })
    }

    fn parts(&self) -> (Identity, LogStore, Arc<Snapshots>) {
        (self.directory.identity, self.store.clone(), self.snapshots.clone())
    }

    fn report(&self) -> Opened {
        Opened {
            identity: self.directory.identity,
            fresh: self.directory.fresh,
            cut: self.cut.clone(),
            restored: last_covered(&self.snapshots),
            last_log: self.store.last_index(),
        }
    }
}

fn last_covered(snapshots: &Snapshots) -> Option<u64> {
    snapshots.current().borrow().as_ref().and_then(|current| current.last_index())
}

/// Without the snapshot that a purge relied on, the state cannot be rebuilt.
fn refuse_gap(group: &Path, purged: Option<u64>, snapshot: Option<u64>) -> Result<(), OpenError> {
    match purged {
        Some(purged) if snapshot.is_none_or(|snapshot| snapshot < purged) => {
            Err(OpenError::Gap { dir: group.to_path_buf(), purged, snapshot })
        }
        Some(_) | None => Ok(()),
    }
}

type Started<M> = (Raft<Types, Applier<M>>, Arc<Progress>, watch::Receiver<Leadership>);

/// Starts Raft and everything that watches it; returns when the node leads, if it is the only voter.
async fn start<M: Machine>(
    options: Options,
    machine: Arc<M>,
    (identity, store, snapshots): (Identity, LogStore, Arc<Snapshots>),
    fatal: Fatal,
) -> Result<Started<M>, OpenError> {
    let stopped = |error: &dyn std::fmt::Display| OpenError::Stopped(error.to_string());
    let config = Arc::new(options.raft_config(identity.cluster)?);
    let progress = Arc::new(Progress::new(identity.node, options.snapshot_bytes));
    let applier = Applier::new(machine, snapshots, progress.clone(), fatal.clone());
    let raft = Raft::new(identity.node, config, NoPeers, store, applier).await.map_err(|error| stopped(&error))?;

    let (tell, mut leadership) = watch::channel(Leadership::Unknown);
    tokio::spawn(watch_leadership(raft.clone(), progress.clone(), tell, fatal.clone()));
    tokio::spawn(write_due_snapshots(raft.clone(), progress.clone()));

    let initialized = raft.is_initialized().await.map_err(|error| stopped(&error))?;
    if !initialized {
        // This also elects.
        let members = BTreeMap::from([(identity.node, Member { address: options.address })]);
        raft.initialize(members).await.map_err(|error| stopped(&error))?;
    }
    let alone = !initialized || raft.voter_ids().eq([identity.node]);
    if alone && initialized {
        // The only voter need not wait for a leader to fall silent.
        raft.trigger().elect(false).await.map_err(|error| stopped(&error))?;
    }
    if alone {
        let leads = leadership.wait_for(|leadership| matches!(leadership, Leadership::Leads(_)));
        tokio::select! {
            led = leads => { led.map_err(|error| stopped(&error))?; }
            reason = fatal.wait() => return Err(OpenError::Stopped(reason)),
        }
    }
    Ok((raft, progress, leadership))
}

/// Tells who leads; this node only once its own first entry is applied. Also notices when Raft dies.
async fn watch_leadership<M: Machine>(
    raft: Raft<Types, Applier<M>>,
    progress: Arc<Progress>,
    tell: watch::Sender<Leadership>,
    fatal: Fatal,
) {
    let mut metrics = raft.metrics();
    let mut ready = progress.ready();
    loop {
        let now = {
            let metrics = metrics.borrow_watched();
            if let Err(error) = &metrics.running_state {
                // A shutdown is no failure; whatever caused another end has usually been named already.
                if !matches!(error, openraft::errors::Fatal::Stopped) {
                    fatal.set(|| error.to_string());
                }
                tell.send_replace(Leadership::Unknown);
                return;
            }
            let voted = metrics.vote.leader_id.0;
            leadership(metrics.vote.committed.then_some(voted), metrics.state, *ready.borrow_and_update())
        };
        tell.send_if_modified(|before| std::mem::replace(before, now) != now);
        tokio::select! {
            changed = metrics.changed() => if changed.is_err() {
                fatal.set(|| "the log's core task ended".into());
                return;
            },
            _ = ready.changed() => {}
        }
    }
}

fn leadership(granted: Option<LeaderId>, state: ServerState, ready: Option<LeaderId>) -> Leadership {
    match (granted, state) {
        (Some(leader), ServerState::Leader) if ready == Some(leader) => Leadership::Leads(leader),
        (Some(leader), ServerState::Follower | ServerState::Learner) => Leadership::Follows(leader),
        (Some(_), ServerState::Leader | ServerState::Candidate | ServerState::Shutdown) | (None, _) => {
            Leadership::Unknown
        }
    }
}

/// Asks for a snapshot whenever the log has grown enough.
async fn write_due_snapshots<M: Machine>(raft: Raft<Types, Applier<M>>, progress: Arc<Progress>) {
    loop {
        progress.snapshot_due().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}
