//! Compaction: from when on the past may be told.
//!
//! The recent events bound themselves, so a client that compacts frees nothing. But it expects that the past is gone
//! afterwards, on every node: so the revision it gave is an entry in the namespace `system`, where no client of etcd
//! sees it.

use leasehold_core::{
    Binding, Command, Compare, Key, KeyRange, Namespace, Operand, Outcome, Relation, Revision, State, Write, WriteOp,
    WriteResult,
};
use tonic::Status;

use crate::dialect::Dialect;
use crate::errors::EtcdError;
use crate::refusal::refused;

/// Where what belongs to no client is kept.
pub(crate) fn system() -> Namespace {
    Namespace::new("system").expect("it is a well-formed name")
}

/// The entry that holds the revision of the last compaction of a namespace, as eight bytes in order.
fn entry_of(namespace: &Namespace) -> Key {
    Key::new(format!("etcd/compacted/{namespace}").as_bytes()).expect("names of namespaces are short")
}

/// The revision that a client compacted at last; 0 if none did.
pub(crate) fn compacted(state: &State, namespace: &Namespace) -> Revision {
    let entry = state.entry(&system(), &entry_of(namespace));
    let value = entry.and_then(|entry| <[u8; 8]>::try_from(&*entry.value).ok());
    Revision(value.map_or(0, u64::from_be_bytes))
}

/// Refuses a look at what is compacted or not there yet.
pub(crate) fn check(state: &State, namespace: &Namespace, at: Revision) -> Result<(), Status> {
    if at > state.revision() {
        return Err(EtcdError::FutureRevision.into());
    }
    if at < compacted(state, namespace) {
        return Err(EtcdError::Compacted.into());
    }
    Ok(())
}

impl Dialect {
    /// Lets the past before a revision be gone, on every node; gives the present revision.
    pub(crate) async fn compact_at(&self, at: i64) -> Result<Revision, Status> {
        let at = Revision(u64::try_from(at).unwrap_or(0));
        let (last, present) = self.read(false, |state| compacted(state, self.namespace())).await?;
        if at > present {
            return Err(EtcdError::FutureRevision.into());
        }
        if at <= last || at < self.service().history_floor() {
            return Err(EtcdError::Compacted.into());
        }
        let write = raise(entry_of(self.namespace()), at);
        let done = self.service().execute(&self.caller(), &system(), Command::Write(write)).await.map_err(refused)?;
        let Outcome::Written(written) = done.outcome else { return Ok(done.revision) };
        // Otherwise somebody has compacted further meanwhile.
        if written.succeeded || matches!(&written.results[..], [WriteResult::Nested(higher)] if higher.succeeded) {
            return Ok(done.revision);
        }
        Err(EtcdError::Compacted.into())
    }
}

/// Sets the entry to a revision if it is absent or lower.
fn raise(key: Key, at: Revision) -> Write {
    let value = at.0.to_be_bytes();
    let put = || WriteOp::Put { key: key.clone(), value: Some(value[..].into()), binding: Binding::None };
    let compare = |relation, operand| Compare { range: KeyRange::One(key.clone()), relation, operand };
    let higher = Write {
        compares: vec![compare(Relation::Less, Operand::Value(value[..].into()))],
        then: vec![put()],
        ..Write::default()
    };
    Write {
        compares: vec![compare(Relation::Equal, Operand::Version(0))],
        then: vec![put()],
        otherwise: vec![WriteOp::Nested(Box::new(higher))],
        ..Write::default()
    }
}
