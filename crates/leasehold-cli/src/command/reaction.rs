//! A command that is run for an event of a watch.
//!
//! The event is in the environment, for scripts, and on stdin as JSON, for everything else. Values of entries are on
//! stdin only: they may be larger than an environment can be. The variables never become part of the command's text.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use leasehold_api::{Event, EventFact, Mode};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::render::text::mode;

/// Every variable that an event may set. Those it does not set are not inherited either: they would tell of another.
/// None is a setting of `lease`, so that a `lease` in the command acts as it would elsewhere.
const VARIABLES: [&str; 13] = [
    "LEASE_EVENT",
    "LEASE_REVISION",
    "LEASE_AT",
    "LEASE_RESOURCE",
    "LEASE_KEY",
    "LEASE_DIGEST",
    "LEASE_EVENT_HOLDER",
    "LEASE_FENCING_TOKEN",
    "LEASE_MODE",
    "LEASE_POSITION",
    "LEASE_CAUSE",
    "LEASE_REASON",
    "LEASE_BY",
];

/// Why a command did not do well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// In words.
    pub(crate) what: String,
    /// Its exit code; 128 and the number if it died of a signal, 126 if it could not be started.
    pub(crate) exit: u8,
}

/// An event with its revision, as it is on stdin.
#[derive(Serialize)]
struct Told<'a> {
    revision: u64,
    #[serde(flatten)]
    event: &'a Event,
}

/// Runs a command for one event, and waits for its end.
pub(crate) async fn run(command: &str, revision: u64, event: &Event) -> Result<(), Failed> {
    let cannot = |error: io::Error| Failed { what: format!("the command cannot be run: {error}"), exit: 126 };
    let mut text = serde_json::to_vec(&Told { revision, event }).map_err(|error| cannot(error.into()))?;
    text.push(b'\n');
    let mut process = Command::new("sh");
    process.arg("-c").arg(command).stdin(Stdio::piped());
    for name in VARIABLES {
        process.env_remove(name);
    }
    let mut child = process.envs(variables(revision, event)).spawn().map_err(cannot)?;
    let stdin = child.stdin.take();
    let write = async move {
        // A command that does not read what it is told is no worse for it.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&text).await;
        }
    };
    let wait = async {
        let status = child.wait().await;
        status.map_err(cannot)
    };
    let (mut write, mut wait) = (std::pin::pin!(write), std::pin::pin!(wait));
    let status = tokio::select! {
        status = &mut wait => status?,
        () = &mut write => wait.await?,
    };
    judged(status)
}

fn judged(status: ExitStatus) -> Result<(), Failed> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failed {
            what: format!("the command ended with exit code {code}"),
            exit: u8::try_from(code).unwrap_or(1),
        }),
        (None, signal) => {
            let signal = signal.unwrap_or(0);
            let exit = u8::try_from(128 + signal).unwrap_or(1);
            Err(Failed { what: format!("the command died of signal {signal}"), exit })
        }
    }
}

/// The variables of an event. Text that no variable can hold is left to stdin.
fn variables(revision: u64, event: &Event) -> Vec<(&'static str, String)> {
    let mut found = vec![("LEASE_REVISION", revision.to_string()), ("LEASE_AT", event.at.to_string())];
    let (kind, about) = facts(&event.fact);
    found.push(("LEASE_EVENT", kind.to_owned()));
    found.extend(about.into_iter().filter(|(_, value)| !value.contains('\0')));
    found
}

