//! Backups of a running service: whole, of one moment, one at a time.

use std::time::Duration;

use leasehold_core::{Caller, Patience, Record, Rights, State};
use leasehold_log::BackupReader;
use leasehold_service::{Backup, Failure};

use crate::support::{Bench, grant};

async fn backup(bench: &Bench) -> Result<Backup, Failure> {
    bench.service.backup(&bench.service.anonymous()).await
}

async fn bytes(mut backup: Backup) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = backup.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes
}

fn records(bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let read = BackupReader::new(bytes, "test.backup").unwrap().read(|record| {
        records.push(record);
        Ok(())
    });
    read.unwrap();
    records
}

#[tokio::test]
async fn a_backup_has_what_was_acknowledged_before_and_nothing_of_what_comes_while_it_is_taken() {
    let bench = Bench::new().await;
    for lease in 1..=3000 {
        bench.run(grant(lease, 60_000, &[&format!("orders/{lease}")], Patience::None)).await.unwrap();
    }
    let expected: Vec<Record> = bench.replica.look(|state| state.view().records().collect());
    let taken = backup(&bench).await.unwrap();
    assert_eq!(taken.revision().0, 3000);
    for lease in 3001..=3100 {
        bench.run(grant(lease, 60_000, &[], Patience::None)).await.unwrap();
    }
    bench.release(7).await;
    let bytes = bytes(taken).await;
    assert!(bytes.len() > 300_000, "it takes more than one piece: {}", bytes.len());
    let state = State::from_records(records(&bytes)).unwrap();
    // Time may have gone on by a tick between the look and the view.
    assert_eq!(state.view().records().skip(1).collect::<Vec<_>>(), expected[1..]);
    state.check_invariants().unwrap();
}

#[tokio::test]
async fn there_is_one_backup_at_a_time_and_one_that_is_dropped_makes_room() {
    let bench = Bench::new().await;
    for lease in 1..=20_000 {
        bench.run(grant(lease, 60_000, &[&format!("orders/{lease}")], Patience::None)).await.unwrap();
    }
    let first = backup(&bench).await.unwrap();
    assert!(matches!(backup(&bench).await, Err(Failure::Overloaded { .. })));
    drop(first);
    let again = async {
        loop {
            match backup(&bench).await {
                Ok(backup) => return backup,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(20), again).await.expect("the place is free again");
    assert!(records(&bytes(again).await).len() > 40_000);
}

#[tokio::test]
async fn a_backup_ends_when_the_service_stops_and_is_not_taken_for_a_whole_one() {
    let bench = Bench::new().await;
    for lease in 1..=20_000 {
        bench.run(grant(lease, 60_000, &[&format!("orders/{lease}")], Patience::None)).await.unwrap();
    }
    let mut taken = backup(&bench).await.unwrap();
    bench.service.stop().await;
    let mut got = Vec::new();
    while let Some(piece) = taken.next().await {
        let Ok(piece) = piece else { break };
        got.extend_from_slice(&piece);
    }
    let read = BackupReader::new(&got[..], "test.backup").and_then(|reader| reader.read(|_| Ok(())));
    read.unwrap_err();
}

#[tokio::test]
async fn a_backup_needs_the_right_of_an_operator() {
    let bench = Bench::new().await;
    let caller = Caller { identity: None, rights: Rights::default() };
    assert!(matches!(bench.service.backup(&caller).await, Err(Failure::Denied(_))));
}
