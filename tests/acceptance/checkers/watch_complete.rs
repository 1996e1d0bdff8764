//! Promise 7: a watch delivers every event once, in order, over reconnects; what was acknowledged is among them.

use std::collections::BTreeMap;

use crate::history::History;

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    // A history without a watch says nothing about watches.
    let Some(last) = history.changes.last().map(|change| change.revision) else { return found };
    for pair in history.changes.windows(2) {
        if let [before, after] = pair
            && after.revision <= before.revision
        {
            found.push(format!("watch: revision {} was delivered after {}", after.revision, before.revision));
        }
    }
    let by_revision: BTreeMap<u64, _> = history.changes.iter().map(|change| (change.revision, change)).collect();
    let has = |revision: u64, kind: &str, name: &str, value: &str| {
        revision > last
            || by_revision.get(&revision).is_some_and(|change| {
                let hit = |e: &&crate::history::Event| e.kind == kind && (e.resource == name || e.key == name);
                change.events.iter().find(hit).is_some_and(|e| value.is_empty() || e.value == value)
            })
    };
    for hold in &history.holds {
        if !has(hold.token, "claim_granted", &hold.resource, "") {
            found.push(format!("watch: the grant of {} with token {} is missing", hold.resource, hold.token));
        }
    }
    for put in &history.puts {
        if !has(put.revision, "entry_put", &put.key, &put.number.to_string()) {
            found.push(format!("watch: write {} of {} at {} is missing", put.number, put.key, put.revision));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{at, change, hold};
    use crate::history::{Change, Put};

    fn with(changes: Vec<Change>) -> Vec<String> {
        let put = Put { key: "k".into(), number: 1, revision: 4, version: Some(1), answered: at(0) };
        check(&History { changes, puts: vec![put], holds: vec![hold("ann", "a", 2, 0)], ..History::default() })
    }

    #[test]
    fn gaps_and_repetitions_are_found() {
        let claim = || change(2, &["claim_granted resource=a token=2"]);
        let put = || change(4, &["entry_put key=k value=1 version=1"]);
        let more = || change(9, &["entry_deleted key=k"]);
        assert_eq!(with(vec![claim(), put(), more()]), [""; 0]);
        assert_eq!(with(vec![claim(), more()]).len(), 1);
        assert_eq!(with(vec![put(), more()]).len(), 1);
        assert_eq!(with(vec![claim(), put(), put(), more()]).len(), 1);
        assert_eq!(with(vec![claim()]), [""; 0], "what comes after the last delivery is not judged");
    }
}
