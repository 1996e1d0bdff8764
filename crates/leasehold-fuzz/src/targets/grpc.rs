//! Calls of the gRPC API against a fresh service: any message gets an answer or a status that is not the server's fault,
//! with its problem; the stream that carries everything answers each command once or ends with a status.
//!
//! An input is a series of calls: a byte that chooses the method, then pieces that are its messages.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use leasehold_api::Problem;
use leasehold_api::grpc::{self as api, Down, PROBLEM_TRAILER, Up, command::Command as Asked};
use leasehold_grpc::{GrpcOptions, router};
use prost::Message;
use tower::ServiceExt as _;

use crate::here::{block_on, service};
use crate::{Source, put_piece};

const CALLS_MAX: usize = 12;
const MESSAGES_MAX: usize = 6;
/// How long a call is listened to; those that wait or stream may go on.
const LISTEN_FOR: Duration = Duration::from_secs(20);

const CONNECT: &str = "Leases/Connect";
const METHODS: [&str; 27] = [
    CONNECT,
    CONNECT,
    CONNECT,
    "Leases/Grant",
    "Leases/Renew",
    "Leases/Release",
    "Leases/Revoke",
    "Leases/Claim",
    "Leases/Unclaim",
    "Leases/Leave",
    "Leases/Get",
    "Leases/List",
    "Resources/List",
    "Resources/Get",
    "Resources/Queue",
    "Resources/History",
    "Resources/Check",
    "Resources/RequestHandover",
    "Entries/Put",
    "Entries/Get",
    "Entries/List",
    "Entries/Delete",
    "Entries/Txn",
    "Watch/Events",
    "Cluster/Info",
    "Cluster/AddMember",
    "Leases/Nothing",
];

pub(crate) fn run(bytes: &[u8]) {
    served(bytes);
}

/// Makes all calls of an input; tells how many were served.
fn served(bytes: &[u8]) -> usize {
    let mut source = Source::new(bytes);
    block_on(async {
        let mut served = 0;
        let service = service().await;
        let app = router(service.clone(), GrpcOptions::default());
        for _ in 0..CALLS_MAX {
            if source.is_empty() {
                break;
            }
            let method = source.pick(&METHODS);
            let count = if method == CONNECT { 1 + source.below(MESSAGES_MAX) } else { 1 };
            let messages: Vec<&[u8]> = (0..count).map(|_| source.piece()).collect();
            served += usize::from(call(&app, method, &messages).await);
        }
        service.stop().await;
        served
    })
}

