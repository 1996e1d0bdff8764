//! Who belongs to a cluster: nodes join while it works, are removed, move, and every node can be asked to change it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod common;

use std::time::{Duration, Instant};

use common::cluster::{Cluster, free_address, patient, until};
use common::stranger::{Introduction, REFUSED, read_introduction};
use common::{Running, open_with, payloads};
use leasehold_raft::{Formation, OpenError};
use leasehold_service::log::{Leadership, Log};
use leasehold_service::{Cluster as _, ClusterChange, ClusterChanged, Failure};
use tokio::io::AsyncWriteExt;

/// Asks a node for a change of its cluster.
async fn change(running: &Running, change: ClusterChange) -> Result<ClusterChanged, Failure> {
    running.node.change(change).await
}

fn refusal(answer: Result<ClusterChanged, Failure>) -> String {
    let failure = answer.unwrap_err();
    let Failure::ChangeRefused(words) = failure else { panic!("not refused in words: {failure}") };
    words
}

fn leadership(running: &Running) -> Leadership {
    *running.node.leadership().borrow()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_from_one_to_five_and_shrinks_to_three_while_it_works() {
    let mut cluster = Cluster::of_one(patient).await;
    cluster.propose(0..20).await;
    for (at, name) in ["n2", "n3", "n4", "n5"].into_iter().enumerate() {
        // Each asks the one that came before it, which may or may not vote already.
        let joiner = cluster.joiner(name, at, patient);
        cluster.start(joiner).await;
        cluster.propose(20 + at * 20..40 + at * 20).await;
    }
    cluster.has_voters(&["n1", "n2", "n3", "n4", "n5"]).await;
    cluster.all_have(&payloads(100)).await;

    let follower = cluster.follower().await;
    let leader = cluster.leader().await;
    for gone in [follower, leader] {
        let asked = (0..5).find(|at| *at != gone && cluster.nodes[*at].is_some()).unwrap();
        let node = cluster.id(gone);
        let removed = change(cluster.node(asked), ClusterChange::Remove { node }).await.unwrap();
        assert_eq!(removed, ClusterChanged::Removed);
        hears_of_its_removal(cluster.node(gone)).await;
        until("it follows nobody", || leadership(cluster.node(gone)) == Leadership::Unknown).await;
        cluster.stop(gone).await;
        let done = 100 + if gone == follower { 0 } else { 20 };
        cluster.propose(done..done + 20).await;
    }
    cluster.all_have(&payloads(140)).await;
    let members = cluster.running().next().unwrap().node.members();
    assert_eq!((members.len(), members.iter().filter(|member| member.voter).count()), (3, 3));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_ask_any_member_and_only_one_directory_has_a_name() {
    let mut cluster = Cluster::of_three(patient).await;
    cluster.propose(0..10).await;
    let follower = cluster.follower().await;
    let fourth = cluster.joiner("n4", follower, patient);
    cluster.start(fourth).await;
    cluster.has_voters(&["n1", "n2", "n3", "n4"]).await;
    cluster.all_have(&payloads(10)).await;

    let same_name = cluster.joiner("n4", follower, patient);
    let error = open_with(cluster.options[same_name].clone()).await.map(drop).unwrap_err();
    let words = "n4 is a member already with other data; remove it first: lease cluster remove n4";
    assert!(matches!(&error, OpenError::NotAdmitted { .. }) && error.to_string().contains(words), "{error}");

    let same_address = cluster.joiner("n6", follower, patient);
    let address = cluster.address(fourth);
    cluster.options[same_address].peers.as_mut().unwrap().advertise = Some(address);
    let error = open_with(cluster.options[same_address].clone()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("is the address of n4, a member already"), "{error}");

    let nowhere = cluster.joiner("n7", follower, patient);
    cluster.options[nowhere].peers.as_mut().unwrap().advertise = Some(free_address().to_string());
    let error = open_with(cluster.options[nowhere].clone()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("cannot be reached from the leader"), "{error}");
    cluster.nodes.truncate(4);
    cluster.has_voters(&["n1", "n2", "n3", "n4"]).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_cluster_does_not_join() {
    let mut cluster = Cluster::of_one(patient).await;
    let other = cluster.joiner("n2", 0, patient);
    let join = std::mem::take(&mut cluster.options[other].peers.as_mut().unwrap().formation);
    cluster.start(other).await;
    cluster.stop(other).await;
    cluster.options[other].peers.as_mut().unwrap().formation = join;
    let error = open_with(cluster.options[other].clone()).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::AnotherCluster { .. }), "{error}");
    // Where no member answers, the directory goes on as what it is.
    cluster.stop(0).await;
    cluster.start(other).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_was_kept_goes_to_the_first_directory_that_comes_for_it() {
    let mut cluster = Cluster::of_one(patient).await;
    let second = cluster.joiner("n2", 0, patient);
    let add = |address: String| ClusterChange::Add { name: "n2".into(), address };
    let here = cluster.address(second);
    let added = change(cluster.node(0), add(here.clone())).await.unwrap();
    assert_eq!(change(cluster.node(0), add(here.clone())).await.unwrap(), added, "asked twice, it is kept once");
    let words = refusal(change(cluster.node(0), add(free_address().to_string())).await);
    assert!(words.contains("is to join at"), "{words}");
    let words = refusal(change(cluster.node(0), ClusterChange::Add { name: "n9".into(), address: here }).await);
    assert!(words.contains("is the address of n2"), "{words}");

    let elsewhere = cluster.joiner("n2", 0, patient);
    let error = open_with(cluster.options[elsewhere].clone()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("n2 is to join at"), "{error}");
    cluster.start(second).await;
    assert_eq!(added, ClusterChanged::Added { node: cluster.id(second) });
    cluster.has_voters(&["n1", "n2"]).await;
    let words = refusal(change(cluster.node(0), add(cluster.address(second))).await);
    assert_eq!(words, "n2 is a member already");
    for (name, address) in [("a b", "127.0.0.1:7"), ("n3", "127.0.0.1"), ("n3", "10.0.0.1:1")] {
        let add = ClusterChange::Add { name: name.into(), address: address.into() };
        refusal(change(cluster.node(0), add).await);
    }
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_that_is_interrupted_anywhere_goes_on_where_it_was() {
    let mut cluster = Cluster::of_one(patient).await;
    cluster.propose(0..10).await;
    let joiner = cluster.joiner("n2", 0, patient);
    // Longer and longer, so that it is interrupted before, while and after it is admitted.
    for attempt in 0..8 {
        let opening = open_with(cluster.options[joiner].clone());
        if let Ok(opened) = tokio::time::timeout(Duration::from_millis(attempt * 3), opening).await {
            opened.unwrap().node.shutdown().await;
        }
    }
    cluster.start(joiner).await;
    cluster.has_voters(&["n1", "n2"]).await;
    cluster.stop(joiner).await;
    cluster.start(joiner).await;
    cluster.propose(10..20).await;
    cluster.all_have(&payloads(20)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_waits_for_a_cluster_that_is_not_there_yet_and_says_so() {
    let mut cluster = Cluster::of_one(patient).await;
    cluster.stop(0).await;
    let joiner = cluster.joiner("n2", 0, patient);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let machine = std::sync::Arc::new(common::Ledger::default());
    let tell = move |words: &str| drop(tell.send(words.to_string()));
    let opening = tokio::spawn(leasehold_raft::Node::open_telling(cluster.options[joiner].clone(), machine, tell));
    let words = told.recv().await.unwrap();
    assert!(words.starts_with("waiting to be admitted to the cluster: "), "{words}");
    assert!(words.contains(&cluster.address(0)), "{words}");
    cluster.start(0).await;
    let (node, _) = opening.await.unwrap().unwrap();
    cluster.has_voters(&["n1", "n2"]).await;
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_passes_changes_on_to_the_leader() {
    let mut cluster = Cluster::of_three(patient).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let (old, asked) = (cluster.id(leader), cluster.id(follower));
    let to = ClusterChange::Transfer { to: Some(asked) };
    let changed = change(cluster.node(follower), to).await.unwrap();
    assert_eq!(changed, ClusterChanged::Transferred { to: asked });
    assert_eq!(cluster.leader().await, follower);
    // To whoever is most up to date, through the node that led before.
    let changed = change(cluster.node(leader), ClusterChange::Transfer { to: None }).await.unwrap();
    let ClusterChanged::Transferred { to } = changed else { panic!("{changed:?}") };
    assert_ne!(to, asked);
    until("all know the new leader", || cluster.running().all(|node| node.node.status().leader == Some(to))).await;

    let add = ClusterChange::Add { name: "n4".into(), address: free_address().to_string() };
    let follower = cluster.follower().await;
    let ClusterChanged::Added { node } = change(cluster.node(follower), add).await.unwrap() else { panic!() };
    let learner = || cluster.running().all(|running| running.node.members().iter().any(|m| m.node == node && !m.voter));
    until("all know the new node", learner).await;
    let removed = change(cluster.node(follower), ClusterChange::Remove { node }).await.unwrap();
    assert_eq!(removed, ClusterChanged::Removed);
    let removed = change(cluster.node(follower), ClusterChange::Remove { node }).await.unwrap();
    assert_eq!(removed, ClusterChanged::Removed, "asked twice, it is still removed");
    let words = refusal(change(cluster.node(follower), ClusterChange::Remove { node: 77 }).await);
    assert_eq!(words, "node 77 is not a member");
    let words = refusal(change(cluster.node(follower), ClusterChange::Transfer { to: Some(77) }).await);
    assert_eq!(words, "77 is not a voter");
    assert_eq!(cluster.node(follower).node.name_of(old), format!("n{}", leader + 1));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_knows_how_its_members_are_doing() {
    let mut cluster = Cluster::of_three(patient).await;
    cluster.propose(0..10).await;
    cluster.all_have(&payloads(10)).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let all_matched = || {
        let status = cluster.node(leader).node.status();
        status.members.iter().all(|member| member.matched == status.last_log && member.heard_ms.is_some())
    };
    until("the leader knows that all have everything", all_matched).await;
    let status = cluster.node(leader).node.status();
    assert_eq!((status.node, status.leader), (cluster.id(leader), Some(cluster.id(leader))));
    assert!(status.term > 0 && status.applied.is_some() && status.log_bytes > 0);
    let status = cluster.node(follower).node.status();
    let own = |member: &&leasehold_service::Member| member.matched.is_some();
    assert_eq!(status.members.iter().filter(own).map(|m| m.node).collect::<Vec<_>>(), [cluster.id(follower)]);
    assert_eq!(status.leader, Some(cluster.id(leader)));
    cluster.stop_all().await;
}

/// Waits until a node answers everything with its removal.
async fn hears_of_its_removal(running: &Running) {
    let asked = async {
        loop {
            // It asks for as long as it hopes for a leader.
            let anything = change(running, ClusterChange::Transfer { to: None });
            if let Ok(answer) = tokio::time::timeout(Duration::from_millis(500), anything).await {
                return refusal(answer);
            }
        }
    };
    let words = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("it hears of its removal");
    assert!(words.starts_with("this node was removed from the cluster"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_node_hears_of_it_and_disturbs_nobody() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    cluster.propose(0..10).await;
    let (leader, away) = (cluster.leader().await, cluster.follower().await);
    let (id, name) = (cluster.id(away), format!("n{}", away + 1));
    // It is away when it is removed, and comes back as if nothing had happened.
    cluster.stop(away).await;
    let answer = change(cluster.node(leader), ClusterChange::Remove { node: id }).await;
    assert_eq!(answer.unwrap(), ClusterChanged::Removed);
    let term = cluster.node(cluster.leader().await).leader().term;
    cluster.start(away).await;
    let removed = cluster.nodes[away].take().unwrap();
    let election = cluster.options[away].election_max;
    hears_of_its_removal(&removed).await;
    until("it knows no leader", || leadership(&removed) == Leadership::Unknown).await;
    // Long enough for several elections.
    tokio::time::sleep(election * 4).await;
    assert_eq!(leadership(&removed), Leadership::Unknown);
    assert_eq!(cluster.node(cluster.leader().await).leader().term, term, "{name} began an election");
    removed.node.shutdown().await;
    // All others forget nothing of it when they restart.
    cluster.stop_all().await;
    for at in (0..3).filter(|at| *at != away) {
        cluster.start(at).await;
    }
    let removed = open_with(cluster.options[away].clone()).await.unwrap();
    hears_of_its_removal(&removed).await;
    cluster.propose(10..20).await;
    removed.node.shutdown().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_asks_a_removed_one_first_is_admitted_by_the_next() {
    let mut cluster = Cluster::of_three(patient).await;
    let (leader, gone) = (cluster.leader().await, cluster.follower().await);
    let answer = change(cluster.node(leader), ClusterChange::Remove { node: cluster.id(gone) }).await;
    assert_eq!(answer.unwrap(), ClusterChanged::Removed);
    let removed = cluster.nodes[gone].take().unwrap();
    hears_of_its_removal(&removed).await;
    let addresses = vec![cluster.address(gone), cluster.address(leader)];
    let fourth = cluster.joiner("n4", leader, |options| {
        patient(options);
        options.peers.as_mut().unwrap().formation = Formation::Join(addresses.clone());
    });
    cluster.start(fourth).await;
    cluster.propose(0..10).await;
    cluster.all_have(&payloads(10)).await;
    removed.node.shutdown().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_would_end_the_cluster_is_refused() {
    let mut cluster = Cluster::of_one(patient).await;
    let words = refusal(change(cluster.node(0), ClusterChange::Remove { node: cluster.id(0) }).await);
    assert_eq!(words, "n1 is the only voter; a cluster without one is lost");
    let words = refusal(change(cluster.node(0), ClusterChange::Transfer { to: None }).await);
    assert_eq!(words, "no other voter can be reached");
    cluster.stop_all().await;

    let mut cluster = Cluster::of_three(|_| ()).await;
    let away = cluster.follower().await;
    let id = cluster.id(away);
    cluster.stop(away).await;
    let stopped = Instant::now();
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let remove = |node| ClusterChange::Remove { node };
    // Its last answer may be under way when it stops: the leader may hear of it then for the first time.
    let quiet = || {
        let members = cluster.node(leader).node.members();
        let misses = |heard| heard > 1300;
        stopped.elapsed().as_millis() > 1300
            && members.iter().any(|member| member.node == id && member.heard_ms.is_none_or(misses))
    };
    until("the leader misses it", quiet).await;
    let words = refusal(change(cluster.node(leader), remove(cluster.id(follower))).await);
    let expected = format!("without n{} no majority would be left: n{} cannot be reached", follower + 1, away + 1);
    assert!(words.starts_with(&expected), "{words}");
    change(cluster.node(leader), remove(id)).await.unwrap();
    cluster.propose(0..10).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_comes_back_at_another_address_is_found_there() {
    let mut cluster = Cluster::of_three(|_| ()).await;
    let known = |running: &Running| running.node.members().iter().all(|member| member.voter);
    until("all have met", || cluster.running().all(known)).await;
    let moved = cluster.follower().await;
    let (id, address) = (cluster.id(moved), free_address());
    cluster.stop(moved).await;
    cluster.propose(0..10).await;
    let peers = cluster.options[moved].peers.as_mut().unwrap();
    (peers.listen, peers.formation) = (address, Formation::Alone);
    cluster.start(moved).await;
    let there = |running: &Running| {
        running.node.members().iter().any(|member| member.node == id && member.address == address.to_string())
    };
    until("all know where it is", || cluster.running().all(there)).await;
    cluster.propose(10..20).await;
    cluster.all_have(&payloads(20)).await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lost_its_data_is_known_as_such_by_those_who_never_met_it() {
    let mut cluster = Cluster::of_three(patient).await;
    let complete = |running: &Running| running.node.incarnations().values().all(|incarnation| *incarnation != 0);
    until("the membership names all data directories", || cluster.running().all(complete)).await;
    let (leader, lost) = (cluster.leader().await, cluster.follower().await);
    let id = cluster.id(lost);
    cluster.stop(lost).await;
    let fourth = cluster.joiner("n4", leader, patient);
    cluster.start(fourth).await;
    cluster.has_voters(&["n1", "n2", "n3", "n4"]).await;
    until("the new node has the membership", || cluster.node(fourth).node.incarnations().len() == 4).await;

    let returned = Introduction { from: id, incarnation: 12345, ..Introduction::to(cluster.node(fourth)) };
    let mut stream = tokio::net::TcpStream::connect(cluster.address(fourth)).await.unwrap();
    stream.write_all(&returned.bytes()).await.unwrap();
    let (verdict, words) = read_introduction(&mut stream).await.unwrap();
    assert_eq!(verdict, REFUSED);
    assert!(words.contains(&format!("lease cluster remove n{}", lost + 1)), "{words}");
    cluster.start(lost).await;
    cluster.propose(0..10).await;
    cluster.all_have(&payloads(10)).await;
    cluster.stop_all().await;
}
