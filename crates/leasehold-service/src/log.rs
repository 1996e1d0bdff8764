//! The seam between the service and whatever replicates its entries.
//!
//! A [`Log`] carries opaque payloads to every node in one order and makes them durable; a [`Machine`] is
//! what they are applied to. The service implements the machine and drives the log; `leasehold-raft`
//! implements the log and drives the machine. Neither knows the other's insides: a payload is bytes here,
//! and no type of the consensus library crosses this line.

use std::future::Future;
use std::io;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use tokio::sync::watch;

/// Where an entry stands in the log, and under which leader it was appended there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its index, rising by one.
    pub index: u64,
    /// The leader that appended it.
    pub leader: LeaderId,
}

/// What stands at a committed position.
#[derive(Clone, Copy, Debug)]
pub enum Committed<'a> {
    /// The first entry of a new leader: a take-over.
    TakeOver,
    /// A payload as it was proposed.
    Payload(&'a [u8]),
    /// Something of the log's own (membership); it changes nothing here.
    Internal,
}

/// What committed entries are applied to, in order, exactly once per process life.
pub trait Machine: Send + Sync + 'static {
    /// A frozen state that can be written out while the machine goes on.
    type View: View;

    /// Applies what is committed at `at`. Never fails: what cannot be applied is a bug or damage, and panics.
    fn apply(&self, at: Position, entry: Committed<'_>) -> Applied;

    /// Freezes the present state. Cheap: writers are held up for well under a millisecond.
    fn view(&self) -> Self::View;

    /// Replaces the whole state by one that a [`View`] wrote.
    fn install(&self, snapshot: &mut dyn io::Read) -> io::Result<()>;
}

/// A frozen state. Equal states write equal bytes.
pub trait View: Send + 'static {
    /// Writes the state out.
    fn write(&self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Who leads, as far as this node knows: a hint, never a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Nobody is known to lead.
    #[default]
    Unknown,
    /// Another node leads.
    Follows(LeaderId),
    /// This node leads and is ready: its own first entry is applied, so its lease clock may start.
    Leads(LeaderId),
}

/// Why the log did not carry a proposal or could not prove a read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// Another node leads, or none; nothing was appended.
    #[error("this node does not lead the cluster{}", .leader.map_or(String::new(), |l| format!("; {l} does")))]
    NotLeader {
        /// The leader, where it is known.
        leader: Option<LeaderId>,
    },
    /// The answer is not known: the proposal may or may not take effect later.
    #[error("the outcome is not known: {0}")]
    Unknown(String),
    /// The log has stopped for good; the process must end.
    #[error("the log has stopped: {0}")]
    Stopped(String),
}

/// Called once with the answer to a proposal, on the thread that applies entries: it must not block.
pub type Answered = Box<dyn FnOnce(Result<Applied, Unavailable>) + Send + Sync>;

/// A replicated, durable order of payloads.
pub trait Log: Send + Sync + 'static {
    /// Appends `payload` if this node still leads as `leader`; `done` is called exactly once, after the entry is
    /// durable and applied, or when it is certain or likely that it never will be.
    ///
    /// Returns when the log has taken the proposal over; awaiting it is the back-pressure.
    fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) -> impl Future<Output = ()> + Send;

    /// Returns when every entry acknowledged before the call is applied on this node, with proof that this node
    /// still led after the call began.
    fn read_barrier(&self) -> impl Future<Output = Result<(), Unavailable>> + Send;

    /// Tells who leads, and every change of it.
    fn leadership(&self) -> watch::Receiver<Leadership>;
}
