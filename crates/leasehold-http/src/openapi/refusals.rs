//! Which operation can answer which code: the one table behind every refusal in the document.
//!
//! The match over codes has no wildcard, so a new code does not compile until it has a row here.

use std::collections::BTreeMap;

use leasehold_api::{Code, PROBLEM_TYPE};
use serde_json::{Value, json};

/// Those that wait for resources.
const WAITING: [&str; 2] = ["grant_lease", "add_claims"];
/// Those that name a lease that must be known: in the path, in the query or in the body.
const LEASE_NEEDED: [&str; 10] = [
    "grant_lease",
    "get_lease",
    "renew_lease",
    "revoke_lease",
    "add_claims",
    "give_back_claim",
    "put_entry",
    "delete_entry",
    "delete_entries",
    "run_transaction",
];
/// Those that carry a `seq`.
const NUMBERED: [&str; 6] =
    ["add_claims", "give_back_claim", "put_entry", "delete_entry", "delete_entries", "run_transaction"];
/// Those that change the cluster.
const CLUSTER_CHANGES: [&str; 3] = ["add_member", "remove_member", "transfer_leadership"];
/// Those that never ask the service: they answer for the process itself.
const OF_THE_PROCESS: [&str; 3] = ["get_health", "get_readiness", "get_openapi"];
/// Those that add to the state, and so can reach one of its bounds.
const GROWING: [&str; 5] = ["grant_lease", "add_claims", "put_entry", "run_transaction", "request_handover"];
/// Those that look for something which may not be there.
const LOOKING: [&str; 7] = [
    "get_resource",
    "get_queue",
    "get_history",
    "get_entry",
    "run_transaction",
    "remove_member",
    "transfer_leadership",
];

/// What the table needs to know of an operation.
struct Operation<'a> {
    id: &'a str,
    /// Whether its path has parameters.
    path: bool,
    /// Whether it takes anything from the caller.
    input: bool,
    body: bool,
    /// Whether its body must be JSON.
    only_json: bool,
}

impl Operation<'_> {
    fn is(&self, ids: &[&str]) -> bool {
        ids.contains(&self.id)
    }

    fn asks_the_service(&self) -> bool {
        !self.is(&OF_THE_PROCESS)
    }

    /// Whether it needs a leader: `get_cluster` tells what this node knows.
    fn needs_a_leader(&self) -> bool {
        self.asks_the_service() && self.id != "get_cluster"
    }

    /// Whether it is committed to the log.
    fn commits(&self) -> bool {
        let reads = ["take_backup", "check_token", "watch_events"];
        self.needs_a_leader() && !self.id.starts_with("get_") && !self.id.starts_with("list_") && !self.is(&reads)
    }

    /// The table.
    fn answers(&self, code: Code) -> bool {
        match code {
            Code::Held | Code::WaitElapsed | Code::WaitLeft => self.is(&WAITING),
            Code::IdInUse => self.is(&["grant_lease", "revoke_lease"]),
            Code::UnknownLease => self.is(&LEASE_NEEDED) || self.id == "release_lease",
            Code::LeaseEnded => self.is(&LEASE_NEEDED),
            Code::NotYours => self.commits() && !self.is(&CLUSTER_CHANGES) && self.id != "request_handover",
            Code::NeedsRight => self.commits(),
            Code::TooOld => self.id == "grant_lease",
            Code::LateCopy | Code::RefusedBefore => self.is(&NUMBERED),
            Code::StaleToken => self.is(&["check_token", "give_back_claim"]),
            Code::AlreadyClaimed => self.id == "add_claims",
            Code::NotClaimed => self.id == "give_back_claim",
            Code::NotHeld => self.id == "request_handover",
            // HTTP has no way to leave a wait by its number.
            Code::UnknownWait => false,
            Code::Malformed | Code::Invalid => self.input,
            Code::InvalidName => self.path && self.id != "remove_member",
            Code::TtlOutOfBounds => self.is(&["grant_lease", "renew_lease", "renew_leases"]),
            Code::CooldownTooLong => self.is(&WAITING),
            Code::LimitReached => self.is(&GROWING),
            Code::TooLarge => self.body || self.id == "delete_entries",
            Code::Overloaded => self.needs_a_leader(),
            Code::DiskFull => self.commits(),
            Code::NoQuorum | Code::ShuttingDown => self.needs_a_leader(),
            Code::ChangeRefused => self.is(&CLUSTER_CHANGES),
            Code::Denied | Code::Internal => self.asks_the_service(),
            Code::NotFound => self.is(&LOOKING),
            Code::Compacted => self.id == "watch_events",
            Code::PreconditionFailed => self.is(&["put_entry", "delete_entry"]),
            // A parameter that is empty leads to another address.
            Code::UnknownRoute => self.path,
            // The answer to a method that the document does not have.
            Code::MethodNotAllowed => false,
            Code::UnsupportedMediaType => self.only_json,
        }
    }
}

/// Adds every refusal that an operation can answer.
pub(super) fn declare(operation: &mut Value) {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    let known = facts(operation);
    for code in Code::ALL.into_iter().filter(|code| known.answers(*code)) {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        operation["responses"][status.to_string()] = answer(status, &codes);
    }
}

fn facts(operation: &Value) -> Operation<'_> {
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let content = operation["requestBody"]["content"].as_object();
    Operation {
        id: operation["operationId"].as_str().unwrap_or_default(),
        path: parameters.iter().any(|parameter| parameter["in"] == "path"),
        input: !parameters.is_empty() || content.is_some(),
        body: content.is_some(),
        only_json: content.is_some_and(|kinds| kinds.keys().all(|kind| kind == "application/json")),
    }
}

fn answer(status: u16, codes: &[Code]) -> Value {
    let lines: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.title())).collect();
    let mut answer = json!({
        "description": lines.join("; "),
        "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    if matches!(status, 409 | 429 | 503) {
        answer["headers"]["Retry-After"] = json!({
            "description": "After how many seconds to try again, where `retry` says that it helps",
            "required": true,
            "schema": {"type": "integer", "minimum": 1},
        });
    }
    answer
}
