//! Promise 1: at most one valid exclusive holder of a resource at any real time, each by its own local deadline.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::history::History;

pub(crate) fn check(history: &History) -> Vec<String> {
    let validity = history.validity();
    let mut by_resource: BTreeMap<&str, Vec<(Instant, Instant, &str)>> = BTreeMap::new();
    let mut known = std::collections::BTreeSet::new();
    for hold in &history.holds {
        // A repeated grant tells of the same claim again.
        if !known.insert((&hold.lease, &hold.resource)) {
            continue;
        }
        let spans = validity.get(hold.lease.as_str()).into_iter().flatten();
        // Before its claim was acknowledged, a waiter was alive but held nothing.
        let held = spans.map(|(from, to)| (*from.max(&hold.answered), *to, hold.lease.as_str()));
        by_resource.entry(&hold.resource).or_default().extend(held.filter(|(from, to, _)| from < to));
    }
    let mut found = Vec::new();
    for (resource, mut spans) in by_resource {
        spans.sort();
        let mut last: Option<(Instant, &str)> = None;
        for (from, to, lease) in spans {
            if let Some((until, other)) = last.filter(|(until, other)| from < *until && *other != lease) {
                let both = to.min(until) - from;
                found.push(format!("one holder: {other} and {lease} both held {resource} for {both:?}"));
            }
            last = Some(last.filter(|(until, _)| *until > to).unwrap_or((to, lease)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{ack, at, hold};
    use crate::history::Release;

    #[test]
    fn two_holders_at_once_are_found() {
        let mut history = History {
            acks: vec![ack("ann", 0, 1000), ack("bob", 500, 1000)],
            holds: vec![hold("ann", "a", 1, 0), hold("bob", "a", 2, 500)],
            ..History::default()
        };
        assert_eq!(check(&history).len(), 1);
        history.releases.push(Release { lease: "ann".into(), sent: at(400), answered: None });
        assert_eq!(check(&history), [""; 0], "ann gave it up before");
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
        assert_eq!(check(&history), [""; 0], "the local deadline is earlier than the remaining time by the drift");
    }
}
