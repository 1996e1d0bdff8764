//! Connections that carry many commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{
    AskHandover, Claim, Command, EndCause, Holder, Outcome, Patience, Rejection, Release, Renew, ResourceName, Revoke,
    Span,
};
use leasehold_service::{Batch, Connection, Deliveries, Done, Failure, Notice, NumberInUse, Replica};

use crate::support::{Bench, asks, grant, id, namespace, pass, view};
use crate::time::StubbornLog;

fn release(lease: u64) -> Command {
    Command::Release(Release { lease: id(lease) })
}

fn revoke(lease: u64) -> Command {
    Command::Revoke(Revoke { lease: id(lease), reason: "stuck".into(), now: true })
}

/// A connection whose deliveries are collected.
struct Client {
    connection: Connection,
    deliveries: Deliveries,
    answers: BTreeMap<u64, Result<Done, Failure>>,
    progress: Vec<(u64, Vec<u32>)>,
    notices: Vec<Notice>,
}

impl Client {
    fn of(bench: &Bench) -> Client {
        let (connection, deliveries) = bench.service.connect(bench.service.anonymous());
        let (answers, progress, notices) = Default::default();
        Client { connection, deliveries, answers, progress, notices }
    }

    fn send(&self, number: u64, command: Command) {
        self.connection.submit(number, &namespace(), command).unwrap();
    }

    fn collect(&mut self, batch: Batch) {
        for (number, answer) in batch.answers {
            assert!(self.answers.insert(number, answer).is_none(), "{number} is answered once");
        }
        for (number, progress) in batch.progress {
            assert!(!self.answers.contains_key(&number), "no progress after the answer");
            self.progress.push((number, progress.places.iter().map(|standing| standing.place.position).collect()));
        }
        self.notices.extend(batch.notices);
    }

    async fn answer(&mut self, number: u64) -> Result<Done, Failure> {
        while !self.answers.contains_key(&number) {
            let batch = self.deliveries.next().await.expect("the connection is open");
            self.collect(batch);
        }
        self.answers.remove(&number).unwrap()
    }

    async fn granted(&mut self, number: u64, command: Command) -> Done {
        self.send(number, command);
        self.answer(number).await.unwrap()
    }

    async fn notice(&mut self) -> Notice {
        while self.notices.is_empty() {
            let batch = self.deliveries.next().await.expect("the connection is open");
            self.collect(batch);
        }
        self.notices.remove(0)
    }

    /// Takes what comes within `ms` and expects no notice in it.
    async fn hears_nothing_for(&mut self, ms: u64) {
        let until = tokio::time::Instant::now() + std::time::Duration::from_millis(ms);
        while let Ok(batch) = tokio::time::timeout_at(until, self.deliveries.next()).await {
            self.collect(batch.expect("the connection is open"));
        }
        assert_eq!(self.notices, []);
    }
}

fn ended(lease: u64, cause: &EndCause, notice: &Notice) {
    let Notice::Ended { namespace: place, lease: told, cause: why, .. } = notice else { panic!("{notice:?}") };
    assert_eq!((place, *told, why), (&namespace(), id(lease), cause));
}

