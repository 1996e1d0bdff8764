//! Transactions: one write of ours, checked as etcd checks it.
//!
//! What etcd refuses by looking at the request alone is refused here, with its own words. A range is read by the write and
//! sorted and cut afterwards; one as of an earlier revision is looked up afterwards, for the past does not change.

use std::collections::BTreeSet;

use leasehold_core::{
    Binding, Compare, Key, KeyRange, Operand, Relation, Revision, State, Write, WriteOp, WriteResult, Written,
};
use tonic::Status;

use crate::compaction;
use crate::dialect::{Dialect, key, lease_id};
use crate::errors::EtcdError;
use crate::keys::{self, key_value};
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::{
    self as pb, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RequestOp, ResponseHeader,
    ResponseOp, TxnRequest, TxnResponse, request_op, response_op,
};
use crate::range::Asked;
use crate::refusal::refused;

/// How many compares, or steps of either list, a transaction may have.
const OPS_MAX: usize = 128;

/// A transaction, checked, with what its answers need.
#[derive(Debug)]
pub(crate) struct Txn {
    write: Write,
    then: Vec<Step>,
    otherwise: Vec<Step>,
}

/// What the answer of one step needs.
#[derive(Debug)]
enum Step {
    Put { prev_kv: bool },
    Delete { prev_kv: bool },
    Range(Box<Asked>),
    Txn(Box<Txn>),
}

impl Txn {
    pub(crate) fn new(request: &TxnRequest) -> Result<Txn, Status> {
        check_sizes(request)?;
        let txn = Txn::read(request)?;
        writes_of(&txn.write.then)?;
        writes_of(&txn.write.otherwise)?;
        Ok(txn)
    }

    fn read(request: &TxnRequest) -> Result<Txn, Status> {
        let compares = request.compare.iter().map(compare).collect::<Result<_, _>>()?;
        let (then_ops, then) = steps(&request.success)?;
        let (otherwise_ops, otherwise) = steps(&request.failure)?;
        let write = Write { session: None, compares, then: then_ops, otherwise: otherwise_ops };
        Ok(Txn { write, then, otherwise })
    }

    /// The revisions at which it reads the past.
    fn looks_back(&self) -> Vec<Revision> {
        let step = |step: &Step| match step {
            Step::Put { .. } | Step::Delete { .. } => Vec::new(),
            Step::Range(asked) => asked.revision.into_iter().collect(),
            Step::Txn(txn) => txn.looks_back(),
        };
        self.then.iter().chain(&self.otherwise).flat_map(step).collect()
    }
}

/// Refuses lists that are too long, also in nested transactions.
fn check_sizes(request: &TxnRequest) -> Result<(), Status> {
    if [request.compare.len(), request.success.len(), request.failure.len()].iter().any(|length| *length > OPS_MAX) {
        return Err(EtcdError::TooManyOps.into());
    }
    let nested = request.success.iter().chain(&request.failure).filter_map(|op| match &op.request {
        Some(request_op::Request::RequestTxn(txn)) => Some(txn),
        _ => None,
    });
    nested.into_iter().try_for_each(check_sizes)
}

fn steps(ops: &[RequestOp]) -> Result<(Vec<WriteOp>, Vec<Step>), Status> {
    ops.iter().map(step).collect::<Result<Vec<_>, _>>().map(|steps| steps.into_iter().unzip())
}

fn step(op: &RequestOp) -> Result<(WriteOp, Step), Status> {
    use request_op::Request;
    Ok(match &op.request {
        None => return Err(EtcdError::KeyNotFound.into()),
        Some(Request::RequestPut(request)) => (put(request)?, Step::Put { prev_kv: request.prev_kv }),
        Some(Request::RequestDeleteRange(request)) => (delete(request)?, Step::Delete { prev_kv: request.prev_kv }),
        Some(Request::RequestRange(request)) => {
            let asked = Asked::new(request)?;
            // What is read as of an earlier revision is looked up afterwards.
            let wanted = if asked.revision.is_some() { 0 } else { asked.wanted() };
            let limit = u32::try_from(wanted).unwrap_or(u32::MAX);
            (WriteOp::Read { range: asked.range.clone().unwrap_or_else(nothing), limit }, Step::Range(Box::new(asked)))
        }
        Some(Request::RequestTxn(request)) => {
            let mut txn = Txn::read(request)?;
            (WriteOp::Nested(Box::new(std::mem::take(&mut txn.write))), Step::Txn(Box::new(txn)))
        }
    })
}

