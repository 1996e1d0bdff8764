//! Promise 2: tokens of a resource rise strictly, for ever, also over restarts; a token belongs to one lease.
//!
//! In the order of commits, as watchers saw it, and over true time: what was acknowledged before another grant was even
//! asked for has the lower token.

use std::collections::BTreeMap;

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{History, Hold};

/// The stable name of this checker.
pub const NAME: &str = "tokens_rise";

/// Finds tokens that fall, stand still or belong to two.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    as_acknowledged(&history.holds, &mut found);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for change in Timeline::of(history).all() {
        for event in change.events.iter().filter(|event| event.kind == "claim_granted") {
            let before = last.insert(&event.resource, event.token).unwrap_or(0);
            if event.token <= before {
                found.push(format!("{} went from {before} to {}", event.resource, event.token));
            }
            if event.token != change.revision {
                let (token, revision) = (event.token, change.revision);
                found.push(format!("token {token} of {} was granted at revision {revision}", event.resource));
            }
        }
    }
    found.all
}

fn as_acknowledged(holds: &[Hold], found: &mut Found) {
    let mut by_resource: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        by_resource.entry(&hold.resource).or_default().push(hold);
    }
    for (resource, mut holds) in by_resource {
        holds.sort_by_key(|hold| hold.token);
        for pair in holds.windows(2) {
            let [lower, higher] = pair else { continue };
            if lower.token == higher.token && lower.lease != higher.lease {
                let (one, other) = (&lower.lease, &higher.lease);
                found.push(format!("{one} and {other} both have token {} of {resource}", lower.token));
            }
        }
        // A repeated answer tells of an old grant: the first request for a token counts.
        holds.sort_by_key(|hold| (hold.token, hold.sent));
        holds.dedup_by_key(|hold| hold.token);
        // Ordered by token, nobody may have been answered before an earlier one was asked for.
        let mut latest_sent: Option<&Hold> = None;
        for hold in holds {
            if let Some(lower) = latest_sent.filter(|lower| hold.answered < lower.sent) {
                let (low, high) = (lower.token, hold.token);
                found.push(format!("{resource} gave {low} after {high} had been acknowledged"));
            }
            latest_sent = Some(latest_sent.filter(|before| before.sent >= hold.sent).unwrap_or(hold));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, change, hold, sentences, told};

    #[test]
    fn a_token_that_falls_is_found_in_answers() {
        let with = |second| {
            let holds = vec![hold("ann", "a", 9, 0), hold("bob", "a", second, 100)];
            check(&History { holds, ..History::default() })
        };
        assert_eq!(with(8).len(), 1);
        assert_eq!(with(9).len(), 1, "given twice");
        assert_eq!(sentences(&with(10)), NOTHING);
    }

    #[test]
    fn a_repeated_answer_is_no_second_grant() {
        let holds = vec![hold("ann", "a", 9, 0), hold("ann", "a", 9, 500), hold("bob", "a", 10, 100)];
        assert_eq!(sentences(&check(&History { holds, ..History::default() })), NOTHING);
    }

    #[test]
    fn a_token_that_falls_is_found_in_events() {
        let granted =
            |revision: u64, token: u64| change(revision, &[&format!("claim_granted resource=a token={token}")]);
        let with = |changes| check(&History { watched: told(changes), ..History::default() });
        assert_eq!(sentences(&with(vec![granted(3, 3), granted(5, 5)])), NOTHING);
        assert_eq!(with(vec![granted(5, 5), granted(6, 3)]).len(), 2, "it fell and is not its revision");
        assert_eq!(with(vec![granted(4, 3)]).len(), 1);
    }
}
