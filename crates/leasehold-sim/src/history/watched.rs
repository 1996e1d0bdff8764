//! What one watcher was told, in the order in which it was told, over all its connections.

use std::time::Duration;

use super::Moment;

/// What one watcher was told.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Who watched.
    pub watcher: String,
    /// Which events it asked for.
    pub filter: Filter,
    /// The revision after which its first connection began.
    pub since: u64,
    /// What it was told, in order. A later connection goes on after the revision that was told last.
    pub told: Vec<Told>,
}

/// Which events a watcher asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All of them.
    #[default]
    Everything,
    /// Those about keys and resources that begin so.
    Prefix(String),
}

/// One thing that a watcher was told.
#[derive(Clone, Debug)]
pub enum Told {
    /// The events of one revision that it asked for.
    Change(Change),
    /// There was nothing else for it up to this revision.
    Progress(u64),
    /// What it asked for is gone; it went on after this revision.
    Gap(u64),
}

/// All events of one revision, as a watch delivered them.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which revision.
    pub revision: u64,
    /// Its events, in order.
    pub events: Vec<Event>,
    /// When they were delivered.
    pub seen: Moment,
}

/// One event; what its kind does not have is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What happened: `lease_granted`, `claim_ended`, …
    pub kind: String,
    /// The wall time of its log entry: the same for all events of one.
    pub at: String,
    /// The digest of the lease: the one it is about, or the one an entry is bound to.
    pub lease: String,
    /// The holder, which names the lease.
    pub holder: String,
    /// The resource.
    pub resource: String,
    /// Whether the resource is held or wanted beside others.
    pub shared: bool,
    /// The fencing number.
    pub token: u64,
    /// Why something ended.
    pub cause: String,
    /// How long the resource rests after its claim ended.
    pub rests: Duration,
    /// The place in the queue, from 1.
    pub position: u64,
    /// The key of an entry.
    pub key: String,
    /// The value of an entry.
    pub value: String,
    /// How often an entry was put.
    pub version: u64,
    /// The digest of the lease whose end removed an entry.
    pub ended: String,
}

impl Event {
    /// Tells whether a resource may rest after this. What is revoked in its very last millisecond rests for less than one.
    pub(crate) fn may_rest(&self) -> bool {
        !self.rests.is_zero() || self.cause == "revoked" || self.cause == "parent_ended"
    }
}

impl Filter {
    /// Tells whether a watcher with this filter is told of an event.
    pub fn passes(&self, event: &Event) -> bool {
        match self {
            Filter::Everything => true,
            Filter::Prefix(prefix) => {
                let about = if event.resource.is_empty() { &event.key } else { &event.resource };
                !about.is_empty() && about.starts_with(prefix.as_str())
            }
        }
    }
}

impl Watched {
    /// A watcher of everything from the first revision on.
    pub fn everything(watcher: impl Into<String>) -> Watched {
        Watched { watcher: watcher.into(), ..Watched::default() }
    }

    /// The changes that it was told of.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.told.iter().filter_map(|told| match told {
            Told::Change(change) => Some(change),
            Told::Progress(_) | Told::Gap(_) => None,
        })
    }

    /// The revision up to which it was told everything it asked for, gaps aside.
    pub fn told_up_to(&self) -> u64 {
        let mut revisions = self.told.iter().map(|told| match told {
            Told::Change(change) => change.revision,
            Told::Progress(revision) | Told::Gap(revision) => *revision,
        });
        revisions.next_back().unwrap_or(self.since)
    }
}
