//! Transactions as writes of the core.

use std::sync::Arc;

use leasehold_api::grpc::{self, Relation, TxnRequest, TxnStep, WriteSession, compare, txn_step};
use leasehold_api::{Id, Invalid, TxnSession};
use leasehold_core as core;
use leasehold_core::{Binding, LeaseId, Once, Operand, Revision, Write, WriteOp};

use super::asked::lease;
use super::entries::{key, range};

/// How many entries a read gives if it does not say.
const READ_LIMIT: u32 = 100;

pub(crate) fn write(request: TxnRequest) -> Result<Write, Invalid> {
    Ok(Write {
        session: session(request.session)?,
        compares: numbered("compares", request.compares, compared)?,
        then: numbered("then", request.then, step)?,
        otherwise: numbered("otherwise", request.otherwise, step)?,
    })
}

/// What makes the repetition of a write harmless.
pub(crate) fn session(session: Option<WriteSession>) -> Result<Option<(LeaseId, Once)>, Invalid> {
    let Some(WriteSession { lease: id, seq, acked }) = session else { return Ok(None) };
    TxnSession { lease: Id(lease("session", id)?), seq, acked }.into_pair()
}

/// Converts each item of a list; what is wrong is blamed on its place there.
fn numbered<A, B>(list: &str, items: Vec<A>, convert: impl Fn(A) -> Result<B, Invalid>) -> Result<Vec<B>, Invalid> {
    let blame = |i: usize, invalid: Invalid| Invalid { field: format!("{list}[{i}].{}", invalid.field), ..invalid };
    items.into_iter().enumerate().map(|(i, item)| convert(item).map_err(|invalid| blame(i, invalid))).collect()
}

fn compared(compare: grpc::Compare) -> Result<core::Compare, Invalid> {
    let relation = match Relation::try_from(compare.is) {
        Ok(Relation::Unspecified | Relation::Equal) => core::Relation::Equal,
        Ok(Relation::NotEqual) => core::Relation::NotEqual,
        Ok(Relation::Less) => core::Relation::Less,
        Ok(Relation::Greater) => core::Relation::Greater,
        Err(_) => return Err(Invalid::new("is", "this value is not known")),
    };
    let operand = match compare.operand {
        Some(compare::Operand::Version(version)) => Operand::Version(version),
        Some(compare::Operand::Created(revision)) => Operand::Created(Revision(revision)),
        Some(compare::Operand::Modified(revision)) => Operand::Modified(Revision(revision)),
        Some(compare::Operand::Value(value)) => Operand::Value(Arc::from(&value[..])),
        Some(compare::Operand::Lease(id)) => Operand::Lease(lease("lease", id)?.number()),
        None => return Err(Invalid::new("is", "compare exactly one of version, created, modified, value and lease")),
    };
    Ok(core::Compare { range: range(compare.range.map(|range| *range))?, relation, operand })
}

fn step(step: TxnStep) -> Result<WriteOp, Invalid> {
    match step.step {
        Some(txn_step::Step::Put(put)) => Ok(WriteOp::Put {
            key: key("key", &put.key)?,
            value: put.value.map(|value| Arc::from(&value[..])),
            binding: match (put.lease, put.keep_lease) {
                (Some(_), true) => return Err(Invalid::new("lease", "give `lease` or `keep_lease`, not both")),
                (Some(id), false) => Binding::To(lease("lease", id)?),
                (None, true) => Binding::Keep,
                (None, false) => Binding::None,
            },
        }),
        Some(txn_step::Step::Delete(deleted)) => Ok(WriteOp::Delete { range: range(Some(*deleted))? }),
        Some(txn_step::Step::Read(read)) => {
            Ok(WriteOp::Read { range: range(read.range)?, limit: read.limit.unwrap_or(READ_LIMIT) })
        }
        None => Err(Invalid::new("step", "it does nothing; give `put`, `delete` or `read`")),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::grpc::{KeyRange, PutStep, key_range};

    use super::*;

    fn put(key: &'static str, lease: Option<u64>, keep_lease: bool) -> TxnStep {
        let put = PutStep { key: key.into(), value: Some("v".into()), lease, keep_lease };
        TxnStep { step: Some(txn_step::Step::Put(Box::new(put))) }
    }

    #[test]
    fn a_transaction_becomes_a_write() {
        let all = KeyRange { which: Some(key_range::Which::Prefix("a/".into())) };
        let compare = grpc::Compare {
            range: Some(Box::new(all.clone())),
            is: Relation::Less.into(),
            operand: Some(compare::Operand::Version(3)),
        };
        let request = TxnRequest {
            compares: vec![compare],
            then: vec![put("k", Some(4), false), TxnStep { step: Some(txn_step::Step::Delete(Box::new(all))) }],
            otherwise: vec![put("k", None, true)],
            session: Some(WriteSession { lease: 9, seq: 2, acked: Some(1) }),
            ..TxnRequest::default()
        };
        let write = write(request).unwrap();
        assert_eq!(write.session, Some((LeaseId::new(9).unwrap(), Once { seq: 2, acked: 1 })));
        assert_eq!(
            (write.compares[0].relation, &write.compares[0].operand),
            (core::Relation::Less, &Operand::Version(3))
        );
        assert!(matches!(write.then[0], WriteOp::Put { binding: Binding::To(_), .. }));
        assert!(matches!(write.otherwise[0], WriteOp::Put { binding: Binding::Keep, .. }));
    }

    #[test]
    fn the_step_that_is_wrong_is_named() {
        let refused = |request: TxnRequest| write(request).unwrap_err().field;
        let then = |step: TxnStep| TxnRequest { then: vec![put("k", None, false), step], ..TxnRequest::default() };
        assert_eq!(refused(then(TxnStep { step: None })), "then[1].step");
        assert_eq!(refused(then(put("", None, false))), "then[1].key");
        assert_eq!(refused(then(put("a", Some(0), false))), "then[1].lease");
        assert_eq!(refused(then(put("a", Some(1), true))), "then[1].lease");
        let compares = vec![grpc::Compare::default()];
        assert_eq!(refused(TxnRequest { compares, ..TxnRequest::default() }), "compares[0].is");
        let session = Some(WriteSession { lease: 0, seq: 1, acked: None });
        assert_eq!(refused(TxnRequest { session, ..TxnRequest::default() }), "session");
    }
}
