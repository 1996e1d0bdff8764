//! Lists of resources, waiters, past claims and entries as tables.

use leasehold_api::{Entry, PastInfo, Resource, Timestamp, WaiterInfo};
use serde::Serialize;

use super::table::Table;
use super::text::{clock, excerpt, left, mode, moment, more, plain, short};

/// A waiter and what it waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Waiting {
    /// For which resource.
    pub(crate) resource: String,
    /// Who and how long.
    #[serde(flatten)]
    pub(crate) waiter: WaiterInfo,
}

/// Who holds what.
pub(crate) fn resources(resources: &[Resource]) -> String {
    let mut table = Table::new(["RESOURCE", "HOLDER", "TOKEN", "MODE", "HELD", "ENDS IN", "QUEUE", "REASON"]);
    for resource in resources {
        let mut rows: Vec<[String; 6]> = Vec::new();
        for holder in &resource.holders {
            rows.push([
                plain(&holder.holder),
                holder.token.to_string(),
                mode(holder.mode).to_owned(),
                clock(holder.held_for),
                left(holder.remaining),
                excerpt(holder.reason.as_deref().unwrap_or_default()),
            ]);
        }
        let dash = || "-".to_owned();
        match more(&resource.holders, resource.holder_count) {
            0 if rows.is_empty() => {
                let state = resource.rests.map_or_else(dash, |rests| format!("(rests {} more)", short(rests)));
                rows.push([state, dash(), dash(), dash(), dash(), String::new()]);
            }
            0 => {}
            more => rows.push([format!("(and {more} more)"), dash(), dash(), dash(), dash(), String::new()]),
        }
        for [holder, token, mode, held, ends, reason] in rows {
            let queue = resource.queue.length.to_string();
            table.row([plain(&resource.name), holder, token, mode, held, ends, queue, reason]);
        }
    }
    table.lines().join("\n")
}

/// Who waits for what.
pub(crate) fn waiting(waiting: &[Waiting]) -> String {
    let heading = ["RESOURCE", "PLACE", "HOLDER", "MODE", "PRIORITY", "WAITS", "ABOUT", "GIVES UP IN", "REASON"];
    let mut table = Table::new(heading);
    for Waiting { resource, waiter } in waiting {
        table.row([
            plain(resource),
            waiter.position.to_string(),
            plain(&waiter.holder),
            mode(waiter.mode).to_owned(),
            waiter.priority.to_string(),
            clock(waiter.waited),
            waiter.estimate.filter(|estimate| estimate.0.0 > 0).map_or_else(|| "-".to_owned(), short),
            waiter.patience.map_or_else(|| "never".to_owned(), short),
            excerpt(waiter.reason.as_deref().unwrap_or_default()),
        ]);
    }
    table.lines().join("\n")
}

/// What happened, newest first; `now` decides which moments need a date.
pub(crate) fn history(history: &[PastInfo], now: Timestamp) -> String {
    let mut table = Table::new(["WHEN", "WHAT", "TOKEN", "HOLDER", "WAITED", "HELD", "REASON"]);
    let dash = || "-".to_owned();
    for past in history {
        table.row([
            moment(past.at, now),
            plain(&past.what),
            past.token.to_string(),
            plain(&past.holder),
            past.waited.map_or_else(dash, short),
            past.held_for.map_or_else(dash, short),
            why(past),
        ]);
    }
    table.lines().join("\n")
}

/// Who asked, and why it was done.
fn why(past: &PastInfo) -> String {
    let by = past.by.as_deref().map(|by| format!("by {}", plain(by)));
    let reason = past.reason.as_deref().map(excerpt);
    by.into_iter().chain(reason).collect::<Vec<_>>().join(": ")
}

/// Keys and values.
pub(crate) fn entries(entries: &[Entry]) -> String {
    let mut table = Table::new(["KEY", "REVISION", "VERSION", "LEASE", "VALUE"]);
    for entry in entries {
        table.row([
            key_of(entry),
            entry.modified.to_string(),
            entry.version.to_string(),
            entry.lease.map_or_else(|| "-".to_owned(), |lease| lease.to_string()),
            match (&entry.value, entry.value_bytes()) {
                (Some(text), _) => excerpt(text),
                (None, Some(bytes)) => format!("({} bytes)", bytes.len()),
                (None, None) => "(damaged)".to_owned(),
            },
        ]);
    }
    table.lines().join("\n")
}

/// The key of an entry as text; one that is not UTF-8 as its base64.
pub(crate) fn key_of(entry: &Entry) -> String {
    match (&entry.key, &entry.key_base64) {
        (Some(key), _) => plain(key),
        (None, Some(base64)) => format!("base64:{}", plain(base64)),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::{EntryList, HistoryList, QueueList, ResourceList};

    use super::*;

    #[test]
    fn resources_are_listed_with_their_holders() {
        let list: ResourceList = serde_json::from_str(include_str!("../../tests/golden/ls.json")).unwrap();
        assert_eq!(resources(&list.resources) + "\n", include_str!("../../tests/golden/ls.txt"));
        assert_eq!(resources(&[]), "");
    }

    #[test]
    fn waiters_are_listed_with_what_they_wait_for() {
        let queue: QueueList = serde_json::from_str(include_str!("../../tests/golden/ls_waiting.json")).unwrap();
        let resource = "orders/7".to_owned();
        let rows: Vec<_> =
            queue.waiters.into_iter().map(|waiter| Waiting { resource: resource.clone(), waiter }).collect();
        assert_eq!(waiting(&rows) + "\n", include_str!("../../tests/golden/ls_waiting.txt"));
    }

    #[test]
    fn the_past_is_listed_with_how_long_it_took() {
        let list: HistoryList = serde_json::from_str(include_str!("../../tests/golden/history.json")).unwrap();
        let now = "2026-11-03T23:00:00Z".parse().unwrap();
        assert_eq!(history(&list.history, now) + "\n", include_str!("../../tests/golden/history.txt"));
    }

    #[test]
    fn entries_are_listed_with_the_beginning_of_their_values() {
        let list: EntryList = serde_json::from_str(include_str!("../../tests/golden/entry_ls.json")).unwrap();
        assert_eq!(entries(&list.entries) + "\n", include_str!("../../tests/golden/entry_ls.txt"));
    }
}
