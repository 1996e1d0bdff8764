//! Promises 3 and 9: what was acknowledged survives `kill -9`, and no acknowledged release is undone.

use std::collections::BTreeMap;

use crate::history::History;

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    let validity = history.validity();
    let tokens: BTreeMap<&str, u64> = history.holds.iter().map(|hold| (hold.lease.as_str(), hold.token)).collect();
    for look in &history.looks {
        let lease = look.lease.as_str();
        let sure = validity.get(lease).into_iter().flatten().any(|(from, to)| *from < look.sent && look.answered < *to);
        if sure && !look.lives {
            found.push(format!("nothing lost: {lease} was granted or renewed and is gone"));
        }
        if let (true, Some(seen), Some(token)) = (look.lives, look.token, tokens.get(lease))
            && seen != *token
        {
            found.push(format!("nothing lost: {lease} was granted token {token} and has {seen}"));
        }
        let released = history.releases.iter().find(|release| release.lease == lease).and_then(|r| r.answered);
        if look.lives && released.is_some_and(|answered| answered < look.sent) {
            found.push(format!("nothing lost: the acknowledged release of {lease} was undone"));
        }
    }
    for read in &history.reads {
        let before = history.puts.iter().filter(|put| put.key == read.key && put.answered < read.sent);
        let newest = before.max_by_key(|put| put.number);
        if let Some(put) = newest.filter(|put| read.number < put.number) {
            found.push(format!("nothing lost: {} has {}, but {} was acknowledged", read.key, read.number, put.number));
        }
        if read.number != read.version {
            let (key, number, version) = (&read.key, read.number, read.version);
            found.push(format!("nothing lost: {key} has {number} as its version {version}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{ack, at, hold};
    use crate::history::{Look, Put, ReadBack, Release};

    fn look(lives: bool, token: u64, sent: u64) -> Look {
        Look { lease: "ann".into(), sent: at(sent), answered: at(sent + 1), lives, token: Some(token) }
    }

    #[test]
    fn a_lost_grant_is_found() {
        let mut history =
            History { acks: vec![ack("ann", 0, 1000)], holds: vec![hold("ann", "a", 5, 0)], ..History::default() };
        history.looks = vec![look(true, 5, 500), look(false, 5, 2000)];
        assert_eq!(check(&history), [""; 0], "after its deadline it may be gone");
        history.looks = vec![look(false, 5, 500)];
        assert_eq!(check(&history).len(), 1);
        history.looks = vec![look(true, 6, 500)];
        assert_eq!(check(&history).len(), 1, "another token");
    }

    #[test]
    fn a_release_that_is_undone_is_found() {
        let release = Release { lease: "ann".into(), sent: at(10), answered: Some(at(20)) };
        let mut history = History { releases: vec![release], looks: vec![look(true, 5, 15)], ..History::default() };
        assert_eq!(check(&history), [""; 0], "not yet acknowledged");
        history.looks = vec![look(true, 5, 30)];
        assert_eq!(check(&history).len(), 1);
    }

    #[test]
    fn a_lost_write_is_found() {
        let put = |number| Put { key: "k".into(), number, revision: number, version: None, answered: at(number) };
        let read = |number, version| ReadBack { key: "k".into(), number, version, sent: at(50) };
        let with = |read| History { puts: vec![put(1), put(2)], reads: vec![read], ..History::default() };
        assert_eq!(check(&with(read(2, 2))), [""; 0]);
        assert_eq!(check(&with(read(3, 3))), [""; 0], "one more may be on its way");
        assert_eq!(check(&with(read(1, 1))).len(), 1);
        assert_eq!(check(&with(read(2, 3))).len(), 1, "written twice");
    }
}
