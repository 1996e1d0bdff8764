//! One promise per file. A checker reads a history and returns what contradicts the promise; each has a test that
//! shows it can.

pub(crate) mod fifo;
pub(crate) mod never_early;
pub(crate) mod nothing_lost;
pub(crate) mod once;
pub(crate) mod one_holder;
pub(crate) mod one_revision;
pub(crate) mod tokens_rise;
pub(crate) mod watch_complete;

use crate::history::History;

/// Runs all checkers and fails with everything they found.
#[track_caller]
pub(crate) fn check_all(history: &History) {
    let mut found = Vec::new();
    found.extend(one_holder::check(history));
    found.extend(tokens_rise::check(history));
    found.extend(nothing_lost::check(history));
    found.extend(never_early::check(history));
    found.extend(one_revision::check(history));
    found.extend(fifo::check(history));
    found.extend(once::check(history));
    found.extend(watch_complete::check(history));
    assert!(found.is_empty(), "{} contradictions:\n{}", found.len(), found.join("\n"));
}

/// Short histories for the tests of the checkers.
#[cfg(test)]
pub(crate) mod made {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use crate::history::{Ack, Change, Event, Hold};

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// A moment, in milliseconds.
    pub(crate) fn at(millis: u64) -> Instant {
        *START + Duration::from_millis(millis)
    }

    pub(crate) fn ack(lease: &str, sent: u64, remaining: u64) -> Ack {
        Ack {
            lease: lease.to_owned(),
            sent: at(sent),
            answered: at(sent + 1),
            remaining: Duration::from_millis(remaining),
            deadline: sent + remaining,
        }
    }

    pub(crate) fn hold(lease: &str, resource: &str, token: u64, sent: u64) -> Hold {
        Hold { lease: lease.to_owned(), resource: resource.to_owned(), token, sent: at(sent), answered: at(sent + 1) }
    }

    /// A change at `revision` with events made of words: a kind and `name=value` pairs.
    pub(crate) fn change(revision: u64, events: &[&str]) -> Change {
        Change { revision, events: events.iter().map(|text| event(text)).collect(), seen: at(revision) }
    }

    fn event(text: &str) -> Event {
        let mut words = text.split(' ');
        let mut event = Event { kind: words.next().unwrap().to_owned(), ..Event::default() };
        for (name, value) in words.map(|word| word.split_once('=').unwrap()) {
            let number = || value.parse().unwrap();
            match name {
                "at" => event.at = value.to_owned(),
                "lease" => event.lease = value.to_owned(),
                "holder" => event.holder = value.to_owned(),
                "resource" => event.resource = value.to_owned(),
                "token" => event.token = number(),
                "cause" => event.cause = value.to_owned(),
                "position" => event.position = number(),
                "key" => event.key = value.to_owned(),
                "value" => event.value = value.to_owned(),
                "version" => event.version = number(),
                "ended" => event.ended = value.to_owned(),
                other => panic!("an event has no {other}"),
            }
        }
        event
    }
}
