//! Promise 2: tokens of a resource rise strictly, for ever, also over restarts; a token belongs to one lease.

use std::collections::BTreeMap;

use crate::history::{History, Hold};

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut found = as_acknowledged(&history.holds);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for change in &history.changes {
        for event in change.events.iter().filter(|event| event.kind == "claim_granted") {
            let before = last.insert(&event.resource, event.token).unwrap_or(0);
            if event.token <= before {
                found.push(format!("tokens rise: {} went from {before} to {}", event.resource, event.token));
            }
            if event.token != change.revision {
                found.push(format!("tokens rise: token {} was granted at revision {}", event.token, change.revision));
            }
        }
    }
    found
}

/// What was acknowledged before another grant was even asked for has the lower token.
fn as_acknowledged(holds: &[Hold]) -> Vec<String> {
    let mut by_resource: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        by_resource.entry(&hold.resource).or_default().push(hold);
    }
    let mut found = Vec::new();
    for (resource, mut holds) in by_resource {
        holds.sort_by_key(|hold| hold.token);
        for pair in holds.windows(2) {
            let [lower, higher] = pair else { continue };
            if lower.token == higher.token && lower.lease != higher.lease {
                let (one, other) = (&lower.lease, &higher.lease);
                found.push(format!("tokens rise: {one} and {other} both have token {} of {resource}", lower.token));
            }
        }
        // Ordered by token, nobody may have been answered before an earlier one was asked for.
        let mut latest_sent: Option<&Hold> = None;
        for hold in holds {
            if let Some(lower) = latest_sent.filter(|lower| hold.answered < lower.sent && hold.lease != lower.lease) {
                let (low, high) = (lower.token, hold.token);
                found.push(format!("tokens rise: {resource} gave {low} after {high} had been acknowledged"));
            }
            latest_sent = Some(latest_sent.filter(|before| before.sent >= hold.sent).unwrap_or(hold));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{change, hold};

    #[test]
    fn a_token_that_falls_is_found_in_answers() {
        let holds = |second| vec![hold("ann", "a", 9, 0), hold("bob", "a", second, 100)];
        assert_eq!(as_acknowledged(&holds(8)).len(), 1);
        assert_eq!(as_acknowledged(&holds(9)).len(), 1, "given twice");
        assert_eq!(as_acknowledged(&holds(10)), [""; 0]);
    }

    #[test]
    fn a_token_that_falls_is_found_in_events() {
        let granted = |revision: u64| change(revision, &[&format!("claim_granted resource=a token={revision}")]);
        let with = |changes| check(&History { changes, ..History::default() });
        assert_eq!(with(vec![granted(3), granted(5)]), [""; 0]);
        assert_eq!(with(vec![granted(5), granted(3)]).len(), 1);
        assert_eq!(with(vec![change(4, &["claim_granted resource=a token=3"])]).len(), 1);
    }
}
