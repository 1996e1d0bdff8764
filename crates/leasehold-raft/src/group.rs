//! One Raft group: its log, its snapshots, its machine, and the tasks that watch over them.
//!
//! A group owns all of its state, so that a node can hold more than one. It elects itself at once if it is its only
//! voter, instead of waiting for a leader that cannot exist, and leads only when its own first entry is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_service::log::{Leadership, Machine, Parcel};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use openraft::{ChangeMembers, Raft};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::barrier::{Prover, Reader};
use crate::change::Changes;
use crate::checkpoint;
use crate::directory::Identity;
use crate::error::OpenError;
use crate::files::Cut;
use crate::forward::Forwarder;
use crate::group_commit::Fatal;
use crate::heard::Heard;
use crate::leadership::watch_leadership;
use crate::machine::{Applier, Progress, Told};
use crate::network::NoPeers;
use crate::options::Options;
use crate::peer::{Comparison, Door, Formation, Inside, Links, Local, PeerOptions, Peers, VoteGuard, meet_all};
use crate::room::Room;
use crate::roster::Roster;
use crate::snapshot::Snapshots;
use crate::steward;
use crate::store::LogStore;
use crate::types::{Member, Types};
use crate::world::{Elsewhere, Listener};

/// Parcels of other nodes that wait to be proposed.
const PARCELS: usize = 16;

/// What a group has on disk, opened.
#[derive(Clone)]
pub(crate) struct GroupFiles {
    pub(crate) store: LogStore,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) cut: Option<Cut>,
    pub(crate) fatal: Fatal,
}

impl GroupFiles {
    /// Opens the files in `dir` and restores the newest snapshot into the machine. Blocks.
    pub(crate) fn open(dir: &Path, options: &Options, machine: &impl Machine) -> Result<GroupFiles, OpenError> {
        let fatal = Fatal::new();
        let (store, cut) =
            LogStore::open(&dir.join("log"), options.file_limits(), fatal.clone(), options.world.clone())?;
        let snapshots = Snapshots::open(&dir.join("snapshots"), options.disk_floor, machine).and_then(|snapshots| {
            refuse_gap(dir, store.purged_index(), snapshots.last_index())?;
            Ok(Arc::new(snapshots))
        });
        // The log lets go of its files here and now, not when somebody gets to it.
        let snapshots = snapshots.inspect_err(|_| store.close())?;
        Ok(GroupFiles { store, snapshots, cut, fatal })
    }
}

/// Tells the log whether other nodes wait for what it writes.
async fn tell_alone<M: Machine>(raft: Raft<Types, Applier<M>>, store: LogStore) {
    let mut server = raft.server_metrics();
    loop {
        let is_alone = {
            let server = server.borrow_watched();
            server.membership_config.membership().nodes().map(|(id, _)| *id).eq([server.id])
        };
        store.set_alone(is_alone);
        if server.changed().await.is_err() {
            return;
        }
    }
}

/// Without the snapshot that a purge relied on, the state cannot be rebuilt.
fn refuse_gap(dir: &Path, purged: Option<u64>, snapshot: Option<u64>) -> Result<(), OpenError> {
    match purged {
        Some(purged) if snapshot.is_none_or(|snapshot| snapshot < purged) => {
            Err(OpenError::Gap { dir: dir.to_path_buf(), purged, snapshot })
        }
        Some(_) | None => Ok(()),
    }
}

/// A running group.
pub(crate) struct Group<M: Machine> {
    pub(crate) raft: Raft<Types, Applier<M>>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) files: GroupFiles,
    pub(crate) comparison: Arc<Comparison>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) room: Arc<Room>,
    pub(crate) reader: Arc<Reader<M>>,
    pub(crate) forwarder: Forwarder<M>,
    /// The parcels of other nodes, until somebody takes them over.
    pub(crate) parcels: Mutex<Option<mpsc::Receiver<Parcel>>>,
    /// Where they come in; held, so that a node alone simply gets none.
    parcels_in: mpsc::Sender<Parcel>,
    pub(crate) changes: Arc<Changes<M>>,
    /// The task that lets other nodes in.
    door: Mutex<Option<JoinHandle<()>>>,
}

