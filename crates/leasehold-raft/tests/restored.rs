//! A directory made from a backup opens like any other: with the state, alone, in a cluster of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::io;
use std::path::Path;

use common::cluster::{free_address, patient, until};
use common::{open_with, payload, payloads};
use leasehold_raft::{Formation, Identity, OpenError, Options, PeerOptions, restore};
use leasehold_service::log::Log;

/// A state of one payload, as the ledger of the tests writes it.
fn write(out: &mut dyn io::Write) -> io::Result<()> {
    let first = payload(0);
    out.write_all(&0u64.to_le_bytes())?;
    out.write_all(&(first.len() as u64).to_le_bytes())?;
    out.write_all(first.as_ref())
}

fn restored(dir: &Path) -> Identity {
    restore(dir, write).unwrap()
}

fn small(dir: &Path) -> Options {
    Options { log_file_records: 50, retained_entries: 10, ..Options::new(dir) }
}

#[tokio::test]
async fn a_restored_directory_opens_leads_and_goes_on_over_restarts_and_snapshots() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("new/data");
    let identity = restored(&dir);
    let running = open_with(small(&dir)).await.unwrap();
    assert_eq!((running.opened.identity, running.opened.fresh), (identity, false));
    assert_eq!(running.ledger.payloads(), payloads(1));
    running.node.read_barrier().await.unwrap();
    running.propose(payload(1)).await.unwrap();
    running.node.shutdown().await;

    let running = open_with(small(&dir)).await.unwrap();
    assert_eq!(running.ledger.payloads(), payloads(2));
    for number in 2..200 {
        running.propose(payload(number)).await.unwrap();
    }
    running.node.snapshot_now().await.unwrap();
    running.node.shutdown().await;
    let running = open_with(small(&dir)).await.unwrap();
    assert_eq!(running.ledger.payloads(), payloads(200));
    running.node.shutdown().await;
}

#[tokio::test]
async fn every_restore_makes_a_cluster_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (restored(&home.path().join("one")), restored(&home.path().join("two")));
    assert_ne!(one.cluster, two.cluster);
}

#[tokio::test]
async fn a_directory_in_use_is_not_restored_into_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let running = open_with(small(home.path())).await.unwrap();
    running.propose(payload(0)).await.unwrap();
    assert!(matches!(restore(home.path(), write), Err(OpenError::NotEmpty { .. })));
    running.propose(payload(1)).await.unwrap();
    running.node.shutdown().await;
    assert!(matches!(restore(home.path(), write), Err(OpenError::NotEmpty { .. })));
    let running = open_with(small(home.path())).await.unwrap();
    assert_eq!(running.ledger.payloads(), payloads(2));
    running.node.shutdown().await;
}

#[tokio::test]
async fn the_root_of_a_file_system_counts_as_empty() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("lost+found")).unwrap();
    restored(home.path());
}

#[tokio::test]
async fn a_restore_that_did_not_finish_is_neither_opened_nor_restored_over() {
    let home = tempfile::tempdir().unwrap();
    let failed = restore(home.path(), |out| {
        out.write_all(b"half")?;
        Err(io::Error::other("the disk is gone"))
    });
    assert!(failed.unwrap_err().to_string().contains("the disk is gone"));
    let Err(error) = open_with(small(home.path())).await else { panic!("it opened") };
    assert!(matches!(error, OpenError::Unfinished { .. }), "{error}");
    assert!(matches!(restore(home.path(), write), Err(OpenError::Unfinished { .. })));
}

#[tokio::test]
async fn a_restored_cluster_of_one_grows() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (home.path().join("one"), home.path().join("two"));
    let identity = restored(&one);
    let open = async |dir: &Path, peers: PeerOptions| {
        let mut options = Options { peers: Some(peers), ..small(dir) };
        patient(&mut options);
        open_with(options).await.unwrap()
    };
    let address = free_address();
    let first = open(&one, PeerOptions::new("n1", address)).await;
    first.propose(payload(1)).await.unwrap();
    let joins = Formation::Join(vec![address.to_string()]);
    let second = open(&two, PeerOptions { formation: joins, ..PeerOptions::new("n2", free_address()) }).await;
    assert_eq!(second.opened.identity.cluster, identity.cluster);
    until("both vote", || first.node.members().iter().filter(|member| member.voter).count() == 2).await;
    first.propose(payload(2)).await.unwrap();
    until("the new node has it all", || second.ledger.payloads() == payloads(3)).await;
    first.node.shutdown().await;
    second.node.shutdown().await;
}
