//! Log records and snapshot files: what was written in any release still reads, and no damage passes unseen.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_log::{
    BlockError, BlockProblem, BlockReader, BlockWriter, Kind, LogPosition, Member, Membership, Record, RecordError,
    SnapshotHeader, Vote, checksum,
};
use proptest::prelude::*;

fn position() -> LogPosition {
    LogPosition { leader: LeaderId { term: 3, node: 0x0102_0304_0506_0708 }, index: 812 }
}

fn members() -> Membership {
    Membership {
        at: Some(position()),
        voters: vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])],
        nodes: BTreeMap::from([
            (1, member("n1", "a:7401", 0x1112_1314_1516_1718)),
            (2, member("n2", "", 0)),
            (3, member("n3", "c:7401", 3)),
        ]),
    }
}

fn member(name: &str, address: &str, incarnation: u64) -> Member {
    Member { name: name.into(), address: address.into(), incarnation }
}

fn record(kind: Kind, bytes: impl Into<Bytes>) -> Record {
    Record { position: position(), kind, bytes: bytes.into() }
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    let length = write(&mut out).unwrap();
    assert_eq!(length, out.len());
    out
}

fn snapshot(body: &[u8]) -> Vec<u8> {
    let header = SnapshotHeader { last: Some(position()), membership: members().to_bytes() };
    let mut writer = BlockWriter::new(Vec::new(), &header).unwrap();
    writer.write_all(body).unwrap();
    writer.finish().unwrap()
}

fn read_snapshot(bytes: &[u8]) -> io::Result<(SnapshotHeader, Vec<u8>)> {
    let mut reader = BlockReader::new(bytes, "test.snap")?;
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    let header = reader.header().clone();
    reader.finish()?;
    Ok((header, body))
}

/// Compares with the committed hex file; `GOLDEN=write` records it anew.
fn assert_golden(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let hex: Vec<String> =
        bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>()).collect();
    let text = hex.join("\n") + "\n";
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name}: the durable form must not change");
}

#[test]
fn every_form_is_written_as_it_was_first_released() {
    assert_golden("record-payload.v1.hex", &written(|out| record(Kind::Payload, "orders/7").write(out)));
    assert_golden("record-blank.v1.hex", &written(|out| record(Kind::Blank, "").write(out)));
    assert_golden(
        "record-membership.v2.hex",
        &written(|out| record(Kind::Membership, members().to_bytes()).write(out)),
    );
    assert_golden("record-checkpoint.v1.hex", &written(|out| record(Kind::Checkpoint, "").write(out)));
    assert_golden("position.v1.hex", &written(|out| position().write(out)));
    let vote = Vote { leader: position().leader, committed: true };
    assert_golden("vote.v1.hex", &written(|out| vote.write(out)));
    assert_golden("snapshot-members.v2.hex", &snapshot(b"a small state"));
    assert_golden(
        "snapshot-empty.v1.hex",
        &BlockWriter::new(Vec::new(), &SnapshotHeader::default()).unwrap().finish().unwrap(),
    );
}

/// The bytes of a committed hex file.
fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = std::fs::read_to_string(path).unwrap().replace('\n', "");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn members_of_the_first_version_are_read_with_their_id_as_name() {
    let mut expected = members();
    for (node, member) in &mut expected.nodes {
        (member.name, member.incarnation) = (node.to_string(), 0);
    }
    let record = Record::read(&mut &golden("record-membership.v1.hex")[..]).unwrap();
    assert_eq!(Membership::from_bytes(&record.bytes).unwrap(), expected);
    let (header, body) = read_snapshot(&golden("snapshot.v1.hex")).unwrap();
    assert_eq!(Membership::from_bytes(&header.membership).unwrap(), expected);
    assert_eq!(body, b"a small state");
}

#[test]
fn a_newer_membership_is_refused_by_its_version() {
    let mut bytes = members().to_bytes().to_vec();
    bytes[0] = 3;
    let error = Membership::from_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "membership has format version 3, this build reads up to 2; upgrade");
    for cut in 0..bytes.len() {
        bytes[0] = 2;
        Membership::from_bytes(&bytes[..cut]).unwrap_err();
    }
}

