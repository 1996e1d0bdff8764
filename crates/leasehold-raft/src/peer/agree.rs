//! Compares the states of the nodes: tells every member the hash of each checkpoint, and hears theirs.
//!
//! A report is told to every other member until it has it, or until a newer one replaces it; the answer carries the
//! other's own, so whoever is later learns both. What follows from the reports is `agreement.rs`'s to say. A node that must
//! stop takes no more part in the cluster from that moment, marks its directory so that it is not started again by habit,
//! tells the others once more what it has, so that they can warn or stop too, and then says why, for good.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_service::log::{Machine, View};
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use super::client::Peers;
use super::message;
use crate::agreement::{Agreement, Compared, Finding, Report};
use crate::checkpoint::{self, Checkpoints};
use crate::directory;
use crate::group_commit::Fatal;
use crate::machine::Applier;
use crate::types::Types;

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pauses before a member that was not reached is tried again.
const AGAIN_MIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// What is known of the states of the nodes; shared by those who tell, hear and ask.
#[derive(Debug)]
pub(crate) struct Comparison {
    node: u64,
    agreement: Mutex<Agreement>,
    /// The newest report of this node.
    newest: watch::Sender<Option<Report>>,
    /// Why this node must stop.
    diverged: watch::Sender<Option<String>>,
}

impl Comparison {
    pub(crate) fn new(node: u64) -> Comparison {
        let agreement = Mutex::new(Agreement::new(node));
        Comparison { node, agreement, newest: watch::Sender::new(None), diverged: watch::Sender::new(None) }
    }

    /// Returns the last checkpoint at which states were compared.
    pub(crate) fn compared(&self) -> Option<Compared> {
        self.agreement.lock().compared()
    }

    fn report(&self, report: Report, voters: BTreeSet<u64>) {
        tracing::debug!(index = report.at.index, hash = ?report.hash, "hashed the state at a checkpoint");
        let finding = self.agreement.lock().report(report, voters);
        self.newest.send_replace(Some(report));
        self.act(finding);
    }

    fn hear(&self, from: u64, report: Report) {
        let finding = self.agreement.lock().hear(from, report);
        self.act(finding);
    }

    fn act(&self, finding: Finding) {
        for words in finding.others {
            tracing::warn!("{words}");
        }
        if let Some(reason) = finding.stop {
            self.diverged.send_if_modified(|present| {
                let first = present.is_none();
                present.get_or_insert(reason);
                first
            });
        }
    }

    /// Takes the report of another node and answers with this node's own of the same checkpoint.
    pub(crate) fn answer(&self, from: u64, body: &[u8]) -> Result<Vec<u8>, String> {
        let theirs = message::report(body).map_err(|error| error.to_string())?;
        self.hear(from, theirs);
        Ok(message::put_report_answer(self.agreement.lock().own_at(theirs.at.index).as_ref()))
    }

    /// Hashes the state at every checkpoint, one at a time.
    pub(crate) async fn hash_all<V: View>(self: Arc<Self>, checkpoints: Arc<Checkpoints<V>>) {
        loop {
            let taken = checkpoints.next().await;
            match checkpoint::hash(taken.view).await {
                Ok(hash) => self.report(Report { at: taken.at, form: V::FORM, hash }, taken.voters),
                Err(error) => tracing::warn!(%error, index = taken.at.index, "the state was not hashed"),
            }
        }
    }

    /// Tells the newest report to all members until each has it.
    pub(crate) async fn tell_all<M: Machine>(self: Arc<Self>, peers: Peers, raft: Raft<Types, Applier<M>>) {
        let mut newest = self.newest.subscribe();
        loop {
            let report = *newest.borrow_and_update();
            let telling = async {
                if let Some(report) = report {
                    self.tell_until_told(&peers, &raft, report).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = telling => {}
                changed = newest.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn tell_until_told<M: Machine>(&self, peers: &Peers, raft: &Raft<Types, Applier<M>>, report: Report) {
        let mut missing = self.others(raft);
        self.agreement.lock().keep(&missing.keys().copied().collect());
        let mut pause = AGAIN_MIN;
        loop {
            missing = self.tell(peers, missing, report).await;
            if missing.is_empty() {
                return;
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(AGAIN_MAX);
            // Who left meanwhile need not hear it; who came will ask.
            let members = self.others(raft);
            missing.retain(|node, _| members.contains_key(node));
        }
    }

    /// Tells a report to these members; returns those that do not have it.
    async fn tell(&self, peers: &Peers, to: BTreeMap<u64, String>, report: Report) -> BTreeMap<u64, String> {
        let tell = async |(node, address): (u64, String)| {
            let asked = peers.ask_control(node, &address, message::CHECKPOINT, message::put_report(&report));
            let answer = timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err("it does not answer".into()));
            match answer.and_then(|body| message::report_answer(&body).map_err(|error| error.to_string())) {
                Ok(theirs) => {
                    theirs.into_iter().for_each(|theirs| self.hear(node, theirs));
                    None
                }
                Err(reason) => {
                    tracing::debug!(node, %reason, "a checkpoint was not told");
                    Some((node, address))
                }
            }
        };
        join_all(to.into_iter().map(tell)).await.into_iter().flatten().collect()
    }

    /// Ends this node's part in the cluster once its state has diverged, and says so.
    pub(crate) async fn stop_if_diverged<M: Machine>(
        self: Arc<Self>,
        peers: Peers,
        raft: Raft<Types, Applier<M>>,
        data: PathBuf,
        fatal: Fatal,
    ) {
        let mut diverged = self.diverged.subscribe();
        let Ok(reason) = diverged.wait_for(Option::is_some).await.map(|reason| reason.clone()) else { return };
        let reason = reason.unwrap_or_default();
        let others = self.others(&raft);
        tracing::error!("this node leaves the cluster: its state is not that of a majority");
        if let Err(error) = raft.shutdown().await {
            tracing::warn!(%error, "the log did not stop cleanly");
        }
        let words = reason.clone();
        let marked = crate::world::blocking(move || directory::mark_diverged(&data, &words)).await;
        if let Err(error) = marked.map_err(io::Error::other).flatten() {
            tracing::error!(%error, "nothing will keep this node from being started again");
        }
        let newest = *self.newest.borrow();
        if let Some(report) = newest {
            self.tell(&peers, others, report).await;
        }
        fatal.set(|| reason);
    }

    fn others<M: Machine>(&self, raft: &Raft<Types, Applier<M>>) -> BTreeMap<u64, String> {
        let server = raft.server_metrics();
        let membership = server.borrow_watched().membership_config.clone();
        let others = membership.membership().nodes().filter(|(node, _)| **node != self.node);
        others.map(|(node, member)| (*node, member.address.clone())).collect()
    }
}
