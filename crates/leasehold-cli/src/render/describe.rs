//! A resource in full: who holds it, who waits, what happened.

use leasehold_api::{HistoryList, HolderInfo, PastInfo, QueueList, Resource, ResourceState, Timestamp, WaiterInfo};

use super::table::aligned;
use super::text::{clock, ends_in, excerpt, mode, moment, more, plain, short};

/// Where the second column begins, unless a name is too long for it.
const SECOND: usize = 30;

/// The description of a resource; `now` decides which moments need a date.
pub(crate) fn describe(resource: &Resource, queue: &QueueList, history: &HistoryList, now: Timestamp) -> String {
    let longest = resource.holders.iter().map(|holder| plain(&holder.holder).chars().count() + 11).max();
    let second = longest.unwrap_or(0).max(resource.name.chars().count()).saturating_add(3).max(SECOND);
    let mut lines = vec![format!("{:second$}{}", plain(&resource.name), kind(resource))];
    holders(resource, second, &mut lines);
    if let Some(rests) = resource.rests {
        lines.push(format!("  rests    {} more, before it is granted again", short(rests)));
    }
    lines.push(match (resource.holders.is_empty(), resource.last_token) {
        (_, 0) => "  token    none yet".to_owned(),
        (true, last) => format!("  token    none (last {last})"),
        (false, _) => format!("  token    {}", tokens(&resource.holders)),
    });
    labelled("queue", waiters(queue), &mut lines);
    labelled("history", past(history, now), &mut lines);
    lines.join("\n") + "\n"
}

fn kind(resource: &Resource) -> String {
    match (resource.state, resource.holders.first()) {
        (ResourceState::Free, _) => "lock, free".to_owned(),
        (ResourceState::Resting, _) => "lock, resting".to_owned(),
        (ResourceState::Held, Some(first)) => format!("lock, {}", mode(first.mode)),
        (ResourceState::Held, None) => "lock, held".to_owned(),
    }
}

fn holders(resource: &Resource, second: usize, lines: &mut Vec<String>) {
    let width = second.saturating_sub(11);
    for holder in &resource.holders {
        lines.push(format!(
            "  holder   {:width$}since {}   {} (renewed {} ago)",
            plain(&holder.holder),
            clock(holder.held_for),
            ends_in(holder.remaining),
            short(holder.renewed_ago),
        ));
        for (label, text) in [("reason", &holder.reason), ("link", &holder.link)] {
            if let Some(text) = text {
                lines.push(format!("  {label:<7}  {}", plain(text)));
            }
        }
    }
    match more(&resource.holders, resource.holder_count) {
        0 if resource.holders.is_empty() => lines.push("  holder   none".to_owned()),
        0 => {}
        more => lines.push(format!("           and {more} more")),
    }
}

fn tokens(holders: &[HolderInfo]) -> String {
    let tokens: Vec<String> = holders.iter().map(|holder| holder.token.to_string()).collect();
    tokens.join(", ")
}

fn waiters(queue: &QueueList) -> Vec<String> {
    if queue.waiters.is_empty() {
        return vec![if queue.length == 0 { "empty".to_owned() } else { format!("{} waiting", queue.length) }];
    }
    let mut lines = aligned(&queue.waiters.iter().map(waiter).collect::<Vec<_>>());
    match queue.length.saturating_sub(u32::try_from(queue.waiters.len()).unwrap_or(u32::MAX)) {
        0 => {}
        more => lines.push(format!("and {more} more")),
    }
    lines
}

fn waiter(waiter: &WaiterInfo) -> Vec<String> {
    let mut about = Vec::new();
    if waiter.priority != 0 {
        about.push(format!("priority {}", waiter.priority));
    }
    about.extend(waiter.patience.map(|patience| format!("gives up in {}", short(patience))));
    about.extend(waiter.reason.as_deref().map(|reason| format!("\"{}\"", excerpt(reason))));
    vec![
        waiter.position.to_string(),
        plain(&waiter.holder),
        mode(waiter.mode).to_owned(),
        format!("waits {}", clock(waiter.waited)),
        about.join("  "),
    ]
}

fn past(history: &HistoryList, now: Timestamp) -> Vec<String> {
    if history.history.is_empty() {
        return vec!["empty".to_owned()];
    }
    aligned(&history.history.iter().map(|past| past_line(past, now)).collect::<Vec<_>>())
}

fn past_line(past: &PastInfo, now: Timestamp) -> Vec<String> {
    let waited = past.waited.filter(|waited| waited.0.0 > 0).map(|waited| format!("waited {}", short(waited)));
    let held = past.held_for.map(|held| format!("held {}", short(held)));
    let by = past.by.as_deref().map(|by| format!("by {}", plain(by)));
    let reason = past.reason.as_deref().map(|reason| format!("\"{}\"", excerpt(reason)));
    let about: Vec<String> = waited.into_iter().chain(held).chain(by).chain(reason).collect();
    vec![
        moment(past.at, now),
        plain(&past.what),
        format!("token {}", past.token),
        // What follows stands a little apart.
        format!("{} ", plain(&past.holder)),
        about.join("  "),
    ]
}

/// A label before the first of its lines, and space before the others.
fn labelled(label: &str, values: Vec<String>, lines: &mut Vec<String>) {
    for (index, value) in values.into_iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        lines.push(format!("  {label:<7}  {value}"));
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Sample {
        now: Timestamp,
        resource: Resource,
        queue: QueueList,
        history: HistoryList,
    }

    fn shown(sample: &str) -> String {
        let sample: Sample = serde_json::from_str(sample).unwrap();
        describe(&sample.resource, &sample.queue, &sample.history, sample.now)
    }

    #[test]
    fn a_held_resource_looks_as_in_the_readme() {
        let found = shown(include_str!("../../tests/golden/describe_held.json"));
        assert_eq!(found, include_str!("../../tests/golden/describe_held.txt"));
    }

    #[test]
    fn a_shared_resource_shows_its_holders_and_its_queue() {
        let found = shown(include_str!("../../tests/golden/describe_shared.json"));
        assert_eq!(found, include_str!("../../tests/golden/describe_shared.txt"));
    }

    #[test]
    fn a_resource_that_rests_says_for_how_long() {
        let found = shown(include_str!("../../tests/golden/describe_resting.json"));
        assert_eq!(found, include_str!("../../tests/golden/describe_resting.txt"));
    }
}
