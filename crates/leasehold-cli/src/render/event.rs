//! Events of a watch, one line each.

use leasehold_api::{Event, EventFact, Timestamp};

use super::text::{excerpt, mode, moment, plain, short};

/// One event on one line.
pub(crate) fn line(revision: u64, event: &Event, now: Timestamp) -> String {
    let (when, what) = when_and_what(revision, event, now);
    when + &what
}

/// The same line in two: its moment and revision, and what happened.
pub(crate) fn when_and_what(revision: u64, event: &Event, now: Timestamp) -> (String, String) {
    let (what, name, about) = parts(&event.fact);
    let when = format!("{}  {revision:>6}  ", moment(event.at, now));
    (when, format!("{what:<9}  {}  {about}", plain(&name)).trim_end().to_owned())
}

/// The resource, key or lease that an event is about.
pub(crate) fn name(event: &Event) -> String {
    plain(&parts(&event.fact).1)
}

/// What happened, to what, and what else there is to say.
fn parts(fact: &EventFact) -> (String, String, String) {
    match fact {
        EventFact::LeaseGranted { lease, holder, ttl } => {
            ("began".to_owned(), format!("lease {lease}"), format!("{}  ttl {ttl}", plain(holder)))
        }
        EventFact::LeaseEnded { lease, holder, cause, reason } => {
            let about = format!("{}  {}{}", plain(holder), plain(cause), because(reason.as_deref()));
            ("ended".to_owned(), format!("lease {lease}"), about)
        }
        EventFact::ClaimGranted { holder, resource, mode: kind, token, waited, .. } => {
            let waited = if waited.0.0 > 0 { format!("  waited {}", short(*waited)) } else { String::new() };
            let about = format!("token {token}  {}  {}{waited}", plain(holder), mode(*kind));
            ("granted".to_owned(), resource.clone(), about)
        }
        EventFact::ClaimEnded { holder, resource, token, held_for, cause, reason, rests, .. } => {
            let rests = if rests.0.0 > 0 { format!("  rests {}", short(*rests)) } else { String::new() };
            let because = because(reason.as_deref());
            let about = format!("token {token}  {}  held {}{rests}{because}", plain(holder), short(*held_for));
            (plain(cause), resource.clone(), about)
        }
        EventFact::Queued { holder, resource, mode: kind, position, .. } => {
            let about = format!("{}  {}  position {position}", plain(holder), mode(*kind));
            ("queued".to_owned(), resource.clone(), about)
        }
        EventFact::Unqueued { holder, resource, cause, .. } => {
            ("unqueued".to_owned(), resource.clone(), format!("{}  {}", plain(holder), plain(cause)))
        }
        EventFact::HandoverAsked { holder, resource, by, reason, .. } => {
            let about = format!("{}  by {}{}", plain(holder), plain(by), because(reason.as_deref()));
            ("asked".to_owned(), resource.clone(), about)
        }
        EventFact::EntryPut { key, key_base64, value, value_base64, version, .. } => {
            let value = value.as_deref().or(value_base64.as_deref()).unwrap_or_default();
            let about = format!("version {version}  {}", excerpt(value));
            ("put".to_owned(), key_of(key.as_deref(), key_base64.as_deref()), about)
        }
        EventFact::EntryDeleted { key, key_base64, ended } => {
            let about = ended.map(|lease| format!("with lease {lease}")).unwrap_or_default();
            ("deleted".to_owned(), key_of(key.as_deref(), key_base64.as_deref()), about)
        }
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!("  \"{}\"", excerpt(reason))).unwrap_or_default()
}

fn key_of(key: Option<&str>, base64: Option<&str>) -> String {
    match (key, base64) {
        (Some(key), _) => key.to_owned(),
        (None, Some(base64)) => format!("base64:{base64}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::Change;

    use super::*;

    #[test]
    fn each_event_has_its_line() {
        let change: Change = serde_json::from_str(include_str!("../../tests/golden/watch.json")).unwrap();
        let now = "2026-11-03T23:00:00Z".parse().unwrap();
        let lines: Vec<String> = change.events.iter().map(|event| line(change.revision, event, now)).collect();
        assert_eq!(lines.join("\n") + "\n", include_str!("../../tests/golden/watch.txt"));
        assert_eq!(name(&change.events[2]), "nightly");
    }
}
