//! Calls that wait in a queue.

use crate::support::{Bench, asks, grant, id, namespace, pass, view};
use leasehold_core::{Claim, Command, Patience, Remaining, Span};
use leasehold_service::Failure;

#[tokio::test(start_paused = true)]
async fn an_open_call_keeps_its_waiting_lease_alive_and_gets_its_whole_ttl_at_the_grant() {
    let bench = Bench::new().await;
    bench.run(grant(1, 10_000, &["a"], Patience::None)).await.unwrap();
    let (service, caller) = (bench.service.clone(), bench.service.anonymous());
    let waiting = tokio::spawn(async move {
        service.execute_waiting(&caller, &namespace(), grant(2, 500, &["a"], Patience::Endless)).await
    });
    bench.until(|b| b.queue("a") == [2]).await;
    pass(5_000).await;
    assert_eq!(bench.queue("a"), [2], "it outlives its own ttl by far");
    bench.release(1).await;
    let done = waiting.await.unwrap().unwrap();
    assert_eq!(view(&done).remaining, Remaining::For(Span(500)));
    assert_eq!(view(&done).held.len(), 1);
    pass(2_000).await;
    assert!(bench.lease(2).is_none(), "once granted, keeping it is its holder's business");
}

#[tokio::test(start_paused = true)]
async fn a_broken_call_leaves_the_queue_at_once() {
    let bench = Bench::new().await;
    bench.run(grant(1, 10_000, &["a"], Patience::None)).await.unwrap();
    let (service, caller) = (bench.service.clone(), bench.service.anonymous());
    let waiting = tokio::spawn(async move {
        service.execute_waiting(&caller, &namespace(), grant(2, 9_000, &["a"], Patience::Endless)).await
    });
    bench.until(|b| b.queue("a") == [2]).await;
    waiting.abort();
    bench.until(|b| b.queue("a").is_empty() && b.lease(2).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_to_a_caller_that_left_just_then_ends_by_its_ttl() {
    let bench = Bench::new().await;
    bench.run(grant(1, 10_000, &["a"], Patience::None)).await.unwrap();
    let (service, caller) = (bench.service.clone(), bench.service.anonymous());
    let waiting = tokio::spawn(async move {
        service.execute_waiting(&caller, &namespace(), grant(2, 2_000, &["a"], Patience::Endless)).await
    });
    bench.until(|b| b.queue("a") == [2]).await;
    // The release is committed before the waiting call is looked at again.
    bench.release(1).await;
    waiting.abort();
    assert!(bench.lease(2).is_some_and(|lease| lease.held.len() == 1));
    // A repetition may have been told that it holds it, so nothing is given back in its name.
    let again = bench.run(grant(2, 2_000, &["a"], Patience::None)).await.unwrap();
    assert_eq!(view(&again).held.len(), 1);
    pass(1_500).await;
    assert!(bench.lease(2).is_some());
    pass(1_000).await;
    assert!(bench.lease(2).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_broken_call_on_a_living_lease_leaves_only_its_own_wait() {
    let bench = Bench::new().await;
    bench.run(grant(1, 10_000, &["a", "b"], Patience::None)).await.unwrap();
    bench.run(grant(2, 10_000, &["mine"], Patience::None)).await.unwrap();
    let claim = |resources: &[&str]| {
        Command::Claim(Claim { lease: id(2), once: None, asks: asks(resources, Patience::Endless) })
    };
    let wait = |command: Command| {
        let (service, caller) = (bench.service.clone(), bench.service.anonymous());
        tokio::spawn(async move { service.execute_waiting(&caller, &namespace(), command).await })
    };
    let (broken, kept) = (wait(claim(&["b"])), wait(claim(&["a"])));
    bench.until(|b| b.queue("a") == [2] && b.queue("b") == [2]).await;
    broken.abort();
    bench.until(|b| b.queue("b").is_empty()).await;
    assert_eq!(bench.queue("a"), [2]);
    bench.release(1).await;
    let done = kept.await.unwrap().unwrap();
    let held: Vec<_> = view(&done).held.iter().map(|held| held.resource.as_str().to_owned()).collect();
    assert_eq!(held, ["a", "mine"]);
}

#[tokio::test(start_paused = true)]
async fn several_resources_in_any_order_are_waited_for_together() {
    let bench = Bench::new().await;
    bench.run(grant(1, 10_000, &["a"], Patience::None)).await.unwrap();
    let (service, caller) = (bench.service.clone(), bench.service.anonymous());
    let command = grant(2, 1_000, &["z", "a", "k"], Patience::Endless);
    let waiting = tokio::spawn(async move { service.execute_waiting(&caller, &namespace(), command).await });
    bench.until(|b| b.queue("z") == [2]).await;
    pass(3_000).await;
    bench.release(1).await;
    assert_eq!(view(&waiting.await.unwrap().unwrap()).held.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_tells_the_holder_and_the_place() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let elapsed = bench.run_waiting(grant(2, 1_000, &["a"], Patience::For(Span(2_500)))).await;
    let Err(Failure::WaitElapsed { held, position }) = elapsed else { panic!("{elapsed:?}") };
    assert_eq!((held.holders[0].holder.as_str(), position), ("holder-1", 1));
    assert!(bench.lease(2).is_none() && bench.queue("a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_the_order_they_came() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let mut waiting = Vec::new();
    for lease in 2..=20 {
        let (service, caller) = (bench.service.clone(), bench.service.anonymous());
        let command = grant(lease, 1_000, &["a"], Patience::Endless);
        waiting.push(tokio::spawn(async move { service.execute_waiting(&caller, &namespace(), command).await }));
        bench.until(|b| b.queue("a").len() as u64 == lease - 1).await;
    }
    let mut tokens = Vec::new();
    for (holder, call) in (1..).zip(waiting) {
        bench.release(holder).await;
        let done = call.await.unwrap().unwrap();
        assert_eq!(view(&done).id, id(holder + 1));
        tokens.push(view(&done).held[0].token);
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_service_ends_open_waits() {
    let bench = Bench::new().await;
    bench.run(grant(1, 60_000, &["a"], Patience::None)).await.unwrap();
    let (service, caller) = (bench.service.clone(), bench.service.anonymous());
    let waiting = tokio::spawn(async move {
        service.execute_waiting(&caller, &namespace(), grant(2, 1_000, &["a"], Patience::Endless)).await
    });
    bench.until(|b| b.queue("a") == [2]).await;
    bench.service.stop().await;
    assert!(matches!(waiting.await.unwrap(), Err(Failure::ShuttingDown { .. })));
    assert!(matches!(
        bench.run(grant(3, 1_000, &[], Patience::None)).await,
        Err(Failure::ShuttingDown { may_have_happened: false })
    ));
}
