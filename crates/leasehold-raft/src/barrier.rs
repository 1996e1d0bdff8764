//! Linearizable reads: proof that the leader still led after a read began, and the wait until this node has all it knew.
//!
//! A leader proves itself by a round of heartbeats (ReadIndex); openraft lets readers share a round. Any other node asks its leader
//! for that proof and the index it goes with. Readers of one node share such a request if it was sent after they came:
//! while one is on its way, those who come gather for the next. Everything is bounded; who waits in vain is told
//! what is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_core::planted::{self, Bug};
use leasehold_service::log::{Leadership, Machine, Unavailable};
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::{LinearizerOption, Raft};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::group_commit::Fatal;
use crate::machine::{Applier, Progress};
use crate::peer::{ANSWER, BARRIER, LinkError, Links, Proof, Purpose, proof};
use crate::types::{Types, address_of};

/// The pause before the leader is asked again, unless another one comes first.
const AGAIN: Duration = Duration::from_millis(20);
/// A leader owes a proof much sooner; parcels on the same connection are worth waiting a little longer.
const SILENCE: Duration = Duration::from_secs(5);
/// What an answer may take beyond the time a leader gives its own proof.
const WAY: Duration = Duration::from_millis(250);

/// Proves that this node leads.
pub(crate) struct Prover<M: Machine> {
    raft: Raft<Types, Applier<M>>,
    leadership: watch::Receiver<Leadership>,
    heartbeat: Duration,
    election_max: Duration,
}

impl<M: Machine> Clone for Prover<M> {
    fn clone(&self) -> Prover<M> {
        let Prover { raft, leadership, heartbeat, election_max } = self;
        let (raft, leadership) = (raft.clone(), leadership.clone());
        Prover { raft, leadership, heartbeat: *heartbeat, election_max: *election_max }
    }
}

impl<M: Machine> Prover<M> {
    pub(crate) fn new(
        raft: Raft<Types, Applier<M>>,
        leadership: watch::Receiver<Leadership>,
        heartbeat: Duration,
        election_max: Duration,
    ) -> Prover<M> {
        Prover { raft, leadership, heartbeat, election_max }
    }

    /// Proves that this node led after the call began, or says within an election timeout why it cannot.
    pub(crate) async fn prove(&self) -> Proof {
        // One that has heard from no majority for so long already needs only to see whether that is still so.
        let cut_off = matches!(*self.leadership.borrow(), Leadership::CutOff(_));
        let patience = if cut_off { self.election_max.min(2 * self.heartbeat) } else { self.election_max };
        let read_index = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(patience);
        match self.raft.get_read_linearizer(read_index).await {
            Ok(proof) => Proof::Index(proof.read_log_id().log_id().index),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => {
                Proof::NotLeader(followed(&self.leadership))
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                let patience = patience.as_millis();
                Proof::Unproven(format!("it leads as far as it knows, but no majority answered it in {patience} ms"))
            }
            Err(RaftError::Fatal(error)) => Proof::Unproven(error.to_string()),
        }
    }
}

/// The leader this node follows.
pub(crate) fn followed(leadership: &watch::Receiver<Leadership>) -> Option<LeaderId> {
    match *leadership.borrow() {
        Leadership::Follows(leader) => Some(leader),
        Leadership::Unknown | Leadership::Leads(_) | Leadership::CutOff(_) => None,
    }
}

/// Those who wait for the next request to the leader.
#[derive(Default)]
struct Gathering {
    readers: Vec<oneshot::Sender<Result<u64, String>>>,
    /// Whether a task serves them.
    served: bool,
}

/// What a read needs on any node.
pub(crate) struct Reader<M: Machine> {
    pub(crate) prover: Prover<M>,
    progress: Arc<Progress>,
    fatal: Fatal,
    links: Option<Arc<Links>>,
    gathering: Mutex<Gathering>,
    /// Requests sent to leaders.
    asked: AtomicU64,
}

impl<M: Machine> Reader<M> {
    pub(crate) fn new(
        prover: Prover<M>,
        progress: Arc<Progress>,
        fatal: Fatal,
        links: Option<Arc<Links>>,
    ) -> Reader<M> {
        Reader { prover, progress, fatal, links, gathering: Mutex::default(), asked: AtomicU64::new(0) }
    }

    /// How often a leader was asked for a proof.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns when this node has applied everything acknowledged before the call. Runs on the runtime of the log.
    pub(crate) async fn barrier(self: Arc<Self>) -> Result<(), Unavailable> {
        tokio::select! {
            passed = self.pass() => passed,
            reason = self.fatal.wait() => Err(Unavailable::Stopped(reason)),
        }
    }

    async fn pass(self: &Arc<Self>) -> Result<(), Unavailable> {
        let deadline = Instant::now() + 2 * (self.prover.election_max + WAY);
        let mut leadership = self.prover.leadership.clone();
        let mut known = "nobody leads".to_string();
        while Instant::now() < deadline {
            let present = *leadership.borrow_and_update();
            match timeout_at(deadline, self.index(present)).await {
                Ok(Ok(index)) => return self.catch_up(index, deadline).await,
                Ok(Err(Refusal::Final(unavailable))) => return Err(unavailable),
                Ok(Err(Refusal::Again(words))) => known = words,
                Err(_) => {
                    if let Leadership::Follows(leader) = present {
                        known = format!("{} led and does not answer", self.name(leader));
                    }
                }
            }
            tokio::select! {
                _ = leadership.changed() => {}
                () = sleep(AGAIN) => {}
            }
        }
        Err(Unavailable::Unreachable(known))
    }