async fn call(app: &Router, method: &str, messages: &[&[u8]]) -> bool {
    let mut body = Vec::new();
    for message in messages {
        body.push(0);
        body.extend((message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
    }
    let request = Request::post(format!("/leasehold.v1.{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(body))))
        .expect("the path is well formed");
    let answered = async {
        let response = app.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        assert_eq!(response.status(), 200, "{method}");
        let headers = response.headers().clone();
        let (mut data, mut trailers, mut body) = (Vec::new(), headers, response.into_body());
        while let Some(frame) = body.frame().await {
            match frame.expect("a body of ours does not break").into_data() {
                Ok(bytes) => data.extend_from_slice(&bytes),
                Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        (data, trailers)
    };
    let Ok((data, trailers)) = tokio::time::timeout(LISTEN_FOR, answered).await else { return false };
    if method == CONNECT {
        answers(messages, &data);
    }
    status(method, &trailers)
}

/// The status says that all is well, or whose fault it is: never ours.
fn status(method: &str, trailers: &HeaderMap) -> bool {
    let status = tonic::Status::from_header_map(trailers).expect("every call ends with a status");
    use tonic::Code::{DataLoss, Internal, Ok, Unknown};
    assert!(!matches!(status.code(), Internal | Unknown | DataLoss), "{method}: {status:?}");
    if status.code() != Ok {
        let problem = status.metadata().get_bin(PROBLEM_TRAILER).expect("every refusal has its problem");
        let problem = api::Problem::decode(problem.to_bytes().expect("it is binary")).expect("it is a problem");
        let problem = Problem::try_from(problem).expect("it is one of ours");
        assert!(problem.known_code().is_some() && !problem.detail.is_empty(), "{method}: {problem:?}");
    }
    status.code() == Ok
}

/// No command is answered twice, and nothing that was not asked is answered.
fn answers(messages: &[&[u8]], mut data: &[u8]) {
    let mut asked = Vec::new();
    for up in messages.iter().map_while(|message| Up::decode(*message).ok()) {
        asked.extend(up.commands.iter().map(|command| command.number));
    }
    let once: BTreeSet<u64> = asked.iter().copied().collect();
    let mut seen: Vec<u64> = Vec::new();
    while let Some((head, rest)) = data.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((message, rest)) = rest.split_at_checked(length) else { break };
        let down = Down::decode(message).expect("what we send is read");
        seen.extend(down.answers.iter().map(|answer| answer.number));
        data = rest;
    }
    assert!(seen.iter().all(|number| once.contains(number)), "{seen:?} of {asked:?}");
    for number in once {
        let count = |list: &[u64]| list.iter().filter(|one| **one == number).count();
        assert!(count(&seen) <= count(&asked), "{number} is answered {} times", count(&seen));
    }
}

fn grant(id: u64, holder: &str, resources: &[&str], wait_ms: u64) -> api::GrantRequest {
    api::GrantRequest {
        namespace: "a".into(),
        id: Some(id),
        holder: holder.into(),
        ttl_ms: Some(5000),
        resources: resources.iter().map(|name| (*name).to_owned()).collect(),
        wait_ms,
        metadata: [("reason".to_owned(), "x".to_owned())].into(),
        ..api::GrantRequest::default()
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let range = |prefix: &[u8]| api::KeyRange { which: Some(api::key_range::Which::Prefix(prefix.to_vec().into())) };
    let txn = api::TxnRequest {
        namespace: "a".into(),
        compares: vec![api::Compare {
            range: Some(Box::new(range(b"k"))),
            is: api::Relation::Equal.into(),
            operand: Some(api::compare::Operand::Version(0)),
        }],
        then: vec![api::TxnStep {
            step: Some(api::txn_step::Step::Put(Box::new(api::PutStep {
                key: b"k".to_vec().into(),
                value: Some(b"v".to_vec().into()),
                lease: Some(1),
                keep_lease: false,
            }))),
        }],
        otherwise: vec![api::TxnStep { step: Some(api::txn_step::Step::Delete(Box::new(range(b"")))) }],
        session: Some(api::WriteSession { lease: 1, seq: 1, acked: None }),
    };
    let numbered = |number, command| api::Command { number, command: Some(command) };
    let hello = api::Hello { protocol_version: api::PROTOCOL_VERSION, namespace: "a".into() };
    let leases = vec![1, 2, 3];
    let commands = [
        numbered(1, Asked::Hello(Box::new(hello))),
        numbered(2, Asked::Grant(Box::new(grant(1, "ann", &["r", "s"], 0)))),
        numbered(3, Asked::Grant(Box::new(grant(2, "bob", &["r"], 2000)))),
        numbered(4, Asked::Renew(Box::new(api::RenewRequest { leases: leases.clone(), ..Default::default() }))),
        numbered(5, Asked::Txn(Box::new(txn.clone()))),
        numbered(6, Asked::Attach(Box::new(api::Attach { namespace: "a".into(), leases }))),
        numbered(7, Asked::Cancel(api::Cancel { number: 3 })),
        numbered(8, Asked::Release(Box::new(api::ReleaseRequest { namespace: "a".into(), lease: 1 }))),
    ];
    let stream = {
        let mut out = vec![0, 1];
        put_piece(&mut out, &Up { commands: commands[..3].to_vec() }.encode_to_vec());
        put_piece(&mut out, &Up { commands: commands[3..].to_vec() }.encode_to_vec());
        out
    };
    let unary = |method: &str, message: Vec<u8>| {
        let at = METHODS.iter().position(|name| *name == method).expect("it is a method");
        let mut out = vec![at as u8];
        put_piece(&mut out, &message);
        out
    };
    let put = api::PutRequest {
        namespace: "a".into(),
        key: b"k".to_vec().into(),
        value: b"v".to_vec().into(),
        condition: Some(api::Condition { must: Some(api::condition::Must::Absent(api::Absent {})) }),
        ..Default::default()
    };
    let list = api::ListEntriesRequest { namespace: "a".into(), range: Some(range(b"k")), ..Default::default() };
    let calls = [
        unary("Leases/Grant", grant(1, "ann", &["r"], 0).encode_to_vec()),
        unary("Leases/Grant", grant(2, "bob", &["r"], 1000).encode_to_vec()),
        unary("Leases/Renew", api::RenewRequest { leases: vec![1], ..Default::default() }.encode_to_vec()),
        unary("Leases/List", api::ListLeasesRequest { namespace: "a".into(), ..Default::default() }.encode_to_vec()),
        unary("Entries/Put", put.encode_to_vec()),
        unary("Entries/List", list.encode_to_vec()),
        unary("Entries/Txn", txn.encode_to_vec()),
        unary("Watch/Events", api::WatchRequest { namespace: "a".into(), ..Default::default() }.encode_to_vec()),
        unary("Cluster/Info", Vec::new()),
        unary("Leases/Nothing", Vec::new()),
    ];
    let mut seeds = vec![stream, calls.concat()];
    seeds.extend(calls);
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs that are refused at once lead nowhere.
    #[test]
    fn the_seeds_are_calls_that_are_served() {
        let counts: Vec<usize> = seeds().iter().take(2).map(|seed| served(seed)).collect();
        assert_eq!(counts, [1, 7]);
    }
}
