//! What queries answer about resources and lists: plain data, built for one reading.

use crate::{Holder, HolderView, LeaseId, Metadata, Mode, Past, Remaining, ResourceName, Revision, Span, Token};

/// A resource as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceView {
    /// Its name.
    pub name: ResourceName,
    /// Who holds it: the first few.
    pub holders: Vec<HolderView>,
    /// How many hold it in all.
    pub holder_count: u32,
    /// How many wait for it.
    pub queue: u32,
    /// How long it still rests although nobody holds it.
    pub rests: Option<Span>,
    /// The highest token given out.
    pub last_token: Token,
    /// How long holders usually keep it.
    pub usual_hold: Option<Span>,
}

/// A waiter of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterView {
    /// With which lease: show only a digest of it.
    pub lease: LeaseId,
    /// In its own words.
    pub holder: Holder,
    /// Alone or with others.
    pub mode: Mode,
    /// Higher goes first.
    pub priority: i32,
    /// Its place, from 1.
    pub position: u32,
    /// The number of its wait.
    pub wait: Revision,
    /// How long it has waited.
    pub waited: Span,
    /// The time left to wait; none waits as long as its lease lives.
    pub patience: Option<Span>,
    /// How long it may take, by what holders took before.
    pub estimate: Option<Span>,
    /// What people should know about it.
    pub metadata: Metadata,
}

/// The past of a resource, oldest first.
pub type History = Vec<Past>;

/// A part of a list, and where the next part begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, K> {
    /// What is on it.
    pub items: Vec<T>,
    /// The last key of this part, if more follow.
    pub next: Option<K>,
}

/// A token that is current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whose it is.
    pub holder: Holder,
    /// The time left unless renewed; information, not a promise.
    pub remaining: Remaining,
}
