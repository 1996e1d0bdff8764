//! A server in this process, with time that a test moves and faults that it causes.

use std::sync::Arc;
use std::time::Duration;

use super::VirtualClock;

use crate::Client;
use crate::store::Memory;

/// A server in this process, on a clock that a test moves.
#[derive(Clone, Debug)]
pub struct TestServer {
    clock: VirtualClock,
    store: Memory,
}

impl TestServer {
    /// A server without any lease.
    pub fn new() -> TestServer {
        let clock = VirtualClock::new();
        TestServer { store: Memory::with_clock(Arc::new(clock.clone())), clock }
    }

    /// A new client of it.
    pub fn client(&self) -> Client {
        self.client_of("tester")
    }

    /// A new client of it, for this holder.
    pub fn client_of(&self, holder: impl Into<String>) -> Client {
        Client::builder().holder(holder).clock(Arc::new(self.clock.clone())).over(self.store.clone())
    }

    /// Moves time and returns when everything that had to happen by then has happened.
    pub async fn advance(&self, duration: Duration) {
        self.clock.advance(duration).await;
    }

    /// Returns when all clients have done what there is to do for now.
    pub async fn settle(&self) {
        self.clock.settle().await;
    }

    /// The clock.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// The store behind all clients, without faults.
    pub fn store(&self) -> &Memory {
        &self.store
    }
}

impl Default for TestServer {
    fn default() -> Self {
        TestServer::new()
    }
}
