//! The port for other nodes as a stranger sees it, byte by byte as docs/formats/peer.md has it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::time::{Duration, Instant};

use common::cluster::{Cluster, patient, until};
use common::stranger::{CONTROL, Introduction, REFUSED, WELCOME, read_introduction};
use common::{open_with, payloads};
use leasehold_core::LeaderId;
use leasehold_log::{LogPosition, Vote, checksum};
use leasehold_raft::Options;
use leasehold_service::log::{Leadership, Log};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn frame(kind: u8, version: u8, number: u64, body: &[u8]) -> Vec<u8> {
    let mut header = (body.len() as u32).to_le_bytes().to_vec();
    header.extend([kind, version, 0, 0]);
    header.extend(number.to_le_bytes());
    let sum = checksum(&[&header, body].concat());
    header.extend(sum.to_le_bytes());
    header.extend(body);
    header
}

fn listen(options: &Options) -> std::net::SocketAddr {
    options.peers.as_ref().unwrap().listen
}

/// Connects, says something, and reads the answer to an introduction: its verdict and its words.
async fn introduce(options: &Options, bytes: &[u8]) -> (TcpStream, u8, String) {
    let mut stream = TcpStream::connect(listen(options)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let (verdict, words) = read_introduction(&mut stream).await.unwrap();
    (stream, verdict, words)
}

async fn answer(stream: &mut TcpStream) -> (u8, u64, Vec<u8>) {
    let mut header = [0; 20];
    stream.read_exact(&mut header).await.unwrap();
    let mut body = vec![0; u32::from_le_bytes(header[..4].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).await.unwrap();
    (header[4], u64::from_le_bytes(header[8..16].try_into().unwrap()), body)
}

/// Reads until the other side closes.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
    // Closed or reset, both are an end.
    drop(end.expect("the connection is closed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_refused_in_words() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    let (options, good) = (&cluster.options[0], Introduction::to(cluster.node(0)));
    let (_, verdict, words) = introduce(options, &good.bytes()).await;
    assert_eq!((verdict, words.as_str()), (WELCOME, ""));
    let cases = [
        (Introduction { cluster: 7, ..good }, "to cluster 00000000000000000000000000000007"),
        (Introduction { group: 3, ..good }, "has no group 3"),
        (Introduction { to: 5, ..good }, "not node 5"),
        (Introduction { from: good.to, ..good }, "at the address of another node"),
        (Introduction { incarnation: 2, ..good }, "must join under a new id"),
        (Introduction { version: 2, ..good }, "version 2 there and 1 here"),
    ];
    for (stranger, expected) in cases {
        let (stream, verdict, words) = introduce(options, &stranger.bytes()).await;
        assert_eq!(verdict, REFUSED);
        assert!(words.contains(expected), "{words}");
        closed(stream).await;
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lost_its_data_is_refused_under_its_old_id() {
    let mut cluster = Cluster::of_three(patient).await;
    // Followers meet too, though they have nothing to say to each other.
    let met = |at: usize| std::fs::read_to_string(cluster.options[at].data.join("peers")).unwrap().lines().count() - 3;
    until("all have met", || (0..3).all(|at| met(at) == 2)).await;
    cluster.propose(0..10).await;
    cluster.all_have(&payloads(10)).await;
    let lost = cluster.follower().await;
    let id = cluster.node(lost).opened.identity.node;
    cluster.stop(lost).await;
    for at in (0..3).filter(|at| *at != lost) {
        let again = Introduction { from: id, incarnation: 12345, ..Introduction::to(cluster.node(at)) };
        let (_, verdict, words) = introduce(&cluster.options[at], &again.bytes()).await;
        assert_eq!(verdict, REFUSED);
        // By what it saw itself, or by what the membership says.
        assert!(words.contains("a node without its data must join"), "{words}");
    }
    // It starts, forms nothing, and changes nothing for the others.
    let leader = cluster.node(cluster.leader().await).leader();
    let empty = tempfile::tempdir().unwrap();
    let returned = open_with(Options { data: empty.path().into(), ..cluster.options[lost].clone() }).await.unwrap();
    assert_eq!(returned.opened.identity.node, id);
    cluster.propose(10..100).await;
    assert_eq!(cluster.node(cluster.leader().await).leader(), leader);
    assert_eq!((returned.ledger.payloads().len(), *returned.node.leadership().borrow()), (0, Leadership::Unknown));
    returned.node.shutdown().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_closes_its_connection_and_harms_nothing() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    let leader = cluster.leader().await;
    let options = &cluster.options[leader];
    let good = Introduction::to(cluster.node(leader)).bytes();
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 100_000], damaged] {
        let mut stream = TcpStream::connect(listen(options)).await.unwrap();
        // It may be closed before all is written.
        let _ = stream.write_all(&bytes).await;
        closed(stream).await;
    }
    for purpose in [1, CONTROL, 3] {
        let hello = Introduction { purpose, ..Introduction::to(cluster.node(leader)) }.bytes();
        let long = [&(1u32 << 30).to_le_bytes()[..], &[1, 1, 0, 0], &[0; 12]].concat();
        let mut wrong_sum = frame(1, 1, 7, b"body");
        wrong_sum[16] ^= 1;
        for bytes in [long, wrong_sum, vec![0; 64]] {
            let (mut stream, verdict, _) = introduce(options, &hello).await;
            assert_eq!(verdict, WELCOME);
            let _ = stream.write_all(&bytes).await;
            closed(stream).await;
        }
        // A whole frame with a body that is none is answered in words, and the connection stays.
        let (mut stream, ..) = introduce(options, &hello).await;
        for number in [5, 6] {
            stream.write_all(&frame(1, 1, number, b"no append")).await.unwrap();
            let (kind, answered, words) = answer(&mut stream).await;
            assert_eq!((kind, answered), (0xff, number), "{}", String::from_utf8_lossy(&words));
        }
        // One of a later version is refused by name.
        stream.write_all(&frame(1, 2, 8, b"")).await.unwrap();
        let (kind, number, words) = answer(&mut stream).await;
        assert_eq!((kind, number), (0xff, 8));
        assert!(String::from_utf8_lossy(&words).contains("version 2, this build reads up to 1"));
        closed(stream).await;
    }
    cluster.propose(0..20).await;
    cluster.all_have(&payloads(20)).await;
    cluster.stop_all().await;
}

/// Asks for a vote in a high term with a long log; says whether it was granted.
async fn asks_for_vote(stream: &mut TcpStream, kind: u8, transfer: bool) -> bool {
    let leader = LeaderId { term: 1000, node: 99 };
    let mut body = Vec::new();
    Vote { leader, committed: false }.write(&mut body).unwrap();
    body.push(1);
    LogPosition { leader: LeaderId { term: 999, node: 99 }, index: 1_000_000 }.write(&mut body).unwrap();
    body.push(u8::from(transfer));
    stream.write_all(&frame(kind, 1, 1, &body)).await.unwrap();
    let (kind, _, body) = answer(stream).await;
    assert!(kind == 0x82 || kind == 0x83, "{kind}: {}", String::from_utf8_lossy(&body));
    body.last() == Some(&1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_member_refuses_its_vote_for_one_lease_length() {
    let mut cluster = Cluster::of_three(|options| options.election_max = Duration::from_millis(2500)).await;
    let lease = Duration::from_millis(2500).mul_f64(1.02);
    cluster.propose(0..3).await;
    let at = cluster.follower().await;
    cluster.stop_all().await;
    let started = Instant::now();
    cluster.start(at).await;
    let hello = Introduction::to(cluster.node(at)).bytes();
    let (mut stream, ..) = introduce(&cluster.options[at], &hello).await;
    // A pre-vote changes nothing, so it can be asked again and again.
    while !asks_for_vote(&mut stream, 3, false).await {
        assert!(started.elapsed() < Duration::from_secs(30), "it never votes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(started.elapsed() >= lease, "it would vote after {:?}", started.elapsed());
    assert!(asks_for_vote(&mut stream, 2, false).await);
    cluster.stop(at).await;
    // A leader that hands over has given up its lease: such a vote is granted at once.
    let started = Instant::now();
    cluster.start(at).await;
    let (mut stream, ..) = introduce(&cluster.options[at], &hello).await;
    let refused = !asks_for_vote(&mut stream, 2, false).await;
    let granted = asks_for_vote(&mut stream, 2, true).await;
    if started.elapsed() < lease {
        assert!(refused && granted);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_alone_that_can_meet_others_leads_at_once_and_never_waits_to_vote() {
    let mut cluster = Cluster::declared(1, |_| ());
    cluster.start(0).await;
    cluster.propose(0..3).await;
    cluster.stop(0).await;
    cluster.start(0).await;
    cluster.propose(3..6).await;
    until("it has everything", || cluster.node(0).ledger.payloads() == payloads(6)).await;
    cluster.stop_all().await;
}
