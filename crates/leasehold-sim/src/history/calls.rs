//! Calls as an observer of one object sees them: begun, ended, and what they told about it.
//!
//! A call covers all attempts of one command, from the first that was sent to the answer that counted. Without an answer
//! it may take effect at any later time, or never.

use super::Moment;

/// A call on an exclusive resource.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who called.
    pub client: String,
    /// Which resource.
    pub resource: String,
    /// What was asked.
    pub what: What,
    /// When the first attempt was sent.
    pub sent: Moment,
    /// When the answer came; none if the outcome is not known.
    pub answered: Option<Moment>,
    /// What the answer told; [`Outcome::Unknown`] without one.
    pub outcome: Outcome,
}

/// What a call asks of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The resource for a lease, at once or after a wait.
    TryAcquire {
        /// For which lease.
        lease: String,
    },
    /// To give it back: the claim alone or with its whole lease.
    Release {
        /// Which lease.
        lease: String,
        /// The token that the lease had, if it knew one.
        token: Option<u64>,
    },
    /// Who holds it, as a linearizable query.
    Look,
}

/// What a call told about a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: no answer, or one that does not tell how the resource stood.
    Unknown,
    /// It was given to the caller.
    Granted {
        /// With this number.
        token: u64,
    },
    /// It was refused because somebody held it.
    HeldBy {
        /// With this number.
        token: u64,
    },
    /// It was given back, or had been lost already.
    Released,
    /// It was not the caller's to give back.
    NotHeld,
    /// It was seen as it stood.
    Seen {
        /// The number of its holder; none if it was free.
        holder: Option<u64>,
    },
}

/// A call on an entry that is bound to no lease. Each write of a key has a number of its own as its value.
#[derive(Clone, Debug)]
pub struct KeyCall {
    /// Who called.
    pub client: String,
    /// Which key.
    pub key: String,
    /// What was asked.
    pub what: KeyWhat,
    /// When the first attempt was sent.
    pub sent: Moment,
    /// When the answer came; none if the outcome is not known.
    pub answered: Option<Moment>,
    /// What the answer told; [`KeyOutcome::Unknown`] without one.
    pub outcome: KeyOutcome,
}

/// What a call asks of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWhat {
    /// To put a number.
    Put {
        /// Which one.
        number: u64,
    },
    /// To put a number if the entry is as expected.
    CompareAndSet {
        /// What must be there; none for no entry.
        expected: Option<u64>,
        /// What is put.
        number: u64,
    },
    /// To remove it.
    Delete,
    /// What is there, as a linearizable query.
    Read,
}

/// What a call told about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    /// Nothing.
    Unknown,
    /// It was done.
    Done,
    /// It was not done because the entry was not as expected.
    NotAsExpected,
    /// It was read.
    Read {
        /// The number; none if there was no entry.
        number: Option<u64>,
    },
}