    fn name(&self, leader: LeaderId) -> String {
        let name = self.links.as_ref().map_or_else(|| leader.node.to_string(), |links| links.name(leader.node));
        format!("node {name}")
    }

    /// Gets a proof and the index it goes with, from whoever leads.
    async fn index(self: &Arc<Self>, present: Leadership) -> Result<u64, Refusal> {
        match present {
            Leadership::Leads(_) | Leadership::CutOff(_) => match self.prover.prove().await {
                Proof::Index(index) => Ok(index),
                Proof::NotLeader(_) => Err(Refusal::Again("this node led and does no longer".into())),
                Proof::Unproven(words) => Err(Refusal::Final(self.unproven(&words))),
            },
            Leadership::Follows(_) => {
                let (tell, told) = oneshot::channel();
                self.gather(tell);
                let lost = || Err("the node is stopping".into());
                told.await.unwrap_or_else(|_| lost()).map_err(Refusal::Again)
            }
            Leadership::Unknown => Err(Refusal::Again("nobody leads".into())),
        }
    }

    /// Why a leader refuses a read.
    pub(crate) fn unproven(&self, words: &str) -> Unavailable {
        let stopped = self.fatal.reason().map(Unavailable::Stopped);
        let words = || format!("this node cannot prove that it leads: {words}");
        stopped.unwrap_or_else(|| Unavailable::Unreachable(words()))
    }

    pub(crate) async fn catch_up(&self, index: u64, deadline: Instant) -> Result<(), Unavailable> {
        if planted::is(Bug::ReadBeforeCaughtUp) {
            return Ok(());
        }
        let applied = timeout_at(deadline, self.progress.wait_applied(index)).await;
        applied.map_err(|_| {
            let next = self.progress.next();
            Unavailable::Unreachable(format!("this node has applied entries before {next}, the leader was at {index}"))
        })
    }

    /// Lets a reader wait for the next request, and sees to it that there is one.
    fn gather(self: &Arc<Self>, reader: oneshot::Sender<Result<u64, String>>) {
        let mut gathering = self.gathering.lock();
        gathering.readers.push(reader);
        if !std::mem::replace(&mut gathering.served, true) {
            tokio::spawn(self.clone().serve_gatherings());
        }
    }

    /// Asks for all who have come, again and again, until nobody has come meanwhile.
    async fn serve_gatherings(self: Arc<Self>) {
        loop {
            let readers = {
                let mut gathering = self.gathering.lock();
                let readers = std::mem::take(&mut gathering.readers);
                gathering.served = !readers.is_empty();
                readers
            };
            if readers.is_empty() {
                return;
            }
            let answer = self.ask().await;
            for reader in readers {
                let _ = reader.send(answer.clone());
            }
        }
    }

    /// Asks the present leader, until there is another one.
    async fn ask(&self) -> Result<u64, String> {
        let mut leadership = self.prover.leadership.clone();
        let present = *leadership.borrow_and_update();
        let Leadership::Follows(leader) = present else { return Err("nobody leads".into()) };
        let name = self.name(leader);
        let Some(links) = &self.links else { return Err(format!("{name} leads, and this node has no way to others")) };
        let Some(address) = address_of(&self.prover.raft, leader.node) else {
            return Err(format!("{name} led and is not a member"));
        };
        self.asked.fetch_add(1, Ordering::Relaxed);
        let link = links.link(leader.node, &address, Purpose::Forwards);
        let patience = self.prover.election_max + WAY;
        let answer = timeout(patience, link.call_within(patience.max(SILENCE), BARRIER, Vec::new()));
        let frame = tokio::select! {
            answer = answer => match answer {
                Ok(Ok(frame)) => frame,
                Ok(Err(LinkError::Unreachable(words) | LinkError::Broken(words))) => {
                    return Err(format!("{name} led and does not answer: {words}"));
                }
                Err(_) => return Err(format!("{name} led and does not answer")),
            },
            _ = leadership.wait_for(|now| *now != present) => return Err(format!("{name} led and does no longer")),
        };
        if frame.kind != BARRIER | ANSWER {
            return Err(format!("{name} leads and answers: {}", String::from_utf8_lossy(&frame.body)));
        }
        match proof(&frame.body) {
            Ok(Proof::Index(index)) => Ok(index),
            Ok(Proof::NotLeader(_)) => Err(format!("{name} led and does no longer")),
            Ok(Proof::Unproven(words)) => Err(format!("{name} cannot prove that it leads: {words}")),
            Err(error) => Err(format!("{name} leads and its answer does not read: {error}")),
        }
    }
}

/// Why a read has no index yet.
enum Refusal {
    /// It may have one in a moment.
    Again(String),
    /// It will not.
    Final(Unavailable),
}
