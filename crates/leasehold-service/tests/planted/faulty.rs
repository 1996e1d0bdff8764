//! A log of one node that can be held up, whose leader is not sure of anything, and that proves nothing to readers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_service::Replica;
use leasehold_service::log::{Answered, Committed, Delivered, Leadership, Log, Machine, Parcel, Position, Unavailable};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

pub(crate) const LEADER: LeaderId = LeaderId { term: 1, node: 1 };
pub(crate) const OTHER: LeaderId = LeaderId { term: 2, node: 2 };

/// A log that can be made to fail.
pub(crate) struct FaultyLog {
    replica: Arc<Replica>,
    stuck: watch::Sender<bool>,
    leadership: watch::Sender<Leadership>,
    /// What became of parcels is not told, or is not known for the first.
    forwarded: Mutex<Vec<Option<Delivered>>>,
}

impl FaultyLog {
    pub(crate) fn new(replica: Arc<Replica>) -> Arc<FaultyLog> {
        replica.apply(Position { index: 1, leader: LEADER }, Committed::TakeOver);
        let leadership = watch::Sender::new(Leadership::Leads(LEADER));
        Arc::new(FaultyLog { replica, stuck: watch::Sender::new(false), leadership, forwarded: Mutex::default() })
    }

    /// Commits nothing from now on.
    pub(crate) fn stick(&self) {
        self.stuck.send_replace(true);
    }

    /// Commits what was held up, and what comes.
    pub(crate) fn go_on(&self) {
        self.stuck.send_replace(false);
    }

    pub(crate) fn lead(&self, leadership: Leadership) {
        self.leadership.send_replace(leadership);
    }

    /// How many parcels were sent.
    pub(crate) fn forwarded(&self) -> usize {
        self.forwarded.lock().len()
    }
}

impl Log for FaultyLog {
    async fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) {
        self.stuck.subscribe().wait_for(|stuck| !stuck).await.unwrap();
        let applied = self.replica.apply(Position { index: 2, leader }, Committed::Payload(&payload));
        done(Ok(applied));
    }

    async fn forward(&self, _: LeaderId, _: Bytes, done: Delivered) {
        if self.forwarded() > 0 {
            return self.forwarded.lock().push(Some(done));
        }
        self.forwarded.lock().push(None);
        done(Err(Unavailable::Unknown("the connection broke".to_owned())));
    }

    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>> {
        None
    }

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        Err(Unavailable::Unreachable("no majority answers".to_owned()))
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }

    fn name_of(&self, node: u64) -> String {
        node.to_string()
    }
}
