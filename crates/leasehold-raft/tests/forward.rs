//! Followers hand commands to their leader and read what it has acknowledged.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::cluster::{Cluster, patient};
use common::{Running, payload};
use leasehold_core::LeaderId;
use leasehold_service::log::{Leadership, Log, Parcel, Unavailable};
use tokio::sync::mpsc;

/// A cluster whose leader stays, its place, who it is, and the places of the others.
async fn settled() -> (Cluster, usize, LeaderId, Vec<usize>) {
    let cluster = Cluster::of_three(patient).await;
    let leader = cluster.leader().await;
    let others = (0..3).filter(|at| *at != leader).collect();
    let id = cluster.node(leader).leader();
    (cluster, leader, id, others)
}

async fn next(parcels: &mut mpsc::Receiver<Parcel>) -> Parcel {
    tokio::time::timeout(Duration::from_secs(30), parcels.recv()).await.expect("a parcel comes").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parcels_reach_the_leader_and_their_answers_come_back() {
    let (mut cluster, leader, id, others) = settled().await;
    let mut parcels = cluster.node(leader).node.parcels().unwrap();
    assert!(cluster.node(leader).node.parcels().is_none(), "they are taken once");
    let from = cluster.node(others[0]);

    // Several on their way, in order, answered in another one.
    let mut told = Vec::new();
    for number in 0..3 {
        told.push(from.forward(id, payload(number)).await);
    }
    let mut came = Vec::new();
    for number in 0..3 {
        let parcel = next(&mut parcels).await;
        assert_eq!((parcel.to, &parcel.bytes[..]), (id, &payload(number)[..]));
        came.push(parcel);
    }
    for (parcel, told) in came.into_iter().zip(told).rev() {
        (parcel.done)(Ok(()));
        told.await.unwrap().unwrap();
    }

    let another = Some(LeaderId { term: id.term + 1, node: 5 });
    let outcomes = [
        (Unavailable::NotLeader { leader: another }, "NotLeader { leader: Some(LeaderId"),
        (Unavailable::Unreachable("x".into()), "NotLeader { leader: None }"),
        (Unavailable::NoRoom, "NoRoom"),
        (Unavailable::Unknown("perhaps".into()), "Unknown(\"perhaps\")"),
        (Unavailable::Stopped("disk".into()), "Unknown(\"the leader has stopped: disk\")"),
    ];
    for (outcome, expected) in outcomes {
        let told = from.forward(id, payload(9)).await;
        (next(&mut parcels).await.done)(Err(outcome));
        let found = format!("{:?}", told.await.unwrap().unwrap_err());
        assert!(found.starts_with(expected), "{found}");
    }

    // One that is let go of is not known to have failed.
    let told = from.forward(id, payload(9)).await;
    drop(next(&mut parcels).await);
    assert!(matches!(told.await.unwrap(), Err(Unavailable::Unknown(_))));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parcel_for_another_leadership_is_refused() {
    let (mut cluster, leader, id, others) = settled().await;
    let mut parcels: Vec<_> = cluster.running().map(|running| running.node.parcels().unwrap()).collect();
    let from = cluster.node(others[0]);
    let other = cluster.node(others[1]).opened.identity.node;
    let wrong =
        [LeaderId { term: id.term - 1, ..id }, LeaderId { term: id.term + 1, ..id }, LeaderId { node: other, ..id }];
    for to in wrong {
        let refused = from.forward(to, payload(0)).await.await.unwrap().unwrap_err();
        assert!(matches!(refused, Unavailable::NotLeader { leader } if leader == Some(id)), "{to}: {refused:?}");
    }
    let own = from.opened.identity.node;
    for (node, words) in [(77, "node 77 is not a member"), (own, "it is this node")] {
        let refused = from.forward(LeaderId { node, ..id }, payload(0)).await.await.unwrap().unwrap_err();
        assert!(matches!(&refused, Unavailable::Unreachable(found) if found == words), "{refused}");
    }
    let large = vec![0; leasehold_raft::PAYLOAD_MAX + 1];
    let refused = from.forward(id, large).await.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("nothing was sent"), "{refused}");
    // The largest there is.
    let told = from.forward(id, vec![0; leasehold_raft::PAYLOAD_MAX]).await;
    let parcel = next(&mut parcels[leader]).await;
    assert_eq!(parcel.bytes.len(), leasehold_raft::PAYLOAD_MAX);
    (parcel.done)(Ok(()));
    told.await.unwrap().unwrap();
    assert!(parcels.iter_mut().all(|parcels| parcels.try_recv().is_err()), "nothing else was handed on");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_goes_it_is_said_whether_a_parcel_was_sent() {
    let (mut cluster, leader, id, others) = settled().await;
    let mut parcels = cluster.node(leader).node.parcels().unwrap();
    let sent = cluster.node(others[0]).forward(id, payload(0)).await;
    let held = next(&mut parcels).await;
    cluster.stop(leader).await;
    assert!(matches!(sent.await.unwrap(), Err(Unavailable::Unknown(_))), "it may have been proposed");
    drop(held);
    // This one has no connection that could break.
    let unsent = cluster.node(others[1]).forward(id, payload(1)).await;
    assert!(matches!(unsent.await.unwrap(), Err(Unavailable::Unreachable(_))), "it was never sent");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parcels_that_nobody_takes_hold_up_neither_heartbeats_nor_reads() {
    let (mut cluster, leader, id, others) = settled().await;
    const EACH: usize = 30;
    let senders = others.iter().map(|at| {
        let from = cluster.node(*at);
        async move {
            let mut told = Vec::new();
            for number in 0..EACH {
                told.push(from.forward(id, payload(number)).await);
            }
            for told in told {
                told.await.unwrap().unwrap();
            }
        }
    });
    let senders = futures_util::future::join_all(senders);
    let taker = async {
        for at in &others {
            cluster.node(*at).node.read_barrier().await.unwrap();
        }
        let mut parcels = cluster.node(leader).node.parcels().unwrap();
        for _ in 0..EACH * others.len() {
            (next(&mut parcels).await.done)(Ok(()));
        }
    };
    tokio::join!(senders, taker);
    assert_eq!(cluster.node(leader).leader(), id, "it still leads");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_read_on_every_node() {
    let (mut cluster, leader, _, _) = settled().await;
    for number in 0..100 {
        cluster.node(leader).propose(payload(number)).await.unwrap();
        let running = cluster.node(number % 3);
        running.node.read_barrier().await.unwrap();
        assert_eq!(running.ledger.count(), number + 1);
    }
    cluster.stop_all().await;
}

/// Reads on one node until told to stop, and compares with what was acknowledged before each read; counts the reads.
async fn read_on(running: &Running, acknowledged: &AtomicUsize, stop: &AtomicBool) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let before = acknowledged.load(Ordering::SeqCst);
        match running.node.read_barrier().await {
            Ok(()) => {
                let found = running.ledger.count();
                assert!(found >= before, "a stale read: {found} entries of {before}");
                reads += 1;
            }
            // Nobody leads for a moment.
            Err(Unavailable::Unreachable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_never_stale_while_leadership_moves_and_the_leader_goes() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    let (acknowledged, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Proposes wherever somebody leads; what is not acknowledged is not counted.
    let write = async {
        let started = Instant::now();
        let mut moved = 0;
        while moved < 4 || started.elapsed() < Duration::from_secs(4) {
            let Some((at, leader)) = cluster.nodes.iter().enumerate().find_map(|(at, node)| {
                match *node.as_ref()?.node.leadership().borrow() {
                    Leadership::Leads(leader) => Some((at, leader)),
                    Leadership::Follows(_) | Leadership::CutOff(_) | Leadership::Unknown => None,
                }
            }) else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            for number in 0..50 {
                if cluster.node(at).propose_as(leader, payload(number)).await.is_ok() {
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            }
            let to = cluster.node((at + 1) % 3).opened.identity.node;
            moved += usize::from(cluster.node(at).node.transfer(to).await.is_ok());
            assert!(started.elapsed() < Duration::from_secs(120), "leadership moved {moved} times only");
        }
        stop.store(true, Ordering::Relaxed);
    };
    let readers = (0..12).map(|reader| read_on(cluster.node(reader % 3), &acknowledged, &stop));
    let ((), reads) = tokio::join!(write, futures_util::future::join_all(readers));
    println!("{} writes, {} reads", acknowledged.load(Ordering::SeqCst), reads.iter().sum::<usize>());
    assert!(reads.iter().all(|reads| *reads > 0), "{reads:?}");

    // And when the leader goes for good, the next one has everything.
    let leader = cluster.leader().await;
    cluster.stop(leader).await;
    let before = acknowledged.load(Ordering::SeqCst);
    let follower = cluster.follower().await;
    let started = Instant::now();
    while let Err(error) = cluster.node(follower).node.read_barrier().await {
        assert!(started.elapsed() < Duration::from_secs(60), "{error}");
    }
    assert!(cluster.node(follower).ledger.count() >= before);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_without_a_leader_is_refused_in_time_and_in_words() {
    let (mut cluster, leader, id, others) = settled().await;
    cluster.stop(leader).await;
    cluster.stop(others[0]).await;
    let left = cluster.node(others[1]);
    let election_max = cluster.options[others[1]].election_max;
    let started = Instant::now();
    let refused = left.node.read_barrier().await.unwrap_err();
    let took = started.elapsed();
    assert!(took < 2 * election_max + Duration::from_secs(2), "{took:?}");
    let words = refused.to_string();
    let expected = format!("node n{} led and does not answer", leader + 1);
    assert_eq!(left.node.name_of(id.node), format!("n{}", leader + 1));
    assert!(words.contains(&expected) || words.contains("nobody leads"), "{words}");
    // It grows while nobody leads.
    let before = left.node.staleness();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(left.node.staleness() >= before + Duration::from_millis(100));
    assert!(before >= took, "{before:?}");
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_of_a_follower_share_requests() {
    let (mut cluster, leader, _, others) = settled().await;
    cluster.node(leader).propose(payload(0)).await.unwrap();
    let from = Arc::new(cluster.nodes[others[0]].take().unwrap());
    let read = |_| {
        let from = from.clone();
        tokio::spawn(async move { from.node.read_barrier().await })
    };
    let readers: Vec<_> = (0..2000).map(read).collect();
    for reader in readers {
        reader.await.unwrap().unwrap();
    }
    let asked = from.node.proofs_asked();
    assert!((1..1000).contains(&asked), "{asked} requests for 2000 reads");
    from.node.shutdown().await;
    cluster.stop_all().await;
}
