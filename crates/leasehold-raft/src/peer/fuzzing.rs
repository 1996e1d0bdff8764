//! What other nodes can send, for `leasehold-fuzz`: read in both directions, and written again as the same.

use leasehold_core::LeaderId;
use leasehold_service::ClusterChange;
use leasehold_service::log::Unavailable;
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, VoteRequest, VoteResponse,
};

use super::frame::{self, BODY_MAX, Frame};
use super::hello::{Hello, Purpose};
use super::message::{self, ANSWER, SnapshotBegin};
use super::parcel::{self, Proof};
use super::question::{Joiner, Question, Verdict};
use super::seen;
use crate::agreement::{Hash, Report};
use crate::convert;
use crate::types::{Candidate, Entry, LogId, Payload, SnapshotMeta, StoredMembership, Vote};
use leasehold_log::Member;

/// Reads frames until the bytes are no more, and each body as what its kind says, asked and answered.
///
/// # Panics
///
/// If something that was read is not written and read again as the same.
pub async fn frames(mut bytes: &[u8]) {
    while let Ok(read) = frame::read(&mut bytes, BODY_MAX).await {
        let mut out = Vec::new();
        frame::put(&mut out, read.kind, read.number, &read.body);
        assert_eq!(frame::read(&mut &out[..], BODY_MAX).await.expect("what was written is read"), read);
        body(&read);
    }
}

/// Reads a hello and writes it again.
///
/// # Panics
///
/// If it is not read again as the same.
pub async fn hello(mut bytes: &[u8]) {
    if let Ok(hello) = Hello::read(&mut bytes).await {
        let again = hello.to_bytes();
        assert_eq!(Hello::read(&mut &again[..]).await.expect("what was written is read"), hello);
    }
}

/// Reads a text as the list of known nodes.
pub(crate) fn seen(text: &str) {
    drop(seen::parse(text));
}

/// A valid list of known nodes.
pub(crate) fn seen_seed() -> String {
    let known = seen::Known { nodes: [(7, 1), (8, 2)].into(), gone: [9].into() };
    seen::render(seen::TITLE, 5, &known)
}

/// Valid frames of every kind, both ways.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let in_frame = |(kind, body): (u8, Vec<u8>)| {
        let mut out = Vec::new();
        frame::put(&mut out, kind, 7, &body);
        out
    };
    requests().into_iter().chain(answers()).map(in_frame).collect()
}

/// Valid hellos.
pub fn hello_seeds() -> Vec<Vec<u8>> {
    let hello = |purpose, words: &str| Hello {
        purpose,
        group: 0,
        cluster: 2,
        from: 3,
        to: 4,
        incarnation: 5,
        words: words.into(),
    };
    [hello(Purpose::Appends, ""), hello(Purpose::Question, ""), hello(Purpose::Refused, "no, Größe")]
        .map(|hello| hello.to_bytes())
        .into()
}

fn body(frame: &Frame) {
    let Frame { kind, body, .. } = frame;
    match *kind {
        message::APPEND => same(body, message::append, |read| message::put_append(read.clone())),
        message::VOTE | message::PRE_VOTE => same(body, message::vote_request, message::put_vote_request),
        message::TRANSFER => same(body, message::transfer, message::put_transfer),
        message::SNAPSHOT_BEGIN => same(body, message::snapshot_begin, message::put_snapshot_begin),
        message::CHECKPOINT => same(body, message::report, message::put_report),
        parcel::PARCEL => {
            same(body, |body| parcel::parcel(body.to_vec()), |(to, bytes)| parcel::put_parcel(*to, bytes))
        }
        kind if kind & ANSWER != 0 => answer(kind & !ANSWER, body),
        kind => {
            if let Some(Ok(question)) = Question::read(kind, body) {
                let again = question.body();
                assert_eq!(Question::read(kind, &again).expect("it is one").expect("it was written"), question);
            }
        }
    }
}

fn answer(kind: u8, body: &[u8]) {
    match kind {
        message::APPEND => same(body, message::append_answer, message::put_append_answer),
        message::VOTE | message::PRE_VOTE => same(body, message::vote_answer, message::put_vote_answer),
        message::TRANSFER => same(body, message::transfer_answer, message::put_transfer_answer),
        message::SNAPSHOT_END => same(body, message::installed, message::put_installed),
        message::CHECKPOINT => {
            same(body, message::report_answer, |read| message::put_report_answer(read.as_ref()));
        }
        // Words of a stopped leader are read as those of an outcome that is not known: only that it is read counts.
        parcel::PARCEL => drop(parcel::delivery(body)),
        parcel::BARRIER => drop(parcel::proof(body).map(|proof| parcel::put_proof(&proof))),
        _ => drop(Verdict::from_bytes(body).map(|verdict| verdict.to_bytes())),
    }
}

