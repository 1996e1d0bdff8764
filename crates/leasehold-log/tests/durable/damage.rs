//! Damaged bytes are refused, never guessed over, and never panic.

use leasehold_core::{Command, Event, Fact, Record, Request, Revision, WRITE_DEPTH_MAX, Write, WriteOp};
use leasehold_log::{
    BodyError, ENTRY_VERSION, FormatError, Origin, Pack, Reader, decode_event, decode_record, decode_request,
    encode_event, encode_record, encode_request, open, write_body,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::examples;
use crate::generators::{event, record, request};
use crate::round_trips::read_all;

/// Reads the bytes as everything they could be. What can be read has no other encoding than these bytes.
fn read_as_anything(bytes: &[u8]) {
    let mut from = Reader::new(bytes);
    if let Ok(request) = decode_request(&mut from) {
        let mut out = Vec::new();
        encode_request(&request, &mut out);
        assert_eq!(out, bytes[..from.offset()], "{request:?}");
    }
    let mut from = Reader::new(bytes);
    if let Ok(record) = decode_record(&mut from) {
        let mut out = Vec::new();
        encode_record(&record, &mut out);
        assert_eq!(out, bytes[..from.offset()], "{record:?}");
    }
    let mut from = Reader::new(bytes);
    if let Ok(event) = decode_event(&mut from) {
        let mut out = Vec::new();
        encode_event(&event, &mut out);
        assert_eq!(out, bytes[..from.offset()], "{event:?}");
    }
    // An older version is read, and written anew in the present one.
    if let Ok(opened) = open(bytes)
        && bytes[0] == ENTRY_VERSION
        && let Ok(requests) = opened.requests.collect::<Result<Vec<_>, _>>()
    {
        let mut pack = Pack::new();
        requests.iter().for_each(|request| pack.push(request));
        assert_eq!(pack.seal(opened.stamp, opened.origin), bytes);
    }
    if let Ok((records, events, floor)) = read_all(bytes) {
        let mut out = Vec::new();
        let written = write_body(records.into_iter(), floor, events.iter(), &mut out);
        assert_eq!(written.ok(), Some(bytes.len() as u64));
        assert_eq!(out, bytes);
    }
}

/// One thing that can go wrong with bytes.
#[derive(Clone, Debug)]
enum Harm {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Harm::Replace(at, byte)),
        (place(), any::<u8>()).prop_map(|(at, byte)| Harm::Insert(at, byte)),
        place().prop_map(Harm::Remove),
    ]
}

fn harmed(mut bytes: Vec<u8>, harms: &[Harm]) -> Vec<u8> {
    for harm in harms {
        if bytes.is_empty() {
            break;
        }
        match harm {
            Harm::Replace(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Harm::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Harm::Remove(at) => {
                bytes.remove(at.index(bytes.len()));
            }
        }
    }
    bytes
}

fn example_entry() -> Vec<u8> {
    let mut pack = Pack::new();
    examples::requests().iter().for_each(|(_, request)| pack.push(request));
    pack.seal(examples::stamp(), Origin { run: 7, number: 8 })
}

fn example_body() -> Vec<u8> {
    let records = examples::records().into_iter().map(|(_, record)| record);
    let events: Vec<_> = examples::events().into_iter().map(|(_, event)| event).collect();
    let mut out = Vec::new();
    write_body(records, Revision(7), events.iter(), &mut out).expect("a vector takes everything");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..300)) {
        read_as_anything(&bytes);
    }

    #[test]
    fn any_bytes_after_a_good_beginning_are_answered(kind in 1..10_u8, bytes in vec(0..20_u8, 0..300)) {
        let mut record = vec![kind];
        record.extend_from_slice(&bytes);
        read_as_anything(&record);
        let mut body = vec![1];
        body.extend_from_slice(&bytes);
        read_as_anything(&body);
    }

    #[test]
    fn harmed_requests_are_answered(request in request(), harms in vec(harm(), 1..4)) {
        let mut out = Vec::new();
        encode_request(&request, &mut out);
        read_as_anything(&harmed(out, &harms));
    }

    #[test]
    fn harmed_records_are_answered(record in record(), harms in vec(harm(), 1..4)) {
        let mut out = Vec::new();
        encode_record(&record, &mut out);
        read_as_anything(&harmed(out, &harms));
    }

    #[test]
    fn harmed_events_are_answered(event in event(), harms in vec(harm(), 1..4)) {
        let mut out = Vec::new();
        encode_event(&event, &mut out);
        read_as_anything(&harmed(out, &harms));
    }

    #[test]
    fn harmed_entries_and_bodies_are_answered(harms in vec(harm(), 1..4)) {
        read_as_anything(&harmed(example_entry(), &harms));
        read_as_anything(&harmed(example_body(), &harms));
    }
}

fn read_entry(bytes: &[u8]) -> Result<usize, FormatError> {
    let requests = open(bytes)?.requests;
    Ok(requests.collect::<Result<Vec<_>, _>>()?.len())
}

#[test]
fn an_entry_cut_anywhere_does_not_open() {
    let bytes = example_entry();
    assert_eq!(read_entry(&bytes), Ok(examples::requests().len()));
    for length in 0..bytes.len() {
        assert!(matches!(open(&bytes[..length]), Err(FormatError::Damaged { .. })), "cut at {length}");
    }
}

