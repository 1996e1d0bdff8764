//! Promise 11: a retried command takes effect once.
//!
//! Clients repeat a grant with the same id and a write with the same `seq` until they have an answer. So a lease is granted
//! once, it gets a resource as often as it asked for it, and the n-th write of a counting key is its n-th version. What
//! is written without a `seq` is sent once, under a number that no other write of its key has, and so is put once.

use std::collections::{BTreeMap, BTreeSet};

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::History;

/// The stable name of this checker.
pub const NAME: &str = "once";

/// Finds commands that took effect more than once.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let mut asked: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for ask in &history.asks {
        *asked.entry((&ask.lease, &ask.resource)).or_default() += 1;
    }
    let allowed = |lease, resource| asked.get(&(lease, resource)).copied().unwrap_or(1);
    let counting: BTreeSet<&str> = history.puts.iter().map(|put| put.key.as_str()).collect();
    let numbered: BTreeSet<&str> = history.key_calls.iter().map(|call| call.key.as_str()).collect();
    let mut put: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut granted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut given: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    for (_, _, event) in Timeline::of(history).events() {
        match event.kind.as_str() {
            "lease_granted" => *granted.entry(&event.holder).or_default() += 1,
            "claim_granted" => {
                given.entry((&event.holder, &event.resource)).or_default().insert(event.token);
            }
            "entry_put" if counting.contains(event.key.as_str()) && event.value != event.version.to_string() => {
                let (key, value, version) = (&event.key, &event.value, event.version);
                found.push(format!("write {value} of {key} made version {version}"));
            }
            "entry_put" if numbered.contains(event.key.as_str()) && !put.insert((&event.key, &event.value)) => {
                found.push(format!("{} was put into {} twice", event.value, event.key));
            }
            _ => {}
        }
    }
    for (holder, times) in granted.into_iter().filter(|(_, times)| *times > 1) {
        found.push(format!("the lease of {holder} was granted {times} times"));
    }
    for hold in &history.holds {
        given.entry((&hold.lease, &hold.resource)).or_default().insert(hold.token);
    }
    for ((lease, resource), tokens) in given {
        let times = allowed(lease, resource);
        // An event may name no holder; then it says nothing about a lease.
        if !lease.is_empty() && tokens.len() > times {
            found.push(format!("{lease} asked for {resource} {times} times and was given the tokens {tokens:?}"));
        }
    }
    for put in &history.puts {
        if let Some(version) = put.version.filter(|version| *version != put.number) {
            found.push(format!("write {} of {} made version {version}", put.number, put.key));
        }
    }
    found.all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, at, change, hold, sentences, told};
    use crate::history::{Ask, KeyCall, KeyOutcome, KeyWhat, Put};

    #[test]
    fn a_grant_that_took_effect_twice_is_found() {
        let granted = |revision| change(revision, &["lease_granted holder=ann"]);
        let with = |changes| check(&History { watched: told(changes), ..History::default() });
        assert_eq!(sentences(&with(vec![granted(1)])), NOTHING);
        assert_eq!(with(vec![granted(1), granted(2)]).len(), 1);
        let holds = vec![hold("ann", "a", 1, 0), hold("ann", "a", 2, 9)];
        assert_eq!(check(&History { holds, ..History::default() }).len(), 1);
    }

    #[test]
    fn a_number_that_is_put_twice_is_found() {
        let what = KeyWhat::Put { number: 7 };
        let (client, key, sent, outcome) = ("ann".into(), "k".into(), at(0), KeyOutcome::Unknown);
        let key_calls = vec![KeyCall { client, key, what, sent, answered: None, outcome }];
        let put = |revision, value: u64| change(revision, &[&format!("entry_put key=k value={value}")]);
        let with =
            |changes| check(&History { watched: told(changes), key_calls: key_calls.clone(), ..History::default() });
        assert_eq!(sentences(&with(vec![put(1, 7), put(2, 8)])), NOTHING);
        assert_eq!(with(vec![put(1, 7), put(2, 8), put(3, 7)]).len(), 1);
    }

    #[test]
    fn a_claim_that_ran_again_is_found() {
        let granted = |r: u64| change(r, &[&format!("claim_granted holder=ann resource=a token={r}")]);
        let ask = || Ask { lease: "ann".into(), resource: "a".into(), priority: 0 };
        let mut history = History { watched: told(vec![granted(1), granted(5)]), ..History::default() };
        assert_eq!(check(&history).len(), 1);
        history.asks = vec![ask()];
        assert_eq!(check(&history).len(), 1);
        history.asks = vec![ask(), ask()];
        assert_eq!(sentences(&check(&history)), NOTHING, "it asked again");
    }

    #[test]
    fn a_write_that_took_effect_twice_is_found() {
        let put = |version| Put { key: "k".into(), number: 3, revision: 1, version, answered: at(0) };
        let with = |put| check(&History { puts: vec![put], ..History::default() });
        assert_eq!(sentences(&with(put(Some(3)))), NOTHING);
        assert_eq!(sentences(&with(put(None))), NOTHING);
        assert_eq!(with(put(Some(4))).len(), 1);
        let watched = told(vec![change(1, &["entry_put key=k value=1 version=2"])]);
        assert_eq!(check(&History { watched: watched.clone(), puts: vec![put(None)], ..History::default() }).len(), 1);
        let other = History { watched, ..History::default() };
        assert_eq!(sentences(&check(&other)), NOTHING, "not a counting key");
    }
}
