//! Leases as they travel: granted, renewed, ended.
//!
//! An answer to the one who knows a lease's id carries the id; lists carry only its digest.

use std::collections::BTreeMap;

use leasehold_core::{HeldView, LeaseId, LeaseView, Metadata, PlaceView, Rejection, Renewal, WaitView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Class, Digest, Id, Mode, Problem, ReasonText, RemainingText, ResourcePath, SpanText, Timestamp, TtlInput, TtlText,
};

/// Extends one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// A new ttl; a shorter one counts from the next renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TtlInput>)]
    pub ttl: Option<TtlText>,
}

/// Extends many leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewManyRequest {
    /// Their ids; each gets an answer of its own.
    #[schema(min_items = 1)]
    pub leases: Vec<Id>,
    /// A new ttl for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TtlInput>)]
    pub ttl: Option<TtlText>,
}

/// Takes a lease from its holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// Why, for its holder and for people.
    #[schema(value_type = ReasonText)]
    pub reason: String,
    /// Whether its resources go on at once, although the holder may still believe that it holds them.
    #[serde(default)]
    pub now: bool,
    /// A resource that the lease holds or waits for: with it, the digest of the lease is enough to name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ResourcePath>)]
    pub resource: Option<String>,
}

/// A lease as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    /// Its id, for the one who knows it already; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// What others see of its id.
    pub digest: Digest,
    /// How it stands.
    pub state: LeaseState,
    /// Whom it is granted to.
    pub holder: String,
    /// The fencing token, if it holds exactly one resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// For how long at a time.
    pub ttl: TtlText,
    /// The time left at the entry that answered: count it from before the request was sent.
    pub remaining: RemainingText,
    /// What kind of use it serves.
    pub class: Class,
    /// The lease it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Digest>,
    /// What people should know about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// When it was granted, for people.
    pub granted: Timestamp,
    /// How long it has lived.
    pub age: SpanText,
    /// How long ago it was granted or renewed.
    pub renewed_ago: SpanText,
    /// The revision at which what it carries last changed.
    pub changed: u64,
    /// What it holds.
    pub held: Vec<HeldClaim>,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// How many entries are bound to it.
    pub entries: u32,
    /// How many leases end with it.
    pub children: u32,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// It lives and has all it asked for.
    Live,
    /// It lives and waits for something.
    Waiting,
    /// Its time is over and only its end is not recorded yet.
    Ending,
}

/// A held claim of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldClaim {
    /// Which resource.
    pub resource: String,
    /// Alone or with others.
    pub mode: Mode,
    /// Its fencing token.
    pub token: u64,
    /// How long it has been held.
    pub held_for: SpanText,
    /// How long it had waited.
    pub waited: SpanText,
}

/// A wait of a lease: the resources it will get together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wait {
    /// The number of the wait: the revision at which it was queued.
    pub wait: u64,
    /// The time left to wait; absent if it waits as long as its lease lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<SpanText>,
    /// How long it has waited.
    pub waited: SpanText,
    /// Its place for each resource.
    pub places: Vec<Place>,
}

/// A place in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// For which resource.
    pub resource: String,
    /// Alone or with others.
    pub mode: Mode,
    /// Its place, from 1.
    pub position: u32,
    /// How many wait in all.
    pub length: u32,
    /// How long it may take, by what holders took before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<SpanText>,
}

/// A part of the leases of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseList {
    /// The leases, without their ids.
    pub leases: Vec<Lease>,
    /// What to send as `page` for the next part; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A renewed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewAnswer {
    /// The time left at the entry that answered: count it from before the request was sent.
    pub remaining: RemainingText,
    /// The ttl from now on.
    pub ttl: TtlText,
    /// The revision at which what the lease carries last changed.
    pub changed: u64,
}

/// What became of each lease of a renewal, in the order they were named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RenewManyAnswer {
    /// One for each lease.
    pub results: Vec<RenewResult>,
}

/// What became of one lease of a renewal: `renewed` or `problem`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RenewResult {
    /// Which lease.
    pub id: Id,
    /// It was renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<RenewAnswer>,
    /// It was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

impl Lease {
    /// The lease for someone who knows its id.
    pub fn known(view: &LeaseView) -> Lease {
        Lease { id: Some(Id(view.id)), ..Lease::seen(view) }
    }

    /// The lease for anybody: without its id.
    pub fn seen(view: &LeaseView) -> Lease {
        Lease {
            id: None,
            digest: Digest::of(view.id),
            state: match (view.ending, view.waits.is_empty()) {
                (true, _) => LeaseState::Ending,
                (false, false) => LeaseState::Waiting,
                (false, true) => LeaseState::Live,
            },
            holder: view.holder.to_string(),
            token: match view.held.as_slice() {
                [only] => Some(only.token.0),
                _ => None,
            },
            ttl: TtlText(view.ttl),
            remaining: RemainingText(view.remaining),
            class: view.class.into(),
            parent: view.parent.map(Digest::of),
            metadata: texts(&view.metadata),
            granted: Timestamp(view.granted),
            age: SpanText(view.age),
            renewed_ago: SpanText(view.renewed_ago),
            changed: view.changed.0,
            held: view.held.iter().map(HeldClaim::from).collect(),
            waits: view.waits.iter().map(Wait::from).collect(),
            entries: view.entries,
            children: view.children,
        }
    }
}

/// The texts of metadata by name.
pub(crate) fn texts(metadata: &Metadata) -> BTreeMap<String, String> {
    metadata.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

impl RenewResult {
    /// What became of `lease`.
    pub fn new(lease: LeaseId, result: &Result<Renewal, Box<Rejection>>) -> RenewResult {
        RenewResult {
            id: Id(lease),
            renewed: result.as_ref().ok().map(RenewAnswer::from),
            problem: result.as_ref().err().map(|rejection| Problem::from(&**rejection)),
        }
    }
}

impl From<&Renewal> for RenewAnswer {
    fn from(renewal: &Renewal) -> RenewAnswer {
        RenewAnswer {
            remaining: RemainingText(renewal.remaining),
            ttl: TtlText(renewal.ttl),
            changed: renewal.changed.0,
        }
    }
}

impl From<&HeldView> for HeldClaim {
    fn from(view: &HeldView) -> HeldClaim {
        HeldClaim {
            resource: view.resource.to_string(),
            mode: view.mode.into(),
            token: view.token.0,
            held_for: SpanText(view.held),
            waited: SpanText(view.waited),
        }
    }
}

impl From<&WaitView> for Wait {
    fn from(view: &WaitView) -> Wait {
        Wait {
            wait: view.wait.0,
            patience: view.patience.map(SpanText),
            waited: SpanText(view.waited),
            places: view.places.iter().map(Place::from).collect(),
        }
    }
}

impl From<&PlaceView> for Place {
    fn from(view: &PlaceView) -> Place {
        Place {
            resource: view.resource.to_string(),
            mode: view.mode.into(),
            position: view.position,
            length: view.length,
            estimate: view.estimate.map(SpanText),
        }
    }
}
