//! What nodes say to each other, as bytes: in the forms of `leasehold-log`, never in openraft's own.
//!
//! Decoding never panics; any bytes give a message or an error.

use std::io::Read;

use leasehold_log::{LogPosition, Record, RecordError, Vote as StoredVote};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};

use crate::agreement::{Hash, Report};
use crate::convert;
use crate::types::{LogId, SnapshotMeta, Types, Vote};

pub(crate) const APPEND: u8 = 1;
pub(crate) const VOTE: u8 = 2;
pub(crate) const PRE_VOTE: u8 = 3;
pub(crate) const TRANSFER: u8 = 4;
pub(crate) const SNAPSHOT_BEGIN: u8 = 5;
pub(crate) const SNAPSHOT_PART: u8 = 6;
pub(crate) const SNAPSHOT_END: u8 = 7;
/// The hash of a node's state at a checkpoint.
pub(crate) const CHECKPOINT: u8 = 10;
/// An answer has the kind of its request with this bit.
pub(crate) const ANSWER: u8 = 0x80;
/// The answer in words to a request that could not be served.
pub(crate) const FAILED: u8 = 0xff;

/// What a snapshot is, said before its bytes.
#[derive(Debug, PartialEq)]
pub(crate) struct SnapshotBegin {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    pub(crate) length: u64,
}

pub(super) type Decoded<T> = Result<T, RecordError>;

pub(crate) fn put_append(request: AppendEntriesRequest<Types>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    put_vote(&mut out, &request.vote);
    put_position(&mut out, request.prev_log_id.as_ref());
    put_position(&mut out, request.leader_commit.as_ref());
    out.extend_from_slice(&(request.entries.len() as u32).to_le_bytes());
    for entry in request.entries {
        convert::record(entry).write(&mut out).expect("a record of the log was written before");
    }
    out
}

pub(crate) fn append(body: &[u8]) -> Decoded<AppendEntriesRequest<Types>> {
    whole("append", body, |from| {
        let (vote, prev_log_id, leader_commit) = (vote(from)?, position(from)?, position(from)?);
        let count = u32::from_le_bytes(bytes(from)?);
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(convert::entry(Record::read(from)?)?);
        }
        Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
    })
}

pub(crate) fn put_append_answer(answer: &AppendEntriesResponse<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    match answer {
        AppendEntriesResponse::Success => out.push(0),
        AppendEntriesResponse::PartialSuccess(matching) => {
            out.push(1);
            put_position(&mut out, matching.as_ref());
        }
        AppendEntriesResponse::Conflict => out.push(2),
        AppendEntriesResponse::HigherVote(vote) => {
            out.push(3);
            put_vote(&mut out, vote);
        }
    }
    out
}

pub(crate) fn append_answer(body: &[u8]) -> Decoded<AppendEntriesResponse<Types>> {
    whole("answer to an append", body, |from| match bytes::<1>(from)?[0] {
        0 => Ok(AppendEntriesResponse::Success),
        1 => Ok(AppendEntriesResponse::PartialSuccess(position(from)?)),
        2 => Ok(AppendEntriesResponse::Conflict),
        3 => Ok(AppendEntriesResponse::HigherVote(vote(from)?)),
        found => Err(unknown("answer to an append", "outcome", found)),
    })
}

pub(crate) fn put_vote_request(request: &VoteRequest<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, &request.vote);
    put_position(&mut out, request.last_log_id.as_ref());
    out.push(u8::from(request.leadership_transfer));
    out
}

pub(crate) fn vote_request(body: &[u8]) -> Decoded<VoteRequest<Types>> {
    whole("vote request", body, |from| {
        let mut request = VoteRequest::new(vote(from)?, position(from)?);
        request.leadership_transfer = flag(from, "vote request")?;
        Ok(request)
    })
}

pub(crate) fn put_vote_answer(answer: &VoteResponse<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, &answer.vote);
    put_position(&mut out, answer.last_log_id.as_ref());
    out.push(u8::from(answer.vote_granted));
    out
}

pub(crate) fn vote_answer(body: &[u8]) -> Decoded<VoteResponse<Types>> {
    whole("answer to a vote request", body, |from| {
        let (vote, last) = (vote(from)?, position(from)?);
        Ok(VoteResponse::new(vote, last, flag(from, "answer to a vote request")?))
    })
}

pub(crate) fn put_transfer(request: &TransferLeaderRequest<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, request.from_leader());
    out.extend_from_slice(&request.to_node_id().to_le_bytes());
    put_position(&mut out, request.last_log_id());
    out
}

pub(crate) fn transfer(body: &[u8]) -> Decoded<TransferLeaderRequest<Types>> {
    whole("transfer", body, |from| {
        let (leader, to) = (vote(from)?, u64::from_le_bytes(bytes(from)?));
        Ok(TransferLeaderRequest::new(leader, to, position(from)?))
    })
}

