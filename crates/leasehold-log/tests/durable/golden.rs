//! The golden files: bytes of every kind as released. They are read back for ever.
//!
//! `UPDATE_GOLDEN=1 cargo test -p leasehold-log` writes them anew; a change of a released file is a change of
//! the format and needs a new version beside it, not an update.

use std::collections::BTreeSet;
use std::path::PathBuf;

use leasehold_core::{Command, Event, Fact, Record, Request, Revision};
use leasehold_log::{Origin, Pack, encode_event, encode_record, encode_request, open, write_body};

use crate::examples;
use crate::round_trips::read_all;

/// Parts of an encoding with their names, as a golden file lists them.
type Sections = Vec<(String, Vec<u8>)>;

fn joined(sections: &Sections) -> Vec<u8> {
    sections.iter().flat_map(|(_, bytes)| bytes).copied().collect()
}

/// A name, then its bytes in hex.
fn shown(sections: &Sections) -> String {
    let mut text = String::new();
    for (name, bytes) in sections {
        text += &format!("# {name}\n");
        for line in bytes.chunks(32) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{}\n", hex.join(" "));
        }
    }
    text
}

fn parsed(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.flat_map(str::split_whitespace);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("golden files hold pairs of hex digits")).collect()
}

fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The bytes of a golden file that is only read.
fn golden_bytes(name: &str) -> Vec<u8> {
    parsed(&std::fs::read_to_string(path_of(name)).expect("the golden file is there"))
}

/// The bytes of the golden file, which the present encoding must equal.
fn golden(name: &str, sections: &Sections) -> Vec<u8> {
    let path = path_of(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, shown(sections)).expect("the golden file can be written");
    }
    let text = std::fs::read_to_string(&path).expect("the golden file is there; UPDATE_GOLDEN=1 writes it");
    assert_eq!(text, shown(sections), "{name}: the encoding has changed, which needs a new version");
    parsed(&text)
}

/// The same for a file as a whole.
pub(crate) fn check_bytes(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    golden(name, &vec![("the whole file".to_owned(), bytes)])
}

/// A frame as the formats have it: the length, then the contents.
fn framed(contents: Vec<u8>) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut length = contents.len();
    while length >= 0x80 {
        frame.push(length as u8 | 0x80);
        length >>= 7;
    }
    frame.push(length as u8);
    frame.extend(contents);
    frame
}

#[test]
fn the_golden_entries_are_written_and_read() {
    check_entry("entry-v2.hex", examples::first_requests());
    check_entry("entry-v2-handover.hex", examples::handover::requests());
    check_entry("entry-v3-markers.hex", examples::markers::requests());
}

/// What earlier versions wrote is read for ever, and never written again.
#[test]
fn the_golden_entries_of_version_1_are_read() {
    check_old_entry("entry-v1.hex", examples::first_requests());
    check_old_entry("entry-v1-handover.hex", examples::handover::requests());
}

