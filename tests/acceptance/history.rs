//! What clients saw over HTTP, as facts for the checkers of `leasehold-sim`.
//!
//! All clients of a run share one machine, so their moments compare: each is counted from one start. Their clocks are
//! taken for exact; a scenario that slows them down counts that in afterwards.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use leasehold_sim::history::{
    Ack, Answered, Bounds, Change, End, Event, Held, Hold, Look, Moment, Release, Told, Watched,
};
use serde_json::Value;

use crate::http::{Answer, Message, span};

/// Before anything that is noted happens, also what happened before the first note.
static START: LazyLock<Instant> =
    LazyLock::new(|| Instant::now().checked_sub(Duration::from_secs(3600)).expect("the system's clock reaches back"));

/// A moment of the machine's clock.
pub(crate) fn moment(at: Instant) -> Moment {
    Moment(at.saturating_duration_since(*START))
}

/// A grant or renewal of one lease that was acknowledged.
pub(crate) fn ack(lease: &str, answer: &Answer) -> Ack {
    acked(lease, answer, &answer.json)
}

/// One of several leases in an acknowledgement.
pub(crate) fn acked(lease: &str, answer: &Answer, json: &Value) -> Ack {
    let (sent, remaining) = (moment(answer.sent), span(&json["remaining"]));
    Ack {
        lease: lease.to_owned(),
        sent,
        answered: moment(answer.answered),
        remaining,
        ttl: span(&json["ttl"]),
        deadline: answer.time() + remaining.as_millis() as u64,
        valid_until: Bounds::default().valid_until(sent, remaining),
    }
}

/// The claim of a lease with one resource.
pub(crate) fn hold(lease: &str, resource: &str, answer: &Answer) -> Hold {
    Hold {
        lease: lease.to_owned(),
        resource: resource.to_owned(),
        token: answer.token(),
        shared: false,
        sent: moment(answer.sent),
        answered: moment(answer.answered),
    }
}

/// A release of a whole lease that was acknowledged.
pub(crate) fn release(lease: &str, sent: Instant, answer: &Answer) -> Release {
    let answered = Some(moment(answer.answered));
    Release { lease: lease.to_owned(), resource: None, sent: moment(sent), answered }
}

/// The refusal that a lease is over.
pub(crate) fn end(lease: &str, answer: &Answer) -> End {
    let ended = &answer.json["ended"];
    End {
        lease: lease.to_owned(),
        cause: ended["cause"].as_str().unwrap_or_default().to_owned(),
        ended_by: answer.time().saturating_sub(span(&ended["ago"]).as_millis() as u64),
        answered: moment(answer.answered),
    }
}

/// A look at a lease, or a refusal that tells the same.
pub(crate) fn look(lease: &str, answer: &Answer) -> Look {
    let held = answer.json["held"].as_array().into_iter().flatten();
    let held = held.map(|held| Held {
        resource: held["resource"].as_str().unwrap().to_owned(),
        token: held["token"].as_u64().unwrap(),
        since: None,
    });
    Look {
        lease: lease.to_owned(),
        sent: moment(answer.sent),
        answered: moment(answer.answered),
        lives: answer.status == 200,
        held: held.collect(),
    }
}

/// Where the state was when something was answered.
pub(crate) fn answered(client: &str, answer: &Answer) -> Answered {
    Answered {
        client: client.to_owned(),
        sent: moment(answer.sent),
        answered: moment(answer.answered),
        revision: answer.revision(),
        time: Some(answer.time()),
    }
}

/// The events of one revision.
pub(crate) fn change(message: &Message) -> Change {
    let events = message.data["events"].as_array().expect("a change has events");
    Change { revision: message.id, events: events.iter().map(event).collect(), seen: moment(message.seen) }
}

/// What a watcher of everything was told.
pub(crate) fn watched(watcher: &str, changes: Vec<Change>) -> Watched {
    Watched { told: changes.into_iter().map(Told::Change).collect(), ..Watched::everything(watcher) }
}

fn event(json: &Value) -> Event {
    let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| json[name].as_u64().unwrap_or_default();
    Event {
        kind: text("type"),
        at: text("at"),
        lease: text("lease"),
        holder: text("holder"),
        resource: text("resource"),
        shared: json["mode"] == "shared",
        token: number("token"),
        cause: text("cause"),
        rests: json.get("rests").map(span).unwrap_or_default(),
        position: number("position"),
        key: text("key"),
        value: text("value"),
        version: number("version"),
        ended: text("ended"),
    }
}