/// What is read is written in a form that is read as the same.
fn same<T: std::fmt::Debug>(body: &[u8], read: impl Fn(&[u8]) -> message::Decoded<T>, write: impl Fn(&T) -> Vec<u8>) {
    let Ok(value) = read(body) else { return };
    let again = write(&value);
    let reread = read(&again).expect("what was written is read");
    // Not all of openraft's types can be compared; what they say of themselves is everything they hold.
    assert_eq!(format!("{reread:?}"), format!("{value:?}"));
    assert_eq!(write(&reread), again);
}

fn vote() -> Vote {
    Vote { leader_id: Candidate(LeaderId { term: 3, node: 9 }), committed: true }
}

fn at(index: u64) -> LogId {
    LogId { leader_id: LeaderId { term: 2, node: 8 }, index }
}

fn members() -> openraft::Membership<u64, Member> {
    let member = |name: &str| Member { name: name.into(), address: format!("{name}:7118"), incarnation: 5 };
    let nodes = std::collections::BTreeMap::from([(1, member("n1")), (2, member("n2"))]);
    openraft::Membership::new(vec![[1].into()], nodes).expect("every voter is a node")
}

fn requests() -> Vec<(u8, Vec<u8>)> {
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Normal(Payload::Bytes(b"orders/7".as_slice().into())),
        EntryPayload::Normal(Payload::Checkpoint),
        EntryPayload::Membership(members()),
    ];
    let entries = payloads.into_iter().zip(5..).map(|(payload, index)| Entry { log_id: at(index), payload }).collect();
    let append = AppendEntriesRequest { vote: vote(), prev_log_id: Some(at(4)), entries, leader_commit: Some(at(3)) };
    let last_membership = StoredMembership::new(Some(at(6)), members());
    let begin =
        SnapshotBegin { vote: vote(), meta: SnapshotMeta { last_log_id: Some(at(7)), last_membership }, length: 12 };
    let report = Report { at: convert::position(&at(812)), form: 1, hash: Hash([7; 32]) };
    let mut all = vec![
        (message::APPEND, message::put_append(append)),
        (message::VOTE, message::put_vote_request(&VoteRequest::new(vote(), Some(at(3))))),
        (message::TRANSFER, message::put_transfer(&TransferLeaderRequest::new(vote(), 4, Some(at(9))))),
        (message::SNAPSHOT_BEGIN, message::put_snapshot_begin(&begin)),
        (message::CHECKPOINT, message::put_report(&report)),
        (message::CHECKPOINT | ANSWER, message::put_report_answer(Some(&report))),
        (parcel::PARCEL, parcel::put_parcel(LeaderId { term: 7, node: 9 }, b"commands")),
    ];
    let (name, address) = ("n4".to_owned(), "n4.example:7118".to_owned());
    let questions = [
        Question::Join(Joiner { name: name.clone(), address: address.clone(), incarnation: 4 }),
        Question::Change(ClusterChange::Add { name, address: address.clone() }),
        Question::Change(ClusterChange::Remove { node: 3 }),
        Question::Change(ClusterChange::Transfer { to: None }),
        Question::Gone,
        Question::Moved(address),
    ];
    all.extend(questions.map(|question| (question.kind(), question.body())));
    all
}

fn answers() -> Vec<(u8, Vec<u8>)> {
    let leader = Some(LeaderId { term: 7, node: 9 });
    let appends = [
        AppendEntriesResponse::Success,
        AppendEntriesResponse::PartialSuccess(Some(at(3))),
        AppendEntriesResponse::HigherVote(vote()),
    ];
    let mut all: Vec<(u8, Vec<u8>)> =
        appends.iter().map(|answer| (message::APPEND | ANSWER, message::put_append_answer(answer))).collect();
    let transferred = Err(TransferLeaderError::VoteChanged { expected: vote(), actual: vote() });
    all.extend([
        (message::VOTE | ANSWER, message::put_vote_answer(&VoteResponse::new(vote(), None, true))),
        (message::TRANSFER | ANSWER, message::put_transfer_answer(&transferred)),
        (message::SNAPSHOT_END | ANSWER, message::put_installed(&vote())),
        (parcel::PARCEL | ANSWER, parcel::put_delivery(&Err(Unavailable::NotLeader { leader }))),
        (parcel::PARCEL | ANSWER, parcel::put_delivery(&Err(Unavailable::Unknown("why".into())))),
        (parcel::BARRIER | ANSWER, parcel::put_proof(&Proof::Index(9))),
        (parcel::BARRIER | ANSWER, parcel::put_proof(&Proof::NotLeader(leader))),
        (0x8b, Verdict::Done(4).to_bytes()),
        (0x8b, Verdict::Refused("no".into()).to_bytes()),
    ]);
    all
}
