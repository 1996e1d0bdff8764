//! What clients saw: written down while a scenario runs, judged afterwards by the checkers.
//!
//! All clients of a run share one machine, so their moments compare. A lease is named by its holder, which every
//! scenario makes unique; streams of events name it by its digest, and its `lease_granted` event ties the two together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{Answer, Message, span};

/// The share of a remaining time that a holder may count on: each clock is off by at most 2 %.
const RELIABLE: f64 = (1.0 - 0.02) / (1.0 + 0.02);

/// An acknowledged grant or renewal.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    pub(crate) lease: String,
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
    pub(crate) remaining: Duration,
    /// The promised lease time: the lease does not end by time before it has passed.
    pub(crate) deadline: u64,
}

impl Ack {
    pub(crate) fn new(lease: &str, answer: &Answer) -> Ack {
        let remaining = answer.remaining();
        Ack {
            lease: lease.to_owned(),
            sent: answer.sent,
            answered: answer.answered,
            remaining,
            deadline: answer.time() + remaining.as_millis() as u64,
        }
    }

    /// Until when its holder may act on it, by the holder's own clock.
    pub(crate) fn valid_until(&self) -> Instant {
        self.sent + self.remaining.mul_f64(RELIABLE)
    }
}

/// An acknowledged claim on a resource.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) lease: String,
    pub(crate) resource: String,
    pub(crate) token: u64,
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
}

/// A release: sent at some moment, acknowledged later or never.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) lease: String,
    pub(crate) sent: Instant,
    pub(crate) answered: Option<Instant>,
}

/// An answer that a lease is over.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) lease: String,
    pub(crate) cause: String,
    /// It ended at this lease time or earlier.
    pub(crate) ended_by: u64,
}

impl End {
    pub(crate) fn new(lease: &str, answer: &Answer) -> End {
        let ended = &answer.json["ended"];
        End {
            lease: lease.to_owned(),
            cause: ended["cause"].as_str().unwrap_or_default().to_owned(),
            ended_by: answer.time().saturating_sub(span(&ended["ago"]).as_millis() as u64),
        }
    }
}

/// A linearizable look at a lease.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) lease: String,
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
    /// Whether it lives.
    pub(crate) lives: bool,
    /// The token of its only claim.
    pub(crate) token: Option<u64>,
}

/// An acknowledged write of `number` to a key with a single writer that counts up from 1.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) key: String,
    pub(crate) number: u64,
    pub(crate) revision: u64,
    /// Not told by the answer to a repetition.
    pub(crate) version: Option<u64>,
    pub(crate) answered: Instant,
}

/// A linearizable look at an entry; zero if there is none.
#[derive(Clone, Debug)]
pub(crate) struct ReadBack {
    pub(crate) key: String,
    pub(crate) number: u64,
    pub(crate) version: u64,
    pub(crate) sent: Instant,
}

/// All events of one revision, as a watch delivered them.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) seen: Instant,
}

impl Change {
    pub(crate) fn new(message: &Message) -> Change {
        let events = message.data["events"].as_array().expect("a change has events");
        Change { revision: message.id, events: events.iter().map(Event::new).collect(), seen: message.seen }
    }
}

/// One event; what its kind does not have is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) kind: String,
    /// The wall time of its log entry: the same for all events of one.
    pub(crate) at: String,
    /// The digest of the lease: the one it is about, or the one an entry is bound to.
    pub(crate) lease: String,
    pub(crate) holder: String,
    pub(crate) resource: String,
    pub(crate) token: u64,
    pub(crate) cause: String,
    pub(crate) position: u64,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) version: u64,
    /// The digest of the lease whose end removed an entry.
    pub(crate) ended: String,
}

impl Event {
    fn new(json: &Value) -> Event {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| json[name].as_u64().unwrap_or_default();
        Event {
            kind: text("type"),
            at: text("at"),
            lease: text("lease"),
            holder: text("holder"),
            resource: text("resource"),
            token: number("token"),
            cause: text("cause"),
            position: number("position"),
            key: text("key"),
            value: text("value"),
            version: number("version"),
            ended: text("ended"),
        }
    }
}

/// What one client saw, or all of them together.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) acks: Vec<Ack>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) releases: Vec<Release>,
    pub(crate) ends: Vec<End>,
    pub(crate) looks: Vec<Look>,
    pub(crate) puts: Vec<Put>,
    pub(crate) reads: Vec<ReadBack>,
    pub(crate) changes: Vec<Change>,
}

impl History {
    /// Adds what another client saw.
    pub(crate) fn absorb(&mut self, other: History) {
        self.acks.extend(other.acks);
        self.holds.extend(other.holds);
        self.releases.extend(other.releases);
        self.ends.extend(other.ends);
        self.looks.extend(other.looks);
        self.puts.extend(other.puts);
        self.reads.extend(other.reads);
        self.changes.extend(other.changes);
    }

    /// When the holder of each lease was sure to hold it, by its own clock: until the deadline of each
    /// acknowledgement, and never after it sent a release.
    pub(crate) fn validity(&self) -> BTreeMap<&str, Vec<(Instant, Instant)>> {
        let mut spans: BTreeMap<&str, Vec<(Instant, Instant)>> = BTreeMap::new();
        for ack in &self.acks {
            let given_up = self.releases.iter().find(|release| release.lease == ack.lease).map(|release| release.sent);
            let end = given_up.map_or(ack.valid_until(), |sent| sent.min(ack.valid_until()));
            if ack.answered < end {
                spans.entry(&ack.lease).or_default().push((ack.answered, end));
            }
        }
        spans
    }

    /// The latest promised lease time of each lease.
    pub(crate) fn promises(&self) -> BTreeMap<&str, u64> {
        let mut latest = BTreeMap::new();
        for ack in &self.acks {
            let known: &mut u64 = latest.entry(ack.lease.as_str()).or_default();
            *known = ack.deadline.max(*known);
        }
        latest
    }
}
