//! Snapshot files, their bodies and backups, and the states that are loaded from them.
//!
//! A container is tried as it is, and with all its checksums and counts made right. A body is tried by itself, so that
//! changes get to its records: whatever they say, they load or are refused. Records that were changed with their checksums
//! can contradict each other in ways that loading does not look for (a million leases are loaded in half a second); where
//! they do not, the state is written as the same bytes, takes commands, and begins anew as a backup.

use std::io::Read;

use leasehold_core::{LeaderId, LeaseTime, Record, Restore, Revision, Stamp, State, WallTime};
use leasehold_log::{
    BackupHeader, BackupReader, BlockReader, BlockWriter, LogPosition, Membership, SnapshotHeader, checksum,
};

use super::{apply, commands};
use crate::Source;

pub(crate) fn file(bytes: &[u8]) {
    read_file(bytes);
    let sealed = sealed(bytes);
    read_file(&sealed);
    read_backup(bytes);
    read_backup(&sealed);
}

fn read_file(bytes: &[u8]) {
    let Ok(mut reader) = BlockReader::new(bytes, "fuzzed") else { return };
    let header = reader.header().clone();
    let mut contents = Vec::new();
    if reader.read_to_end(&mut contents).is_err() || reader.finish().is_err() {
        return;
    }
    let mut again = BlockWriter::new(Vec::new(), &header).expect("what was read can be written");
    std::io::Write::write_all(&mut again, &contents).expect("memory takes all");
    let again = again.finish().expect("memory takes all");
    let mut reader = BlockReader::new(&again[..], "written").expect("what was written is read");
    assert_eq!(reader.header(), &header);
    let mut reread = Vec::new();
    reader.read_to_end(&mut reread).expect("what was written is read");
    assert_eq!(reread, contents);
    // The members of a snapshot that came over the network are read before anything else of it.
    drop(Membership::from_bytes(&header.membership));
}

fn read_backup(bytes: &[u8]) {
    let Ok(reader) = BackupReader::new(bytes, "fuzzed") else { return };
    let mut loader = State::loader();
    if reader.read(|record| Ok(loader.load(record)?)).is_ok()
        && let Ok(state) = loader.finish()
        && state.check_invariants().is_ok()
    {
        begin_anew(state);
    }
}

pub(crate) fn body(bytes: &[u8]) {
    let mut loader = State::loader();
    let (mut records, mut events) = (Vec::new(), Vec::new());
    let read = leasehold_log::read_body(
        &mut &bytes[..],
        |record| {
            records.push(record.clone());
            Ok(loader.load(record)?)
        },
        |event| {
            events.push(event);
            Ok(())
        },
    );
    let Ok(floor) = read else { return };
    let mut again = Vec::new();
    leasehold_log::write_body(records.iter(), floor, events.iter(), &mut again).expect("memory takes all");
    // The first byte is the version: what an older release wrote is written as the newest that it needs.
    assert_eq!(again[1..], bytes[1..], "one form per value");
    let Ok(mut state) = loader.finish() else { return };
    if state.check_invariants().is_err() {
        return;
    }
    sound(&state);
    let leader = LeaderId { term: 1, node: 1 };
    let stamp = Stamp { leader, now: state.now().after(leasehold_core::AHEAD_MAX), wall: WallTime(5) };
    let mut source = Source::new(bytes);
    let requests: Vec<_> = (0..3).map(|_| commands::request(&mut source, &state)).collect();
    state.apply(leader, stamp, requests);
    sound(&state);
}

fn sound(state: &State) {
    state.check_invariants().unwrap_or_else(|broken| panic!("a state was loaded that is not sound: {broken}"));
    let written = apply::body(state);
    let mut loader = State::loader();
    leasehold_log::read_body(&mut &written[..], |record| Ok(loader.load(record)?), |_| Ok(())).expect("it was written");
    let again = loader.finish().expect("the records of a state fit together");
    assert_eq!(apply::body(&again), written);
}

fn begin_anew(state: State) {
    sound(&state);
    let restore = Restore::new(&state, WallTime(1_750_000_000_000));
    sound(&state.restored(restore));
}

const HEADER_LEN: usize = 8 + 4 + 1 + 24 + 4;

/// The bytes as a file whose checksums, counts and lengths fit, as far as it looks like one.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let Some(fixed) = bytes.get(..HEADER_LEN) else { return bytes.to_vec() };
    let length = u32::from_le_bytes([fixed[37], fixed[38], fixed[39], fixed[40]]) as usize;
    let Some(header) = bytes.get(..HEADER_LEN.saturating_add(length)) else { return bytes.to_vec() };
    let mut out = header.to_vec();
    out.extend(checksum(&out).to_le_bytes());
    let mut rest = bytes.get(out.len()..).unwrap_or_default();
    let (mut body, mut blocks) = (0u64, 0u32);
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*size) as usize;
        let Some(block) = after.get(..length).filter(|block| !block.is_empty()) else { break };
        let whole = [&size[..], block].concat();
        out.extend_from_slice(&whole);
        out.extend(checksum(&whole).to_le_bytes());
        rest = after.get(length + 4..).unwrap_or_default();
        body += length as u64;
        blocks += 1;
    }
    out.extend(0u32.to_le_bytes());
    out.extend(body.to_le_bytes());
    out.extend(blocks.to_le_bytes());
    out.extend(checksum(&out).to_le_bytes());
    out
}

/// States as some commands leave them.
fn states() -> Vec<State> {
    let leader = LeaderId { term: 1, node: 1 };
    let play = |choices: Vec<u8>| {
        let (mut source, mut state) = (Source::new(&choices), State::new());
        while !source.is_empty() && state.view().records().count() < 20 {
            let now = LeaseTime(state.now().0 + 40);
            let request = commands::request(&mut source, &state);
            state.apply(leader, Stamp { leader, now, wall: WallTime(now.0) }, [request]);
        }
        state
    };
    let mut states: Vec<State> = apply::seeds().into_iter().map(play).collect();
    states.sort_by_key(|state| std::cmp::Reverse(state.view().records().count()));
    states.truncate(8);
    states.push(State::new());
    states
}

pub(crate) fn body_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = states().iter().map(apply::body).collect();
    let restored = states().remove(0);
    let restore = Restore::new(&restored, WallTime(1 << 40));
    seeds.push(apply::body(&restored.restored(restore)));
    seeds
}

pub(crate) fn file_seeds() -> Vec<Vec<u8>> {
    let position = LogPosition { leader: LeaderId { term: 7, node: 3 }, index: 812 };
    let members = super::log::membership_seeds().remove(0);
    let headers = [
        SnapshotHeader { last: Some(position), membership: members.into() },
        SnapshotHeader { last: None, membership: Membership::default().to_bytes() },
    ];
    let mut seeds = Vec::new();
    for (header, body) in headers.iter().cycle().zip(body_seeds()) {
        let mut blocks = BlockWriter::new(Vec::new(), header).expect("memory takes all");
        std::io::Write::write_all(&mut blocks, &body).expect("memory takes all");
        seeds.push(blocks.finish().expect("memory takes all"));
    }
    for state in states().iter().take(3) {
        let header = BackupHeader { taken: WallTime(1 << 40), release: "0.1.0".into() };
        let records: Vec<Record> = state.view().records().collect();
        let revision = Revision(state.revision().0);
        seeds.push(
            leasehold_log::write_backup(Vec::new(), &header, revision, records.iter()).expect("memory takes all"),
        );
    }
    seeds
}