pub(crate) fn put_transfer_answer(answer: &TransferLeaderResponse<Types>) -> Vec<u8> {
    let mut out = Vec::new();
    match answer {
        Ok(()) => out.push(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.push(1);
            put_vote(&mut out, expected);
            put_vote(&mut out, actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.push(2);
            put_position(&mut out, expected.as_ref());
            put_position(&mut out, actual.as_ref());
        }
    }
    out
}

pub(crate) fn transfer_answer(body: &[u8]) -> Decoded<TransferLeaderResponse<Types>> {
    whole("answer to a transfer", body, |from| match bytes::<1>(from)?[0] {
        0 => Ok(Ok(())),
        1 => Ok(Err(TransferLeaderError::VoteChanged { expected: vote(from)?, actual: vote(from)? })),
        2 => Ok(Err(TransferLeaderError::LogNotFlushed { expected: position(from)?, actual: position(from)? })),
        found => Err(unknown("answer to a transfer", "outcome", found)),
    })
}

pub(crate) fn put_snapshot_begin(begin: &SnapshotBegin) -> Vec<u8> {
    let mut out = Vec::new();
    let header = convert::snapshot_header(&begin.meta);
    put_vote(&mut out, &begin.vote);
    put_position(&mut out, begin.meta.last_log_id.as_ref());
    out.extend_from_slice(&begin.length.to_le_bytes());
    out.extend_from_slice(&(header.membership.len() as u32).to_le_bytes());
    out.extend_from_slice(&header.membership);
    out
}

pub(crate) fn snapshot_begin(body: &[u8]) -> Decoded<SnapshotBegin> {
    whole("beginning of a snapshot", body, |from| {
        let vote = vote(from)?;
        let last = position(from)?.as_ref().map(convert::position);
        let length = u64::from_le_bytes(bytes(from)?);
        let members = u32::from_le_bytes(bytes(from)?) as usize;
        let Some((membership, rest)) = from.split_at_checked(members) else {
            return Err(RecordError::Truncated { what: "beginning of a snapshot" });
        };
        let header = leasehold_log::SnapshotHeader { last, membership: membership.to_vec().into() };
        *from = rest;
        Ok(SnapshotBegin { vote, meta: convert::snapshot_meta(&header)?, length })
    })
}

pub(crate) fn put_installed(vote: &Vote) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, vote);
    out
}

pub(crate) fn installed(body: &[u8]) -> Decoded<Vote> {
    whole("answer to a snapshot", body, vote)
}

pub(crate) fn put_report(report: &Report) -> Vec<u8> {
    let mut out = Vec::new();
    report.at.write(&mut out).expect("writing to memory does not fail");
    out.push(report.form);
    out.extend_from_slice(&report.hash.0);
    out
}

pub(crate) fn report(body: &[u8]) -> Decoded<Report> {
    whole("checkpoint", body, read_report)
}

fn read_report(from: &mut &[u8]) -> Decoded<Report> {
    Ok(Report { at: LogPosition::read(from)?, form: bytes::<1>(from)?[0], hash: Hash(bytes(from)?) })
}

pub(crate) fn put_report_answer(own: Option<&Report>) -> Vec<u8> {
    let mut out = vec![u8::from(own.is_some())];
    out.extend(own.map(put_report).unwrap_or_default());
    out
}

pub(crate) fn report_answer(body: &[u8]) -> Decoded<Option<Report>> {
    whole("answer to a checkpoint", body, |from| {
        let there = flag(from, "answer to a checkpoint")?;
        there.then(|| read_report(from)).transpose()
    })
}

/// Reads a message that must fill its body.
pub(super) fn whole<T>(what: &'static str, body: &[u8], read: impl FnOnce(&mut &[u8]) -> Decoded<T>) -> Decoded<T> {
    let mut from = body;
    let value = read(&mut from)?;
    if from.is_empty() {
        return Ok(value);
    }
    Err(RecordError::Field { what, field: "trailing bytes", found: from.len() as u64 })
}

fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    convert::vote_to_disk(vote).write(out).expect("writing to memory does not fail");
}

fn vote(from: &mut &[u8]) -> Decoded<Vote> {
    Ok(convert::vote_from_disk(&StoredVote::read(from)?))
}

fn put_position(out: &mut Vec<u8>, id: Option<&LogId>) {
    out.push(u8::from(id.is_some()));
    if let Some(id) = id {
        convert::position(id).write(out).expect("writing to memory does not fail");
    }
}

fn position(from: &mut &[u8]) -> Decoded<Option<LogId>> {
    let there = flag(from, "position")?;
    there.then(|| Ok(convert::log_id(&LogPosition::read(from)?))).transpose()
}

