//! STUB for the http branch: signatures only, bodies arrive with the merge.
#![allow(missing_docs, clippy::unimplemented, unused_variables)]
use std::time::Duration;
use leasehold_core::*;

#[derive(Clone, Debug)]
pub struct Service;

/// What a command achieved, and when.
#[derive(Clone, Debug)]
pub struct Done { pub outcome: Outcome, pub now: LeaseTime, pub revision: Revision }

/// What a query answered, and when.
#[derive(Clone, Debug)]
pub struct Answered<T> { pub value: T, pub now: LeaseTime, pub revision: Revision, /** How old a stale answer may be. */ pub age: Option<Duration> }

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency { #[default] Linearizable, Stale }

/// Why the service has no good answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The domain refused.
    #[error("{0}")]
    Rejected(Box<Rejection>),
    /// The wait was over before the resources were free.
    #[error("{} was not free within the wait", .held.resource)]
    WaitElapsed { held: Box<HeldBy>, /** The last place in the queue. */ position: u32 },
    /// The caller may not do this.
    #[error("not permitted: {0}")]
    Denied(String),
    /// Too much is waiting to be done.
    #[error("the server is overloaded; try again in {} ms", .retry_after.as_millis())]
    Overloaded { retry_after: Duration },
    /// There is no room on the disk for new work.
    #[error("the server's disk is full; free space on it, then try again")]
    DiskFull,
    /// Nobody can commit now.
    #[error("no leader can commit now; try again")]
    NoQuorum { /** Whether the command may have taken effect. */ may_have_happened: bool },
    /// The server is stopping.
    #[error("the server is shutting down")]
    ShuttingDown { may_have_happened: bool },
    /// The watch asks for events that are no longer kept.
    #[error("events up to revision {oldest} are no longer kept; read the present state and watch from its revision")]
    Compacted { /** The oldest revision one can resume after. */ oldest: Revision },
    /// The command is larger than an entry of the log may be.
    #[error("the command has {size} bytes, at most {max} are allowed")]
    TooLarge { size: usize, max: usize },
}

/// One revision's worth of events, filtered.
#[derive(Clone, Debug)]
pub struct Change { pub revision: Revision, pub events: Vec<Event> }

#[derive(Clone, Debug)]
pub enum Delivery {
    Change(Change),
    /// Nothing for this watch up to this revision: a point to resume from.
    Progress(Revision),
    /// The watcher was too slow and is cut; it resumes after this revision.
    TooSlow(Revision),
}

pub struct Watch;
impl Watch {
    /// The next delivery; none when the server stops.
    pub async fn next(&mut self) -> Option<Delivery> { unimplemented!() }
}

#[derive(Clone, Debug)]
pub struct WatchFilter { /** Prefix of resource names and keys; empty for all. */ pub prefix: String }

#[derive(Clone, Copy, Debug)]
pub struct Health { /** Can commit and answer linearizable reads. */ pub ready: bool, pub leads: bool, pub disk_full: bool, pub overloaded: bool, pub lease_time_lag: Duration }

impl Service {
    /// Carries out a command; a wait in the queue is answered with the state `waiting`.
    pub async fn execute(&self, caller: &Caller, namespace: &Namespace, command: Command) -> Result<Done, Failure> { unimplemented!() }
    /// Carries out a grant or claim with patience and returns when it is held, refused or elapsed. While the future lives, the
    /// waiting lease is kept alive; dropping the future leaves the queue.
    pub async fn execute_waiting(&self, caller: &Caller, namespace: &Namespace, command: Command) -> Result<Done, Failure> { unimplemented!() }
    /// Answers a query.
    pub async fn read<T>(&self, caller: &Caller, namespace: &Namespace, consistency: Consistency, query: impl FnOnce(&State) -> T) -> Result<Answered<T>, Failure> { unimplemented!() }
    /// Opens a watch after `since`, or from now on.
    pub async fn watch(&self, caller: &Caller, namespace: &Namespace, filter: WatchFilter, since: Option<Revision>) -> Result<Watch, Failure> { unimplemented!() }
    /// The lease time and revision of this node, for the headers of every answer.
    pub fn present(&self) -> (LeaseTime, Revision) { unimplemented!() }
    pub fn health(&self) -> Health { unimplemented!() }
    /// The caller of a connection without credentials.
    pub fn anonymous(&self) -> Caller { unimplemented!() }
}
