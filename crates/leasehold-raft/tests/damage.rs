//! What a crash or a bad disk does to the log files: a torn end is cut and reported, damage is refused by name.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::path::{Path, PathBuf};

use common::{copy_dir, log_files, open_with, payload, payloads};
use leasehold_raft::{Cut, OpenError, Options};

const COUNT: usize = 12;
const SECTOR: usize = 512;

/// Small files, because they are copied often.
fn small(dir: &Path) -> Options {
    Options { log_file_bytes: 64 * 1024, ..Options::new(dir) }
}

/// Where the zeros begin that nothing was ever written to.
fn used(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    (last + 1).next_multiple_of(SECTOR) as u64
}

/// A directory with `COUNT` payloads, and where the last batch of its last file starts.
async fn written(options: impl Fn(&Path) -> Options) -> (tempfile::TempDir, PathBuf, u64) {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(options(dir.path())).await.unwrap();
    for number in 0..COUNT - 1 {
        running.propose(payload(number)).await.unwrap();
    }
    let before = used(log_files(dir.path()).last().unwrap());
    running.propose(payload(COUNT - 1)).await.unwrap();
    running.node.shutdown().await;
    let file = log_files(dir.path()).pop().unwrap();
    (dir, file, before)
}

fn copied(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir, copy.path());
    copy
}

fn in_copy(copy: &tempfile::TempDir, dir: &tempfile::TempDir, file: &Path) -> PathBuf {
    copy.path().join(file.strip_prefix(dir.path()).unwrap())
}

#[tokio::test]
async fn a_last_batch_that_was_written_in_part_is_removed_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    running.propose("kept").await.unwrap();
    let file = log_files(dir.path()).pop().unwrap();
    let start = used(&file) as usize;
    running.propose(vec![7; 3000]).await.unwrap();
    running.node.shutdown().await;
    let bytes = std::fs::read(&file).unwrap();
    let sectors = (used(&file) as usize - start) / SECTOR;
    // A disk writes sectors in any order: whichever are missing, the batch was never acknowledged.
    for missing in 1..1u32 << sectors {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        let mut torn = bytes.clone();
        for sector in (0..sectors).filter(|sector| missing >> sector & 1 == 1) {
            torn[start + sector * SECTOR..][..SECTOR].fill(0);
        }
        std::fs::write(&file, &torn).unwrap();
        let left = torn.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let cut = (left > start).then(|| Cut { file, offset: start as u64, bytes: (left - start) as u64 });
        let running = open_with(small(copy.path())).await.unwrap();
        assert_eq!(running.opened.cut, cut, "{missing:b}");
        assert_eq!(running.ledger.payloads(), [b"kept"], "{missing:b}");
        running.propose("goes on").await.unwrap();
        running.node.shutdown().await;
        let running = open_with(small(copy.path())).await.unwrap();
        assert_eq!(running.opened.cut, None);
        assert_eq!(running.ledger.payloads().last().unwrap(), b"goes on");
        running.node.shutdown().await;
    }
}

#[tokio::test]
async fn a_sector_missing_before_the_last_batch_is_damage() {
    let (dir, file, last) = written(small).await;
    let bytes = std::fs::read(&file).unwrap();
    for sector in (0..last as usize).step_by(SECTOR) {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        let mut damaged = bytes.clone();
        damaged[sector..sector + SECTOR].fill(0);
        std::fs::write(&file, &damaged).unwrap();
        let error = open_with(small(copy.path())).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::DamagedLog { offset, .. } if offset <= sector as u64), "{sector}: {error}");
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "nothing was changed");
    }
}

#[tokio::test]
async fn a_file_that_was_made_shorter_is_damage() {
    let (dir, file, last) = written(small).await;
    for length in [last - 1, last, last + 1, last + 512, 64 * 1024 - 1] {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length).unwrap();
        let error = open_with(small(copy.path())).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::DamagedLog { .. }), "{length}: {error}");
    }
}

