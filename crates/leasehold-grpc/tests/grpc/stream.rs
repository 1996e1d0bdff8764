//! The stream that carries everything.

use leasehold_api::grpc::{
    Attach, ClaimRequest, HandoverRequest, Hello, LeaveRequest, PutStep, RenewRequest, RevokeRequest, TxnRequest,
    TxnStep, UnclaimRequest, Up, answer, attach_result, command, notice, renew_result, revoke_request, txn_step,
};
use tonic::Code;

use crate::support::{Bench, grant, patient, problem, release};

fn revoke(lease: u64) -> RevokeRequest {
    let which = Some(revoke_request::Which::Lease(lease));
    RevokeRequest { which, reason: "stuck".into(), now: true, ..RevokeRequest::default() }
}

#[tokio::test]
async fn every_command_is_answered_over_the_stream() {
    let bench = Bench::new().await;
    let mut stream = bench.connect().await;
    let hello = Hello { protocol_version: 1, namespace: "shop".into() };
    let answer::Outcome::Hello(welcome) = stream.ask(1, command::Command::Hello(Box::new(hello))).await else {
        panic!("no welcome")
    };
    assert_eq!(welcome.protocol_version, 1);
    let lease = stream.granted(2, grant(7, "a")).await;
    assert_eq!((lease.id, lease.held.len(), lease.digest.as_str()), (Some(7), 1, ""));

    let claim = ClaimRequest { lease: 7, resources: vec!["b".into()], ..ClaimRequest::default() };
    let answer::Outcome::Claimed(lease) = stream.ask(3, command::Command::Claim(Box::new(claim))).await else {
        panic!("not claimed")
    };
    let token = lease.held[1].token;
    let unclaim = UnclaimRequest { lease: 7, resource: "b".into(), token, ..UnclaimRequest::default() };
    let answered = stream.ask(4, command::Command::Unclaim(Box::new(unclaim))).await;
    assert!(matches!(answered, answer::Outcome::Unclaimed(_)));

    let renew = RenewRequest { leases: vec![7, 9], ..RenewRequest::default() };
    let answer::Outcome::Renewed(renewed) = stream.ask(5, command::Command::Renew(Box::new(renew))).await else {
        panic!("not renewed")
    };
    assert!(matches!(renewed.results[0].result, Some(renew_result::Result::Renewed(_))));
    assert!(matches!(&renewed.results[1].result, Some(renew_result::Result::Problem(p)) if p.code == "unknown_lease"));

    let put = PutStep { key: "k".into(), value: Some("v".into()), ..PutStep::default() };
    let then = vec![TxnStep { step: Some(txn_step::Step::Put(Box::new(put))) }];
    let txn = TxnRequest { then, ..TxnRequest::default() };
    assert!(
        matches!(stream.ask(6, command::Command::Txn(Box::new(txn))).await, answer::Outcome::Txn(done) if done.succeeded)
    );
    let leave = LeaveRequest { lease: 7, wait: 1, ..LeaveRequest::default() };
    stream.send(7, command::Command::Leave(Box::new(leave))).await;
    assert_eq!(stream.refusal(7).await.code, "unknown_wait");
    assert!(matches!(
        stream.ask(8, command::Command::Release(Box::new(release(7)))).await,
        answer::Outcome::Released(_)
    ));
    stream.granted(9, grant(8, "a")).await;
    let revoked = stream.ask(10, command::Command::Revoke(Box::new(revoke(8)))).await;
    assert!(matches!(revoked, answer::Outcome::Revoked(answer) if answer.may_act_ms > 0));
    // Everything was in the namespace of the hello.
    let elsewhere = bench.leases().grant(grant(9, "k")).await;
    assert!(elsewhere.is_ok());
    assert!(bench.service.present().1.0 > 0);
}

