//! The types openraft works with: an opaque payload, our leader ids, a node's address, a responder of ours.
//!
//! A leader id is compared by term *and* node, and there is at most one leader per term. openraft's own
//! `leader_id_std` gives the latter but drops the node from log ids; ours keeps it, because an entry counts only under
//! the leader that stamped it. None of these types goes to disk or into our API; `convert.rs` translates.

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::responder::Responder;
use openraft::storage::RaftStateMachine;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, OptionalSend, RaftTypeConfig};

/// The most bytes one proposal may carry.
///
/// Entries are packed up to 256 KiB; the rest is room for a single command that is larger than a pack.
pub const PAYLOAD_MAX: usize = 4 * 1024 * 1024;

/// The choice of all types for openraft.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl RaftTypeConfig for Types {
    type D = Payload;
    type R = Applied;
    type NodeId = u64;
    type Node = Member;
    type Term = u64;
    type LeaderId = Candidate;
    type Vote = openraft::Vote<Candidate>;
    type Payload = EntryPayload<Payload, u64, Member>;
    type Entry = openraft::Entry<LeaderId, Self::Payload>;
    #[allow(deprecated, reason = "the replacement is the same type in a crate we would have to depend on for it alone")]
    type AsyncRuntime = openraft::impls::TokioRuntime;
    type Responder<T>
        = Reply<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// A log id with our leader id inside.
pub(crate) type LogId = openraft::LogId<LeaderId>;
/// A log entry.
pub(crate) type Entry = openraft::alias::EntryOf<Types>;
/// A vote.
pub(crate) type Vote = openraft::Vote<Candidate>;
/// The members as openraft keeps them.
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
/// What a snapshot covers, as openraft keeps it.
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
/// The answer to a write.
pub(crate) type WriteResult = openraft::raft::ClientWriteResult<Types>;

/// What one entry carries.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Bytes that nobody here looks into.
    Bytes(Bytes),
    /// A place where all nodes compare their states and write snapshots.
    Checkpoint,
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({self})")
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Payload::Checkpoint => f.write_str("checkpoint"),
        }
    }
}

/// What the cluster knows of a node beside its id.
pub(crate) use leasehold_log::Member;

/// Returns where a node is reached, as the membership has it.
pub(crate) fn address_of<SM: RaftStateMachine<Types>>(raft: &openraft::Raft<Types, SM>, node: u64) -> Option<String> {
    let server = raft.server_metrics();
    let server = server.borrow_watched();
    server.membership_config.membership().get_node(&node).map(|member| member.address.clone())
}

/// A node that asks for votes in a term, or leads in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate(pub(crate) LeaderId);

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialOrd for Candidate {
    /// Two candidates of one term are not comparable: neither may replace the other.
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        let rivals = self.0.term == other.0.term && self.0.node != other.0.node;
        (!rivals).then(|| self.0.term.cmp(&other.0.term))
    }
}

impl PartialEq<LeaderId> for Candidate {
    /// A candidate is never the same as a leader that a quorum granted.
    fn eq(&self, _: &LeaderId) -> bool {
        false
    }
}

impl PartialOrd<LeaderId> for Candidate {
    /// Of one term, the granted leader comes after every candidate.
    fn partial_cmp(&self, granted: &LeaderId) -> Option<Ordering> {
        Some(self.0.term.cmp(&granted.term).then(Ordering::Less))
    }
}

impl RaftLeaderId for Candidate {
    type Term = u64;
    type NodeId = u64;
    type Committed = LeaderId;

    fn new(term: u64, node: u64) -> Candidate {
        Candidate(LeaderId { term, node })
    }

    fn term(&self) -> u64 {
        self.0.term
    }

    fn node_id(&self) -> &u64 {
        &self.0.node
    }

    fn to_committed(&self) -> LeaderId {
        self.0
    }
}

/// Takes the answer to a write: called once with it, or with `None` if it is dropped unanswered.
pub(crate) struct Reply<T> {
    done: Option<Box<dyn FnOnce(Option<T>) + Send>>,
}

impl<T> Reply<T> {
    /// Calls `done` with the answer.
    pub(crate) fn new(done: impl FnOnce(Option<T>) + Send + 'static) -> Reply<T> {
        Reply { done: Some(Box::new(done)) }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

impl<T: OptionalSend + 'static> Responder<Types, T> for Reply<T> {
    fn on_complete(mut self, answer: T) {
        if let Some(done) = self.done.take() {
            done(Some(answer));
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn two_candidates_of_one_term_are_not_comparable() {
        let candidate = |term, node| Candidate(LeaderId { term, node });
        assert_eq!(candidate(2, 1).partial_cmp(&candidate(2, 2)), None);
        assert_eq!(candidate(2, 1).partial_cmp(&candidate(2, 1)), Some(Ordering::Equal));
        assert_eq!(candidate(1, 9).partial_cmp(&candidate(2, 1)), Some(Ordering::Less));
        assert_eq!(candidate(2, 1).partial_cmp(&LeaderId { term: 2, node: 2 }), Some(Ordering::Less));
        assert_eq!(candidate(3, 1).partial_cmp(&LeaderId { term: 2, node: 2 }), Some(Ordering::Greater));
    }

    #[test]
    fn a_reply_answers_exactly_once_even_if_it_is_dropped() {
        let (tell, told) = mpsc::channel();
        let reply = |tell: mpsc::Sender<Option<u32>>| Reply::new(move |answer| tell.send(answer).unwrap());
        reply(tell.clone()).on_complete(7);
        drop(reply(tell));
        assert_eq!(told.iter().collect::<Vec<_>>(), [Some(7), None]);
    }
}
