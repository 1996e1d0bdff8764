//! What other nodes send: frames with every kind of message in them, and the hello before. Tried as they are, and once
//! more with their checksums made right. And the log's files, as a disk may give them back.

use std::fs;

use leasehold_log::checksum;

use crate::here::block_on;

const FRAME_HEADER: usize = 20;
const HELLO_FIXED: usize = 58;

pub(crate) fn frames(bytes: &[u8]) {
    block_on(leasehold_raft::fuzzing::frames(bytes));
    block_on(leasehold_raft::fuzzing::frames(&sealed_frames(bytes)));
}

/// The bytes as frames whose lengths and checksums fit, as far as they look like some.
fn sealed_frames(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some((header, after)) = rest.split_first_chunk::<FRAME_HEADER>() {
        let announced = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let body = &after[..announced.min(after.len())];
        let mut frame = header.to_vec();
        frame[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        frame[5..8].copy_from_slice(&[1, 0, 0]);
        frame.truncate(16);
        frame.extend_from_slice(body);
        let sum = checksum(&frame);
        out.extend_from_slice(&frame[..16]);
        out.extend(sum.to_le_bytes());
        out.extend_from_slice(body);
        rest = &after[body.len()..];
    }
    out
}

pub(crate) fn hello(bytes: &[u8]) {
    block_on(leasehold_raft::fuzzing::hello(bytes));
    let Some(fixed) = bytes.get(..HELLO_FIXED) else { return };
    let length = usize::from(u16::from_le_bytes([fixed[56], fixed[57]]));
    let Some(hello) = bytes.get(..HELLO_FIXED + length) else { return };
    let mut sealed = hello.to_vec();
    sealed[..12].copy_from_slice(&[&b"LEASEHLD\x01"[..], &[hello[9], 0, 0]].concat());
    sealed.extend(checksum(&sealed).to_le_bytes());
    block_on(leasehold_raft::fuzzing::hello(&sealed));
}

/// The one file of a small log.
const LOG_FILE: &str = "00000000000000000001.wal";

pub(crate) fn log_file(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("there is room for a file");
    fs::write(folder.path().join(LOG_FILE), bytes).expect("there is room for a file");
    let opened = leasehold_raft::fuzzing::open_log(folder.path());
    if opened {
        assert!(leasehold_raft::fuzzing::open_log(folder.path()), "a log that was opened, and cut, opens again");
    }
}

pub(crate) fn log_file_seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("there is room for a file");
    block_on(leasehold_raft::fuzzing::write_log(folder.path()));
    let file = folder.path().join(LOG_FILE);
    vec![fs::read(&file).expect("a small log has this one file"), Vec::new()]
}