#[tokio::test]
async fn many_commands_share_messages() {
    let bench = Bench::new().await;
    let mut stream = bench.connect().await;
    let grants = (1..=2000).map(|id| (id, command::Command::Grant(Box::new(grant(id, &format!("r/{id}"))))));
    stream.send_all(grants).await;
    for id in 1..=2000 {
        let answer::Outcome::Granted(lease) = stream.answer(id).await else { panic!("{id} was not granted") };
        assert_eq!(lease.id, Some(id));
    }
    let leases: Vec<u64> = (1..=2000).collect();
    let renew = RenewRequest { leases, ..RenewRequest::default() };
    let answer::Outcome::Renewed(renewed) = stream.ask(1, command::Command::Renew(Box::new(renew))).await else {
        panic!("not renewed")
    };
    assert!(renewed.results.iter().all(|one| matches!(one.result, Some(renew_result::Result::Renewed(_)))));
}

#[tokio::test]
async fn a_wait_tells_its_place_and_is_granted() {
    let bench = Bench::new().await;
    bench.grant(1, "a").await;
    let mut first = bench.connect().await;
    first.send(1, command::Command::Grant(Box::new(patient(2, "a")))).await;
    first.told(1).await;
    let mut second = bench.connect().await;
    second.send(5, command::Command::Grant(Box::new(patient(3, "a")))).await;
    second.told(1).await;
    let place = &second.progress[0].places[0];
    assert_eq!((second.progress[0].number, place.resource.as_str(), place.position, place.length), (5, "a", 2, 2));
    assert_eq!(place.holder.as_ref().unwrap().holder, "holder-1");
    bench.leases().release(release(1)).await.unwrap();
    assert!(matches!(first.answer(1).await, answer::Outcome::Granted(lease) if lease.held.len() == 1));
    second.told(2).await;
    let place = &second.progress[1].places[0];
    assert_eq!((place.position, place.holder.as_ref().unwrap().holder.as_str()), (1, "holder-2"));
}

#[tokio::test]
async fn a_wait_is_cancelled_and_a_broken_stream_leaves_its_queues() {
    let bench = Bench::new().await;
    bench.grant(1, "a").await;
    let mut stream = bench.connect().await;
    stream.send(1, command::Command::Grant(Box::new(patient(2, "a")))).await;
    stream.told(1).await;
    stream.cancel(1).await;
    let refusal = stream.refusal(1).await;
    assert_eq!((refusal.code.as_str(), refusal.retry.as_str()), ("wait_left", "new_id"));
    stream.send(1, command::Command::Grant(Box::new(patient(3, "a")))).await;
    stream.told(2).await;
    drop(stream);
    // The next one in the queue is served at once: nobody stands before it.
    let mut other = bench.connect().await;
    loop {
        let waits = leasehold_api::grpc::QueueRequest { resource: "a".into(), ..Default::default() };
        if bench.resources().queue(waits).await.unwrap().into_inner().length == 0 {
            break;
        }
    }
    other.send(1, command::Command::Grant(Box::new(patient(4, "a")))).await;
    other.told(1).await;
    assert_eq!(other.progress[0].places[0].position, 1);
}

#[tokio::test]
async fn losses_and_asks_for_a_hand_over_are_told() {
    let bench = Bench::new().await;
    let mut stream = bench.connect().await;
    stream.granted(1, grant(1, "a")).await;
    stream.granted(2, grant(2, "b")).await;
    let ask = HandoverRequest { resource: "b".into(), by: "zoe".into(), ..HandoverRequest::default() };
    bench.resources().request_handover(ask).await.unwrap();
    let notice::Notice::HandoverAsked(asked) = stream.notice().await else { panic!("not asked") };
    assert_eq!((asked.namespace.as_str(), asked.lease, asked.by.as_str(), asked.reason), ("default", 2, "zoe", None));
    bench.leases().revoke(revoke(1)).await.unwrap();
    let notice::Notice::Ended(lost) = stream.notice().await else { panic!("not lost") };
    assert_eq!((lost.lease, lost.cause.as_str(), lost.reason.as_deref()), (1, "revoked", Some("stuck")));
    // What is released here is no news here; what is lost next is the next notice.
    stream.ask(3, command::Command::Release(Box::new(release(2)))).await;
    stream.granted(4, grant(3, "c")).await;
    bench.leases().release(release(3)).await.unwrap();
    assert!(matches!(stream.notice().await, notice::Notice::Ended(lost) if lost.lease == 3));
}

