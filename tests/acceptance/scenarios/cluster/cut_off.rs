//! A leader that its quorum does not hear: it refuses and says why, the others go on, and afterwards it follows.

use std::time::{Duration, Instant};

use crate::clients::{ENTRIES, LEASES, grant};
use crate::cluster::{Cluster, ELECTION_MAX, Plan};
use crate::http::{Answer, Client};
use crate::runs::soon;
use crate::wires::Net;

/// An answer, or none from a node that keeps silent.
fn ask(mut client: Client, method: &str, path: &str, body: &str) -> Option<Answer> {
    client.patience = Duration::from_secs(3);
    client.send(method, path, &[], body.as_bytes()).ok()
}

#[test]
fn a_leader_cut_off_from_its_quorum_refuses_writes_and_reads_and_says_why() {
    let mut cluster = Cluster::with(3, Plan { wired: true, ..Plan::default() });
    let leader = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
    cluster.client(leader).put(&format!("{ENTRIES}/k"), "before").expect(200);
    cluster.wires.as_ref().unwrap().isolate(leader);
    let cut = Instant::now();
    let read = |cluster: &Cluster, number| ask(cluster.client(number), "GET", &format!("{ENTRIES}/k"), "");
    // Until it knows, it is silent: nothing it says may be an answer that others could contradict.
    let refused = soon("a refused read", || read(&cluster, leader).filter(|answer| answer.status != 200));
    let (told, asked) = (cut.elapsed(), refused.answered - refused.sent);
    println!("cut off, a read was refused after {told:?} (asked for {asked:?}): {}", refused.text);
    says_why(refused);
    assert!(told < ELECTION_MAX * 3 + Duration::from_secs(2), "it took {told:?}");
    let write = ask(cluster.client(leader), "PUT", &format!("{ENTRIES}/k"), "from the cut-off leader");
    says_why(write.expect("by now it answers at once"));
    let grant = cluster.client(leader).post(LEASES, &grant("eve", 5000, "a"));
    says_why(grant);
    cluster.client(leader).get("/readyz").expect(503);

    let next = cluster.leader_among(&others);
    assert!(!cluster.leads(leader), "it does not claim to lead any more");
    cluster.client(next).put(&format!("{ENTRIES}/k"), "after").expect(200);
    for number in &others {
        assert_eq!(read(&cluster, *number).unwrap().expect(200).json["value"], "after");
    }
    let stale = ask(cluster.client(leader), "GET", &format!("{ENTRIES}/k?consistency=stale"), "").unwrap().expect(200);
    assert_eq!(stale.json["value"], "before", "it knows nothing newer and was asked for that");
    cluster.wires.as_ref().unwrap().heal();
    // From now on it may refuse, but never show what it knew.
    soon("a read on the healed node", || {
        let answer = read(&cluster, leader)?;
        if answer.status == 200 {
            assert_eq!(answer.json["value"], "after");
        }
        (answer.status == 200).then_some(())
    });
    soon("readiness", || (cluster.status(leader)?["ready"] == true).then_some(()));
    let leaders = (0..3).filter(|number| cluster.leads(*number)).count();
    assert_eq!(leaders, 1);
}

#[track_caller]
fn says_why(answer: Answer) {
    let answer = answer.refused(503, "no_quorum");
    let detail = answer.json["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("majority") || detail.contains("lead"), "it does not say why: {}", answer.text);
    assert!(answer.header("retry-after").is_some(), "{:?}", answer.headers);
}

#[test]
fn a_write_that_a_cut_off_leader_took_is_answered_only_when_it_is_sure() {
    let mut cluster = Cluster::with(3, Plan { wired: true, ..Plan::default() });
    for round in 0..3 {
        let leader = cluster.leader();
        let key = format!("{ENTRIES}/k/{round}");
        cluster.wires.as_ref().unwrap().isolate(leader);
        // Sent before it can know that it is alone: it lies in its log and in no other.
        let answer = ask(cluster.client(leader), "PUT", &key, "taken");
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        let next = cluster.leader_among(&others);
        let seen = cluster.client(next).get(&key).status;
        cluster.wires.as_ref().unwrap().heal();
        cluster.leader();
        let later =
            soon("a read", || ask(cluster.client(leader), "GET", &key, "").filter(|answer| answer.status != 503));
        match answer {
            Some(answer) if answer.status == 200 => assert_eq!(later.status, 200, "acknowledged and lost"),
            Some(answer) => {
                let answer = answer.refused(503, "no_quorum");
                if answer.json["may_have_happened"] == false {
                    assert_eq!(later.status, 404, "it was told that nothing happened");
                }
            }
            None => {}
        }
        println!("round {round}: seen by others {seen}, afterwards {}", later.status);
    }
}

#[test]
fn a_follower_that_its_leader_does_not_reach_refuses_in_time_and_does_not_depose_it() {
    let mut cluster = Cluster::with(3, Plan { wired: true, ..Plan::default() });
    let leader = cluster.leader();
    let (apart, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let term = cluster.status(leader).unwrap()["leader"]["term"].clone();
    // At first it has no connection for commands to the leader yet, then it has one.
    for round in 0..2 {
        let key = format!("{ENTRIES}/k/{round}");
        cluster.wires.as_ref().unwrap().cut(leader, apart);
        let mut client = cluster.client(apart);
        client.patience = Duration::from_secs(20);
        let write = client.send("PUT", &key, &[], b"apart").expect("it answers").refused(503, "no_quorum");
        let took = write.answered - write.sent;
        println!("apart from its leader, a write was refused after {took:?}: {}", write.text);
        // Its leader counts as silent after two elections, then it waits for another one for 2 s.
        assert!(took < ELECTION_MAX * 2 + Duration::from_secs(5), "it took {took:?}");
        client.get("/readyz").expect(503);
        cluster.client(other).put(&format!("{ENTRIES}/other"), "x").expect(200);
        assert!(cluster.leads(leader), "the leader stays");
        cluster.wires.as_ref().unwrap().heal();
        soon("its return", || (cluster.client(apart).get("/readyz").status == 200).then_some(()));
        cluster.client(apart).put(&format!("{ENTRIES}/again"), "x").expect(200);
        // What was under way has arrived late by now, if it was.
        let status = cluster.client(leader).get(&key).status;
        println!("afterwards it is {status}");
        if write.json["may_have_happened"] == false {
            assert_eq!(status, 404, "it was told that nothing happened");
        }
    }
    assert_eq!(cluster.status(leader).unwrap()["leader"]["term"], term, "the leader was not disturbed");
}