#[tokio::test(start_paused = true)]
async fn every_command_is_answered_once_under_its_number() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    for lease in 1..=3000 {
        assert!(client.connection.room().await);
        client.send(lease, grant(lease, 10_000, &[&format!("r/{lease}")], Patience::None));
    }
    for lease in 1..=3000 {
        assert_eq!(view(&client.answer(lease).await.unwrap()).id, id(lease));
    }
    client.send(7, Command::Renew(Renew { leases: vec![id(1), id(9999)], ttl: None }));
    let Outcome::Renewed(results) = client.answer(7).await.unwrap().outcome else { panic!() };
    assert!(results[0].is_ok() && results[1].is_err());
    client.send(8, grant(4000, 10_000, &["r/1"], Patience::None));
    let refused = client.answer(8).await;
    assert!(matches!(&refused, Err(Failure::Rejected(why)) if matches!(**why, Rejection::Held(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_number_is_free_again_once_it_is_answered() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    client.send(5, grant(2, 60_000, &["a"], Patience::Endless));
    let again = client.connection.submit(5, &namespace(), release(1));
    assert_eq!(again, Err(NumberInUse(5)));
    bench.release(1).await;
    client.answer(5).await.unwrap();
    client.send(5, release(2));
    client.answer(5).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_kept_alive_told_how_far_it_is_and_answered_when_it_is_held() {
    let bench = Bench::new().await;
    for lease in 1..=3 {
        bench.run(grant(lease, 600_000, &["a"], Patience::Endless)).await.unwrap();
    }
    let mut client = Client::of(&bench);
    client.send(1, grant(4, 500, &["a", "b"], Patience::Endless));
    client.hears_nothing_for(5_000).await;
    assert_eq!(client.progress, [(1, vec![3, 1])], "told once, while nothing moves");
    bench.release(1).await;
    client.hears_nothing_for(1_000).await;
    bench.release(2).await;
    client.hears_nothing_for(1_000).await;
    assert_eq!(client.progress[1..], [(1, vec![2, 1]), (1, vec![1, 1])]);
    bench.release(3).await;
    let done = client.answer(1).await.unwrap();
    assert_eq!((view(&done).held.len(), view(&done).id), (2, id(4)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_kept_alive_while_its_client_takes_nothing() {
    let bench = Bench::new().await;
    bench.run(grant(1, 600_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.send(1, grant(2, 500, &["a"], Patience::Endless));
    pass(5_000).await;
    bench.release(1).await;
    assert_eq!(view(&client.answer(1).await.unwrap()).id, id(2));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_moves_fast_is_told_of_no_more_often_than_every_200_ms() {
    let bench = Bench::new().await;
    for lease in 1..=100 {
        bench.run(grant(lease, 600_000, &["a"], Patience::Endless)).await.unwrap();
    }
    let mut client = Client::of(&bench);
    client.send(1, grant(101, 600_000, &["a"], Patience::Endless));
    client.hears_nothing_for(300).await;
    for lease in 1..=50 {
        bench.release(lease).await;
        client.hears_nothing_for(10).await;
    }
    client.hears_nothing_for(1_000).await;
    assert!((2..=5).contains(&client.progress.len()), "{:?}", client.progress);
    assert_eq!(client.progress.last(), Some(&(1, vec![50])));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_leaves_the_queue_and_is_answered_so() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.send(1, grant(2, 60_000, &["a"], Patience::Endless));
    bench.until(|b| b.queue("a") == [2]).await;
    client.hears_nothing_for(10).await;
    client.connection.give_up(1);
    assert!(matches!(client.answer(1).await, Err(Failure::WaitLeft)));
    assert!(bench.queue("a").is_empty() && bench.lease(2).is_none());
    // Given up before it is queued.
    client.send(2, grant(3, 60_000, &["a"], Patience::Endless));
    client.connection.give_up(2);
    assert!(matches!(client.answer(2).await, Err(Failure::WaitLeft)));
    assert!(bench.queue("a").is_empty() && bench.lease(3).is_none());
    client.connection.give_up(2);
    client.connection.give_up(77);
    client.hears_nothing_for(1_000).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_before_it_is_given_up_is_answered_as_granted() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.send(1, grant(2, 60_000, &["a"], Patience::Endless));
    bench.until(|b| b.queue("a") == [2]).await;
    client.hears_nothing_for(10).await;
    // Committed before the wait is looked at again.
    bench.release(1).await;
    client.connection.give_up(1);
    assert_eq!(view(&client.answer(1).await.unwrap()).held.len(), 1);
    client.send(2, grant(3, 60_000, &["b"], Patience::Endless));
    client.connection.give_up(2);
    assert_eq!(view(&client.answer(2).await.unwrap()).held.len(), 1, "it never waited");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_given_up_leaves_its_lease_alone() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.granted(1, grant(2, 60_000, &["mine"], Patience::None)).await;
    client.send(2, Command::Claim(Claim { lease: id(2), once: None, asks: asks(&["a"], Patience::Endless) }));
    bench.until(|b| b.queue("a") == [2]).await;
    client.connection.give_up(2);
    assert!(matches!(client.answer(2).await, Err(Failure::WaitLeft)));
    assert_eq!(bench.lease(2).unwrap().held.len(), 1);
    client.hears_nothing_for(1_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_leaves_its_queues_and_keeps_its_leases() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.granted(1, grant(2, 60_000, &["b"], Patience::None)).await;
    client.send(2, grant(3, 60_000, &["a"], Patience::Endless));
    bench.until(|b| b.queue("a") == [3]).await;
    // This one is still on its way when the connection breaks.
    client.send(3, grant(4, 60_000, &["a"], Patience::Endless));
    drop(client);
    bench.until(|b| b.queue("a").is_empty() && b.lease(3).is_none() && b.lease(4).is_none()).await;
    assert!(bench.lease(2).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_repeated_on_a_new_connection_keeps_its_place() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let first = Client::of(&bench);
    first.send(1, grant(2, 60_000, &["a"], Patience::Endless));
    bench.until(|b| b.queue("a") == [2]).await;
    bench.run(grant(3, 60_000, &["a"], Patience::Endless)).await.unwrap();
    let mut second = Client::of(&bench);
    second.send(9, grant(2, 60_000, &["a"], Patience::Endless));
    second.hears_nothing_for(10).await;
    drop(first);
    pass(100).await;
    assert_eq!(bench.queue("a"), [2, 3]);
    bench.release(1).await;
    assert_eq!(view(&second.answer(9).await.unwrap()).id, id(2));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_is_told_unless_it_was_released_here() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    for lease in 1..=5 {
        client.granted(lease, grant(lease, 1_000, &[], Patience::None)).await;
    }
    client.send(10, release(1));
    client.answer(10).await.unwrap();
    bench.release(2).await;
    ended(2, &EndCause::Released, &client.notice().await);
    bench.run(revoke(3)).await.unwrap();
    ended(3, &EndCause::Revoked { by: None, reason: "stuck".into() }, &client.notice().await);
    client.send(11, revoke(4));
    client.answer(11).await.unwrap();
    ended(4, &EndCause::Revoked { by: None, reason: "stuck".into() }, &client.notice().await);
    ended(5, &EndCause::Expired, &client.notice().await);
    client.hears_nothing_for(5_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_refused_attaches_nothing() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.send(1, grant(2, 1_000, &["a"], Patience::None));
    client.answer(1).await.unwrap_err();
    client.send(2, grant(2, 1_000, &["a"], Patience::For(Span(500))));
    assert!(matches!(client.answer(2).await, Err(Failure::WaitElapsed { position: 1, .. })));
    client.hears_nothing_for(5_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_right_after_its_grant_is_told_after_the_answer() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    client.send(1, grant(1, 1_000, &[], Patience::None));
    bench.until(|b| b.lease(1).is_some()).await;
    bench.release(1).await;
    let batch = client.deliveries.next().await.unwrap();
    client.collect(batch);
    assert!(client.answers.contains_key(&1), "first of all");
    ended(1, &EndCause::Released, &client.notice().await);
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_that_somebody_asks_for_a_hand_over() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    client.granted(1, grant(1, 60_000, &["a"], Patience::None)).await;
    client.granted(2, grant(2, 60_000, &["b"], Patience::None)).await;
    let ask = |resource: &str| {
        let resource = ResourceName::new(resource).unwrap();
        Command::AskHandover(AskHandover { resource, by: Holder::new("zoe").unwrap(), reason: Some("deploy".into()) })
    };
    bench.run(ask("a")).await.unwrap();
    let notice = client.notice().await;
    let Notice::HandoverAsked { lease, resource, by, reason, .. } = &notice else { panic!("{notice:?}") };
    assert_eq!((*lease, resource.as_str(), by.as_str(), reason.as_deref()), (id(1), "a", "zoe", Some("deploy")));
    // Its own ask is told to it too: the asker may be another part of the same process.
    client.send(3, ask("b"));
    assert!(matches!(client.answer(3).await.unwrap().outcome, Outcome::HandoverAsked { holders: 1 }));
    assert!(matches!(client.notice().await, Notice::HandoverAsked { lease, .. } if lease == id(2)));
    client.hears_nothing_for(1_000).await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_attached_again_after_a_reconnect() {
    let bench = Bench::new().await;
    let mut first = Client::of(&bench);
    for lease in 1..=3 {
        first.granted(lease, grant(lease, 60_000, &[], Patience::None)).await;
    }
    drop(first);
    bench.release(2).await;
    let mut second = Client::of(&bench);
    let looked = second.connection.attach(&namespace(), &[id(1), id(2), id(3), id(99)]).await.unwrap();
    let alive: Vec<bool> = looked.value.iter().map(Result::is_ok).collect();
    assert_eq!(alive, [true, false, true, false]);
    bench.run(revoke(3)).await.unwrap();
    ended(3, &EndCause::Revoked { by: None, reason: "stuck".into() }, &second.notice().await);
    second.send(1, release(1));
    second.answer(1).await.unwrap();
    second.hears_nothing_for(1_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_answers_is_not_given_more_room() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    let mut sent = 0;
    while tokio::time::timeout(std::time::Duration::from_millis(50), client.connection.room()).await.is_ok() {
        sent += 1;
        client.send(sent, release(1));
    }
    assert_eq!(sent, 16_384);
    let batch = client.deliveries.next().await.unwrap();
    assert!((1_000..=4_096).contains(&batch.answers.len()), "a batch is bounded: {}", batch.answers.len());
    assert!(client.connection.room().await);
    drop(client.deliveries);
    assert!(!client.connection.room().await, "nobody would take the answer");
}

#[tokio::test(start_paused = true)]
async fn notices_that_nobody_takes_become_a_gap() {
    let bench = Bench::new().await;
    let mut client = Client::of(&bench);
    for lease in 1..=17_000 {
        if lease % 1000 == 0 {
            client.answer(lease - 1).await.unwrap();
        }
        client.send(lease, grant(lease, 1_000, &[], Patience::None));
    }
    client.answer(17_000).await.unwrap();
    client.hears_nothing_for(0).await;
    pass(10_000).await;
    bench.until(|b| b.lease(17_000).is_none()).await;
    while client.notices.last() != Some(&Notice::Gap) {
        let batch = client.deliveries.next().await.unwrap();
        assert!(batch.notices.len() <= 4_097, "a batch is bounded");
        client.collect(batch);
    }
    assert_eq!(std::mem::take(&mut client.notices).len(), 16_385);
    client.hears_nothing_for(1_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_client_sends_no_more_ends_when_all_is_answered() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let client = Client::of(&bench);
    client.send(1, grant(2, 60_000, &["a"], Patience::For(Span(2_000))));
    let Client { connection, mut deliveries, .. } = client;
    drop(connection);
    let mut answers = Vec::new();
    while let Some(batch) = deliveries.next().await {
        answers.extend(batch.answers);
    }
    assert!(matches!(&answers[..], [(1, Err(Failure::WaitElapsed { .. }))]), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_the_service_and_answers_before() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut client = Client::of(&bench);
    client.send(1, grant(2, 60_000, &["a"], Patience::Endless));
    bench.until(|b| b.queue("a") == [2]).await;
    bench.service.stop().await;
    client.send(2, release(1));
    assert!(matches!(client.answer(2).await, Err(Failure::ShuttingDown { may_have_happened: false })));
    assert!(matches!(client.answer(1).await, Err(Failure::ShuttingDown { .. })));
    assert!(client.deliveries.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_told_as_not_known() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    let mut client = Client::of(&bench);
    client.granted(1, grant(1, 60_000, &[], Patience::None)).await;
    log.stuck.store(true, Ordering::SeqCst);
    client.send(2, grant(2, 60_000, &[], Patience::None));
    client.send(3, grant(3, 60_000, &["a"], Patience::Endless));
    let sent = tokio::time::Instant::now();
    assert!(matches!(client.answer(2).await, Err(Failure::NoQuorum { may_have_happened: true, .. })));
    assert!(matches!(client.answer(3).await, Err(Failure::NoQuorum { may_have_happened: true, .. })));
    assert!((10..=11).contains(&sent.elapsed().as_secs()), "{:?}", sent.elapsed());
    // It happens after all; nobody is answered twice, and the numbers belong to others by then.
    client.send(2, release(1));
    log.stuck.store(false, Ordering::SeqCst);
    log.freed.notify_waiters();
    assert!(matches!(client.answer(2).await.unwrap().outcome, Outcome::Released { already: false }));
    client.hears_nothing_for(1_000).await;
    assert!(client.answers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn new_work_that_is_too_much_is_answered_so_while_releases_are_taken() {
    let replica = Arc::new(Replica::new());
    let log = StubbornLog::new(Arc::clone(&replica));
    let bench = Bench::over(Arc::clone(&log), replica).await;
    log.stuck.store(true, Ordering::SeqCst);
    let crowd: Vec<Client> = (0..5).map(|_| Client::of(&bench)).collect();
    for (i, client) in (0..).zip(&crowd) {
        for number in 1..=16_000 {
            client.send(number, grant(i * 16_000 + number, 60_000, &[], Patience::None));
        }
    }
    assert!(bench.service.health().overloaded);
    let mut client = Client::of(&bench);
    client.send(1, grant(100_000, 60_000, &[], Patience::None));
    assert!(matches!(client.answer(1).await, Err(Failure::Overloaded { .. })));
    client.send(2, release(100_000));
    log.stuck.store(false, Ordering::SeqCst);
    log.freed.notify_waiters();
    let refused = client.answer(2).await;
    assert!(matches!(&refused, Err(Failure::Rejected(why)) if **why == Rejection::UnknownLease), "{refused:?}");
}
