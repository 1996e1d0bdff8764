//! Promise 3: what was acknowledged survives, whatever is killed.
//!
//! Acknowledged grants, claims and writes are held against later looks and reads, and with releases against what
//! watchers were told.

use std::collections::BTreeMap;

use super::lives::Lives;
use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{History, Hold, Look, Moment, Put};

/// The stable name of this checker.
pub const NAME: &str = "nothing_lost";

/// Finds acknowledged facts that are gone.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    leases(history, &mut found);
    entries(history, &mut found);
    events(history, &mut found);
    found.all
}

/// Looks show every lease and claim that was acknowledged and not given up.
fn leases(history: &History, found: &mut Found) {
    let lives = Lives::of(history);
    let mut holds: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in &history.holds {
        holds.entry(&hold.lease).or_default().push(hold);
    }
    // Whoever only waited may have lost patience; its lease goes with its place.
    let mut impatient = std::collections::BTreeSet::new();
    let told = history.ends.iter().map(|end| (end.cause.as_str(), end.lease.as_str()));
    let timeline = Timeline::of(history);
    let seen = timeline.events().filter(|(_, _, event)| event.kind == "lease_ended");
    let seen = seen.map(|(_, _, event)| (event.cause.as_str(), event.holder.as_str()));
    let left = told.chain(seen).filter(|(cause, _)| matches!(*cause, "wait_elapsed" | "left"));
    impatient.extend(left.map(|(_, lease)| lease));
    for look in &history.looks {
        let lease = look.lease.as_str();
        let sure = |look: &Look| {
            let spans = lives.validity(lease);
            spans.iter().any(|span| span.from < look.sent && look.answered < span.to.min(lives.may_end_from(lease)))
        };
        if !look.lives {
            if !impatient.contains(lease) && sure(look) {
                found.push(format!("{lease} was granted or renewed and is gone at {}", look.answered));
            }
            continue;
        }
        for hold in holds.get(lease).into_iter().flatten().filter(|hold| hold.answered < look.sent) {
            let given_back = lives.kept_until(lease, &hold.resource, hold.answered) <= look.answered
                || lives.get(lease).and_then(|life| life.given_up).is_some_and(|sent| sent <= look.answered);
            let shown = look.held.iter().any(|held| held.resource == hold.resource && held.token == hold.token);
            if !given_back && !shown {
                let (resource, token) = (&hold.resource, hold.token);
                found.push(format!("{lease} was granted {resource} with token {token} and has only {:?}", look.held));
            }
        }
    }
}

/// Reads show the newest write that was acknowledged before, or a newer one.
fn entries(history: &History, found: &mut Found) {
    let mut puts: BTreeMap<&str, Vec<&Put>> = BTreeMap::new();
    for put in &history.puts {
        puts.entry(&put.key).or_default().push(put);
    }
    // By key: when which number was the newest acknowledged one.
    let mut newest: BTreeMap<&str, Vec<(Moment, u64)>> = BTreeMap::new();
    for (key, mut puts) in puts {
        puts.sort_by_key(|put| put.answered);
        let risen = puts.into_iter().scan(0, |most, put| {
            *most = put.number.max(*most);
            Some((put.answered, *most))
        });
        newest.insert(key, risen.collect());
    }
    for read in &history.reads {
        let risen = newest.get(read.key.as_str()).map_or(&[][..], Vec::as_slice);
        let before = risen.partition_point(|(answered, _)| *answered < read.sent);
        if let Some((_, number)) = risen[..before].last().filter(|(_, number)| read.number < *number) {
            found.push(format!("{} has {}, but {number} was acknowledged", read.key, read.number));
        }
        if read.number != read.version {
            let (key, number, version) = (&read.key, read.number, read.version);
            found.push(format!("{key} has {number} as its version {version}"));
        }
    }
}

/// Watchers were told of every grant, write and release that was acknowledged.
fn events(history: &History, found: &mut Found) {
    let timeline = Timeline::of(history);
    for hold in history.holds.iter().filter(|hold| timeline.covers(hold.token)) {
        let granted = |e: &&crate::history::Event| e.kind == "claim_granted" && e.resource == hold.resource;
        if timeline.at(hold.token).iter().find(granted).is_none_or(|event| event.token != hold.token) {
            let (resource, token) = (&hold.resource, hold.token);
            found.push(format!("no watcher was told that {resource} was granted with token {token}"));
        }
    }
    for put in history.puts.iter().filter(|put| timeline.covers(put.revision)) {
        let written = |e: &crate::history::Event| e.kind == "entry_put" && e.key == put.key;
        let value = put.number.to_string();
        if !timeline.at(put.revision).iter().any(|event| written(event) && event.value == value) {
            let (number, key, revision) = (put.number, &put.key, put.revision);
            found.push(format!("no watcher was told of write {number} of {key} at {revision}"));
        }
    }
    releases(history, &timeline, found);
}