/// A range that no key is in.
fn nothing() -> KeyRange {
    let lowest = Key::new(&[0]).expect("a byte is a key");
    KeyRange::Between(lowest.clone(), lowest)
}

/// The step that a put is.
pub(crate) fn put(request: &PutRequest) -> Result<WriteOp, Status> {
    let key = key(&request.key)?;
    if request.ignore_value && !request.value.is_empty() {
        return Err(EtcdError::ValueProvided.into());
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(EtcdError::LeaseProvided.into());
    }
    let binding = match (request.ignore_lease, request.lease) {
        (true, _) => Binding::Keep,
        (false, 0) => Binding::None,
        (false, id) => Binding::To(lease_id(id).ok_or(EtcdError::LeaseNotFound)?),
    };
    let value = (!request.ignore_value).then(|| request.value[..].into());
    Ok(WriteOp::Put { key, value, binding })
}

/// The step that the deletion of a range is.
pub(crate) fn delete(request: &DeleteRangeRequest) -> Result<WriteOp, Status> {
    Ok(WriteOp::Delete { range: keys::range(&request.key, &request.range_end)?.unwrap_or_else(nothing) })
}

fn compare(compare: &pb::Compare) -> Result<Compare, Status> {
    let range = keys::range(&compare.key, &compare.range_end)?.unwrap_or_else(nothing);
    let unknown = |_| Status::invalid_argument("leasehold: unknown kind of compare");
    let relation = match CompareResult::try_from(compare.result).map_err(unknown)? {
        CompareResult::Equal => Relation::Equal,
        CompareResult::Greater => Relation::Greater,
        CompareResult::Less => Relation::Less,
        CompareResult::NotEqual => Relation::NotEqual,
    };
    let number = |union: &Option<TargetUnion>| match union {
        Some(
            TargetUnion::Version(n)
            | TargetUnion::CreateRevision(n)
            | TargetUnion::ModRevision(n)
            | TargetUnion::Lease(n),
        ) => *n,
        Some(TargetUnion::Value(_)) | None => 0,
    };
    let given = number(&compare.target_union);
    // Nothing of an entry is below zero, so what is compared with less stands as with zero, or is greater than it.
    let unsigned = u64::try_from(given);
    let (relation, given) = match (unsigned, relation) {
        (Ok(given), relation) => (relation, given),
        (Err(_), Relation::Equal | Relation::Less) => (Relation::Less, 0),
        (Err(_), Relation::NotEqual | Relation::Greater) => return Ok(always(range)),
    };
    let operand = match CompareTarget::try_from(compare.target).map_err(unknown)? {
        CompareTarget::Version => Operand::Version(given),
        CompareTarget::Create => Operand::Created(Revision(given)),
        CompareTarget::Mod => Operand::Modified(Revision(given)),
        CompareTarget::Lease => Operand::Lease(given),
        CompareTarget::Value => match &compare.target_union {
            Some(TargetUnion::Value(value)) => Operand::Value(value[..].into()),
            _ => Operand::Value([].into()),
        },
    };
    Ok(Compare { range, relation, operand })
}

/// A compare that holds for every entry and for none.
fn always(range: KeyRange) -> Compare {
    Compare { range, relation: Relation::NotEqual, operand: Operand::Version(u64::MAX) }
}

