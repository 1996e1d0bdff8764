//! What is delivered to a connection at one time, and how much of it.
//!
//! A batch becomes one message. It is bounded by a rough size, so that a client can bound the messages it takes: a little
//! more than [`BYTES`], unless a single answer is larger.

use leasehold_core::{
    EndCause, Holder, HolderView, LeaseId, LeaseView, Namespace, Outcome, Rejection, ResourceName, Revision,
    WriteResult,
};

use crate::waiting::Progress;
use crate::{Done, Failure};

/// How many things are taken at a time.
const THINGS: usize = 4096;
/// Roughly how many bytes are taken at a time.
const BYTES: usize = 1 << 20;
/// What anything takes at least.
const LEAST: usize = 64;
/// What a problem takes, without its holders.
const PROBLEM: usize = 512;

/// Something that happened to a lease of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A lease ended, by anything but a release on this connection.
    Ended {
        /// Where it was.
        namespace: Namespace,
        /// Which one.
        lease: LeaseId,
        /// Why.
        cause: EndCause,
        /// At which revision.
        revision: Revision,
    },
    /// Somebody asks for a hand-over.
    HandoverAsked {
        /// Where the resource is.
        namespace: Namespace,
        /// The lease that holds it.
        lease: LeaseId,
        /// Which resource.
        resource: ResourceName,
        /// Who asks.
        by: Holder,
        /// Why.
        reason: Option<Box<str>>,
        /// At which revision.
        revision: Revision,
    },
    /// Notices were lost: which leases are alive must be asked.
    Gap,
}

/// All that is ready for a connection at one time.
#[derive(Debug, Default)]
pub struct Batch {
    /// Answers by the number of their command.
    pub answers: Vec<(u64, Result<Done, Failure>)>,
    /// How waiting commands stand, by their number.
    pub progress: Vec<(u64, Progress)>,
    /// What happened to leases, in order.
    pub notices: Vec<Notice>,
}

/// How much a batch still takes.
#[derive(Debug, Default)]
pub(crate) struct Room {
    things: usize,
    bytes: usize,
}

impl Room {
    pub(crate) fn left(&self) -> bool {
        self.things < THINGS && self.bytes < BYTES
    }

    pub(crate) fn fill(&mut self, bytes: usize) {
        self.things += 1;
        self.bytes += LEAST + bytes;
    }
}

/// Roughly how many bytes an answer takes.
pub(crate) fn answer_bytes(result: &Result<Done, Failure>) -> usize {
    match result {
        Ok(done) => outcome_bytes(&done.outcome),
        Err(Failure::Rejected(rejection)) => rejection_bytes(rejection),
        Err(Failure::WaitElapsed { held, .. }) => PROBLEM + holders_bytes(&held.holders),
        Err(_) => PROBLEM,
    }
}

fn outcome_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Granted(view) | Outcome::Claimed(view) => lease_bytes(view),
        Outcome::Renewed(results) => {
            results.iter().map(|result| result.as_ref().map_or_else(|refused| rejection_bytes(refused), |_| 24)).sum()
        }
        Outcome::Written(written) => written.results.iter().map(entry_bytes).sum(),
        Outcome::Released { .. }
        | Outcome::Revoked { .. }
        | Outcome::Unclaimed
        | Outcome::Left
        | Outcome::HandoverAsked { .. }
        | Outcome::Configured => 0,
    }
}

fn lease_bytes(view: &LeaseView) -> usize {
    let held = view.held.iter().map(|held| held.resource.as_str().len() + 32).sum::<usize>();
    let places = view.waits.iter().flat_map(|wait| &wait.places);
    let waits = places.map(|place| place.resource.as_str().len() + 48).sum::<usize>();
    view.holder.as_str().len() + view.metadata.size() + held + waits + 64
}

fn rejection_bytes(rejection: &Rejection) -> usize {
    if let Rejection::Held(held) = rejection { PROBLEM + holders_bytes(&held.holders) } else { PROBLEM }
}

fn holders_bytes(holders: &[HolderView]) -> usize {
    holders.iter().map(|holder| holder.holder.as_str().len() + holder.metadata.size() + 96).sum()
}

fn entry_bytes(result: &WriteResult) -> usize {
    match result {
        WriteResult::Nested(written) => written.results.iter().map(entry_bytes).sum(),
        WriteResult::Put { previous } => previous.as_ref().map_or(0, |entry| entry.value.len()),
        WriteResult::Deleted { previous: entries } | WriteResult::Read { entries, .. } => {
            entries.iter().map(|entry| entry.value.len() + entry.key.as_bytes().len() + 32).sum()
        }
    }
}

/// Roughly how many bytes the progress of a wait takes.
pub(crate) fn progress_bytes(progress: &Progress) -> usize {
    let place = |standing: &crate::Standing| {
        let holder = standing.holder.as_ref().map_or(0, |holder| holders_bytes(std::slice::from_ref(holder)));
        standing.place.resource.as_str().len() + holder + 32
    };
    progress.places.iter().map(place).sum()
}

/// Roughly how many bytes a notice takes.
pub(crate) fn notice_bytes(notice: &Notice) -> usize {
    match notice {
        Notice::Ended { cause: EndCause::Revoked { reason, .. }, .. } => reason.len(),
        Notice::HandoverAsked { resource, by, reason, .. } => {
            resource.as_str().len() + by.as_str().len() + reason.as_ref().map_or(0, |reason| reason.len())
        }
        Notice::Ended { .. } | Notice::Gap => 0,
    }
}
