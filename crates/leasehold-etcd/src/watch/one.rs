//! One watch: which keys it is about, what it wants to know of them, and what it is told.

use leasehold_core::{Event, Fact, Key, KeyRange, Namespace, Revision};
use leasehold_service::{Change, Feed};
use prost::Message as _;
use tonic::Status;

use crate::keys;
use crate::proto::etcdserverpb::watch_create_request::FilterType;
use crate::proto::etcdserverpb::{WatchCreateRequest, WatchResponse};
use crate::proto::mvccpb::{self, event::EventType};

/// An answer takes no further revision once it has this many bytes.
const ANSWER_BYTES: usize = 1 << 20;

/// One watch.
#[derive(Debug)]
pub(super) struct One {
    range: KeyRange,
    no_put: bool,
    no_delete: bool,
    prev_kv: bool,
    fragment: bool,
    pub(super) progress_notify: bool,
    /// It is told of later revisions only.
    pub(super) since: Revision,
    /// What it has missed, while it is behind the others of its stream.
    pub(super) behind: Option<Feed>,
    /// Whether it was told nothing since progress was last told.
    pub(super) is_quiet: bool,
}

impl One {
    /// The keys that a watch is about; none if there can be none.
    pub(super) fn range_of(request: &WatchCreateRequest) -> Result<Option<KeyRange>, Status> {
        let first: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
        keys::range(first, &request.range_end)
    }

    pub(super) fn new(request: &WatchCreateRequest, range: KeyRange, since: Revision) -> One {
        let filters = |filter: FilterType| request.filters.contains(&(filter as i32));
        One {
            range,
            no_put: filters(FilterType::Noput),
            no_delete: filters(FilterType::Nodelete),
            prev_kv: request.prev_kv,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
            since,
            behind: None,
            is_quiet: true,
        }
    }

    /// Adds what this watch wants to know of a change.
    pub(super) fn tell(&self, change: &Change, namespace: &Namespace, told: &mut Told) {
        if change.revision <= self.since {
            return;
        }
        let events = change.events.iter().filter(|event| event.namespace == *namespace);
        let events: Vec<mvccpb::Event> = events.filter_map(|event| self.event(event)).collect();
        if !events.is_empty() {
            told.0.push((change.revision, events));
        }
    }

    fn event(&self, event: &Event) -> Option<mvccpb::Event> {
        let wanted = |key: &Key, filtered: bool| !filtered && self.range.contains(key);
        let (kind, kv, key, previous) = match &event.fact {
            Fact::EntryPut { key, value, version, created, lease, previous } if wanted(key, self.no_put) => {
                let kv = mvccpb::KeyValue {
                    key: bytes::Bytes::copy_from_slice(key.as_bytes()),
                    create_revision: crate::dialect::number(*created),
                    mod_revision: crate::dialect::number(event.revision),
                    version: *version as i64,
                    value: bytes::Bytes::copy_from_slice(value),
                    lease: crate::dialect::lease_number(*lease),
                };
                (EventType::Put, kv, key, previous)
            }
            Fact::EntryDeleted { key, previous, .. } if wanted(key, self.no_delete) => {
                (EventType::Delete, keys::deleted(key, event.revision), key, previous)
            }
            Fact::EntryPut { .. }
            | Fact::EntryDeleted { .. }
            | Fact::LeaseGranted { .. }
            | Fact::LeaseEnded { .. }
            | Fact::ClaimGranted { .. }
            | Fact::ClaimEnded { .. }
            | Fact::Queued { .. }
            | Fact::Unqueued { .. }
            | Fact::HandoverAsked { .. } => return None,
        };
        let prev_kv = previous.0.as_ref().filter(|_| self.prev_kv).map(|former| keys::former(key, former));
        Some(mvccpb::Event { r#type: kind as i32, kv: Some(kv), prev_kv })
    }
}

/// What a watch is told, revision by revision.
#[derive(Debug, Default)]
pub(super) struct Told(Vec<(Revision, Vec<mvccpb::Event>)>);

impl Told {
    /// The answers, each with its revision: several revisions in one while they are small, and one in several only if the
    /// client can put them together.
    pub(super) fn answers(self, one: &One) -> Vec<(Revision, WatchResponse)> {
        let mut answers: Vec<(Revision, WatchResponse)> = Vec::new();
        let mut bytes = 0;
        for (revision, events) in self.0 {
            let size: usize = events.iter().map(|event| event.encoded_len() + 8).sum();
            if one.fragment && size > ANSWER_BYTES {
                answers.extend(fragments(revision, events));
                bytes = ANSWER_BYTES;
                continue;
            }
            match answers.last_mut() {
                Some((last, answer)) if bytes + size <= ANSWER_BYTES => {
                    *last = revision;
                    answer.events.extend(events);
                }
                _ => {
                    answers.push((revision, WatchResponse { events, ..WatchResponse::default() }));
                    bytes = 0;
                }
            }
            bytes += size;
        }
        answers
    }
}

/// One revision in several answers; all but the last say that more follows.
fn fragments(revision: Revision, events: Vec<mvccpb::Event>) -> Vec<(Revision, WatchResponse)> {
    let mut answers: Vec<(Revision, WatchResponse)> = Vec::new();
    let mut bytes = ANSWER_BYTES;
    for event in events {
        let size = event.encoded_len() + 8;
        if bytes + size > ANSWER_BYTES {
            answers.push((revision, WatchResponse { fragment: true, ..WatchResponse::default() }));
            bytes = 0;
        }
        bytes += size;
        if let Some((_, answer)) = answers.last_mut() {
            answer.events.push(event);
        }
    }
    if let Some((_, last)) = answers.last_mut() {
        last.fragment = false;
    }
    answers
}
