//! What is written comes back as it was, whole and with nothing left over.

use leasehold_core::{Event, Record, Revision};
use leasehold_log::{
    Origin, Pack, Reader, decode_event, decode_record, decode_request, encode_event, encode_record, encode_request,
    open, read_body, write_body,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generators::{event, record, request, stamp};

/// Reads a whole body.
pub(crate) fn read_all(bytes: &[u8]) -> Result<(Vec<Record>, Vec<Event>, Revision), leasehold_log::BodyError> {
    let (mut records, mut events) = (Vec::new(), Vec::new());
    let floor = read_body(
        &mut { bytes },
        |record| {
            records.push(record);
            Ok(())
        },
        |event| {
            events.push(event);
            Ok(())
        },
    )?;
    Ok((records, events, floor))
}

/// A source that gives a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn requests_come_back(request in request()) {
        let mut out = Vec::new();
        encode_request(&request, &mut out);
        let mut from = Reader::new(&out);
        prop_assert_eq!(decode_request(&mut from), Ok(request));
        prop_assert_eq!(from.remaining(), 0);
    }

    #[test]
    fn records_come_back(record in record()) {
        let mut out = Vec::new();
        encode_record(&record, &mut out);
        let mut from = Reader::new(&out);
        prop_assert_eq!(decode_record(&mut from), Ok(record));
        prop_assert_eq!(from.remaining(), 0);
    }

    #[test]
    fn events_come_back(event in event()) {
        let mut out = Vec::new();
        encode_event(&event, &mut out);
        let mut from = Reader::new(&out);
        prop_assert_eq!(decode_event(&mut from), Ok(event));
        prop_assert_eq!(from.remaining(), 0);
    }
}

proptest! {
    #[test]
    fn entries_come_back(stamp in stamp(), run in any::<u64>(), number in any::<u64>(), requests in vec(request(), 0..20)) {
        let mut pack = Pack::new();
        requests.iter().for_each(|request| pack.push(request));
        prop_assert_eq!(pack.count() as usize, requests.len());
        let length = pack.len_bytes();
        let origin = Origin { run, number };
        let parcel = pack.clone().parcel(origin);
        let bytes = pack.seal(stamp, origin);
        prop_assert_eq!(bytes.len(), length);
        let opened = open(&bytes).unwrap();
        prop_assert_eq!((opened.stamp, opened.origin), (stamp, origin));
        prop_assert_eq!(opened.requests.len(), requests.len());
        prop_assert_eq!(opened.requests.collect::<Result<Vec<_>, _>>(), Ok(requests));

        prop_assert!(open(&parcel).unwrap_err().to_string().contains("no leader has stamped"));
        for unsealed in [&parcel, &bytes] {
            let (unpacked, from) = Pack::unpack(unsealed).unwrap();
            prop_assert_eq!(from, origin);
            prop_assert_eq!(&unpacked.seal(stamp, from), &bytes);
        }
    }

    #[test]
    fn bodies_come_back(floor in any::<u64>(), records in vec(record(), 0..20), events in vec(event(), 0..20), step in 1..700_usize) {
        let mut bytes = Vec::new();
        let written = write_body(records.iter().cloned(), Revision(floor), events.iter(), &mut bytes).unwrap();
        prop_assert_eq!(written, bytes.len() as u64);
        let (read_records, read_events, read_floor) = read_all(&bytes).unwrap();
        prop_assert_eq!(&read_records, &records);
        prop_assert_eq!(&read_events, &events);
        prop_assert_eq!(read_floor, Revision(floor));
        let mut count = 0;
        let trickled = read_body(&mut Trickle(&bytes, step), |_| { count += 1; Ok(()) }, |_| Ok(()));
        prop_assert_eq!(trickled.unwrap(), Revision(floor));
        prop_assert_eq!(count, records.len());
    }
}

#[test]
fn commands_encoded_elsewhere_are_the_same_as_pushed_ones() {
    let requests = crate::examples::first_requests();
    let mut pushed = Pack::new();
    let mut elsewhere = Vec::new();
    for (_, request) in &requests {
        pushed.push(request);
        encode_request(request, &mut elsewhere);
    }
    let mut appended = Pack::with_capacity(elsewhere.len());
    assert!(appended.is_empty());
    appended.append(&elsewhere, requests.len() as u32);
    let stamp = crate::examples::stamp();
    let origin = Origin::default();
    assert_eq!(appended.seal(stamp, origin), pushed.seal(stamp, origin));
}

#[test]
fn an_entry_without_commands_is_a_tick() {
    let stamp = crate::examples::stamp();
    let bytes = Pack::new().seal(stamp, Origin::default());
    let mut opened = open(&bytes).unwrap();
    assert_eq!(opened.stamp, stamp);
    assert_eq!(opened.requests.next(), None);
}

#[test]
fn a_record_longer_than_the_buffer_comes_back() {
    let mut records = Vec::new();
    for length in [10, 65_536, 300_000, 1 << 20, 3] {
        let (_, example) = crate::examples::records().remove(0);
        records.push(example);
        let Record::Entry(mut entry) = crate::examples::entry_record() else { panic!("the example is an entry") };
        entry.value = vec![7; length].into();
        records.push(Record::Entry(entry));
    }
    let mut bytes = Vec::new();
    write_body(records.iter().cloned(), Revision(7), std::iter::empty(), &mut bytes).unwrap();
    assert_eq!(read_all(&bytes).unwrap().0, records);
}

#[test]
fn a_refusal_stops_the_reading_and_is_told() {
    let mut bytes = Vec::new();
    let records = crate::examples::records().into_iter().map(|(_, record)| record);
    write_body(records, Revision(7), std::iter::empty(), &mut bytes).unwrap();
    let mut taken = 0;
    let refuse = |_| {
        taken += 1;
        if taken == 2 { Err("two is too many".into()) } else { Ok(()) }
    };
    let error = read_body(&mut &bytes[..], refuse, |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("two is too many"), "{error}");
    assert_eq!(taken, 2);
}
