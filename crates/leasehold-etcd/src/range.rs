//! Reading a range: what is asked for, in which order, how much of it, as of when.
//!
//! Limits, orders and filters are applied as etcd does it: the count is that of the whole range, and a filter or an order
//! looks at all of it, but an order by something else than the key that is not said to rise or fall sorts only what the
//! limit has left.

use std::cmp::Ordering;

use leasehold_core::{EntryView, KeyRange, Namespace, Revision, State};
use tonic::Status;

use crate::compaction;
use crate::dialect::{Dialect, number};
use crate::errors::EtcdError;
use crate::keys;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::{RangeRequest, RangeResponse};
use crate::refusal::refused;

/// A range that was asked for, checked.
#[derive(Debug)]
pub(crate) struct Asked {
    /// None if no key can be in it.
    pub(crate) range: Option<KeyRange>,
    /// As of when; none is now.
    pub(crate) revision: Option<Revision>,
    limit: usize,
    order: SortOrder,
    target: SortTarget,
    keys_only: bool,
    count_only: bool,
    modified: (i64, i64),
    created: (i64, i64),
}

/// Entries that were found, and how many there are.
pub(crate) type Found = (Vec<EntryView>, u64);

impl Asked {
    pub(crate) fn new(request: &RangeRequest) -> Result<Asked, Status> {
        let wrong = |_| Status::from(EtcdError::InvalidSortOption);
        let revision = (request.revision > 0).then_some(Revision(request.revision as u64));
        Ok(Asked {
            range: keys::range(&request.key, &request.range_end)?,
            revision,
            limit: usize::try_from(request.limit).unwrap_or(0),
            order: SortOrder::try_from(request.sort_order).map_err(wrong)?,
            target: SortTarget::try_from(request.sort_target).map_err(wrong)?,
            keys_only: request.keys_only,
            count_only: request.count_only,
            modified: (request.min_mod_revision, request.max_mod_revision),
            created: (request.min_create_revision, request.max_create_revision),
        })
    }

    fn filters(&self) -> bool {
        [self.modified.0, self.modified.1, self.created.0, self.created.1].iter().any(|bound| *bound != 0)
    }

    /// How many entries have to be looked at; 0 for all.
    fn looks_at(&self) -> usize {
        if self.order != SortOrder::None || self.filters() { 0 } else { self.limit }
    }

    /// How many entries must be found for [`Asked::answer`], beside their count.
    pub(crate) fn wanted(&self) -> usize {
        match self.looks_at() {
            _ if self.count_only => 0,
            0 => usize::MAX,
            limit => limit,
        }
    }

    /// The answer, without its header, from what was found.
    pub(crate) fn answer(&self, (mut entries, count): Found) -> RangeResponse {
        let count = count as i64;
        if self.count_only {
            return RangeResponse { count, ..RangeResponse::default() };
        }
        let looked_at = entries.len();
        if self.filters() {
            let within = |(min, max): (i64, i64), at: Revision| {
                (min == 0 || number(at) >= min) && (max == 0 || number(at) <= max)
            };
            entries.retain(|entry| within(self.modified, entry.modified) && within(self.created, entry.created));
        }
        self.sort(&mut entries);
        let mut more = self.looks_at() > 0 && count > looked_at as i64;
        if self.limit > 0 && entries.len() > self.limit {
            entries.truncate(self.limit);
            more = true;
        }
        let mut kvs: Vec<_> = entries.iter().map(keys::key_value).collect();
        if self.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        RangeResponse { header: None, kvs, more, count }
    }

    fn sort(&self, entries: &mut [EntryView]) {
        let falls = match (self.order, self.target) {
            (SortOrder::None | SortOrder::Ascend, SortTarget::Key) => return,
            (SortOrder::None | SortOrder::Ascend, _) => false,
            (SortOrder::Descend, _) => true,
        };
        let compare = |a: &EntryView, b: &EntryView| -> Ordering {
            match self.target {
                SortTarget::Key => a.key.cmp(&b.key),
                SortTarget::Version => a.version.cmp(&b.version),
                SortTarget::Create => a.created.cmp(&b.created),
                SortTarget::Mod => a.modified.cmp(&b.modified),
                SortTarget::Value => a.value.cmp(&b.value),
            }
        };
        entries.sort_by(|a, b| if falls { compare(b, a) } else { compare(a, b) });
    }
}

impl Dialect {
    /// Reads a range, now or as it was.
    pub(crate) async fn range_of(&self, request: &RangeRequest) -> Result<RangeResponse, Status> {
        let asked = Asked::new(request)?;
        let (found, revision) = match asked.revision {
            None => self.read(request.serializable, |state| look(state, self.namespace(), &asked)).await?,
            Some(at) => {
                let query = |state: &State| compaction::check(state, self.namespace(), at);
                let (checked, revision) = self.read(request.serializable, query).await?;
                checked?;
                (self.recall(&asked, at).await?, revision)
            }
        };
        Ok(RangeResponse { header: Some(self.header(revision)), ..asked.answer(found) })
    }

    /// The entries of a range as they were; whether that may be told is checked before.
    pub(crate) async fn recall(&self, asked: &Asked, at: Revision) -> Result<Found, Status> {
        let Some(range) = &asked.range else { return Ok((Vec::new(), 0)) };
        let (caller, namespace) = (self.caller(), self.namespace());
        let stale = leasehold_service::Consistency::Stale;
        let answered = self.service().entries_at(&caller, namespace, stale, range, at).await.map_err(refused)?;
        let mut entries = answered.value;
        let count = entries.len() as u64;
        entries.truncate(asked.wanted());
        Ok((entries, count))
    }
}

fn look(state: &State, namespace: &Namespace, asked: &Asked) -> Found {
    match &asked.range {
        Some(range) => state.entries(namespace, range, asked.wanted()),
        None => (Vec::new(), 0),
    }
}
