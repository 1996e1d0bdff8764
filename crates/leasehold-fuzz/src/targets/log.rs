//! What lies on disk: entries and parcels, log records with the small values beside them, membership.
//!
//! Any bytes give a value or an error; a value that was read is written and read again as the same. Bytes are tried as
//! they are, and once more with their checksums made right: blind changes end at a checksum, hostile ones do not.

use leasehold_core::{LeaderId, LeaseTime, Stamp, State, WallTime};
use leasehold_log::{Kind, LogPosition, Member, Membership, Origin, Pack, Reader, Record, Vote, checksum};

use super::commands;
use crate::Source;

pub(crate) fn entry(bytes: &[u8]) {
    if let Ok(opened) = leasehold_log::open(bytes) {
        let Ok(requests) = opened.requests.clone().collect::<Result<Vec<_>, _>>() else { return unpack(bytes) };
        let mut pack = Pack::new();
        requests.iter().for_each(|request| pack.push(request));
        let again = pack.seal(opened.stamp, opened.origin);
        let reopened = leasehold_log::open(&again).expect("what was sealed opens");
        assert_eq!((reopened.stamp, reopened.origin), (opened.stamp, opened.origin));
        let read: Vec<_> = reopened.requests.collect::<Result<_, _>>().expect("what was packed is read");
        assert_eq!(read, requests);
        // There is one form of every command: what is read is what is written.
        let (taken, _) = Pack::unpack(bytes).expect("an entry with good commands is unpacked");
        assert_eq!(taken.seal(opened.stamp, opened.origin), again, "one form per value");
    }
    unpack(bytes);
    let mut reader = Reader::new(bytes);
    if let Ok(event) = leasehold_log::decode_event(&mut reader) {
        let mut out = Vec::new();
        leasehold_log::encode_event(&event, &mut out);
        assert_eq!(out, bytes[..reader.offset()], "one form per event");
    }
}

fn unpack(bytes: &[u8]) {
    if let Ok((pack, origin)) = Pack::unpack(bytes) {
        let count = pack.count();
        let parcel = pack.parcel(origin);
        let (again, from) = Pack::unpack(&parcel).expect("a parcel is unpacked");
        assert_eq!((again.count(), from), (count, origin));
        assert!(leasehold_log::open(&parcel).is_err(), "a parcel is no entry");
    }
}

pub(crate) fn entry_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let stamp = Stamp { leader: LeaderId { term: 7, node: 3 }, now: LeaseTime(5000), wall: WallTime(1 << 40) };
    for choices in super::apply::seeds() {
        let (mut source, mut pack) = (Source::new(&choices), Pack::new());
        (0..3).for_each(|_| pack.push(&commands::request(&mut source, &State::new())));
        let origin = Origin { run: 9, number: 4 };
        seeds.push(if seeds.len() % 3 == 0 { pack.parcel(origin) } else { pack.seal(stamp, origin) });
    }
    let (mut source, mut out) = (Source::new(&[7; 40]), Vec::new());
    let mut state = State::new();
    let requests: Vec<_> = (0..4).map(|_| commands::request(&mut source, &state)).collect();
    for event in state.apply(stamp.leader, Stamp { now: LeaseTime(1), ..stamp }, requests).events {
        leasehold_log::encode_event(&event, &mut out);
        seeds.push(std::mem::take(&mut out));
    }
    seeds
}

pub(crate) fn record(bytes: &[u8]) {
    read_records(bytes);
    read_records(&sealed_record(bytes));
    read_small(bytes);
    for length in [POSITION_LEN, VOTE_LEN] {
        if let Some(value) = bytes.get(..length) {
            read_small(&with_sum(value));
        }
    }
}

const HEADER_LEN: usize = 36;
const POSITION_LEN: usize = 30;
const VOTE_LEN: usize = 23;

fn read_records(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(record) = Record::read(&mut rest) {
        let announced = Record::announced_len(&mut &bytes[..]);
        let mut out = Vec::new();
        assert_eq!(record.write(&mut out).expect("what was read can be written"), out.len());
        assert_eq!(record.written_len(), out.len());
        assert!(announced.is_ok());
        assert_eq!(Record::read(&mut &out[..]).expect("what was written is read"), record);
        if record.kind == Kind::Membership {
            membership(&record.bytes);
        }
    }
    if let Ok(length) = Record::announced_len(&mut &bytes[..]) {
        assert!(length <= leasehold_log::RECORD_BYTES_MAX + HEADER_LEN + 4);
    }
}

fn read_small(bytes: &[u8]) {
    if let Ok(position) = LogPosition::read(&mut &bytes[..]) {
        let mut out = Vec::new();
        position.write(&mut out).expect("memory takes all");
        assert_eq!(out, bytes[..POSITION_LEN]);
    }
    if let Ok(vote) = Vote::read(&mut &bytes[..]) {
        let mut out = Vec::new();
        vote.write(&mut out).expect("memory takes all");
        assert_eq!(out, bytes[..VOTE_LEN]);
    }
}

/// The bytes as one record whose checksums fit: that of its header, and that of the whole.
fn sealed_record(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < HEADER_LEN + 4 {
        return bytes;
    }
    let sum = checksum(&bytes[..HEADER_LEN - 4]);
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
    with_sum(&bytes)
}

/// The bytes with the last four made their checksum.
pub(crate) fn with_sum(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(end) = bytes.len().checked_sub(4) else { return bytes };
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(crate) fn record_seeds() -> Vec<Vec<u8>> {
    let position = LogPosition { leader: LeaderId { term: 7, node: 3 }, index: 812 };
    let vote = Vote { leader: position.leader, committed: true };
    let mut seeds = vec![Vec::new(); 2];
    position.write(&mut seeds[0]).expect("memory takes all");
    vote.write(&mut seeds[1]).expect("memory takes all");
    let payloads = [
        (Kind::Blank, Vec::new()),
        (Kind::Payload, b"orders/7".to_vec()),
        (Kind::Membership, members().to_bytes().to_vec()),
        (Kind::Checkpoint, Vec::new()),
    ];
    let mut all = Vec::new();
    for (kind, bytes) in payloads {
        let mut out = Vec::new();
        let record = Record { position, kind, bytes: bytes.into() };
        record.write(&mut out).expect("memory takes all");
        all.extend_from_slice(&out);
        seeds.push(out);
    }
    seeds.push(all);
    seeds
}

pub(crate) fn membership(bytes: &[u8]) {
    let Ok(members) = Membership::from_bytes(bytes) else { return };
    let again = members.to_bytes();
    assert_eq!(Membership::from_bytes(&again).expect("what was written is read"), members);
}

fn members() -> Membership {
    let member = |name: &str| Member { name: name.into(), address: format!("{name}.example:7118"), incarnation: 99 };
    Membership {
        at: Some(LogPosition { leader: LeaderId { term: 7, node: 3 }, index: 812 }),
        voters: vec![[1, 2, 3].into(), [1, 2].into()],
        nodes: [(1, member("n1")), (2, member("n2")), (3, member("n3")), (4, member("n4"))].into(),
    }
}

pub(crate) fn membership_seeds() -> Vec<Vec<u8>> {
    let alone = Membership { at: None, voters: vec![[1].into()], ..members() };
    [members(), alone, Membership::default()].map(|members| members.to_bytes().to_vec()).into()
}
