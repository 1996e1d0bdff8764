//! Every input of the state machine, in the imperative.
//!
//! A command is complete: with the state and the stamp of its entry it determines its outcome. Names are
//! well formed by their types; everything else is checked by the state when the command is applied.

use std::sync::Arc;

use crate::{
    Holder, Identity, Key, LeaseId, LeaseTime, Limits, Namespace, Patience, ResourceName, Revision, Span, Token, Ttl,
};

/// A command, who gives it, and in which namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who gives the command.
    pub caller: Caller,
    /// Where its names belong.
    pub namespace: Namespace,
    /// What to do.
    pub command: Command,
}

/// Who gives a command, as the service has proved it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The proved identity; none without authentication, where knowing a lease's id is the proof.
    pub identity: Option<Identity>,
    /// What the caller may do beyond using its own leases.
    pub rights: Rights,
}

/// What a caller may do beyond using its own leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// May end and use leases of others, and change limits.
    pub operator: bool,
    /// May hold leases without end.
    pub endless: bool,
}

/// Everything that changes state.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Grants a lease, with claims on resources: all or none.
    Grant(Grant),
    /// Grants a lease under an id that may have been used before: only a living lease is in its way. For protocols in
    /// which ids may come back; a late copy of such a grant counts as a new one.
    GrantAnew(Grant),
    /// Extends leases.
    Renew(Renew),
    /// Ends a lease by its holder's wish.
    Release(Release),
    /// Ends a lease by an operator's wish.
    Revoke(Revoke),
    /// Asks for more resources on a living lease.
    Claim(Claim),
    /// Asks for a resource on a living lease and puts the marker of the claim.
    ClaimMarked(ClaimMarked),
    /// Gives one held claim back.
    Unclaim(Unclaim),
    /// Leaves the queues a wait stands in.
    Leave(Leave),
    /// Asks the holders of a resource to hand it over.
    AskHandover(AskHandover),
    /// Compares and writes entries.
    Write(Write),
    /// Sets the limits.
    Configure(Box<Limits>),
}

/// Grants a lease, with claims on resources: all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Chosen by the client at random, never reused.
    pub id: LeaseId,
    /// Whom it is granted to.
    pub holder: Holder,
    /// For how long.
    pub ttl: Ttl,
    /// What kind of use it is, for people and defaults.
    pub class: Class,
    /// The lease it ends with.
    pub parent: Option<LeaseId>,
    /// What people should know about it.
    pub metadata: Metadata,
    /// What it asks for.
    pub asks: Asks,
    /// The lease time its client last saw; too old a grant may be a late copy and is refused.
    pub seen: LeaseTime,
}

/// The resources a command asks for, and how it is willing to wait for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// The resources: all or none of them.
    pub claims: Vec<Ask>,
    /// How long to wait for them.
    pub patience: Patience,
    /// Higher goes first; equal ones in order of arrival.
    pub priority: i32,
    /// How long each resource rests if the lease expires while holding it.
    pub cooldown: Span,
}

/// One resource asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which one.
    pub resource: ResourceName,
    /// Alone or with others.
    pub mode: Mode,
}

/// Whether a resource is held alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Nobody else holds it.
    Exclusive,
    /// Others may hold it in the same mode.
    Shared,
}

/// What kind of use a lease serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Exclusive work for seconds.
    #[default]
    Lock,
    /// Leadership.
    Election,
    /// Presence of a user or client.
    Session,
    /// Something set aside for hours.
    Reservation,
    /// A copy that may be used for a while.
    Cache,
}

/// What people should know about a lease: a few short texts by name, such as `reason` and `link`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Option<Arc<Vec<Pair>>>);

/// A name and its text.
type Pair = (Box<str>, Box<str>);

impl Metadata {
    /// Takes pairs of name and text; a later pair replaces an earlier one of the same name.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let sorted: std::collections::BTreeMap<String, String> = pairs.into_iter().collect();
        if sorted.is_empty() {
            return Self(None);
        }
        let pairs = sorted.into_iter().map(|(name, text)| (name.into_boxed_str(), text.into_boxed_str())).collect();
        Self(Some(Arc::new(pairs)))
    }

    /// The text under `name`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, text)| text)
    }

    /// All pairs, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.as_deref().map_or(&[][..], Vec::as_slice).iter().map(|(name, text)| (&**name, &**text))
    }

    /// How many bytes the names and texts have.
    pub fn size(&self) -> usize {
        self.iter().map(|(name, text)| name.len() + text.len()).sum()
    }
}

