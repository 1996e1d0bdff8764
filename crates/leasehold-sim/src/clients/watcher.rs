//! A client that watches: everything, or one resource; from node to node, and sometimes too slowly.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Event as CoreEvent, Fact, Revision};
use leasehold_service::{Change as CoreChange, Failure};

use super::Client;
use crate::history::{Change, Event, Filter, Told, Watched};
use crate::talk::{Answer, Question};

pub(super) async fn run(client: Client, number: u16) {
    let prefix = if number == 2 { "r0".to_owned() } else { String::new() };
    let filter = if prefix.is_empty() { Filter::Everything } else { Filter::Prefix(prefix.clone()) };
    let place = {
        let mut history = client.shared.history.lock();
        history.watched.push(Watched { watcher: client.name.clone(), filter, since: 0, told: Vec::new() });
        history.watched.len() - 1
    };
    // The first revision: everything there ever was, if it is still kept.
    let mut since = Revision(0);
    loop {
        since = follow(&client, place, since, &prefix).await;
        client.try_another_node();
        client.nap(0, 100).await;
        // One that is slow may find that what it wants is gone.
        if number == 1 && client.chance(10) {
            client.nap(500, 5000).await;
        }
    }
}

/// Follows one watch for as long as it lasts; returns the revision up to which everything was told.
async fn follow(client: &Client, place: usize, since: Revision, prefix: &str) -> Revision {
    let mut asking = client.ask(Question::Watch(Some(since), prefix.to_owned()));
    let (mut seen, mut next, mut early) = (since, 0, BTreeMap::new());
    loop {
        let Ok(Some((count, answer))) = tokio::time::timeout(Duration::from_millis(1500), asking.answers.recv()).await
        else {
            return seen;
        };
        // What came twice or in the wrong order is put in order, as a connection would.
        if count >= next {
            early.insert(count, answer);
        }
        while let Some(answer) = early.remove(&next) {
            next += 1;
            let told = |told: Told| client.shared.history.lock().watched[place].told.push(told);
            match answer {
                Answer::Changed(change) => {
                    seen = change.revision;
                    told(Told::Change(translate(client, &change)));
                }
                Answer::Nothing(revision) => {
                    seen = revision;
                    told(Told::Progress(revision.0));
                }
                Answer::NotOpened(Failure::Compacted { oldest }) => {
                    client.shared.trace.say(format_args!("{} has a gap up to {oldest}", client.name));
                    told(Told::Gap(oldest.0));
                    return oldest;
                }
                Answer::Opened => {}
                Answer::TooSlow | Answer::Over | Answer::NotOpened(_) => return seen,
                Answer::Done(_) | Answer::Seen(_) | Answer::Entry(_) => return seen,
            }
        }
    }
}

fn translate(client: &Client, change: &CoreChange) -> Change {
    let events: Vec<Event> = change.events.iter().map(event).collect();
    for event in &events {
        let Event { kind, holder, resource, key, token, cause, .. } = event;
        client.shared.trace.say(format_args!(
            "{} is told at {}: {kind} {holder} {resource}{key} {token} {cause}",
            client.name, change.revision
        ));
    }
    Change { revision: change.revision.0, events, seen: client.now() }
}

fn event(core: &CoreEvent) -> Event {
    let at = core.wall.0.to_string();
    let digest = |lease: &leasehold_core::LeaseId| format!("{:016x}", lease.number());
    let base = Event { at, ..Event::default() };
    match &core.fact {
        Fact::LeaseGranted { lease, holder, .. } => {
            Event { kind: "lease_granted".into(), lease: digest(lease), holder: holder.to_string(), ..base }
        }
        Fact::LeaseEnded { lease, holder, cause } => Event {
            kind: "lease_ended".into(),
            lease: digest(lease),
            holder: holder.to_string(),
            cause: cause.word().into(),
            ..base
        },
        Fact::ClaimGranted { lease, holder, resource, mode, token, .. } => Event {
            kind: "claim_granted".into(),
            lease: digest(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            shared: *mode == leasehold_core::Mode::Shared,
            token: token.0,
            ..base
        },
        Fact::ClaimEnded { lease, holder, resource, token, cause, rests, .. } => Event {
            kind: "claim_ended".into(),
            lease: digest(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            token: token.0,
            cause: cause.word().into(),
            rests: Duration::from_millis(rests.0),
            ..base
        },
        Fact::Queued { lease, holder, resource, mode, position } => Event {
            kind: "queued".into(),
            lease: digest(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            shared: *mode == leasehold_core::Mode::Shared,
            position: u64::from(*position),
            ..base
        },
        Fact::Unqueued { lease, holder, resource, cause } => Event {
            kind: "unqueued".into(),
            lease: digest(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            cause: cause.word().into(),
            ..base
        },
        Fact::HandoverAsked { lease, holder, resource, .. } => Event {
            kind: "handover_asked".into(),
            lease: digest(lease),
            holder: holder.to_string(),
            resource: resource.to_string(),
            ..base
        },
        Fact::EntryPut { key, value, version, lease, .. } => Event {
            kind: "entry_put".into(),
            key: String::from_utf8_lossy(key.as_bytes()).into_owned(),
            value: String::from_utf8_lossy(value).into_owned(),
            version: *version,
            lease: lease.as_ref().map(digest).unwrap_or_default(),
            ..base
        },
        Fact::EntryDeleted { key, ended, .. } => Event {
            kind: "entry_deleted".into(),
            key: String::from_utf8_lossy(key.as_bytes()).into_owned(),
            ended: ended.as_ref().map(digest).unwrap_or_default(),
            ..base
        },
    }
}
