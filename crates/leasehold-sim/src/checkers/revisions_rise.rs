//! Promise 14: revisions never go back, and neither does lease time.
//!
//! A call that was sent after another was answered sees the same state or a later one, whoever sent them and whichever
//! node answered.

use super::{Contradiction, Found};
use crate::history::{Answered, History};

/// The stable name of this checker.
pub const NAME: &str = "revisions_rise";

/// Finds answers that are behind earlier ones.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let mut by_sent: Vec<&Answered> = history.answers.iter().collect();
    let mut by_answered = by_sent.clone();
    by_sent.sort_by_key(|answer| answer.sent);
    by_answered.sort_by_key(|answer| answer.answered);
    let mut before = by_answered.into_iter().peekable();
    let (mut newest, mut latest): (Option<&Answered>, Option<&Answered>) = (None, None);
    for answer in by_sent {
        while let Some(earlier) = before.next_if(|earlier| earlier.answered < answer.sent) {
            newest = Some(newest.filter(|known| known.revision >= earlier.revision).unwrap_or(earlier));
            latest = Some(latest.filter(|known| known.time >= earlier.time).unwrap_or(earlier));
        }
        if let Some(earlier) = newest.filter(|earlier| earlier.revision > answer.revision) {
            let (client, other) = (&answer.client, &earlier.client);
            let (now, then) = (answer.revision, earlier.revision);
            found.push(format!("{client} was at revision {now} at {}, after {other} was at {then}", answer.answered));
        }
        if let Some(earlier) = latest.filter(|earlier| answer.time.is_some() && earlier.time > answer.time) {
            let (client, other) = (&answer.client, &earlier.client);
            let (now, then) = (answer.time.unwrap_or_default(), earlier.time.unwrap_or_default());
            found.push(format!("{client} was at lease time {now} at {}, after {other} was at {then}", answer.answered));
        }
    }
    found.all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{NOTHING, at, sentences};

    fn answer(client: &str, sent: u64, revision: u64, time: u64) -> Answered {
        Answered { client: client.into(), sent: at(sent), answered: at(sent + 10), revision, time: Some(time) }
    }

    fn with(answers: Vec<Answered>) -> Vec<Contradiction> {
        check(&History { answers, ..History::default() })
    }

    #[test]
    fn a_revision_that_goes_back_is_found() {
        let first = || answer("ann", 0, 7, 100);
        assert_eq!(sentences(&with(vec![first(), answer("ann", 20, 7, 100)])), NOTHING);
        assert_eq!(with(vec![first(), answer("ann", 20, 6, 100)]).len(), 1);
        assert_eq!(with(vec![first(), answer("bob", 20, 6, 100)]).len(), 1, "whoever asks");
        assert_eq!(sentences(&with(vec![first(), answer("bob", 5, 6, 100)])), NOTHING, "they overlap");
    }

    #[test]
    fn lease_time_that_goes_back_is_found() {
        assert_eq!(with(vec![answer("ann", 0, 7, 100), answer("bob", 20, 8, 99)]).len(), 1);
        let unknown = Answered { time: None, ..answer("bob", 20, 8, 0) };
        assert_eq!(sentences(&with(vec![answer("ann", 0, 7, 100), unknown])), NOTHING);
    }
}