/// Extends leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// Which ones; each gets an answer of its own.
    pub leases: Vec<LeaseId>,
    /// A new ttl for them; a shorter one counts from the next renewal.
    pub ttl: Option<Ttl>,
}

/// Ends a lease by its holder's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which one.
    pub lease: LeaseId,
}

/// Ends a lease by an operator's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// Which one.
    pub lease: LeaseId,
    /// Why, for its holder and for people.
    pub reason: Box<str>,
    /// Whether its resources go on at once, although the holder may still believe that it holds them.
    pub now: bool,
}

/// Makes a command on a lease take effect once, however often it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once {
    /// The number of the command on its lease, rising.
    pub seq: u64,
    /// The client has the outcomes of all commands up to this number.
    pub acked: u64,
}

/// Asks for more resources on a living lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// On which lease.
    pub lease: LeaseId,
    /// Which repetition it is.
    pub once: Option<Once>,
    /// What it asks for.
    pub asks: Asks,
}

/// Asks for a resource on a living lease and puts the marker of the claim, in one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMarked {
    /// The claim: of one resource.
    pub claim: Claim,
    /// What stands for it.
    pub marker: Marker,
}

/// An entry that stands for a claim: both go in one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Its key.
    pub key: Key,
    /// Its bytes.
    pub value: Arc<[u8]>,
}

/// Gives one held claim back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclaim {
    /// Of which lease.
    pub lease: LeaseId,
    /// Which repetition it is.
    pub once: Option<Once>,
    /// Which resource.
    pub resource: ResourceName,
    /// The token it was granted with.
    pub token: Token,
}

/// Leaves the queues a wait stands in. A lease that was granted for that wait and carries nothing else ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Of which lease.
    pub lease: LeaseId,
    /// The number of the wait: the revision at which it was queued.
    pub wait: Revision,
}

/// Asks the holders of a resource to hand it over. It takes nothing from them: each agrees, finishes or refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskHandover {
    /// Which resource.
    pub resource: ResourceName,
    /// Who asks, in its own words.
    pub by: Holder,
    /// Why, for the holders and for people.
    pub reason: Option<Box<str>>,
}

/// How deep writes may be nested.
pub const WRITE_DEPTH_MAX: usize = 8;

/// Compares entries, then writes one list of them or the other: all in one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The session lease and number that make a repetition harmless.
    pub session: Option<(LeaseId, Once)>,
    /// What must be true for `then`.
    pub compares: Vec<Compare>,
    /// What to do if all compares hold.
    pub then: Vec<WriteOp>,
    /// What to do otherwise.
    pub otherwise: Vec<WriteOp>,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRange {
    /// One key.
    One(Key),
    /// All keys that begin with these bytes; all keys if there are none.
    Prefix(Arc<[u8]>),
    /// From the first key up to, not including, the second.
    Between(Key, Key),
    /// From this key on.
    From(Key),
}

/// One condition on entries. On a range it must hold for every entry in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// On which entries. Where there is none, one with all numbers zero and no value is taken.
    pub range: KeyRange,
    /// How the property stands to the value.
    pub relation: Relation,
    /// What is compared, and with what.
    pub operand: Operand,
}

/// How two values stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same.
    Equal,
    /// Not the same.
    NotEqual,
    /// The entry's is smaller.
    Less,
    /// The entry's is larger.
    Greater,
}

/// A property of an entry and the value it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// How often it was put since it was created; 0 if absent.
    Version(u64),
    /// The revision that created it; 0 if absent.
    Created(Revision),
    /// The revision that last changed it; 0 if absent.
    Modified(Revision),
    /// Its bytes; an absent entry has none and is never equal.
    Value(Arc<[u8]>),
    /// The lease it is bound to; 0 if none.
    Lease(u64),
}

/// One step of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOp {
    /// Creates or replaces an entry.
    Put {
        /// Where.
        key: Key,
        /// The new bytes; none keeps what is there.
        value: Option<Arc<[u8]>>,
        /// What it is bound to from now on.
        binding: Binding,
    },
    /// Removes entries.
    Delete {
        /// Which.
        range: KeyRange,
    },
    /// Reads entries as they are at this step.
    Read {
        /// Which.
        range: KeyRange,
        /// At most this many.
        limit: u32,
    },
    /// Another write as a step of this one. Its compares look at the state before the whole write, its session is not
    /// looked at.
    Nested(Box<Write>),
}

/// What an entry is bound to after a put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// To none: it stays until it is deleted.
    #[default]
    None,
    /// To a lease: it goes when the lease ends.
    To(LeaseId),
    /// As it was.
    Keep,
}
