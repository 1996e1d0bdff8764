//! Promise 11: a retried command takes effect once.
//!
//! Clients repeat a grant with the same id and a write with the same `seq` until they have an answer. So a holder has
//! one lease and one token, and the n-th write of a key is its n-th version.

use std::collections::BTreeMap;

use crate::history::History;

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    let mut granted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut tokens: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for event in history.changes.iter().flat_map(|change| &change.events) {
        match event.kind.as_str() {
            "lease_granted" => *granted.entry(&event.holder).or_default() += 1,
            "entry_put" if !event.value.is_empty() && event.value != event.version.to_string() => {
                let (key, value, version) = (&event.key, &event.value, event.version);
                found.push(format!("once: write {value} of {key} made version {version}"));
            }
            _ => {}
        }
    }
    for (holder, times) in granted.into_iter().filter(|(_, times)| *times > 1) {
        found.push(format!("once: the lease of {holder} was granted {times} times"));
    }
    for hold in &history.holds {
        let first = *tokens.entry((&hold.lease, &hold.resource)).or_insert(hold.token);
        if first != hold.token {
            let (lease, resource, token) = (&hold.lease, &hold.resource, hold.token);
            found.push(format!("once: {lease} was told token {first} of {resource}, then {token}"));
        }
    }
    for put in &history.puts {
        if put.version.is_some_and(|version| version != put.number) {
            found.push(format!("once: write {} of {} made version {:?}", put.number, put.key, put.version));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{at, change, hold};
    use crate::history::Put;

    #[test]
    fn a_grant_that_took_effect_twice_is_found() {
        let granted = |revision| change(revision, &["lease_granted holder=ann"]);
        let once = History { changes: vec![granted(1)], ..History::default() };
        assert_eq!(check(&once), [""; 0]);
        let twice = History { changes: vec![granted(1), granted(2)], ..History::default() };
        assert_eq!(check(&twice).len(), 1);
        let holds = vec![hold("ann", "a", 1, 0), hold("ann", "a", 2, 9)];
        assert_eq!(check(&History { holds, ..History::default() }).len(), 1);
    }

    #[test]
    fn a_write_that_took_effect_twice_is_found() {
        let put = |version| Put { key: "k".into(), number: 3, revision: 1, version, answered: at(0) };
        let with = |put| check(&History { puts: vec![put], ..History::default() });
        assert_eq!(with(put(Some(3))), [""; 0]);
        assert_eq!(with(put(None)), [""; 0]);
        assert_eq!(with(put(Some(4))).len(), 1);
        let changes = vec![change(1, &["entry_put key=k value=1 version=2"])];
        assert_eq!(check(&History { changes, ..History::default() }).len(), 1);
    }
}