/// The type of an event, and what it tells.
fn facts(fact: &EventFact) -> (&'static str, Vec<(&'static str, String)>) {
    let named = |lease: String, holder: &str| vec![("LEASE_DIGEST", lease), ("LEASE_EVENT_HOLDER", holder.to_owned())];
    let at = |lease: String, holder: &str, resource: &str| {
        [named(lease, holder), vec![("LEASE_RESOURCE", resource.to_owned())]].concat()
    };
    let with_mode = |kind: Mode| ("LEASE_MODE", mode(kind).to_owned());
    let why = |cause: &str, reason: Option<&String>| {
        let reason = reason.map(|reason| ("LEASE_REASON", reason.clone()));
        [("LEASE_CAUSE", cause.to_owned())].into_iter().chain(reason).collect::<Vec<_>>()
    };
    match fact {
        EventFact::LeaseGranted { lease, holder, .. } => ("lease_granted", named(lease.to_string(), holder)),
        EventFact::LeaseEnded { lease, holder, cause, reason } => {
            ("lease_ended", [named(lease.to_string(), holder), why(cause, reason.as_ref())].concat())
        }
        EventFact::ClaimGranted { lease, holder, resource, mode, token, .. } => {
            let more = vec![("LEASE_FENCING_TOKEN", token.to_string()), with_mode(*mode)];
            ("claim_granted", [at(lease.to_string(), holder, resource), more].concat())
        }
        EventFact::ClaimEnded { lease, holder, resource, token, cause, reason, .. } => {
            let more = vec![("LEASE_FENCING_TOKEN", token.to_string())];
            ("claim_ended", [at(lease.to_string(), holder, resource), more, why(cause, reason.as_ref())].concat())
        }
        EventFact::Queued { lease, holder, resource, mode, position } => {
            let more = vec![("LEASE_POSITION", position.to_string()), with_mode(*mode)];
            ("queued", [at(lease.to_string(), holder, resource), more].concat())
        }
        EventFact::Unqueued { lease, holder, resource, cause } => {
            ("unqueued", [at(lease.to_string(), holder, resource), why(cause, None)].concat())
        }
        EventFact::HandoverAsked { lease, holder, resource, by, reason } => {
            let reason = reason.as_ref().map(|reason| ("LEASE_REASON", reason.clone()));
            let more = [("LEASE_BY", by.clone())].into_iter().chain(reason).collect();
            ("handover_asked", [at(lease.to_string(), holder, resource), more].concat())
        }
        EventFact::EntryPut { key, lease, .. } => {
            ("entry_put", entry(key.as_ref(), lease.map(|lease| lease.to_string())))
        }
        EventFact::EntryDeleted { key, ended, .. } => {
            ("entry_deleted", entry(key.as_ref(), ended.map(|lease| lease.to_string())))
        }
    }
}

fn entry(key: Option<&String>, lease: Option<String>) -> Vec<(&'static str, String)> {
    let key = key.map(|key| ("LEASE_KEY", key.clone()));
    key.into_iter().chain(lease.map(|lease| ("LEASE_DIGEST", lease))).collect()
}

#[cfg(test)]
mod tests {
    use leasehold_api::Change;

    use super::*;

    fn change() -> Change {
        serde_json::from_str(include_str!("../../tests/golden/watch.json")).unwrap()
    }

    #[test]
    fn every_event_has_its_type_and_only_known_variables() {
        for event in &change().events {
            let told = serde_json::to_value(Told { revision: 41, event }).unwrap();
            let found = variables(41, event);
            let kind = found.iter().find(|(name, _)| *name == "LEASE_EVENT").unwrap();
            assert_eq!(told["type"], kind.1);
            assert!(found.iter().all(|(name, _)| VARIABLES.contains(name)), "{found:?}");
        }
    }

    #[test]
    fn a_claim_tells_resource_holder_and_token() {
        let found = variables(41, &change().events[3]);
        for (name, value) in [
            ("LEASE_EVENT", "claim_ended"),
            ("LEASE_RESOURCE", "nightly"),
            ("LEASE_EVENT_HOLDER", "ana@box1/4711"),
            ("LEASE_FENCING_TOKEN", "2"),
            ("LEASE_CAUSE", "expired"),
            ("LEASE_REVISION", "41"),
        ] {
            assert!(found.contains(&(name, value.to_owned())), "{name}: {found:?}");
        }
    }

    #[test]
    fn text_that_no_variable_can_hold_is_left_out() {
        let fact = EventFact::EntryDeleted { key: Some("a\0b".into()), key_base64: None, ended: None };
        let event = Event { at: "2026-11-03T19:02:11.250Z".parse().unwrap(), fact };
        assert!(variables(1, &event).iter().all(|(name, _)| *name != "LEASE_KEY"));
    }
}
