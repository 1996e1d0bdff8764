//! The log in files, without anybody who waits for it.

use std::path::Path;

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_log::{Kind, LogPosition, Record, Vote};

use super::{FileLimits, LogFiles, remove};
use crate::error::OpenError;

const SMALL: FileLimits = FileLimits { bytes: 4096, records: 1000 };

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { leader: LeaderId { term, node: 1 }, index }
}

fn record(term: u64, index: u64, bytes: usize) -> Record {
    let bytes = Bytes::from(vec![index as u8 | 1; bytes]);
    Record { position: position(term, index), kind: Kind::Payload, bytes }
}

fn open(dir: &Path) -> LogFiles {
    let (log, cut) = LogFiles::open(dir, SMALL, &None).unwrap();
    assert_eq!(cut, None);
    log
}

fn flush(log: &mut LogFiles) {
    if let Some(flush) = log.take_flush() {
        let gone = log.flushed(flush.carry_out().unwrap());
        remove(&gone).unwrap();
    }
}

fn append(log: &mut LogFiles, term: u64, indexes: std::ops::Range<u64>, bytes: usize) {
    for index in indexes {
        log.append(vec![record(term, index, bytes)]).unwrap();
        flush(log);
    }
}

/// Everything that can be asked of a log.
fn told(log: &LogFiles) -> (Option<Vote>, Option<LogPosition>, Option<LogPosition>, Vec<Record>) {
    let records = log.read(0, u64::MAX).map(Result::unwrap).collect();
    (log.vote(), log.purged(), log.last(), records)
}

fn reopened(dir: &Path, log: LogFiles) -> LogFiles {
    let before = told(&log);
    drop(log);
    let log = open(dir);
    assert_eq!(told(&log), before);
    log
}

fn files(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "wal")).count()
}

#[test]
fn what_a_log_was_told_it_tells_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = reopened(dir.path(), open(dir.path()));
    log.save_vote(Vote { leader: LeaderId { term: 3, node: 2 }, committed: false }).unwrap();
    append(&mut log, 1, 0..20, 700);
    let mut log = reopened(dir.path(), log);
    log.cut(15).unwrap();
    assert_eq!(log.last(), Some(position(1, 14)));
    append(&mut log, 2, 15..17, 10);
    let mut log = reopened(dir.path(), log);
    log.purge(position(1, 8)).unwrap();
    flush(&mut log);
    let log = reopened(dir.path(), log);
    assert_eq!(told(&log).3.len(), 8);
    assert_eq!(log.read(10, 12).map(|read| read.unwrap().position.index).collect::<Vec<_>>(), [10, 11]);
    assert_eq!(log.read(0, 10).map(|read| read.unwrap().position.index).collect::<Vec<_>>(), [9]);
}

#[test]
fn files_go_when_all_their_entries_are_purged_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, 1, 0..40, 700);
    let many = files(dir.path());
    assert!(many > 8, "{many}");
    log.purge(position(1, 20)).unwrap();
    assert_eq!(files(dir.path()), many, "the purge is not durable");
    flush(&mut log);
    let some = files(dir.path());
    assert!(some < many && some > 3, "{some} of {many}");
    let mut log = reopened(dir.path(), log);
    log.purge(position(1, 39)).unwrap();
    append(&mut log, 1, 40..60, 700);
    let log = reopened(dir.path(), log);
    assert_eq!(told(&log).3.len(), 20);
}

#[test]
fn a_purge_beyond_the_end_leaves_an_empty_log_that_goes_on_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, 1, 0..3, 10);
    log.purge(position(4, 100)).unwrap();
    assert_eq!((log.last(), log.read(0, u64::MAX).count()), (Some(position(4, 100)), 0));
    assert!(log.append(vec![record(4, 103, 1)]).is_err());
    append(&mut log, 4, 101..103, 10);
    let log = reopened(dir.path(), log);
    assert_eq!(log.last(), Some(position(4, 102)));
}

#[test]
fn a_purge_of_what_lay_in_files_that_are_gone_reads_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, 1, 0..40, 700);
    log.purge(position(1, 5)).unwrap();
    flush(&mut log);
    append(&mut log, 1, 40..41, 10);
    log.purge(position(1, 40)).unwrap();
    flush(&mut log);
    assert_eq!(files(dir.path()), 1, "with both purges in it");
    let mut log = reopened(dir.path(), log);
    append(&mut log, 1, 41..43, 10);
    let log = reopened(dir.path(), log);
    assert_eq!(told(&log).3.len(), 2);
}

#[test]
fn entries_that_left_memory_are_read_from_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = LogFiles::open(dir.path(), FileLimits::default(), &None).unwrap();
    let large = 1 << 20;
    append(&mut log, 1, 0..20, large);
    assert!(log.hot_from() > 5, "{}", log.hot_from());
    let read: Vec<Record> = log.read(0, u64::MAX).map(Result::unwrap).collect();
    assert_eq!(read, (0..20).map(|index| record(1, index, large)).collect::<Vec<_>>());
    log.cut(2).unwrap();
    append(&mut log, 2, 2..4, 10);
    assert_eq!(log.read(1, 3).map(|read| read.unwrap().position.leader.term).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn an_entry_larger_than_a_file_has_one_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, 1, 0..3, 3 * SMALL.bytes);
    let log = reopened(dir.path(), log);
    assert_eq!(told(&log).3.len(), 3);
}

#[test]
fn a_change_that_was_never_flushed_never_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path());
    append(&mut log, 1, 0..3, 10);
    let before = told(&log);
    log.append(vec![record(1, 3, 10)]).unwrap();
    log.cut(1).unwrap();
    drop(log);
    assert_eq!(told(&open(dir.path())), before);
}

#[test]
fn a_missing_file_is_damage_wherever_it_was() {
    for missing in [0, 1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(dir.path());
        append(&mut log, 1, 0..30, 700);
        drop(log);
        let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
        names.sort();
        std::fs::remove_file(&names[missing]).unwrap();
        let refused = LogFiles::open(dir.path(), SMALL, &None).unwrap_err();
        assert!(matches!(refused, OpenError::DamagedLog { .. }), "{missing}: {refused}");
    }
}