#[test]
fn every_command_record_and_event_cut_anywhere_is_refused() {
    for (name, request) in examples::requests() {
        let mut out = Vec::new();
        encode_request(&request, &mut out);
        for length in 0..out.len() {
            assert!(decode_request(&mut Reader::new(&out[..length])).is_err(), "{name} cut at {length}");
        }
    }
    for (name, record) in examples::records() {
        let mut out = Vec::new();
        encode_record(&record, &mut out);
        for length in 0..out.len() {
            assert!(decode_record(&mut Reader::new(&out[..length])).is_err(), "{name} cut at {length}");
        }
    }
    for (name, event) in examples::events() {
        let mut out = Vec::new();
        encode_event(&event, &mut out);
        for length in 0..out.len() {
            // Cut before what it replaced, it is the event of a release that did not tell that: the frame around it has
            // the length.
            let whole = decode_event(&mut Reader::new(&out[..length]));
            let told = whole.is_ok_and(|shorter| shorter.revision == event.revision && tells_previous(&event));
            let refused = decode_event(&mut Reader::new(&out[..length])).is_err();
            assert!(refused || told, "{name} cut at {length}");
        }
    }
}

fn tells_previous(event: &Event) -> bool {
    matches!(&event.fact, Fact::EntryPut { previous, .. } | Fact::EntryDeleted { previous, .. } if previous.0.is_some())
}

#[test]
fn writes_nested_without_end_are_damage() {
    let (_, request) = examples::requests().remove(0);
    let mut out = Vec::new();
    let mut write = Write::default();
    for _ in 1..WRITE_DEPTH_MAX {
        write = Write { then: vec![WriteOp::Nested(Box::new(write))], ..Write::default() };
    }
    let deepest = Request { command: Command::Write(write.clone()), ..request.clone() };
    encode_request(&deepest, &mut out);
    assert_eq!(decode_request(&mut Reader::new(&out)), Ok(deepest));
    let write = Write { then: vec![WriteOp::Nested(Box::new(write))], ..Write::default() };
    out.clear();
    encode_request(&Request { command: Command::Write(write), ..request }, &mut out);
    let error = decode_request(&mut Reader::new(&out)).unwrap_err();
    assert!(error.to_string().contains("nested too deep"), "{error}");
}

#[test]
fn a_body_cut_anywhere_is_refused() {
    let bytes = example_body();
    assert!(read_all(&bytes).is_ok());
    for length in 0..bytes.len() {
        let result = read_all(&bytes[..length]);
        assert!(matches!(result, Err(BodyError::Format(FormatError::Damaged { .. }))), "cut at {length}: {result:?}");
    }
}

#[test]
fn bytes_after_the_end_are_damage() {
    let mut entry = example_entry();
    entry.push(0);
    assert!(open(&entry).unwrap_err().to_string().contains("has bytes after its end"));
    let mut tick = Pack::new().seal(examples::stamp(), Origin::default());
    tick.push(0);
    assert!(open(&tick).is_err());
    let mut body = example_body();
    body.push(0);
    assert!(read_all(&body).unwrap_err().to_string().contains("has bytes after its end"));
}

#[test]
fn a_wrong_count_is_damage() {
    let entry = example_entry();
    for change in [-1_i8, 1] {
        let mut wrong = entry.clone();
        wrong[50] = wrong[50].wrapping_add_signed(change);
        assert!(open(&wrong).is_err(), "{change}");
    }
    let mut body = Vec::new();
    write_body(std::iter::empty::<Record>(), Revision(7), std::iter::empty(), &mut body).unwrap();
    assert_eq!(body, [1, 0, 0, 7, 0, 0]);
    let error = read_all(&[1, 0, 1, 7, 0, 0]).unwrap_err();
    assert!(error.to_string().contains("is not what was read"), "{error}");
}

#[test]
fn an_unsealed_entry_does_not_open() {
    assert!(open(&[0; 54]).unwrap_err().to_string().contains("format 0"));
}

#[test]
fn a_long_record_that_never_comes_takes_no_memory() {
    // A length of 2^62 with three bytes behind it.
    let bytes = [1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 3, 0, 0];
    assert!(read_all(&bytes).unwrap_err().to_string().contains("ends too early"));
}

#[test]
fn a_later_format_is_refused_with_the_advice_to_upgrade() {
    let mut entry = example_entry();
    entry[0] = 4;
    let error = open(&entry).unwrap_err();
    assert!(matches!(error, FormatError::NewerVersion { found: 4, supported: 3, .. }));
    assert_eq!(
        error.to_string(),
        "the log entry has format 4, this release reads formats up to 3; \
         upgrade this node to the release that the others run"
    );
    let mut body = example_body();
    body[0] = 4;
    let error = read_all(&body).unwrap_err();
    assert!(matches!(error, BodyError::Format(FormatError::NewerVersion { found: 4, supported: 3, .. })));
    assert!(error.to_string().contains("upgrade this node"), "{error}");
}

#[test]
fn more_limits_than_are_known_come_from_a_later_release() {
    let (_, request) = examples::requests().into_iter().find(|(name, _)| *name == "configure").unwrap();
    let mut out = Vec::new();
    encode_request(&request, &mut out);
    let count = out.iter().position(|&byte| byte == 28).unwrap();
    out[count] = 29;
    let error = decode_request(&mut Reader::new(&out)).unwrap_err();
    assert!(matches!(error, FormatError::NewerVersion { found: 29, supported: 28, .. }), "{error}");
    out[count] = 27;
    assert!(matches!(decode_request(&mut Reader::new(&out)), Err(FormatError::Damaged { .. })));
}
