//! A server in this process, with time that a test moves and faults that it causes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::VirtualClock;
use super::link::{Common, Link, Road};
use crate::Client;
use crate::store::{Memory, ProgressTo, Store};

/// A server in this process, on a clock that a test moves. Clones are the same server.
#[derive(Clone, Debug)]
pub struct TestServer {
    clock: VirtualClock,
    store: Memory,
    common: Arc<Common>,
    ways: Arc<Mutex<Ways>>,
}

#[derive(Debug, Default)]
struct Ways {
    /// How the way of a new client is.
    road: Road,
    links: Vec<Arc<Link>>,
}

impl TestServer {
    /// A server without any lease.
    pub fn new() -> TestServer {
        let clock = VirtualClock::new();
        let store = Memory::with_clock(Arc::new(clock.clone()));
        TestServer { clock, store, common: Arc::default(), ways: Arc::default() }
    }

    /// A new client of it.
    pub fn client(&self) -> Client {
        self.client_of("tester")
    }

    /// A new client of it, for this holder.
    pub fn client_of(&self, holder: impl Into<String>) -> Client {
        let mut ways = self.ways.lock();
        let link = Link::new(self.store.clone(), self.clock.clone(), Arc::clone(&self.common), ways.road);
        let link = Arc::new(link);
        ways.links.push(Arc::clone(&link));
        Client::builder().holder(holder).clock(Arc::new(self.clock.clone())).over_shared(link)
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

    /// Answers nothing until it [thaws](TestServer::thaw). Its time goes on, and what was sent meanwhile arrives then.
    pub fn freeze(&self) {
        self.change(|road| road.frozen = true);
    }

    /// Answers again.
    pub fn thaw(&self) {
        self.change(|road| road.frozen = false);
    }

    /// Refuses connections: every call fails at once. Its time goes on, and it forgets nothing.
    pub fn stop(&self) {
        self.change(|road| road.stopped = true);
    }

    /// Takes connections again.
    pub fn start(&self) {
        self.change(|road| road.stopped = false);
    }

    /// Delays every reply from now on by this long.
    pub fn delay_replies(&self, delay: Duration) {
        self.change(|road| road.delay = delay);
    }

    /// Loses the next reply, whoever it is for: what was asked for is done, and the connection breaks.
    pub fn lose_next_reply(&self) {
        self.common.losses.fetch_add(1, Ordering::AcqRel);
    }

    /// Cuts a client off: what it sends or should get is lost, until it is [mended](TestServer::mend).
    pub fn cut(&self, client: &Client) {
        self.change_one(client, |road| road.cut = true);
    }

    /// Connects a client again that was cut off; the calls that were lost fail now.
    pub fn mend(&self, client: &Client) {
        self.change_one(client, |road| road.cut = false);
    }

    /// How many calls to renew leases were sent so far; one may renew many.
    pub fn renewal_calls(&self) -> u32 {
        self.common.renewals.load(Ordering::Acquire)
    }

    /// Lets a copy of every grant that was ever sent arrive once more, as a network may do. Tells how many there are.
    pub fn deliver_late_copies(&self) -> usize {
        let grants = self.common.grants.lock().clone();
        for wish in &grants {
            // Nobody waits for the answer.
            let _ = self.store.grant(Arc::clone(wish), ProgressTo::nobody()).now_or_never();
        }
        grants.len()
    }

    fn change(&self, change: impl Fn(&mut Road)) {
        let mut ways = self.ways.lock();
        change(&mut ways.road);
        ways.links.iter().for_each(|link| link.change(&change));
    }

    fn change_one(&self, client: &Client, change: impl FnOnce(&mut Road)) {
        let wanted = Arc::as_ptr(client.store()).cast::<()>();
        let ways = self.ways.lock();
        let link = ways.links.iter().find(|link| Arc::as_ptr(link).cast::<()>() == wanted);
        link.expect("the client is one of this server's").change(change);
    }
}

impl Default for TestServer {
    fn default() -> Self {
        TestServer::new()
    }
}
