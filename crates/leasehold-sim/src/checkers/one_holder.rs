//! Promise 1: at most one valid exclusive holder of a resource at any true time, each by its own local deadline.
//!
//! Forced ends are excepted: from the moment an operator asked for one, only the token protects.

use std::collections::{BTreeMap, BTreeSet};

use super::lives::Lives;
use super::{Contradiction, Found};
use crate::history::{History, Moment};

/// The stable name of this checker.
pub const NAME: &str = "one_holder";

/// Finds two holders of one resource that both took themselves for valid at one moment.
pub fn check(history: &History) -> Vec<Contradiction> {
    let lives = Lives::of(history);
    let mut by_resource: BTreeMap<&str, Vec<(Moment, Moment, &str)>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for hold in history.holds.iter().filter(|hold| !hold.shared) {
        // A repeated grant tells of the same claim again.
        if !known.insert((&hold.lease, &hold.resource, hold.token)) {
            continue;
        }
        let kept = lives.kept_until(&hold.lease, &hold.resource, hold.answered);
        for span in lives.validity(&hold.lease) {
            // Before its claim was acknowledged, a waiter was alive but held nothing.
            let (from, to) = (span.from.max(hold.answered), span.to.min(kept));
            if from < to {
                by_resource.entry(&hold.resource).or_default().push((from, to, &hold.lease));
            }
        }
    }
    let mut found = Found::by(NAME);
    for (resource, mut spans) in by_resource {
        spans.sort();
        let mut last: Option<(Moment, &str)> = None;
        for (from, to, lease) in spans {
            if let Some((until, other)) = last.filter(|(until, other)| from < *until && *other != lease) {
                let both = to.min(until).since(from);
                found.push(format!("{other} and {lease} both held {resource} for {both:?} from {from} on"));
            }
            last = Some(last.filter(|(until, _)| *until > to).unwrap_or((to, lease)));
        }
    }
    found.all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, ack, at, hold, release, sentences};
    use crate::history::{Release, Revoke};

    fn two() -> History {
        History {
            acks: vec![ack("ann", 0, 1000), ack("bob", 500, 1000)],
            holds: vec![hold("ann", "a", 1, 0), hold("bob", "a", 2, 500)],
            ..History::default()
        }
    }

    #[test]
    fn two_holders_at_once_are_found() {
        let mut history = two();
        assert_eq!(check(&history).len(), 1);
        history.releases.push(release("ann", 400, None));
        assert_eq!(sentences(&check(&history)), NOTHING, "ann gave it up before");
    }

    #[test]
    fn a_claim_given_back_alone_is_not_held() {
        let mut history = two();
        history.releases.push(Release { resource: Some("b".into()), ..release("ann", 400, None) });
        assert_eq!(check(&history).len(), 1, "that was another one");
        history.releases.push(Release { resource: Some("a".into()), ..release("ann", 400, None) });
        assert_eq!(sentences(&check(&history)), NOTHING);
    }

    #[test]
    fn only_forced_ends_are_excepted() {
        let mut history = two();
        history.revokes.push(Revoke { lease: "ann".into(), now: false, sent: at(300), answered: Some(at(301)) });
        assert_eq!(check(&history).len(), 1, "its resource should have rested");
        history.revokes[0].now = true;
        assert_eq!(sentences(&check(&history)), NOTHING);
    }

    #[test]
    fn those_who_share_hold_together() {
        let mut history = two();
        history.holds.iter_mut().for_each(|hold| hold.shared = true);
        assert_eq!(sentences(&check(&history)), NOTHING);
    }

    #[test]
    fn a_long_hold_is_compared_with_all_that_begin_in_it() {
        let history = History {
            acks: vec![ack("ann", 0, 9000), ack("ann", 10, 20), ack("bob", 5000, 1000)],
            holds: vec![hold("ann", "a", 1, 0), hold("bob", "a", 2, 5000)],
            ..History::default()
        };
        assert_eq!(check(&history).len(), 1);
    }

    #[test]
    fn one_after_the_other_is_fine() {
        let history = History {
            acks: vec![ack("ann", 0, 1000), ack("bob", 980, 1000)],
            holds: vec![hold("ann", "a", 1, 0), hold("bob", "a", 2, 980)],
            ..History::default()
        };
        assert_eq!(sentences(&check(&history)), NOTHING, "the local deadline is earlier than the remaining time");
    }
}