fn check_old_entry(file: &str, requests: Vec<(&'static str, Request)>) {
    let golden = golden_bytes(file);
    let opened = open(&golden).expect("the golden entry opens");
    assert_eq!((opened.stamp, opened.origin), (examples::stamp(), Origin::default()));
    let expected: Vec<Request> = requests.into_iter().map(|(_, request)| request).collect();
    assert_eq!(opened.requests.collect::<Result<Vec<_>, _>>(), Ok(expected));
}

fn check_entry(file: &str, requests: Vec<(&'static str, Request)>) {
    let mut pack = Pack::new();
    let mut commands = Sections::new();
    for (name, request) in &requests {
        pack.push(request);
        let mut out = Vec::new();
        encode_request(request, &mut out);
        commands.push(((*name).to_owned(), out));
    }
    let origin = Origin { run: 0x0a0b_0c0d_0e0f_1011, number: 42 };
    let bytes = pack.seal(examples::stamp(), origin);
    let mut sections = vec![("header".to_owned(), bytes[..54].to_vec())];
    sections.append(&mut commands);
    assert_eq!(joined(&sections), bytes);

    let golden = golden(file, &sections);
    let opened = open(&golden).expect("the golden entry opens");
    assert_eq!((opened.stamp, opened.origin), (examples::stamp(), origin));
    let expected: Vec<Request> = requests.into_iter().map(|(_, request)| request).collect();
    assert_eq!(opened.requests.collect::<Result<Vec<_>, _>>(), Ok(expected));
}

#[test]
fn the_golden_bodies_are_written_and_read() {
    check_body("state-v1.hex", 1, examples::first_records(), examples::first_events());
    check_body("state-v1-handover.hex", 1, examples::handover::records(), examples::handover::events());
    check_body("state-v2-restored.hex", 2, examples::restored_records(), Vec::new());
    check_body("state-v3-markers.hex", 3, examples::markers::records(), examples::markers::events());
}

fn check_body(file: &str, version: u8, records: Vec<(&'static str, Record)>, events: Vec<(&'static str, Event)>) {
    let (record_names, records): (Vec<_>, Vec<Record>) = records.into_iter().unzip();
    let (event_names, events): (Vec<_>, Vec<Event>) = events.into_iter().unzip();
    let mut sections = vec![("version".to_owned(), vec![version])];
    for (name, record) in record_names.iter().zip(&records) {
        let mut out = Vec::new();
        encode_record(record, &mut out);
        sections.push((format!("record: {name}"), framed(out)));
    }
    sections.push(("end of records".to_owned(), vec![0, records.len() as u8]));
    sections.push(("floor".to_owned(), vec![7]));
    for (name, event) in event_names.iter().zip(&events) {
        let mut out = Vec::new();
        encode_event(event, &mut out);
        sections.push((format!("event: {name}"), framed(out)));
    }
    sections.push(("end of events".to_owned(), vec![0, events.len() as u8]));

    let mut bytes = Vec::new();
    write_body(records.iter().cloned(), Revision(7), events.iter(), &mut bytes).expect("memory takes every byte");
    assert_eq!(joined(&sections), bytes);

    let golden = golden(file, &sections);
    let (read_records, read_events, _) = read_all(&golden).expect("the golden body reads");
    assert_eq!(read_records, records);
    assert_eq!(read_events, events);
}

/// The bytes of the annotated example on a page of docs/formats: what stands before the wide gap of each line.
fn documented(page: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(page);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let example = text.split("```").nth(1).expect("the page has an example");
    let hex: Vec<&str> = example.lines().filter_map(|line| line.split("  ").next()).collect();
    parsed(&hex.join("\n"))
}

#[test]
fn the_examples_of_the_documents_are_true() {
    let entry = documented("entry.md");
    let opened = open(&entry).unwrap();
    assert_eq!((opened.stamp, opened.origin), (examples::stamp(), Origin { run: 0x0a0b_0c0d_0e0f_1011, number: 42 }));
    let grant = examples::requests().remove(0).1;
    assert_eq!(opened.requests.collect::<Result<Vec<_>, _>>(), Ok(vec![grant]));

    let (records, events, _) = read_all(&documented("snapshot-body.md")).unwrap();
    assert_eq!(records, [examples::records().remove(1).1, examples::entry_record()]);
    assert_eq!(events, [examples::events().remove(6).1]);
}

/// The number of a kind; a new kind does not compile until it is counted and has an example.
fn command_kind(command: &Command) -> u8 {
    match command {
        Command::Grant(_) => 1,
        Command::Renew(_) => 2,
        Command::Release(_) => 3,
        Command::Revoke(_) => 4,
        Command::Claim(_) => 5,
        Command::Unclaim(_) => 6,
        Command::Leave(_) => 7,
        Command::Write(_) => 8,
        Command::Configure(_) => 9,
        Command::AskHandover(_) => 10,
        Command::GrantAnew(_) => 11,
        Command::ClaimMarked(_) => 12,
    }
}

fn record_kind(record: &Record) -> u8 {
    match record {
        Record::Head(_) => 1,
        Record::Namespace(_) => 2,
        Record::Lease(_) => 3,
        Record::Resource(_) => 4,
        Record::Entry(_) => 5,
        Record::Tombstone(_) => 6,
        Record::Rest(_) => 7,
        Record::Marker(_) => 8,
    }
}

fn fact_kind(fact: &Fact) -> u8 {
    match fact {
        Fact::LeaseGranted { .. } => 1,
        Fact::LeaseEnded { .. } => 2,
        Fact::ClaimGranted { .. } => 3,
        Fact::ClaimEnded { .. } => 4,
        Fact::Queued { .. } => 5,
        Fact::Unqueued { .. } => 6,
        Fact::EntryPut { .. } => 7,
        Fact::EntryDeleted { .. } => 8,
        Fact::HandoverAsked { .. } => 9,
    }
}

#[test]
fn every_kind_has_an_example() {
    let commands: BTreeSet<u8> = examples::requests().iter().map(|(_, r)| command_kind(&r.command)).collect();
    assert_eq!(commands, (1..=12).collect());
    let records: BTreeSet<u8> = examples::records().iter().map(|(_, record)| record_kind(record)).collect();
    assert_eq!(records, (1..=8).collect());
    let facts: BTreeSet<u8> = examples::events().iter().map(|(_, event)| fact_kind(&event.fact)).collect();
    assert_eq!(facts, (1..=9).collect());
}