pub(super) fn flag(from: &mut &[u8], what: &'static str) -> Decoded<bool> {
    match bytes::<1>(from)?[0] {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(unknown(what, "flag", found)),
    }
}

pub(super) fn bytes<const N: usize>(from: &mut &[u8]) -> Decoded<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map_err(|_| RecordError::Truncated { what: "message" })?;
    Ok(bytes)
}

pub(super) fn unknown(what: &'static str, field: &'static str, found: u8) -> RecordError {
    RecordError::Field { what, field, found: found.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Candidate, Entry, Payload};
    use leasehold_core::LeaderId;
    use openraft::EntryPayload;

    fn a_vote(committed: bool) -> Vote {
        Vote { leader_id: Candidate(LeaderId { term: 3, node: 9 }), committed }
    }

    fn at(index: u64) -> LogId {
        LogId { leader_id: LeaderId { term: 2, node: 8 }, index }
    }

    /// Every cut and every trailing byte of a message is refused.
    fn no_other_length<T: std::fmt::Debug>(bytes: &[u8], read: impl Fn(&[u8]) -> Decoded<T>) {
        for cut in 0..bytes.len() {
            read(&bytes[..cut]).unwrap_err();
        }
        read(&[bytes, &[0]].concat()).unwrap_err();
    }

    #[test]
    fn an_append_is_read_as_it_was_written() {
        let payload = EntryPayload::Normal(Payload::Bytes(b"orders/7".as_slice().into()));
        let entries = vec![
            Entry { log_id: at(5), payload: EntryPayload::Blank },
            Entry { log_id: at(6), payload },
            Entry { log_id: at(7), payload: EntryPayload::Normal(Payload::Checkpoint) },
        ];
        let request = AppendEntriesRequest {
            vote: a_vote(true),
            prev_log_id: Some(at(4)),
            entries: entries.clone(),
            leader_commit: None,
        };
        let bytes = put_append(request);
        let read = append(&bytes).unwrap();
        assert_eq!((read.vote, read.prev_log_id, read.leader_commit), (a_vote(true), Some(at(4)), None));
        assert_eq!(read.entries, entries);
        no_other_length(&bytes, append);
    }

    #[test]
    fn answers_and_small_requests_are_read_as_they_were_written() {
        for answer in [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::PartialSuccess(Some(at(3))),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(a_vote(false)),
        ] {
            let bytes = put_append_answer(&answer);
            assert_eq!(append_answer(&bytes).unwrap(), answer);
            no_other_length(&bytes, append_answer);
        }
        let mut request = VoteRequest::new(a_vote(false), Some(at(3)));
        request.leadership_transfer = true;
        assert_eq!(vote_request(&put_vote_request(&request)).unwrap(), request);
        no_other_length(&put_vote_request(&request), vote_request);
        let answer = VoteResponse::new(a_vote(true), None, true);
        assert_eq!(vote_answer(&put_vote_answer(&answer)).unwrap(), answer);
        let request = TransferLeaderRequest::new(a_vote(true), 4, Some(at(9)));
        assert_eq!(transfer(&put_transfer(&request)).unwrap(), request);
        no_other_length(&put_transfer(&request), transfer);
        for answer in [
            Ok(()),
            Err(TransferLeaderError::VoteChanged { expected: a_vote(true), actual: a_vote(false) }),
            Err(TransferLeaderError::LogNotFlushed { expected: Some(at(1)), actual: None }),
        ] {
            assert_eq!(transfer_answer(&put_transfer_answer(&answer)).unwrap(), answer);
        }
        append_answer(&[4]).unwrap_err();
        transfer_answer(&[3]).unwrap_err();
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let mine = Report { at: convert::position(&at(812)), form: 1, hash: Hash([7; 32]) };
        let bytes = put_report(&mine);
        assert_eq!((bytes.len(), report(&bytes).unwrap()), (63, mine));
        no_other_length(&bytes, report);
        for answer in [Some(mine), None] {
            let bytes = put_report_answer(answer.as_ref());
            assert_eq!(report_answer(&bytes).unwrap(), answer);
            no_other_length(&bytes, report_answer);
        }
    }

    #[test]
    fn the_beginning_of_a_snapshot_is_read_as_it_was_written() {
        let meta = SnapshotMeta { last_log_id: Some(at(7)), ..SnapshotMeta::default() };
        let begin = SnapshotBegin { vote: a_vote(true), meta, length: 12 };
        let bytes = put_snapshot_begin(&begin);
        assert_eq!(snapshot_begin(&bytes).unwrap(), begin);
        no_other_length(&bytes, snapshot_begin);
        assert_eq!(installed(&put_installed(&begin.vote)).unwrap(), begin.vote);
    }
}
