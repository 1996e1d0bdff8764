//! Entries in one number, and who it is that answers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_core::{Binding, Command, Key, KeyRange, Namespace, Patience, Write, WriteOp};
use leasehold_service::{
    Answerer, Cluster, ClusterChange, ClusterChanged, ClusterStatus, Failure, Fingerprint, MemoryLog, Options, Replica,
    Service,
};

use crate::support::{Bench, TestClocks, grant, id, namespace};

fn write(op: WriteOp) -> Command {
    Command::Write(Write { session: None, compares: Vec::new(), then: vec![op], otherwise: Vec::new() })
}

fn put(key: &str, value: &str, binding: Binding) -> Command {
    write(WriteOp::Put { key: Key::new(key.as_bytes()).unwrap(), value: Some(value.as_bytes().into()), binding })
}

async fn after(commands: &[Command]) -> Fingerprint {
    let bench = Bench::new().await;
    for command in commands {
        bench.run(command.clone()).await.unwrap();
    }
    fingerprint(&bench).await
}

async fn fingerprint(bench: &Bench) -> Fingerprint {
    let taken = bench.service.fingerprint(&bench.service.anonymous(), &namespace()).await.unwrap();
    assert_eq!(taken.revision, bench.service.present().1);
    taken
}

#[tokio::test]
async fn nodes_with_the_same_entries_have_the_same_fingerprint_and_others_have_not() {
    let lease = || grant(1, 60_000, &[], Patience::None);
    let base = [lease(), put("a", "1", Binding::None), put("ab", "2", Binding::None)];
    let same = after(&base).await;
    assert_eq!(after(&base).await, same);
    let others = [
        [lease(), put("a", "1", Binding::None), put("ab", "3", Binding::None)],
        [lease(), put("a", "1", Binding::None), put("ac", "2", Binding::None)],
        [lease(), put("a", "1", Binding::None), put("ab", "2", Binding::To(id(1)))],
        [lease(), put("ab", "2", Binding::None), put("a", "1", Binding::None)],
        [lease(), put("a", "1a", Binding::None), put("b", "2", Binding::None)],
        [lease(), put("a", "1", Binding::None), put("a", "1", Binding::None)],
    ];
    let mut seen = vec![same.hash];
    for other in &others {
        let hash = after(other).await.hash;
        assert!(!seen.contains(&hash), "{other:?}");
        seen.push(hash);
    }
}

#[tokio::test]
async fn a_fingerprint_is_of_one_namespace_and_of_what_is_there_now() {
    let bench = Bench::new().await;
    let empty = fingerprint(&bench).await.hash;
    bench.run(put("a", "1", Binding::None)).await.unwrap();
    let one = fingerprint(&bench).await.hash;
    assert_ne!(one, empty);
    for other in ["before", "zzz"] {
        let (caller, other) = (bench.service.anonymous(), Namespace::new(other).unwrap());
        bench.service.execute(&caller, &other, put("a", "2", Binding::None)).await.unwrap();
        assert_eq!(fingerprint(&bench).await.hash, one, "entries of {other} do not count");
        assert_ne!(bench.service.fingerprint(&caller, &other).await.unwrap().hash, one);
    }
    bench.run(write(WriteOp::Delete { range: KeyRange::Prefix([].into()) })).await.unwrap();
    assert_eq!(fingerprint(&bench).await.hash, empty);
}

/// A cluster of which only the ids are known.
struct Known;

impl Cluster for Known {
    fn status(&self) -> ClusterStatus {
        ClusterStatus { cluster: 0xabc, node: 7, ..ClusterStatus::default() }
    }

    fn change(&self, _: ClusterChange) -> BoxFuture<'static, Result<ClusterChanged, Failure>> {
        Box::pin(async { Err(Failure::ChangeRefused("it is not there".into())) })
    }
}

#[tokio::test]
async fn whoever_answers_says_who_it_is_and_under_which_leader() {
    let bench = Bench::new().await;
    assert_eq!(bench.service.answerer(), Answerer { cluster: 0, node: 0, term: 1 });
    let replica = Arc::new(Replica::new());
    let options = Options { cluster: Some(Arc::new(Known)), ..Options::default() };
    let service = Service::start(MemoryLog::start(Arc::clone(&replica)), replica, TestClocks::new(), options);
    while !service.health().leads {
        tokio::task::yield_now().await;
    }
    assert_eq!(service.answerer(), Answerer { cluster: 0xabc, node: 7, term: 1 });
}