#[test]
fn every_form_reads_back() {
    for kind in [Kind::Blank, Kind::Payload, Kind::Membership, Kind::Checkpoint] {
        let record = record(kind, "payload");
        let bytes = written(|out| record.write(out));
        assert_eq!(Record::read(&mut &bytes[..]).unwrap(), record);
    }
    assert_eq!(LogPosition::read(&mut &written(|out| position().write(out))[..]).unwrap(), position());
    for committed in [false, true] {
        let vote = Vote { leader: position().leader, committed };
        assert_eq!(Vote::read(&mut &written(|out| vote.write(out))[..]).unwrap(), vote);
    }
    for members in [members(), Membership::default()] {
        assert_eq!(Membership::from_bytes(&members.to_bytes()).unwrap(), members);
    }
}

#[test]
fn a_record_cut_short_is_incomplete_at_every_byte() {
    let bytes = written(|out| record(Kind::Payload, "orders/7").write(out));
    for length in 0..bytes.len() {
        let error = Record::read(&mut &bytes[..length]).unwrap_err();
        assert!(matches!(error, RecordError::Truncated { .. }), "cut to {length}: {error}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_flipped_bit_is_damage_and_never_looks_like_a_cut() {
    type Form = (Vec<u8>, fn(&[u8]) -> Result<(), RecordError>);
    let forms: [Form; 3] = [
        (written(|out| record(Kind::Payload, "orders/7").write(out)), |bytes| Record::read(&mut &bytes[..]).map(drop)),
        (written(|out| position().write(out)), |bytes| LogPosition::read(&mut &bytes[..]).map(drop)),
        (written(|out| Vote { leader: LeaderId::default(), committed: false }.write(out)), |bytes| {
            Vote::read(&mut &bytes[..]).map(drop)
        }),
    ];
    for (bytes, read) in forms {
        read(&bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = read(&damaged).expect_err("a flipped bit is seen");
            assert!(!matches!(error, RecordError::Truncated { .. }), "bit {bit}: {error}");
        }
    }
}

#[test]
fn a_newer_record_is_refused_by_its_version() {
    let mut bytes = written(|out| record(Kind::Blank, "").write(out));
    bytes[0] = 9;
    let error = Record::read(&mut &bytes[..]).unwrap_err();
    assert_eq!(error.to_string(), "record has format version 9, this build reads up to 1; upgrade");
}

#[test]
fn a_record_of_a_kind_that_a_later_build_knows_is_refused_by_its_kind() {
    let mut bytes = written(|out| record(Kind::Checkpoint, "").write(out));
    bytes[1] = 4;
    for end in [32, 36] {
        let sum = checksum(&bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    }
    let error = Record::read(&mut &bytes[..]).unwrap_err();
    assert_eq!(error.to_string(), "record is of kind 4, this build knows kinds up to 3; upgrade");
}

#[test]
fn a_snapshot_reads_back_whatever_its_length() {
    for length in [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 700_000] {
        let body: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let (header, read) = read_snapshot(&snapshot(&body)).unwrap();
        assert_eq!(header.last, Some(position()));
        assert_eq!(Membership::from_bytes(&header.membership).unwrap(), members());
        assert!(read == body, "a body of {length} bytes");
    }
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_snapshot_is_seen_and_names_the_file() {
    let bytes = snapshot(b"a small state");
    let problem = |bytes: &[u8]| {
        let error = read_snapshot(bytes).expect_err("damage is seen");
        assert!(error.to_string().starts_with("snapshot file test.snap, offset "), "{error}");
        let inner = error.into_inner().unwrap().downcast::<BlockError>().unwrap();
        assert!(inner.offset <= bytes.len() as u64);
        inner.problem
    };
    for length in 0..bytes.len() {
        assert_eq!(problem(&bytes[..length]), BlockProblem::Truncated, "cut to {length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        problem(&damaged);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(problem(&longer), BlockProblem::Trailing);
}

#[test]
fn a_newer_snapshot_is_refused_by_its_version() {
    let mut bytes = snapshot(b"");
    bytes[8] = 9;
    let error = read_snapshot(&bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "snapshot file test.snap, offset 8: the file has format version 9, this build reads up to 1; upgrade"
    );
}

#[test]
fn a_snapshot_is_verified_to_its_end_even_if_its_reader_stops_early() {
    let mut bytes = snapshot(b"a small state");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut reader = BlockReader::new(&bytes[..], "test.snap").unwrap();
    reader.read_exact(&mut [0; 4]).unwrap();
    reader.finish().unwrap_err();
}

proptest! {
    #[test]
    fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Record::read(&mut &bytes[..]);
        let _ = LogPosition::read(&mut &bytes[..]);
        let _ = Vote::read(&mut &bytes[..]);
        let _ = Membership::from_bytes(&bytes);
        let _ = read_snapshot(&bytes);
    }
}
