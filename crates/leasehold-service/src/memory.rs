//! A log that only remembers: one node, in memory, nothing durable. For tests and for use inside one process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::LeaderId;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::log::{Answered, Committed, Delivered, Leadership, Log, Machine, Parcel, Position, Unavailable};

/// A log of one node in memory: what is proposed is applied at once.
#[derive(Debug)]
pub struct MemoryLog<M> {
    machine: Arc<M>,
    /// The index of the next entry; held while one is applied, so that they are applied in order.
    next: Mutex<u64>,
    leadership: watch::Sender<Leadership>,
    leader: LeaderId,
}

impl<M: Machine> MemoryLog<M> {
    /// Begins a log that drives `machine` and leads at once.
    pub fn start(machine: Arc<M>) -> Arc<Self> {
        let leader = LeaderId { term: 1, node: 1 };
        machine.apply(Position { index: 1, leader }, Committed::TakeOver);
        let leadership = watch::Sender::new(Leadership::Leads(leader));
        Arc::new(Self { machine, next: Mutex::new(2), leadership, leader })
    }
}

impl<M: Machine> Log for MemoryLog<M> {
    async fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) {
        if leader != self.leader {
            return done(Err(Unavailable::NotLeader { leader: Some(self.leader) }));
        }
        let applied = {
            let mut next = self.next.lock();
            let position = Position { index: *next, leader };
            *next += 1;
            self.machine.apply(position, Committed::Payload(&payload))
        };
        done(Ok(applied));
    }

    async fn forward(&self, _: LeaderId, _: Bytes, done: Delivered) {
        done(Err(Unavailable::Unreachable("this log has one node".to_owned())));
    }

    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>> {
        None
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }

    fn name_of(&self, node: u64) -> String {
        node.to_string()
    }

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }
}
