//! A log that only remembers: one node, in memory, nothing durable. For tests and for use inside one process.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_core::LeaderId;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::log::{Answered, Committed, Leadership, Log, Machine, Position, Unavailable};

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

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }
}
