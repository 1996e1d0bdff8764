//! Translates between what openraft holds in memory and the durable forms of `leasehold-log`.

use std::io;

use leasehold_log::{Kind, LogPosition, Membership, Record, RecordError};
use openraft::EntryPayload;

use crate::types::{Candidate, Entry, LogId, Payload, SnapshotMeta, StoredMembership, Vote};

pub(crate) fn position(id: &LogId) -> LogPosition {
    LogPosition { leader: id.leader_id, index: id.index }
}

pub(crate) fn log_id(position: &LogPosition) -> LogId {
    LogId { leader_id: position.leader, index: position.index }
}

pub(crate) fn vote_to_disk(vote: &Vote) -> leasehold_log::Vote {
    leasehold_log::Vote { leader: vote.leader_id.0, committed: vote.committed }
}

pub(crate) fn vote_from_disk(vote: &leasehold_log::Vote) -> Vote {
    Vote { leader_id: Candidate(vote.leader), committed: vote.committed }
}

/// Payload bytes are shared, not copied.
pub(crate) fn record(entry: Entry) -> Record {
    let position = position(&entry.log_id);
    let (kind, bytes) = match entry.payload {
        EntryPayload::Blank => (Kind::Blank, Default::default()),
        EntryPayload::Normal(Payload::Bytes(bytes)) => (Kind::Payload, bytes),
        EntryPayload::Normal(Payload::Checkpoint) => (Kind::Checkpoint, Default::default()),
        EntryPayload::Membership(members) => {
            let stored = StoredMembership::new(Some(entry.log_id), members);
            (Kind::Membership, membership_to_disk(&stored).to_bytes())
        }
    };
    Record { position, kind, bytes }
}

pub(crate) fn entry(record: Record) -> Result<Entry, RecordError> {
    let payload = match record.kind {
        Kind::Blank => EntryPayload::Blank,
        Kind::Payload => EntryPayload::Normal(Payload::Bytes(record.bytes)),
        Kind::Checkpoint => EntryPayload::Normal(Payload::Checkpoint),
        Kind::Membership => {
            let members = Membership::from_bytes(&record.bytes)?;
            EntryPayload::Membership(membership_from_disk(&members)?.membership().clone())
        }
    };
    Ok(Entry { log_id: log_id(&record.position), payload })
}

pub(crate) fn membership_to_disk(stored: &StoredMembership) -> Membership {
    let members = stored.membership();
    Membership {
        at: stored.log_id().as_ref().map(position),
        voters: members.get_joint_config().clone(),
        nodes: members.nodes().map(|(id, member)| (*id, member.clone())).collect(),
    }
}

pub(crate) fn membership_from_disk(stored: &Membership) -> Result<StoredMembership, RecordError> {
    let at = stored.at.as_ref().map(log_id);
    if stored.voters.is_empty() && stored.nodes.is_empty() {
        return Ok(StoredMembership::new(at, openraft::Membership::default()));
    }
    let members = openraft::Membership::new(stored.voters.clone(), stored.nodes.clone())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("membership is not valid: {error}")))?;
    Ok(StoredMembership::new(at, members))
}

pub(crate) fn snapshot_header(meta: &SnapshotMeta) -> leasehold_log::SnapshotHeader {
    leasehold_log::SnapshotHeader {
        last: meta.last_log_id.as_ref().map(position),
        membership: membership_to_disk(&meta.last_membership).to_bytes(),
    }
}

pub(crate) fn snapshot_meta(header: &leasehold_log::SnapshotHeader) -> Result<SnapshotMeta, RecordError> {
    Ok(SnapshotMeta {
        last_log_id: header.last.as_ref().map(log_id),
        last_membership: membership_from_disk(&Membership::from_bytes(&header.membership)?)?,
    })
}
