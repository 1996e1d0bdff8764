//! What clients and nodes say to each other: the service's own commands, queries and watches, as values.

use leasehold_core::{
    Command, EntryView, Key, LeaseId, LeaseTime, LeaseView, Rejection, ResourceName, Revision, Token,
};
use leasehold_service::{Change, Done, Failure};

/// What a client wants of a node.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// A command; one that waits is answered when it has what it asked for, or has waited long enough.
    Command(Command),
    /// A command that is answered at once, with its place if it has to wait.
    Queue(Command),
    /// A linearizable look at a lease and a resource.
    Look(LeaseId, ResourceName),
    /// A linearizable look at an entry.
    Read(Key),
    /// The changes after a revision, or from now on, of names that begin so.
    Watch(Option<Revision>, String),
}

/// What a linearizable look has seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) now: LeaseTime,
    pub(crate) revision: Revision,
    pub(crate) lease: Result<LeaseView, Box<Rejection>>,
    /// The token of whoever holds the resource.
    pub(crate) held: Option<(LeaseId, Token)>,
}

/// What a node says.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// To a command.
    Done(Result<Done, Failure>),
    /// To a look.
    Seen(Result<Seen, Failure>),
    /// To a read: the entry, and the revision of the state.
    Entry(Result<(Option<EntryView>, Revision), Failure>),
    /// A watch begins.
    Opened,
    /// A watch delivers.
    Changed(Change),
    /// A watch has nothing up to this revision.
    Nothing(Revision),
    /// A watch was cut: its watcher was too slow.
    TooSlow,
    /// A watch was not opened.
    NotOpened(Failure),
    /// A watch ends without a reason: the connection broke.
    Over,
}
