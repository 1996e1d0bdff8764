//! What a hostile server can answer: events of a watch cut anywhere, answers in JSON, messages of the stream.
//!
//! Pieces of an event stream give the same events however they are cut; an answer that is read is written and read again
//! as the same; nothing that a message claims makes the client panic.

use std::fmt::Debug;

use leasehold_api::{
    Change, CheckAnswer, ClusterInfo, EntryList, HealthInfo, HistoryList, Lease, LeaseList, Mark, Problem, QueueList,
    RenewAnswer, RenewManyAnswer, Resource, ResourceList, TxnAnswer,
};
use leasehold_client::http::{Parser, ServerEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn events(bytes: &[u8]) {
    let whole = parsed([bytes]);
    let (cut, stream) = bytes.split_first().map_or((1, bytes), |(cut, rest)| (usize::from(*cut).max(1), rest));
    assert_eq!(parsed(stream.chunks(cut)), parsed([stream]), "events do not depend on how they are cut");
    for event in whole {
        if let ServerEvent::Message { data, .. } = event {
            answers(data.as_bytes());
        }
    }
}

fn parsed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ServerEvent> {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for piece in pieces {
        parser.feed(piece, &mut events).expect("an input is shorter than the longest event");
    }
    events
}

pub(crate) fn answers(bytes: &[u8]) {
    same::<Lease>(bytes);
    same::<LeaseList>(bytes);
    same::<RenewAnswer>(bytes);
    same::<RenewManyAnswer>(bytes);
    same::<Resource>(bytes);
    same::<ResourceList>(bytes);
    same::<QueueList>(bytes);
    same::<HistoryList>(bytes);
    same::<CheckAnswer>(bytes);
    same::<EntryList>(bytes);
    same::<TxnAnswer>(bytes);
    same::<Change>(bytes);
    same::<Mark>(bytes);
    same::<ClusterInfo>(bytes);
    same::<HealthInfo>(bytes);
    if let Ok(problem) = serde_json::from_slice::<Problem>(bytes) {
        let _ = (problem.known_code(), problem.exit());
    }
    same::<Problem>(bytes);
}

fn same<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    let again: T = serde_json::from_slice(&written)
        .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&written)));
    assert_eq!(format!("{again:?}"), format!("{value:?}"));
}

pub(crate) fn event_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        b"\x03id: 7\nevent: change\ndata: {\ndata:  }\n\n:ping\n\nretry: 250\ndata\n\n".to_vec(),
        b"\x01\xef\xbb\xbfdata: a\r\n\r\nfoo: bar\n\nid: 1\n\nid: \0\ndata: b\n\ndata: cut".to_vec(),
    ];
    seeds.extend(answer_seeds().into_iter().map(|answer| [b"\x07data: ", &answer[..], b"\n\n"].concat()));
    seeds
}

pub(crate) fn answer_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"id":"0000000000000001","digest":"DIGEST","state":"live","holder":"ann","token":7,"ttl":"10s","remaining":"9900ms","class":"lock","granted":"2026-11-03T19:02:11.250Z","age":"1s","renewed_ago":"0ms","changed":7,"held":[{"resource":"orders/7","mode":"exclusive","token":7,"held_for":"1s","waited":"0ms"}],"waits":[],"entries":0,"children":0}"#,
        r#"{"leases":[],"next":"7"}"#,
        r#"{"remaining":"10s","ttl":"10s","changed":3}"#,
        r#"{"results":[]}"#,
        r#"{"entries":[{"key":"k","value":"v","version":1,"created":1,"modified":2}],"count":1}"#,
        r#"{"revision":7,"events":[{"at":"2026-11-03T19:02:11.250Z","type":"lease_granted","lease":"DIGEST","holder":"ann","ttl":"10s"}]}"#,
        r#"{"revision":7}"#,
        r#"{"type":"about:blank","title":"held","status":409,"code":"held","detail":"it is held","retry":"later","retry_after":"2s"}"#,
        r#"{"ready":true,"leads":true,"disk_full":false,"overloaded":false,"lease_time_lag":"3ms"}"#,
    ]
    .iter()
    .map(|text| text.replace("DIGEST", &digest()).into_bytes())
    .collect()
}

fn digest() -> String {
    leasehold_api::Digest::of(leasehold_core::LeaseId::new(7).expect("seven is an id")).to_string()
}

/// Messages of the stream to a client.
pub(crate) fn stream(bytes: &[u8]) {
    leasehold_client::store::fuzzing::down(bytes);
}

pub(crate) fn stream_seeds() -> Vec<Vec<u8>> {
    use leasehold_api::grpc::answer::Outcome;
    use leasehold_api::grpc::{self as api, Answer, Down};
    use prost::Message as _;
    let held = api::HeldClaim { resource: "a".into(), token: 7, ..Default::default() };
    let lease = api::Lease { holder: "ann".into(), remaining_ms: 900, held: vec![held], ..Default::default() };
    let problem = api::Problem::from(&Problem::new(leasehold_api::Code::Held, "it is held"));
    let renewed = api::RenewResponse {
        results: vec![api::RenewResult {
            result: Some(api::renew_result::Result::Renewed(api::Renewed { remaining_ms: 5, ..Default::default() })),
            ..Default::default()
        }],
    };
    let outcomes = [Outcome::Granted(lease.clone()), Outcome::Problem(problem), Outcome::Renewed(renewed)];
    let answers = outcomes.map(|outcome| Answer { number: 1, now: 5000, revision: 9, outcome: Some(outcome) }).into();
    let lost = api::LeaseLost { lease: 7, cause: "expired".into(), ..Default::default() };
    let notice = api::Notice { notice: Some(api::notice::Notice::Ended(lost)) };
    let place =
        api::WaitPlace { resource: "a".into(), position: 1, length: 2, estimate_ms: Some(9), ..Default::default() };
    let progress = api::Progress { number: 1, wait: 3, places: vec![place] };
    let most = api::Lease { remaining_ms: u64::MAX, ..lease };
    let most = Answer { now: u64::MAX, outcome: Some(Outcome::Granted(most)), ..Answer::default() };
    let most = Down { answers: vec![most], ..Down::default() };
    vec![most.encode_to_vec(), Down { answers, progress: vec![progress], notices: vec![notice] }.encode_to_vec()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_answers_that_are_read() {
        let readers: [fn(&[u8]) -> bool; 9] = [
            |bytes| serde_json::from_slice::<Lease>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<LeaseList>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<RenewAnswer>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<RenewManyAnswer>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<EntryList>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<Change>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<Mark>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<Problem>(bytes).is_ok(),
            |bytes| serde_json::from_slice::<HealthInfo>(bytes).is_ok(),
        ];
        let read: Vec<bool> = readers.iter().zip(answer_seeds()).map(|(reads, seed)| reads(&seed)).collect();
        assert_eq!(read, [true; 9]);
        assert!(stream_seeds().iter().all(|seed| leasehold_client::store::fuzzing::down(seed)));
    }
}