#[tokio::test]
async fn leases_are_attached_after_a_reconnect() {
    let bench = Bench::new().await;
    let mut first = bench.connect().await;
    first.granted(1, grant(1, "a")).await;
    first.granted(2, grant(2, "b")).await;
    drop(first);
    bench.leases().release(release(2)).await.unwrap();
    let mut second = bench.connect().await;
    let attach = Attach { leases: vec![1, 2, 3], ..Attach::default() };
    let answer::Outcome::Attached(attached) = second.ask(1, command::Command::Attach(Box::new(attach))).await else {
        panic!("not attached")
    };
    let [one, two, three] = &attached.results[..] else { panic!("{attached:?}") };
    assert!(matches!(&one.result, Some(attach_result::Result::Alive(lease)) if lease.held.len() == 1));
    assert!(matches!(&two.result, Some(attach_result::Result::Problem(p)) if p.code == "lease_ended"));
    assert!(matches!(&three.result, Some(attach_result::Result::Problem(p)) if p.code == "unknown_lease"));
    bench.leases().revoke(revoke(1)).await.unwrap();
    assert!(matches!(second.notice().await, notice::Notice::Ended(lost) if lost.lease == 1));
}

#[tokio::test]
async fn what_makes_no_sense_is_answered_and_the_stream_goes_on() {
    let bench = Bench::new().await;
    let mut stream = bench.connect().await;
    let bad = [
        command::Command::Hello(Box::default()),
        command::Command::Grant(Box::default()),
        command::Command::Renew(Box::default()),
        command::Command::Release(Box::default()),
        command::Command::Revoke(Box::default()),
        command::Command::Claim(Box::default()),
        command::Command::Unclaim(Box::default()),
        command::Command::Leave(Box::default()),
        command::Command::Handover(Box::default()),
        command::Command::Attach(Box::default()),
        command::Command::Attach(Box::new(Attach { leases: vec![1; 4097], ..Attach::default() })),
        command::Command::Grant(Box::new(leasehold_api::grpc::GrantRequest {
            namespace: "A B".into(),
            ..grant(1, "a")
        })),
    ];
    for (number, command) in (1..).zip(bad) {
        stream.send(number, command).await;
        let refusal = stream.refusal(number).await;
        assert!(matches!(refusal.code.as_str(), "invalid" | "invalid_name"), "{number}: {refusal:?}");
        assert!(refusal.field.is_some(), "{refusal:?}");
    }
    let unknown = leasehold_api::grpc::Command { number: 99, command: None };
    stream.up.as_ref().unwrap().send(Up { commands: vec![unknown] }).await.unwrap();
    assert_eq!(stream.refusal(99).await.field.as_deref(), Some("command"));
    stream.granted(100, grant(1, "a")).await;
}

#[tokio::test]
async fn a_number_in_use_ends_the_stream() {
    let bench = Bench::new().await;
    bench.grant(1, "a").await;
    let mut stream = bench.connect().await;
    stream.send(1, command::Command::Grant(Box::new(patient(2, "a")))).await;
    stream.send(1, command::Command::Release(Box::new(release(1)))).await;
    let status = loop {
        match stream.take().await {
            Ok(true) => {}
            Ok(false) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(problem(&status).field.as_deref(), Some("number"));
}

#[tokio::test]
async fn a_client_that_sends_no_more_gets_all_its_answers() {
    let bench = Bench::new().await;
    let mut stream = bench.connect().await;
    let grants = (1..=100).map(|id| (id, command::Command::Grant(Box::new(grant(id, &format!("r/{id}"))))));
    stream.send_all(grants).await;
    stream.up = None;
    for id in 1..=100 {
        assert!(matches!(stream.answer(id).await, answer::Outcome::Granted(_)));
    }
    assert!(!stream.take().await.unwrap());
}

#[tokio::test]
async fn a_server_that_stops_answers_and_says_so() {
    let bench = Bench::new().await;
    bench.grant(1, "a").await;
    let mut stream = bench.connect().await;
    stream.send(1, command::Command::Grant(Box::new(patient(2, "a")))).await;
    stream.told(1).await;
    bench.service.stop().await;
    assert_eq!(stream.refusal(1).await.code, "shutting_down");
    let status = stream.take().await.unwrap_err();
    assert_eq!((status.code(), problem(&status).code.as_str()), (Code::Unavailable, "shutting_down"));
}
