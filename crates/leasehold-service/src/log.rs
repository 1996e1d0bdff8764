//! The seam between the service and whatever replicates its entries.
//!
//! A [`Log`] carries opaque payloads to every node in one order and makes them durable; a [`Machine`] is
//! what they are applied to. The service implements the machine and drives the log; `leasehold-raft`
//! implements the log and drives the machine. Neither knows the other's insides: a payload is bytes here,
//! and no type of the consensus library crosses this line.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

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

/// A frozen state. Equal states write equal bytes on every node, whatever road led there: nodes compare their hashes.
pub trait View: Send + 'static {
    /// The form of the bytes. It changes with everything that makes equal entries give other bytes than before; nodes of
    /// different forms, which an upgrade has for a while, do not compare.
    const FORM: u8 = 1;

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
    /// This node leads as far as it knows, but no majority has answered it for longer than an election takes.
    CutOff(LeaderId),
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
    /// The leader was not reached; nothing was sent to it.
    #[error("the leader is not reached: {0}")]
    Unreachable(String),
    /// The leader has no room on its disk; nothing was appended.
    #[error("the leader's disk is full")]
    NoRoom,
    /// The answer is not known: the proposal may or may not take effect later.
    #[error("the outcome is not known: {0}")]
    Unknown(String),
    /// The log has stopped for good; the process must end.
    #[error("the log has stopped: {0}")]
    Stopped(String),
}

/// Called once with the answer to a proposal, on the thread that applies entries: it must not block.
pub type Answered = Box<dyn FnOnce(Result<Applied, Unavailable>) + Send + Sync>;

/// Called once with what became of a parcel; it must not block.
pub type Delivered = Box<dyn FnOnce(Result<(), Unavailable>) + Send + Sync>;

/// Commands that another node took and hands to this one, which it believes to lead.
pub struct Parcel {
    /// The leadership it is meant for; under another one it must not be proposed.
    pub to: LeaderId,
    /// The commands, as [`Pack::parcel`](leasehold_log::Pack::parcel) wrote them.
    pub bytes: Bytes,
    /// Tells the other node what became of it. Well means that its entry is applied here; the other node answers its
    /// callers when it has applied the entry itself.
    pub done: Delivered,
}

impl std::fmt::Debug for Parcel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parcel").field("to", &self.to).field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// A replicated, durable order of payloads.
pub trait Log: Send + Sync + 'static {
    /// Appends `payload` if this node still leads as `leader`; `done` is called exactly once, after the entry is
    /// durable and applied, or when it is certain or likely that it never will be.
    ///
    /// Returns when the log has taken the proposal over; awaiting it is the back-pressure.
    fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) -> impl Future<Output = ()> + Send;

    /// Hands a parcel to the node that leads as `to`; `done` is called exactly once. [`Unavailable::NotLeader`],
    /// [`Unavailable::Unreachable`] and [`Unavailable::NoRoom`] say that it certainly was not and will not be proposed.
    ///
    /// Returns when the parcel is on its way; awaiting it is the back-pressure.
    fn forward(&self, to: LeaderId, parcel: Bytes, done: Delivered) -> impl Future<Output = ()> + Send;

    /// Gives the parcels that other nodes hand to this one; none if they were taken already.
    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>>;

    /// Returns when every entry acknowledged before the call is applied on this node, with proof that the leader, this
    /// node or another one, still led after the call began.
    fn read_barrier(&self) -> impl Future<Output = Result<(), Unavailable>> + Send;

    /// Where what drives the log runs best: on its own threads, so that a proposal crosses none.
    fn runtime(&self) -> Handle {
        Handle::current()
    }

    /// Tells who leads, and every change of it.
    fn leadership(&self) -> watch::Receiver<Leadership>;

    /// How long ago this node last heard from the leader that it was up to date; zero on the leader.
    fn staleness(&self) -> Duration;

    /// The name of a node, for people.
    fn name_of(&self, node: u64) -> String;
}