impl<M: Machine> Group<M> {
    /// Starts Raft and those who watch it; returns when the group leads, if this node is its only voter.
    pub(crate) async fn start(
        options: Options,
        identity: Identity,
        files: GroupFiles,
        machine: Arc<M>,
        local: Option<Local>,
        listener: Option<Listener>,
    ) -> Result<Group<M>, OpenError> {
        let started = Instant::now();
        let listener = match (&options.peers, listener) {
            (Some(peers), None) => Some(listen(peers.listen, &options.world).await?),
            (_, listener) => listener,
        };
        let config = Arc::new(options.raft_config(identity.cluster)?);
        let progress = Arc::new(Progress::new(identity.node, options.snapshot_bytes));
        let alone = || Arc::new(Roster::new(identity.node, BTreeSet::new()));
        let roster = local.as_ref().map_or_else(alone, |local| local.roster.clone());
        let (snapshots, fatal, checkpoints) = (files.snapshots.clone(), files.fatal.clone(), Arc::default());
        let told = Told { roster: roster.clone(), checkpoints: Arc::clone(&checkpoints) };
        let applier = Applier::new(machine, snapshots, progress.clone(), fatal.clone(), told);
        let store = files.store.clone();
        let links = local.clone().map(|local| Arc::new(Links::new(local, Handle::current())));
        let peers = links.clone().map(Peers::new);
        let raft = match peers.clone() {
            Some(peers) => Raft::new(identity.node, config, peers, store, applier).await,
            None => Raft::new(identity.node, config, NoPeers, store, applier).await,
        };
        let raft = raft.map_err(stopped)?;

        let (tell, leadership) = watch::channel(Leadership::Unknown);
        let heard = Arc::new(Heard::new(progress.clone()));
        let (server, emax, removed) = (raft.clone(), options.election_max, roster.removed());
        tokio::spawn(watch_leadership(server, progress.clone(), heard.clone(), removed, tell, emax, fatal.clone()));
        tokio::spawn(tell_alone(raft.clone(), files.store.clone()));
        tokio::spawn(write_due_snapshots(raft.clone(), progress.clone()));
        tokio::spawn(checkpoint::propose_due(raft.clone(), progress.clone(), leadership.clone()));
        let comparison = Arc::new(Comparison::new(identity.node));
        if let Some(peers) = peers {
            tokio::spawn(comparison.clone().hash_all(checkpoints));
            tokio::spawn(comparison.clone().tell_all(peers.clone(), raft.clone()));
            tokio::spawn(comparison.clone().stop_if_diverged(peers, raft.clone(), options.data.clone(), fatal));
        }

        let prover = Prover::new(raft.clone(), leadership.clone(), options.heartbeat, options.election_max);
        let reader = Reader::new(prover, progress.clone(), files.fatal.clone(), links.clone());
        let forwarder =
            Forwarder { raft: raft.clone(), leadership: leadership.clone(), links, runtime: Handle::current() };
        let (parcels_in, parcels) = mpsc::channel(PARCELS);
        let changes = Arc::new(Changes {
            raft: raft.clone(),
            node: identity.node,
            roster,
            local: local.clone(),
            leaves_machine: options.peers.as_ref().is_some_and(PeerOptions::leaves_machine),
            recent: options.election_max * 2,
            leadership: leadership.clone(),
            fatal: files.fatal.clone(),
            turn: Arc::default(),
        });
        let mut group = Group {
            room: Arc::new(Room::new(&options.data, options.disk_floor / 2)),
            reader: Arc::new(reader),
            raft,
            progress,
            leadership,
            files,
            comparison,
            heard,
            forwarder,
            parcels: Mutex::new(Some(parcels)),
            parcels_in,
            changes,
            door: Mutex::new(None),
        };
        if let (Some(listener), Some(local)) = (listener, local.clone()) {
            group.open_door(listener, local, started, options.election_max).await?;
        }
        let peers = options.peers.clone();
        group.elect(identity, options).await?;
        if let (Some(peers), Some(local)) = (peers, local) {
            group.settle(&peers, local).await?;
        }
        Ok(group)
    }

    /// Makes known who and where this node is, and starts what looks after the members.
    async fn settle(&self, peers: &PeerOptions, local: Local) -> Result<(), OpenError> {
        let (address, changes) = (peers.own_address(), &self.changes);
        self.rename(peers.name.clone(), address.clone(), local.seen.incarnation()).await?;
        tokio::spawn(steward::tend(changes.clone()));
        tokio::spawn(changes.clone().say_address(local.clone(), address));
        tokio::spawn(changes.clone().leave_when_removed());
        tokio::spawn(steward::remember_gone(local));
        Ok(())
    }