/// A call that was sent after a release was acknowledged sees a state in which its lease has ended.
fn releases(history: &History, timeline: &Timeline<'_>, found: &mut Found) {
    let mut born = std::collections::BTreeSet::new();
    let mut ended: BTreeMap<&str, u64> = BTreeMap::new();
    for change in timeline.whole() {
        for event in &change.events {
            match event.kind.as_str() {
                "lease_granted" => drop(born.insert(event.holder.as_str())),
                "lease_ended" => drop(ended.insert(&event.holder, change.revision)),
                _ => {}
            }
        }
    }
    let mut later: Vec<(Moment, u64)> = history.answers.iter().map(|answer| (answer.sent, answer.revision)).collect();
    later.sort_unstable();
    let mut least = u64::MAX;
    for (_, revision) in later.iter_mut().rev() {
        least = least.min(*revision);
        *revision = least;
    }
    for release in history.releases.iter().filter(|release| release.resource.is_none()) {
        let Some(answered) = release.answered.filter(|_| born.contains(release.lease.as_str())) else { continue };
        let after = later.partition_point(|(sent, _)| *sent < answered);
        let Some((_, revision)) = later.get(after).filter(|(_, known)| *known <= timeline.known_up_to()) else {
            continue;
        };
        if ended.get(release.lease.as_str()).is_none_or(|end| end > revision) {
            let lease = &release.lease;
            found.push(format!(
                "{lease} was released by {answered}, but had not ended at the later revision {revision}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, ack, at, change, hold, release, sentences, told};
    use crate::history::{Answered, End, Held, ReadBack, Revoke};

    fn look(lives: bool, token: u64, sent: u64) -> Look {
        let held = if lives { vec![Held { resource: "a".into(), token, since: None }] } else { Vec::new() };
        Look { lease: "ann".into(), sent: at(sent), answered: at(sent + 1), lives, held }
    }

    fn granted(looks: Vec<Look>) -> History {
        History { acks: vec![ack("ann", 0, 1000)], holds: vec![hold("ann", "a", 5, 0)], looks, ..History::default() }
    }

    #[test]
    fn a_lost_grant_is_found() {
        let fine = granted(vec![look(true, 5, 500), look(false, 5, 2000)]);
        assert_eq!(sentences(&check(&fine)), NOTHING, "after its deadline it may be gone");
        let mut gone = granted(vec![look(false, 5, 500)]);
        assert_eq!(check(&gone).len(), 1);
        gone.revokes.push(Revoke { lease: "ann".into(), now: false, sent: at(400), answered: None });
        assert_eq!(sentences(&check(&gone)), NOTHING, "an operator may have taken it");
    }

    #[test]
    fn a_lost_claim_is_found() {
        let mut other = granted(vec![look(true, 6, 500)]);
        assert_eq!(check(&other).len(), 1, "another token");
        other.looks[0].held.clear();
        assert_eq!(check(&other).len(), 1);
        other.releases.push(crate::history::Release { resource: Some("a".into()), ..release("ann", 300, None) });
        assert_eq!(sentences(&check(&other)), NOTHING, "it was given back");
    }

    #[test]
    fn who_lost_patience_is_not_lost() {
        let mut gone = granted(vec![look(false, 5, 500)]);
        gone.holds.clear();
        gone.ends = vec![End { lease: "ann".into(), cause: "wait_elapsed".into(), ended_by: 400, answered: at(500) }];
        assert_eq!(sentences(&check(&gone)), NOTHING);
    }

    #[test]
    fn a_lost_write_is_found() {
        let put = |number| Put { key: "k".into(), number, revision: number, version: None, answered: at(number) };
        let read = |number, version| ReadBack { key: "k".into(), number, version, sent: at(50) };
        let with =
            |read| check(&History { puts: vec![put(1), put(2), put(60)], reads: vec![read], ..History::default() });
        assert_eq!(sentences(&with(read(2, 2))), NOTHING);
        assert_eq!(sentences(&with(read(3, 3))), NOTHING, "one more may be on its way");
        assert_eq!(with(read(1, 1)).len(), 1);
        assert_eq!(with(read(2, 3)).len(), 1, "written twice");
    }

    #[test]
    fn what_no_watcher_was_told_is_found() {
        let with = |changes| {
            let put = Put { key: "k".into(), number: 1, revision: 4, version: Some(1), answered: at(0) };
            let holds = vec![hold("ann", "a", 2, 0)];
            check(&History { watched: told(changes), puts: vec![put], holds, ..History::default() })
        };
        let claim = || change(2, &["claim_granted resource=a token=2"]);
        let put = || change(4, &["entry_put key=k value=1 version=1"]);
        let more = || change(9, &["entry_deleted key=k"]);
        assert_eq!(sentences(&with(vec![claim(), put(), more()])), NOTHING);
        assert_eq!(with(vec![claim(), more()]).len(), 1);
        assert_eq!(with(vec![put(), more()]).len(), 1);
        assert_eq!(sentences(&with(vec![claim()])), NOTHING, "what comes after the last delivery is not judged");
    }

    #[test]
    fn a_lost_release_is_found() {
        let with = |sent, end| {
            let answered =
                |revision| Answered { client: "c".into(), sent: at(sent), answered: at(99), revision, time: None };
            let changes = vec![change(1, &["lease_granted holder=ann"]), change(end, &["lease_ended holder=ann"])];
            let releases = vec![release("ann", 10, Some(20))];
            check(&History { watched: told(changes), releases, answers: vec![answered(5)], ..History::default() })
        };
        assert_eq!(sentences(&with(30, 5)), NOTHING);
        assert_eq!(with(30, 6).len(), 1);
        assert_eq!(sentences(&with(15, 6)), NOTHING, "sent before it was acknowledged");
    }
}
