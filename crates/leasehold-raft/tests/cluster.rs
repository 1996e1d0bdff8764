//! Three nodes in one process: they form a cluster, replicate, fail over, catch up, grow, and hand over.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use common::cluster::{Cluster, free_address, joining, patient, until};
use common::{log_files, open_with, payload, payloads};
use leasehold_raft::{ChangeError, Formation, OpenError, Options, PeerOptions};
use leasehold_service::log::{Leadership, Log};
use leasehold_service::{Cluster as _, ClusterChange};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_members_form_one_cluster_and_replicate() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    cluster.propose(0..100).await;
    cluster.all_have(&payloads(100)).await;
    let ids: BTreeSet<_> = cluster.running().map(|running| running.opened.identity.cluster).collect();
    assert_eq!(ids.len(), 1);
    for running in cluster.running() {
        let members = running.node.members();
        assert_eq!(members.len(), 3);
        assert!(members.iter().all(|member| member.voter));
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_starts_late_joins_the_cluster_the_others_formed() {
    let mut cluster = Cluster::declared(3, |_| ());
    cluster.start(2).await;
    cluster.start(0).await;
    cluster.propose(0..20).await;
    cluster.start(1).await;
    cluster.all_have(&payloads(20)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_goes_another_takes_over_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    cluster.propose(0..50).await;
    let first = cluster.leader().await;
    let term = cluster.node(first).leader().term;
    cluster.stop(first).await;
    let stopped = Instant::now();
    let second = cluster.leader().await;
    println!("fail-over: {:?}", stopped.elapsed());
    assert_ne!(first, second);
    assert!(cluster.node(second).leader().term > term);
    cluster.node(second).node.read_barrier().await.unwrap();
    assert_eq!(cluster.node(second).ledger.payloads(), payloads(50));
    cluster.propose(50..100).await;
    cluster.start(first).await;
    cluster.all_have(&payloads(100)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_stopped_and_started_go_on_with_everything_acknowledged() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    cluster.propose(0..30).await;
    cluster.stop_all().await;
    for at in 0..3 {
        cluster.start(at).await;
        assert!(!cluster.node(at).opened.fresh);
    }
    cluster.propose(30..40).await;
    cluster.all_have(&payloads(40)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_away_catches_up_from_the_log() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    let away = cluster.follower().await;
    cluster.stop(away).await;
    cluster.propose(0..400).await;
    cluster.start(away).await;
    cluster.all_have(&payloads(400)).await;
    assert_eq!(cluster.node(away).node.metrics().last_snapshot, None);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_away_for_longer_gets_a_snapshot() {
    let mut cluster = Cluster::of_three(|options| {
        options.log_file_records = 50;
        options.retained_entries = 10;
    })
    .await;
    cluster.propose(0..5).await;
    let away = cluster.follower().await;
    cluster.stop(away).await;
    // More than fits into a few parts of the stream.
    let leader = cluster.leader().await;
    for _ in 0..5 {
        cluster.node(leader).propose(vec![7; 1 << 20]).await.unwrap();
    }
    cluster.propose(5..300).await;
    cluster.all_have(&payloads(300)).await;
    // On both, whichever leads when the third returns.
    let mut covered = u64::MAX;
    for at in (0..3).filter(|at| *at != away) {
        covered = covered.min(cluster.node(at).node.snapshot_now().await.unwrap());
        until("the log behind the snapshot is gone", || log_files(&cluster.options[at].data).len() < 4).await;
    }
    cluster.start(away).await;
    cluster.all_have(&payloads(300)).await;
    // The state is there before the file is: a slow disk takes its time.
    until("the snapshot is kept", || cluster.node(away).node.metrics().last_snapshot >= Some(covered)).await;
    cluster.propose(300..310).await;
    cluster.all_have(&payloads(310)).await;
    let left = std::fs::read_dir(cluster.options[away].data.join("groups/0/snapshots")).unwrap().count();
    assert_eq!(left, 1, "no temporary file stays");
    // And what was installed is there after a restart.
    cluster.stop(away).await;
    cluster.start(away).await;
    cluster.all_have(&payloads(310)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over_on_request() {
    let mut cluster = Cluster::of_three(patient).await;
    cluster.propose(0..10).await;
    let (from, to) = (cluster.leader().await, cluster.follower().await);
    let target = cluster.node(to).opened.identity.node;
    let refused = cluster.node(to).node.transfer(target).await.unwrap_err();
    assert!(matches!(refused, ChangeError::NotLeader { .. }), "{refused}");
    cluster.node(from).node.transfer(77).await.unwrap_err();
    // To one that is gone it is refused at once, and the leader stays.
    let leads = *cluster.node(from).node.leadership().borrow();
    let gone = (0..3).find(|at| *at != from && *at != to).unwrap();
    let away = cluster.node(gone).opened.identity.node;
    cluster.stop(gone).await;
    let refused = cluster.node(from).node.transfer(away).await.unwrap_err();
    assert!(matches!(refused, ChangeError::Refused(_)), "{refused}");
    cluster.propose(10..12).await;
    assert_eq!(*cluster.node(from).node.leadership().borrow(), leads);
    cluster.start(gone).await;
    cluster.leader().await;
    let asked = Instant::now();
    cluster.node(from).node.transfer(target).await.unwrap();
    println!("transfer: {:?}", asked.elapsed());
    until("the other node leads", || matches!(*cluster.node(to).node.leadership().borrow(), Leadership::Leads(_)))
        .await;
    cluster.propose(12..20).await;
    // Again and again, as soon as one leads, also to one that has just been started.
    for turn in 0..9 {
        let from = cluster.leader().await;
        let to = (from + 1) % 3;
        if turn % 3 == 2 {
            cluster.stop(to).await;
            cluster.start(to).await;
        }
        let target = cluster.node(to).opened.identity.node;
        let done = cluster.node(from).node.transfer(target).await;
        assert!(done.is_ok(), "turn {turn}: {done:?}");
    }
    cluster.all_have(&payloads(20)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_grows_to_three_while_it_works_and_survives_its_first_node() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    // It began alone, without an address for others.
    let alone = open_with(Options::new(dirs[0].path())).await.unwrap();
    alone.propose(payload(0)).await.unwrap();
    alone.node.shutdown().await;
    let address = free_address();
    let mut options = Options { peers: Some(PeerOptions::new("n1", address)), ..Options::new(dirs[0].path()) };
    patient(&mut options);
    let first = Arc::new(open_with(options).await.unwrap());

    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(1)));
    let load = {
        let (first, stop, count) = (first.clone(), stop.clone(), count.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                first.propose(payload(count.load(Ordering::Relaxed))).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let asked = address.to_string();
    let (second, third) =
        tokio::join!(joining("n2", &asked, dirs[1].path(), patient), joining("n3", &asked, dirs[2].path(), patient));
    let voters = || first.node.members().iter().filter(|member| member.voter).count();
    until("all three vote", || voters() == 3).await;
    let grown = count.load(Ordering::Relaxed);
    until("the load goes on", || count.load(Ordering::Relaxed) > grown + 20).await;
    stop.store(true, Ordering::Relaxed);
    load.await.unwrap();
    first.node.shutdown().await;
    let mut cluster = Cluster::declared(0, |_| ());
    cluster.nodes = vec![Some(second), Some(third)];
    let total = count.load(Ordering::Relaxed);
    cluster.propose(total..total + 10).await;
    cluster.all_have(&payloads(total + 10)).await;
    let leader = cluster.leader().await;
    cluster.node(leader).node.change(ClusterChange::Remove { node: 1 }).await.unwrap();
    assert_eq!(cluster.node(leader).node.members().len(), 2);
    cluster.propose(total + 10..total + 20).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_cluster_is_refused_with_words() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    cluster.stop_all().await;
    let mut options = cluster.options[0].clone();
    let peers = options.peers.as_mut().unwrap();
    let Formation::Members(members) = &mut peers.formation else { panic!("the cluster is declared") };
    members.insert("n4".into(), free_address().to_string());
    let error = open_with(options).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Another { .. }), "{error}");
    assert!(error.to_string().contains("start with the list of members it was formed with"), "{error}");
    // Without a list it goes on as what it is.
    let mut options = cluster.options[0].clone();
    options.peers.as_mut().unwrap().formation = Formation::Alone;
    open_with(options).await.unwrap().node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_log_is_gone_does_not_start() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    let lost = cluster.leader().await;
    cluster.stop_all().await;
    std::fs::remove_dir_all(cluster.options[lost].data.join("groups")).unwrap();
    let error = open_with(cluster.options[lost].clone()).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::LostLog { .. }), "{error}");
}

#[tokio::test]
async fn plain_connections_beyond_this_machine_must_be_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let peers = Some(PeerOptions::new("n1", "0.0.0.0:0".parse().unwrap()));
    let error = open_with(Options { peers, ..Options::new(dir.path()) }).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("allow it as insecure"), "{error}");
    assert!(!dir.path().join("identity").exists(), "nothing was written");
}