    /// Writes name, address and incarnation of this node into the membership if it is the only voter: one that began
    /// without others must be found by those it meets. With other voters its name stays, and the leader writes the rest.
    async fn rename(&self, name: String, address: String, incarnation: u64) -> Result<(), OpenError> {
        let node = self.changes.node;
        if !self.raft.voter_ids().eq([node]) {
            return Ok(());
        }
        let membership = self.raft.server_metrics().borrow_watched().membership_config.clone();
        let member = Member { name, address, incarnation };
        if membership.membership().get_node(&node).is_none_or(|known| *known == member) {
            return Ok(());
        }
        let renamed = ChangeMembers::SetNodes(BTreeMap::from([(node, member)]));
        self.raft.change_membership(renamed, true).await.map(drop).map_err(stopped)
    }

    /// Lets other nodes in.
    async fn open_door(
        &self,
        listener: Listener,
        local: Local,
        started: Instant,
        lease: Duration,
    ) -> Result<(), OpenError> {
        let voters = self.raft.with_raft_state(|state| state.membership_state.effective().voter_ids().count());
        let guard = VoteGuard::new(voters.await.map_err(stopped)?, started, lease);
        tokio::spawn(meet_all(local.clone(), self.raft.clone()));
        let inside = Inside {
            raft: self.raft.clone(),
            snapshots: self.files.snapshots.clone(),
            leadership: self.leadership.clone(),
            prover: self.reader.prover.clone(),
            parcels: self.parcels_in.clone(),
            heard: self.heard.clone(),
            room: self.room.clone(),
            changes: self.changes.clone(),
        };
        let door = Arc::new(Door::new(local, inside, guard, self.comparison.clone()));
        *self.door.lock() = Some(tokio::spawn(door.serve(listener)));
        Ok(())
    }

    /// Lets no more nodes in; the address is free when this returns.
    pub(crate) async fn close_door(&self) {
        let door = self.door.lock().take();
        if let Some(door) = door {
            door.abort();
            let _ = door.await;
        }
    }

    /// Forms the cluster if this is its first start, and waits until this node leads if it is the only voter.
    async fn elect(&mut self, identity: Identity, options: Options) -> Result<(), OpenError> {
        if !self.raft.is_initialized().await.map_err(stopped)? {
            let Some(members) = first_members(identity, options) else {
                // The cluster that has admitted it sends its log.
                return Ok(());
            };
            let alone = members.len() == 1;
            // Elects, too: another election would only begin a second term.
            match self.raft.initialize(members).await {
                Ok(()) => {}
                // Another member was faster: its first entries have arrived already.
                Err(RaftError::APIError(InitializeError::NotAllowed(_))) if !alone => {}
                Err(error) => return Err(stopped(error)),
            }
            if !alone {
                return Ok(());
            }
        } else if self.raft.voter_ids().eq([identity.node]) {
            self.raft.trigger().elect(false).await.map_err(stopped)?;
        } else {
            return Ok(());
        }
        tokio::select! {
            led = self.leadership.wait_for(|leadership| matches!(leadership, Leadership::Leads(_))) => {
                led.map(drop).map_err(stopped)
            }
            reason = self.files.fatal.wait() => Err(OpenError::Stopped(reason)),
        }
    }
}

/// Returns whom the first membership has; none if this node is to be added by others.
fn first_members(identity: Identity, options: Options) -> Option<BTreeMap<u64, Member>> {
    let alone =
        |name: String, address| Some(BTreeMap::from([(identity.node, Member { name, address, incarnation: 0 })]));
    match options.peers {
        None => alone(identity.node.to_string(), options.address),
        Some(peers) => match peers.formation {
            Formation::Alone => alone(peers.name.clone(), peers.own_address()),
            Formation::Members(_) => peers.members(),
            Formation::Join(_) => None,
        },
    }
}

pub(crate) async fn listen(address: SocketAddr, world: &Elsewhere) -> Result<Listener, OpenError> {
    Listener::bind(address, world).await.map_err(|source| OpenError::Listen { address, source })
}

fn stopped(error: impl std::fmt::Display) -> OpenError {
    OpenError::Stopped(error.to_string())
}

/// Asks for a snapshot at every checkpoint, and whenever the log has grown much without one.
async fn write_due_snapshots<M: Machine>(raft: Raft<Types, Applier<M>>, progress: Arc<Progress>) {
    loop {
        progress.snapshot_due().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}
