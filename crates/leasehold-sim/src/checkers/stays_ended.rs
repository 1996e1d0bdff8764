//! Promise 9: no acknowledged release or expiry is undone; a lease ends once, for one reason.

use std::collections::{BTreeMap, BTreeSet};

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{History, Moment};

/// The stable name of this checker.
pub const NAME: &str = "stays_ended";

/// How a lease was known to be over.
#[derive(Default)]
struct Over<'a> {
    /// The first moment at which anybody knew.
    known: Option<Moment>,
    causes: BTreeSet<&'a str>,
    /// The revisions at which watchers were told of its end.
    revisions: BTreeSet<u64>,
}

/// Finds signs of life of what was known to be over.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let over = known_ends(history);
    for (lease, over) in &over {
        if over.causes.len() > 1 {
            found.push(format!("{lease} ended for different reasons: {:?}", over.causes));
        }
        if over.revisions.len() > 1 {
            found.push(format!("{lease} ended at several revisions: {:?}", over.revisions));
        }
    }
    let known = |lease: &str, sent: Moment| over.get(lease).and_then(|over| over.known).filter(|known| *known < sent);
    for ack in &history.acks {
        if let Some(over) = known(&ack.lease, ack.sent) {
            found.push(format!("{} was over by {over} and was granted or renewed at {}", ack.lease, ack.answered));
        }
    }
    for hold in &history.holds {
        if let Some(over) = known(&hold.lease, hold.sent) {
            found.push(format!("{} was over by {over} and got {} after that", hold.lease, hold.resource));
        }
    }
    let given_back = given_back(history);
    for look in history.looks.iter().filter(|look| look.lives) {
        if let Some(over) = known(&look.lease, look.sent) {
            found.push(format!("{} was over by {over} and lived at {}", look.lease, look.answered));
        }
        for held in &look.held {
            let back = given_back.get(&(look.lease.as_str(), held.token)).filter(|back| **back < look.sent);
            if let Some(back) = back {
                let (lease, resource) = (&look.lease, &held.resource);
                found.push(format!("{lease} had given {resource} back by {back} and holds it at {}", look.answered));
            }
        }
    }
    found.all
}

fn known_ends(history: &History) -> BTreeMap<&str, Over<'_>> {
    let mut over: BTreeMap<&str, Over<'_>> = BTreeMap::new();
    let mut note = |lease, known: Option<Moment>, cause, revision: Option<u64>| {
        let over = over.entry(lease).or_default();
        over.known = over.known.into_iter().chain(known).min();
        over.causes.extend(cause);
        over.revisions.extend(revision);
    };
    for release in history.releases.iter().filter(|release| release.resource.is_none()) {
        note(release.lease.as_str(), release.answered, None, None);
    }
    for revoke in &history.revokes {
        note(&revoke.lease, revoke.answered, None, None);
    }
    for end in &history.ends {
        note(&end.lease, Some(end.answered), Some(end.cause.as_str()), None);
    }
    let timeline = Timeline::of(history);
    for (revision, seen, event) in timeline.events().filter(|(_, _, event)| event.kind == "lease_ended") {
        // An event may name no holder; then it says nothing about a lease.
        if !event.holder.is_empty() {
            note(&event.holder, Some(seen), Some(event.cause.as_str()), Some(revision));
        }
    }
    over
}

/// When single claims were known to be given back, by lease and token.
fn given_back(history: &History) -> BTreeMap<(&str, u64), Moment> {
    let mut tokens: BTreeMap<(&str, &str), Vec<(Moment, u64)>> = BTreeMap::new();
    for hold in &history.holds {
        tokens.entry((&hold.lease, &hold.resource)).or_default().push((hold.answered, hold.token));
    }
    let mut back = BTreeMap::new();
    for release in &history.releases {
        let (Some(resource), Some(answered)) = (&release.resource, release.answered) else { continue };
        let held = tokens.get(&(release.lease.as_str(), resource.as_str())).into_iter().flatten();
        // It gave back what it knew to hold.
        for (_, token) in held.filter(|(since, _)| *since <= release.sent) {
            back.entry((release.lease.as_str(), *token)).or_insert(answered);
        }
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, ack, at, change, hold, release, sentences, told};
    use crate::history::{End, Held, Look, Release};

    fn look(sent: u64, held: Vec<Held>) -> Look {
        Look { lease: "ann".into(), sent: at(sent), answered: at(sent + 1), lives: true, held }
    }

    #[test]
    fn a_release_that_is_undone_is_found() {
        let with = |looked| {
            let releases = vec![release("ann", 10, Some(20))];
            check(&History { releases, looks: vec![look(looked, vec![])], ..History::default() })
        };
        assert_eq!(sentences(&with(15)), NOTHING, "not yet acknowledged");
        assert_eq!(with(30).len(), 1);
    }

    #[test]
    fn an_expiry_that_is_undone_is_found() {
        let end = End { lease: "ann".into(), cause: "expired".into(), ended_by: 5, answered: at(20) };
        let with =
            |sent| check(&History { ends: vec![end.clone()], acks: vec![ack("ann", sent, 9)], ..History::default() });
        assert_eq!(sentences(&with(15)), NOTHING);
        assert_eq!(with(30).len(), 1);
        let watched = told(vec![change(20, &["lease_ended holder=ann cause=expired"])]);
        let with = |sent| {
            check(&History { watched: watched.clone(), holds: vec![hold("ann", "a", 1, sent)], ..History::default() })
        };
        assert_eq!(sentences(&with(15)), NOTHING);
        assert_eq!(with(30).len(), 1);
    }

    #[test]
    fn a_lease_ends_once_and_for_one_reason() {
        let end = |cause: &str| End { lease: "ann".into(), cause: cause.into(), ended_by: 5, answered: at(20) };
        let with = |ends| check(&History { ends, ..History::default() });
        assert_eq!(sentences(&with(vec![end("expired"), end("expired")])), NOTHING);
        assert_eq!(with(vec![end("expired"), end("released")]).len(), 1);
        let ended = |revision| change(revision, &["lease_ended holder=ann cause=expired"]);
        assert_eq!(check(&History { watched: told(vec![ended(3), ended(4)]), ..History::default() }).len(), 1);
    }

    #[test]
    fn a_claim_that_was_given_back_stays_so() {
        let with = |looked| {
            let unclaim = Release { resource: Some("a".into()), ..release("ann", 10, Some(20)) };
            let looks = vec![look(looked, vec![Held { resource: "a".into(), token: 1, since: None }])];
            let holds = vec![hold("ann", "a", 1, 0)];
            check(&History { releases: vec![unclaim], looks, holds, ..History::default() })
        };
        assert_eq!(sentences(&with(15)), NOTHING);
        assert_eq!(with(30).len(), 1);
    }
}