#[tokio::test]
async fn what_is_on_disk_at_each_acknowledgement_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(small(dir.path())).await.unwrap();
    let file = log_files(dir.path()).pop().unwrap();
    let mut contents = Vec::new();
    for number in 0..40 {
        running.propose(payload(number)).await.unwrap();
        contents.push(std::fs::read(&file).unwrap());
    }
    running.node.shutdown().await;
    for (number, content) in contents.into_iter().enumerate() {
        let copy = copied(dir.path());
        std::fs::write(in_copy(&copy, &dir, &file), content).unwrap();
        let running = open_with(small(copy.path())).await.unwrap();
        assert_eq!(running.ledger.payloads(), payloads(number + 1));
        running.node.shutdown().await;
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_the_log_refuses_the_start_and_names_the_place() {
    let (dir, file, _) = written(small).await;
    let bytes = std::fs::read(&file).unwrap();
    // Every byte, one bit each, a different one every time.
    for place in 0..used(&file) as usize {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&file, &damaged).unwrap();
        let Err(error) = open_with(small(copy.path())).await else { panic!("byte {place}: damage went unseen") };
        let OpenError::DamagedLog { file: named, offset, .. } = &error else { panic!("byte {place}: {error}") };
        assert_eq!(*named, file);
        assert!(*offset <= place as u64, "byte {place} is after offset {offset}");
        assert!(error.to_string().ends_with("restore this node from a backup or replace it"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "nothing was changed");
    }
}

#[tokio::test]
async fn a_cut_or_missing_file_before_the_last_refuses_the_start() {
    let small = |dir: &Path| Options { log_file_records: 16, ..small(dir) };
    let (dir, _, _) = written(small).await;
    let running = open_with(small(dir.path())).await.unwrap();
    for number in COUNT..COUNT * 4 {
        running.propose(payload(number)).await.unwrap();
    }
    running.node.shutdown().await;
    let files = log_files(dir.path());
    assert!(files.len() >= 3);
    let first = &files[0];
    for cut in [1, 40, 150] {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, first);
        let length = file.metadata().unwrap().len() - cut;
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length).unwrap();
        let error = open_with(small(copy.path())).await.map(|_| ()).unwrap_err();
        assert!(matches!(&error, OpenError::DamagedLog { file: named, .. } if *named == file), "{error}");
    }
    let copy = copied(dir.path());
    std::fs::remove_file(in_copy(&copy, &dir, &files[1])).unwrap();
    let error = open_with(small(copy.path())).await.map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, OpenError::DamagedLog { file, .. } if file.ends_with(files[2].file_name().unwrap())),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_taken_at_any_moment_has_everything_acknowledged_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        |dir: &Path| Options { log_file_records: 40, snapshot_bytes: 12_000, retained_entries: 20, ..small(dir) };
    let running = std::sync::Arc::new(open_with(options(dir.path())).await.unwrap());
    let acknowledged = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let writer = {
        let (running, acknowledged) = (running.clone(), acknowledged.clone());
        tokio::spawn(async move {
            for number in 0..2000 {
                running.propose(payload(number)).await.unwrap();
                acknowledged.store(number + 1, std::sync::atomic::Ordering::SeqCst);
            }
        })
    };
    let mut tried = 0;
    while !writer.is_finished() {
        let before = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
        let copy = tempfile::tempdir().unwrap();
        // Files are copied one after another while they change. The log comes first, so that what was purged from it
        // is in a snapshot of the copy; a file that goes meanwhile spoils the copy, which no crash would do.
        if !tokio::task::block_in_place(|| copy_dir(dir.path(), copy.path())) {
            continue;
        }
        let opened = open_with(options(copy.path())).await.unwrap();
        let kept = opened.ledger.payloads();
        assert!(kept.len() >= before, "{} of {before} acknowledged payloads are in the copy", kept.len());
        assert_eq!(kept, payloads(kept.len()));
        opened.node.shutdown().await;
        tried += 1;
    }
    writer.await.unwrap();
    println!("{tried} copies opened");
    assert!(tried > 3);
    running.node.shutdown().await;
}
