//! Resources as they travel: who holds them, who waits, what happened, whether a token is current.

use std::collections::BTreeMap;

use leasehold_core::{Checked, HolderView, Past, PastFact, ResourceView, WaiterView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lease::texts;
use crate::{Digest, Mode, RemainingText, SpanText, Timestamp};

/// A resource as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: ResourceState,
    /// Who holds it: the first few.
    pub holders: Vec<HolderInfo>,
    /// How many hold it in all.
    pub holder_count: u32,
    /// Who waits for it.
    pub queue: QueueInfo,
    /// How long it still rests although nobody holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests: Option<SpanText>,
    /// The highest token given out.
    pub last_token: u64,
    /// How long holders usually keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_hold: Option<SpanText>,
}

/// How a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceState {
    /// Nobody holds it.
    Free,
    /// Somebody holds it.
    Held,
    /// Nobody holds it, and nobody gets it yet.
    Resting,
}

/// Who holds a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HolderInfo {
    /// In its own words.
    pub holder: String,
    /// What others see of its lease's id.
    pub lease: Digest,
    /// Its fencing token.
    pub token: u64,
    /// Alone or with others.
    pub mode: Mode,
    /// Since when, for people.
    pub since: Timestamp,
    /// How long it has held it.
    pub held_for: SpanText,
    /// The time left unless renewed.
    pub remaining: RemainingText,
    /// How long ago its lease was granted or renewed.
    pub renewed_ago: SpanText,
    /// Whether its time is over and only its end is not recorded yet.
    #[serde(default)]
    pub ending: bool,
    /// Why it holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Everything people should know about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// A queue in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueInfo {
    /// How many wait.
    pub length: u32,
    /// The caller's place, from 1: the one it had, or would get by waiting now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// How long it may take, by what holders took before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<SpanText>,
}

/// A waiter of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WaiterInfo {
    /// Its place, from 1.
    pub position: u32,
    /// In its own words.
    pub holder: String,
    /// What others see of its lease's id.
    pub lease: Digest,
    /// Alone or with others.
    pub mode: Mode,
    /// Higher goes first.
    pub priority: i32,
    /// The number of its wait.
    pub wait: u64,
    /// How long it has waited.
    pub waited: SpanText,
    /// The time left to wait; absent if it waits as long as its lease lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<SpanText>,
    /// How long it may take, by what holders took before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<SpanText>,
    /// Why it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Everything people should know about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// The queue of a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueList {
    /// How many wait in all.
    pub length: u32,
    /// The first of them, in order.
    pub waiters: Vec<WaiterInfo>,
}

/// Something that happened to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastInfo {
    /// When, for people.
    pub at: Timestamp,
    /// At which revision.
    pub revision: u64,
    /// What: `granted`, `handover_asked`, or the cause of the end.
    pub what: String,
    /// Whose claim it was.
    pub holder: String,
    /// Its fencing token.
    pub token: u64,
    /// How long it had waited, if it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<SpanText>,
    /// How long it was held, if it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_for: Option<SpanText>,
    /// Who asked for a hand-over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it was revoked or asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The recent past of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryList {
    /// What happened, newest first.
    pub history: Vec<PastInfo>,
}

/// A part of the resources of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceList {
    /// The resources, by name.
    pub resources: Vec<Resource>,
    /// What to send as `page` for the next part; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Asks whether a token is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The token.
    pub token: u64,
}

/// A token that is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckAnswer {
    /// Always true: a stale token is a refusal.
    pub current: bool,
    /// Whose it is.
    pub holder: String,
    /// The time left unless renewed; information, not a promise.
    pub remaining: RemainingText,
}

impl From<&ResourceView> for Resource {
    fn from(view: &ResourceView) -> Resource {
        Resource {
            name: view.name.to_string(),
            state: match (view.holder_count, view.rests) {
                (0, None) => ResourceState::Free,
                (0, Some(_)) => ResourceState::Resting,
                (1.., _) => ResourceState::Held,
            },
            holders: view.holders.iter().map(HolderInfo::from).collect(),
            holder_count: view.holder_count,
            queue: QueueInfo { length: view.queue, position: None, estimate: None },
            rests: view.rests.map(SpanText),
            last_token: view.last_token.0,
            usual_hold: view.usual_hold.map(SpanText),
        }
    }
}

impl From<&HolderView> for HolderInfo {
    fn from(view: &HolderView) -> HolderInfo {
        HolderInfo {
            holder: view.holder.to_string(),
            lease: Digest::of(view.lease),
            token: view.token.0,
            mode: view.mode.into(),
            since: Timestamp(view.since),
            held_for: SpanText(view.held),
            remaining: RemainingText(view.remaining),
            renewed_ago: SpanText(view.renewed_ago),
            ending: view.ending,
            reason: view.metadata.text("reason").map(str::to_owned),
            link: view.metadata.text("link").map(str::to_owned),
            metadata: texts(&view.metadata),
        }
    }
}

impl From<&WaiterView> for WaiterInfo {
    fn from(view: &WaiterView) -> WaiterInfo {
        WaiterInfo {
            position: view.position,
            holder: view.holder.to_string(),
            lease: Digest::of(view.lease),
            mode: view.mode.into(),
            priority: view.priority,
            wait: view.wait.0,
            waited: SpanText(view.waited),
            patience: view.patience.map(SpanText),
            estimate: view.estimate.map(SpanText),
            reason: view.metadata.text("reason").map(str::to_owned),
            link: view.metadata.text("link").map(str::to_owned),
            metadata: texts(&view.metadata),
        }
    }
}

impl From<&Past> for PastInfo {
    fn from(past: &Past) -> PastInfo {
        let plain = |what: &str| PastInfo {
            at: Timestamp(past.at),
            revision: past.revision.0,
            what: what.to_owned(),
            holder: past.holder.to_string(),
            token: past.token.0,
            waited: None,
            held_for: None,
            by: None,
            reason: None,
        };
        match &past.what {
            PastFact::Granted { waited } => PastInfo { waited: Some(SpanText(*waited)), ..plain("granted") },
            PastFact::Ended { held, cause } => {
                let reason = crate::watch::reason_of(cause);
                PastInfo { held_for: Some(SpanText(*held)), reason, ..plain(cause.word()) }
            }
            PastFact::HandoverAsked { by, reason } => {
                let reason = reason.as_ref().map(ToString::to_string);
                PastInfo { by: Some(by.to_string()), reason, ..plain("handover_asked") }
            }
        }
    }
}

impl From<&Checked> for CheckAnswer {
    fn from(checked: &Checked) -> CheckAnswer {
        CheckAnswer { current: true, holder: checked.holder.to_string(), remaining: RemainingText(checked.remaining) }
    }
}
