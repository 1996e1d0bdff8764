//! The rows of the core and the facts it tells.

use super::{LeaseId, RESOURCES, ResourceId, Time};

/// Why a lease or a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Its holder gave it back.
    Released,
    /// Time took it.
    Expired,
    /// An operator took it.
    Revoked,
    /// It ended with its parent.
    WithParent,
    /// It was granted for a wait whose patience is over.
    Impatient,
}

/// Whether a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Life {
    /// Never granted, or forgotten.
    Unknown,
    /// Granted and not over.
    Living,
    /// Over and remembered: a tombstone.
    Ended {
        /// Why.
        end: End,
        /// The lease time at which it ended.
        at: Time,
        /// The revision in which it ended.
        revision: u8,
    },
}

/// What a lease has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// Nothing.
    None,
    /// It holds it.
    Held {
        /// The revision at which it got it.
        token: u8,
    },
    /// It stands in its queue.
    Waiting {
        /// The revision at which it came; who came first is served first.
        number: u8,
        /// The lease time at which its patience is over.
        until: Time,
        /// The lease was granted for this wait and ends with it.
        born: bool,
    },
}

/// A lease and all it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// Whether it is.
    pub life: Life,
    /// The lease time at which it ends unless renewed.
    pub deadline: Time,
    /// The length that a renewal grants.
    pub ttl: Time,
    /// The lease it ends with.
    pub parent: Option<LeaseId>,
    /// What it has of each resource.
    pub claims: [Claim; RESOURCES],
    /// The highest number of a command on it.
    pub seq: u8,
    /// Which numbered commands it remembers as done, and which as refused: a bit for each.
    pub receipts: [u8; 2],
}

impl Lease {
    /// A lease that nobody knows of.
    pub const UNKNOWN: Lease = Lease {
        life: Life::Unknown,
        deadline: 0,
        ttl: 0,
        parent: None,
        claims: [Claim::None; RESOURCES],
        seq: 0,
        receipts: [0; 2],
    };

    /// Tells whether it was granted and is not over.
    pub fn is_living(&self) -> bool {
        self.life == Life::Living
    }
}

/// A resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// The token of the latest grant.
    pub last_token: u8,
    /// Until when it is given to nobody; zero for not at all.
    pub rests_until: Time,
}

impl Resource {
    /// A resource that was never granted.
    pub const UNUSED: Resource = Resource { last_token: 0, rests_until: 0 };
}

/// A fact that followed from an entry, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A lease was granted.
    Granted {
        /// Which.
        lease: LeaseId,
    },
    /// A lease got a resource.
    Taken {
        /// Which lease.
        lease: LeaseId,
        /// What it got.
        resource: ResourceId,
        /// With which token.
        token: u8,
        /// The token of the grant before.
        last: u8,
        /// It had waited.
        waited: bool,
        /// Its time, or that of an ancestor, was over already.
        due: bool,
        /// It was not the first living one in line.
        overtook: bool,
    },
    /// A claim was given back while its lease lives on.
    GivenBack {
        /// Which lease.
        lease: LeaseId,
        /// What it gave back.
        resource: ResourceId,
    },
    /// A lease ended.
    Ended {
        /// Which.
        lease: LeaseId,
        /// Why.
        end: End,
        /// In which revision.
        revision: u8,
        /// The deadline it had, with those of its ancestors.
        deadline: Time,
    },
}
