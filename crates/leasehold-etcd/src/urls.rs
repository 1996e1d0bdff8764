//! Where each node serves etcd's clients: entries in the namespace `system`, one per node.
//!
//! Every node says it when it begins to serve them. So the list of members has addresses that clients can use, and there
//! is a first revision: to etcd's clients 0 is no revision but "now".

use std::collections::BTreeMap;

use leasehold_core::{Binding, Caller, Command, Compare, Key, KeyRange, Operand, Relation, State, Write, WriteOp};
use leasehold_service::{Failure, Service};

use crate::compaction::system;

const PREFIX: &str = "etcd/url/";

fn entry_of(node: u64) -> Key {
    Key::new(format!("{PREFIX}{node:016x}").as_bytes()).expect("it is a well-formed key")
}

/// Says where a node serves etcd's clients, if that is not known already.
pub(crate) async fn say(service: &Service, caller: &Caller, node: u64, url: &str) -> Result<(), Failure> {
    let key = entry_of(node);
    let known = Compare {
        range: KeyRange::One(key.clone()),
        relation: Relation::Equal,
        operand: Operand::Value(url.as_bytes().into()),
    };
    let put = WriteOp::Put { key, value: Some(url.as_bytes().into()), binding: Binding::None };
    let write = Write { compares: vec![known], otherwise: vec![put], ..Write::default() };
    service.execute(caller, &system(), Command::Write(write)).await.map(drop)
}

/// Where the nodes serve etcd's clients, by node id.
pub(crate) fn all(state: &State) -> BTreeMap<u64, String> {
    let (entries, _) = state.entries(&system(), &KeyRange::Prefix(PREFIX.as_bytes().into()), usize::MAX);
    let node = |key: &Key| {
        let hex = key.as_bytes().strip_prefix(PREFIX.as_bytes())?;
        u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let known = entries
        .iter()
        .filter_map(|entry| Some((node(&entry.key)?, String::from_utf8_lossy(&entry.value).into_owned())));
    known.collect()
}
