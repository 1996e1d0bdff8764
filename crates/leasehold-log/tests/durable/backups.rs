//! Backup files: what is written comes back, and no damage passes unseen.

use leasehold_core::{Record, Revision, WallTime};
use leasehold_log::{BackupHeader, BackupReader, BodyError, write_backup};

use crate::examples;
use crate::golden::check_bytes;

fn header() -> BackupHeader {
    BackupHeader { taken: WallTime(1_750_000_000_123), release: "0.1.0".into() }
}

fn records() -> Vec<Record> {
    examples::first_records().into_iter().map(|(_, record)| record).collect()
}

fn written() -> Vec<u8> {
    write_backup(Vec::new(), &header(), Revision(1204), records().iter()).expect("memory takes every byte")
}

fn read(bytes: &[u8]) -> Result<(BackupHeader, Vec<Record>), BodyError> {
    let reader = BackupReader::new(bytes, "shop.backup")?;
    let (header, mut records) = (reader.header().clone(), Vec::new());
    reader.read(|record| {
        records.push(record);
        Ok(())
    })?;
    Ok((header, records))
}

#[test]
fn the_golden_backup_is_written_and_read() {
    let golden = check_bytes("backup-v1.hex", written());
    assert_eq!(read(&golden).unwrap(), (header(), records()));
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_backup_is_seen_and_names_the_file() {
    let bytes = written();
    let refused = |bytes: &[u8], how: String| {
        let BodyError::Io(error) = read(bytes).expect_err(&how) else { panic!("{how}: found only in what it means") };
        assert!(error.to_string().starts_with("backup file shop.backup, offset "), "{how}: {error}");
        error.to_string()
    };
    for length in 0..bytes.len() {
        let said = refused(&bytes[..length], format!("cut to {length}"));
        assert!(said.contains("the file ends too early"), "{said}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refused(&damaged, format!("bit {bit}"));
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(refused(&longer, "longer".into()).contains("bytes follow its end"));
}
