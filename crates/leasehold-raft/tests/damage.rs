//! What a crash or a bad disk does to the log files: a torn end is cut and reported, damage is refused by name.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::path::{Path, PathBuf};

use common::{copy_dir, log_files, open, open_with, payload, payloads};
use leasehold_raft::{Cut, OpenError, Options};

const COUNT: usize = 12;

/// A directory with `COUNT` payloads, and where the last record of its last file starts.
async fn written(options: impl Fn(&Path) -> Options) -> (tempfile::TempDir, PathBuf, u64) {
    let dir = tempfile::tempdir().unwrap();
    let running = open_with(options(dir.path())).await.unwrap();
    for number in 0..COUNT - 1 {
        running.propose(payload(number)).await.unwrap();
    }
    let before = log_files(dir.path()).last().unwrap().metadata().unwrap().len();
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
async fn a_log_cut_anywhere_in_its_last_record_opens_without_it_and_says_so() {
    let (dir, file, last) = written(|dir| Options::new(dir)).await;
    let length = file.metadata().unwrap().len();
    assert!(last < length);
    for cut in last..=length {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(cut).unwrap();
        let running = open(copy.path()).await;
        let whole = cut == length;
        assert_eq!(running.ledger.payloads(), payloads(if whole { COUNT } else { COUNT - 1 }), "cut at {cut}");
        let expected = (cut != last && !whole).then(|| Cut { file, offset: last, bytes: cut - last });
        assert_eq!(running.opened.cut, expected, "cut at {cut}");
        running.propose("goes on").await.unwrap();
        running.node.shutdown().await;
        let running = open(copy.path()).await;
        assert_eq!(running.opened.cut, None);
        assert_eq!(running.ledger.payloads().last().unwrap(), b"goes on");
        running.node.shutdown().await;
    }
}

#[tokio::test]
async fn zeros_after_the_last_record_are_cut() {
    let (dir, file, _) = written(|dir| Options::new(dir)).await;
    let length = file.metadata().unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length + 5000).unwrap();
    let running = open(dir.path()).await;
    assert_eq!(running.opened.cut, Some(Cut { file, offset: length, bytes: 5000 }));
    assert_eq!(running.ledger.payloads(), payloads(COUNT));
    running.node.shutdown().await;
}

#[tokio::test]
async fn a_last_record_whose_end_was_never_written_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    running.propose("kept").await.unwrap();
    let file = log_files(dir.path()).pop().unwrap();
    let start = file.metadata().unwrap().len();
    running.propose(vec![7; 20_000]).await.unwrap();
    running.node.shutdown().await;
    let bytes = std::fs::read(&file).unwrap();
    // The file has its full length, but from some block on nothing was written: a file system that commits a
    // length before the data leaves that.
    for block in (start.next_multiple_of(512)..start + 20_000).step_by(512) {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        let mut torn = bytes.clone();
        torn[block as usize..].fill(0);
        std::fs::write(&file, &torn).unwrap();
        let running = open(copy.path()).await;
        assert_eq!(running.opened.cut, Some(Cut { file, offset: start, bytes: bytes.len() as u64 - start }));
        assert_eq!(running.ledger.payloads(), [b"kept"]);
        running.node.shutdown().await;
    }
    // The same end, but with damage before it: that is not the end's doing.
    let mut damaged = bytes.clone();
    let middle = damaged.len() - 4096;
    damaged[middle..].fill(0);
    damaged[start as usize + 50] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let error = open_with(Options::new(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::DamagedLog { offset, .. } if offset == start), "{error}");
    let mut damaged = bytes.clone();
    damaged[middle..].fill(0);
    damaged[start as usize - 30] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let error = open_with(Options::new(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::DamagedLog { offset, .. } if offset < start), "{error}");
}

#[tokio::test]
async fn what_is_on_disk_at_each_acknowledgement_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let running = open(dir.path()).await;
    let file = log_files(dir.path()).pop().unwrap();
    let mut lengths = Vec::new();
    for number in 0..40 {
        running.propose(payload(number)).await.unwrap();
        lengths.push(file.metadata().unwrap().len());
    }
    running.node.shutdown().await;
    for (number, length) in lengths.into_iter().enumerate() {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length).unwrap();
        let running = open(copy.path()).await;
        assert_eq!(running.ledger.payloads(), payloads(number + 1));
        running.node.shutdown().await;
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_the_log_refuses_the_start_and_names_the_place() {
    let (dir, file, _) = written(|dir| Options::new(dir)).await;
    let bytes = std::fs::read(&file).unwrap();
    // Every byte, one bit each, a different one every time.
    for place in 0..bytes.len() {
        let copy = copied(dir.path());
        let file = in_copy(&copy, &dir, &file);
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&file, damaged).unwrap();
        let Err(error) = open_with(Options::new(copy.path())).await else { panic!("byte {place}: damage went unseen") };
        let OpenError::DamagedLog { file: named, offset, .. } = &error else { panic!("byte {place}: {error}") };
        assert_eq!(*named, file);
        assert!(*offset <= place as u64, "byte {place} is after offset {offset}");
        assert!(error.to_string().ends_with("restore this node from a backup or replace it"), "{error}");
        assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes.len() as u64, "nothing was cut");
    }
}

#[tokio::test]
async fn a_cut_or_missing_file_before_the_last_refuses_the_start() {
    let small = |dir: &Path| Options { log_file_records: 16, ..Options::new(dir) };
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
    assert!(matches!(error, OpenError::BrokenLog { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_taken_at_any_moment_has_everything_acknowledged_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = |dir: &Path| Options {
        log_file_records: 40,
        snapshot_bytes: 12_000,
        retained_entries: 20,
        ..Options::new(dir)
    };
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