/// The keys that steps may put and the ranges they may delete; an error if one would be written twice. Of two lists of
/// which one is done, both may write it.
fn writes_of(ops: &[WriteOp]) -> Result<(BTreeSet<&Key>, Vec<&KeyRange>), Status> {
    let twice = || Status::from(EtcdError::DuplicateKey);
    let mut deleted: Vec<&KeyRange> = Vec::new();
    for op in ops {
        if let WriteOp::Delete { range } = op {
            deleted.push(range);
        }
    }
    let mut put = BTreeSet::new();
    for op in ops {
        let WriteOp::Nested(write) = op else { continue };
        let (then, then_deleted) = writes_of(&write.then)?;
        let (otherwise, otherwise_deleted) = writes_of(&write.otherwise)?;
        let either: BTreeSet<&Key> = then.union(&otherwise).copied().collect();
        if either.iter().any(|key| put.contains(key) || deleted.iter().any(|range| range.contains(key))) {
            return Err(twice());
        }
        put.extend(either);
        deleted.extend(then_deleted);
        deleted.extend(otherwise_deleted);
    }
    for op in ops {
        let WriteOp::Put { key, .. } = op else { continue };
        if deleted.iter().any(|range| range.contains(key)) || !put.insert(key) {
            return Err(twice());
        }
    }
    Ok((put, deleted))
}

impl Dialect {
    /// Carries out a transaction; one that only reads does not go through the log.
    pub(crate) async fn carry_out_txn(&self, request: &TxnRequest) -> Result<TxnResponse, Status> {
        let mut txn = Txn::new(request)?;
        let write = std::mem::take(&mut txn.write);
        let back = txn.looks_back();
        let look = |state: &State| {
            back.iter().try_for_each(|at| compaction::check(state, self.namespace(), *at))?;
            Ok::<_, Status>(state.peek(self.namespace(), &write))
        };
        let peeked = if back.is_empty() && !only_reads(&write) { None } else { self.read(false, look).await?.0? };
        let written = match peeked {
            Some(read) => read.map_err(|rejection| refused(rejection.into()))?,
            None => self.write(write).await?,
        };
        let header = self.header(written.revision);
        let response = self.txn_response(&txn, written).await?;
        Ok(TxnResponse { header: Some(header), ..response })
    }

    async fn txn_response(&self, txn: &Txn, written: Written) -> Result<TxnResponse, Status> {
        let Written { succeeded, revision, results } = written;
        let steps = if succeeded { &txn.then } else { &txn.otherwise };
        // Answers within an answer tell the revision only.
        let header = ResponseHeader { revision: crate::dialect::number(revision), ..ResponseHeader::default() };
        let mut responses = Vec::with_capacity(steps.len());
        for (step, result) in steps.iter().zip(results) {
            let response = match (step, result) {
                (Step::Put { prev_kv }, WriteResult::Put { previous }) => {
                    let prev_kv = previous.as_ref().filter(|_| *prev_kv).map(key_value);
                    response_op::Response::ResponsePut(PutResponse { header: Some(header), prev_kv })
                }
                (Step::Delete { prev_kv }, WriteResult::Deleted { previous }) => {
                    response_op::Response::ResponseDeleteRange(deleted(header, &previous, *prev_kv))
                }
                (Step::Range(asked), WriteResult::Read { entries, count }) => {
                    let found = match asked.revision {
                        Some(at) => self.recall(asked, at).await?,
                        None => (entries, count),
                    };
                    let response = pb::RangeResponse { header: Some(header), ..asked.answer(found) };
                    response_op::Response::ResponseRange(response)
                }
                (Step::Txn(txn), WriteResult::Nested(written)) => {
                    let response = Box::pin(self.txn_response(txn, *written)).await?;
                    response_op::Response::ResponseTxn(TxnResponse { header: Some(header), ..response })
                }
                (step, result) => return Err(Status::internal(format!("leasehold: {step:?} led to {result:?}"))),
            };
            responses.push(ResponseOp { response: Some(response) });
        }
        Ok(TxnResponse { header: None, succeeded, responses })
    }
}

/// The answer to the deletion of a range.
pub(crate) fn deleted(
    header: ResponseHeader,
    previous: &[leasehold_core::EntryView],
    prev_kv: bool,
) -> DeleteRangeResponse {
    let prev_kvs = if prev_kv { previous.iter().map(key_value).collect() } else { Vec::new() };
    DeleteRangeResponse { header: Some(header), deleted: previous.len() as i64, prev_kvs }
}

fn only_reads(write: &Write) -> bool {
    write.then.iter().chain(&write.otherwise).all(|op| match op {
        WriteOp::Read { .. } => true,
        WriteOp::Nested(write) => only_reads(write),
        WriteOp::Put { .. } | WriteOp::Delete { .. } => false,
    })
}
