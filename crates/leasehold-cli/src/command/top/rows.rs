//! The rows of the screen, made from the lists: a lease at a resource each, and a waiter each.

use leasehold_api::{HolderInfo, QueueList, RemainingText, Resource, SpanText, WaiterInfo};
use leasehold_core::Remaining;

use super::feed::Tables;
use crate::render::text::{clock, excerpt, left, mode, more, plain, short};

/// How many waiters of one queue are shown.
const WAITERS_SHOWN: usize = 3;

/// How soon somebody should look at a lease. The most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Less than a quarter of the ttl is left: nobody seems to renew it.
    High,
    /// Less than a half is left.
    Some,
    /// All is well.
    None,
    /// It does not end by time, or is not held.
    Timeless,
}

/// A lease at a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseRow {
    pub(crate) resource: String,
    pub(crate) holder: String,
    pub(crate) token: String,
    pub(crate) mode: &'static str,
    pub(crate) urgency: Urgency,
    /// The part of the ttl that is left, from 0 to 1.
    pub(crate) part: f64,
    pub(crate) left: String,
    pub(crate) held: String,
    pub(crate) reason: String,
}

/// A waiter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaiterRow {
    pub(crate) resource: String,
    pub(crate) place: String,
    pub(crate) holder: String,
    pub(crate) about: String,
}

/// The leases, urgent ones first and then by name, so that rows stay where they are while all is well.
pub(crate) fn leases(tables: &Tables) -> Vec<LeaseRow> {
    let mut rows: Vec<LeaseRow> = tables.resources.iter().flat_map(of_resource).collect();
    // The sort keeps holders of one resource in the order they have.
    rows.sort_by(|one, two| (one.urgency, &one.resource).cmp(&(two.urgency, &two.resource)));
    rows
}

fn of_resource(resource: &Resource) -> Vec<LeaseRow> {
    let mut rows: Vec<LeaseRow> = resource.holders.iter().map(|holder| held(&resource.name, holder)).collect();
    rows.sort_by_key(|row| row.urgency);
    let note = match (more(&resource.holders, resource.holder_count), resource.rests) {
        (0, Some(rests)) if rows.is_empty() => Some(format!("(rests {} more)", short(rests))),
        (0, _) if rows.is_empty() => Some("(nobody)".to_owned()),
        (0, _) => None,
        (more, _) => Some(format!("(and {more} more)")),
    };
    // A note on others stands below those that are told.
    let urgency = rows.last().map_or(Urgency::Timeless, |row| row.urgency);
    rows.extend(note.map(|note| LeaseRow {
        resource: plain(&resource.name),
        holder: note,
        token: "-".to_owned(),
        mode: "",
        urgency,
        part: 0.0,
        left: "-".to_owned(),
        held: "-".to_owned(),
        reason: String::new(),
    }));
    rows
}

fn held(resource: &str, holder: &HolderInfo) -> LeaseRow {
    let part = part_left(holder.remaining, holder.renewed_ago);
    let urgency = match part {
        None => Urgency::Timeless,
        Some(_) if holder.ending => Urgency::High,
        Some(part) if part < 0.25 => Urgency::High,
        Some(part) if part < 0.5 => Urgency::Some,
        Some(_) => Urgency::None,
    };
    LeaseRow {
        resource: plain(resource),
        holder: plain(&holder.holder),
        token: holder.token.to_string(),
        mode: mode(holder.mode),
        urgency,
        part: part.unwrap_or(1.0),
        left: if holder.ending { "ending".to_owned() } else { left(holder.remaining) },
        held: clock(holder.held_for),
        reason: excerpt(holder.reason.as_deref().unwrap_or_default()),
    }
}

/// The part of the ttl that is left: the time left and the time since the renewal make up the ttl.
fn part_left(remaining: RemainingText, renewed_ago: SpanText) -> Option<f64> {
    let Remaining::For(left) = remaining.0 else { return None };
    // Milliseconds of any ttl are far below 2^53.
    let (left, ago) = (left.0 as f64, renewed_ago.0.0 as f64);
    Some(if left + ago > 0.0 { left / (left + ago) } else { 0.0 })
}

/// The waiters of all queues, the first few of each.
pub(crate) fn waiters(tables: &Tables) -> Vec<WaiterRow> {
    tables.queues.iter().flat_map(|(resource, queue)| of_queue(resource, queue)).collect()
}

fn of_queue(resource: &str, queue: &QueueList) -> Vec<WaiterRow> {
    let resource = plain(resource);
    let mut rows: Vec<WaiterRow> =
        queue.waiters.iter().take(WAITERS_SHOWN).map(|waiter| waiting(&resource, waiter)).collect();
    let shown = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    if queue.length > shown {
        let holder = format!("(and {} more)", queue.length - shown);
        rows.push(WaiterRow { resource, place: String::new(), holder, about: String::new() });
    }
    rows
}

fn waiting(resource: &str, waiter: &WaiterInfo) -> WaiterRow {
    let mut about = vec![format!("waits {}", clock(waiter.waited))];
    // An estimate of nothing is one that was wrong.
    let estimate = waiter.estimate.filter(|estimate| estimate.0.0 > 0);
    about.extend(estimate.map(|estimate| format!("about {} to go", short(estimate))));
    about.extend(waiter.patience.map(|patience| format!("gives up in {}", short(patience))));
    about.extend((waiter.priority != 0).then(|| format!("priority {}", waiter.priority)));
    about.extend(waiter.reason.as_deref().map(|reason| format!("\"{}\"", excerpt(reason))));
    WaiterRow {
        resource: resource.to_owned(),
        place: waiter.position.to_string(),
        holder: plain(&waiter.holder),
        about: about.join("  "),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::Span;

    use super::*;

    #[test]
    fn the_part_left_counts_from_the_renewal() {
        let part = |left: u64, ago| part_left(RemainingText(Remaining::For(Span(left))), SpanText(Span(ago)));
        assert_eq!(part(7_500, 2_500), Some(0.75));
        assert_eq!(part(0, 0), Some(0.0));
        assert_eq!(part_left(RemainingText(Remaining::Endless), SpanText(Span(5))), None);
    }

    #[test]
    fn leases_that_nobody_renews_come_first() {
        let holder = |left: &str, ago: &str| {
            serde_json::json!({
                "holder": "ann", "lease": "~1a2b3c4d5e", "token": 5, "mode": "exclusive",
                "since": "2026-11-03T19:02:11.250Z", "held_for": "41s", "remaining": left, "renewed_ago": ago,
            })
        };
        let resource = |name: &str, left: &str, ago: &str| {
            let value = serde_json::json!({
                "name": name, "state": "held", "holders": [holder(left, ago)], "holder_count": 1,
                "queue": {"length": 0}, "last_token": 5,
            });
            serde_json::from_value(value).unwrap()
        };
        let resources = vec![
            resource("calm/b", "9s", "1s"),
            resource("endless", "none", "1s"),
            resource("calm/a", "7s", "3s"),
            resource("red", "1s", "9s"),
            resource("yellow", "4s", "6s"),
        ];
        let rows = leases(&Tables { resources, ..Tables::default() });
        let names: Vec<&str> = rows.iter().map(|row| row.resource.as_str()).collect();
        assert_eq!(names, ["red", "yellow", "calm/a", "calm/b", "endless"]);
    }
}
