//! Short histories for the tests of the checkers.

use std::time::Duration;

use crate::checkers::Contradiction;
use crate::history::{Ack, Change, Event, Hold, Moment, Release, Told, Watched};

/// A moment, in milliseconds.
pub(crate) fn at(millis: u64) -> Moment {
    Moment::millis(millis)
}

/// An acknowledgement to a holder with an exact clock; lease time is true time.
pub(crate) fn ack(lease: &str, sent: u64, remaining: u64) -> Ack {
    let remaining = Duration::from_millis(remaining);
    Ack {
        lease: lease.to_owned(),
        sent: at(sent),
        answered: at(sent + 1),
        remaining,
        ttl: remaining,
        deadline: sent + remaining.as_millis() as u64,
        valid_until: at(sent).after(remaining.mul_f64(0.98 / 1.02)),
    }
}

pub(crate) fn hold(lease: &str, resource: &str, token: u64, sent: u64) -> Hold {
    Hold {
        lease: lease.to_owned(),
        resource: resource.to_owned(),
        token,
        shared: false,
        sent: at(sent),
        answered: at(sent + 1),
    }
}

/// A release of a whole lease.
pub(crate) fn release(lease: &str, sent: u64, answered: Option<u64>) -> Release {
    Release { lease: lease.to_owned(), resource: None, sent: at(sent), answered: answered.map(at) }
}

/// A watcher of everything that was told these changes.
pub(crate) fn told(changes: Vec<Change>) -> Vec<Watched> {
    vec![watcher("w1", changes)]
}

/// A watcher of everything from the first revision on.
pub(crate) fn watcher(name: &str, changes: Vec<Change>) -> Watched {
    Watched { told: changes.into_iter().map(Told::Change).collect(), ..Watched::everything(name) }
}

/// A change at `revision`, seen as many milliseconds after the start, with events made of words: a kind and
/// `name=value` pairs.
pub(crate) fn change(revision: u64, events: &[&str]) -> Change {
    Change { revision, events: events.iter().map(|text| event(text)).collect(), seen: at(revision) }
}

fn event(text: &str) -> Event {
    let mut words = text.split(' ');
    let mut event = Event { kind: words.next().unwrap().to_owned(), ..Event::default() };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse().unwrap();
        match name {
            "at" => event.at = value.to_owned(),
            "lease" => event.lease = value.to_owned(),
            "holder" => event.holder = value.to_owned(),
            "resource" => event.resource = value.to_owned(),
            "shared" => event.shared = true,
            "token" => event.token = number(),
            "cause" => event.cause = value.to_owned(),
            "rests" => event.rests = Duration::from_millis(number()),
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

/// The sentences, to be compared with none.
pub(crate) fn sentences(found: &[Contradiction]) -> Vec<&str> {
    found.iter().map(|contradiction| contradiction.sentence.as_str()).collect()
}

/// Nothing was found.
pub(crate) const NOTHING: [&str; 0] = [];
