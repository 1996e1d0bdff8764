//! Promise 8: waiters are served in commit order within a priority, dead ones are skipped, nobody goes past the living,
//! and nobody is left waiting for what is free.
//!
//! A waiter that is passed over, or not given what is free, must have been dead: the same log entry that did so takes it
//! out of the queue, because its time or its patience was over; only a mass expiry, which is swept in pieces, may
//! take longer. Judged on what is known without a gap from the first revision on. A resource that rests and a waiter that
//! wants several resources may leave something free; their order is judged all the same.

mod queue;

use std::collections::{BTreeMap, BTreeSet};

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{Ack, Change, History};
use queue::Queue;

/// The stable name of this checker.
pub const NAME: &str = "fifo";

/// Finds waiters that were passed over or forgotten, and wrong places.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let timeline = Timeline::of(history);
    let swept = Swept::of(&timeline, history.bounds.sweep_piece);
    let priorities: BTreeMap<(&str, &str), i32> =
        history.asks.iter().map(|ask| ((ask.lease.as_str(), ask.resource.as_str()), ask.priority)).collect();
    let mut queues: BTreeMap<&str, Queue<'_>> = BTreeMap::new();
    let mut last = "";
    for change in timeline.whole() {
        let several = want_several(change);
        let mut touched: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        for event in change.events.iter().filter(|event| !event.resource.is_empty()) {
            let queue = queues.entry(&event.resource).or_default();
            let priority = priorities.get(&(event.holder.as_str(), event.resource.as_str())).copied().unwrap_or(0);
            if let Some(text) = queue.take(event, priority, several.contains(event.lease.as_str()), &swept) {
                found.push(format!("{text} at revision {}", change.revision));
            }
            let (at, ended) = touched.entry(&event.resource).or_default();
            *at = &event.at;
            *ended |= event.kind == "claim_ended";
        }
        for (resource, (at, ended)) in touched {
            queues.entry(resource).or_default().settle(at, ended);
            last = at;
        }
    }
    for (resource, queue) in queues {
        // The last entry may not be known to its end.
        for waiter in queue.passed_over().filter(|(_, at)| *at != last && !swept.in_pieces(at)) {
            found.push(format!("{} was passed over for {resource} and never left", waiter.0));
        }
    }
    find_dead(history, &mut found);
    found.all
}

/// Finds leases that were given something after their time was over, by what they were told while they waited.
fn find_dead(history: &History, found: &mut Found) {
    let unsure: BTreeSet<&str> = history.attempts.iter().map(|attempt| attempt.lease.as_str()).collect();
    let mut acks: BTreeMap<&str, Vec<&Ack>> = BTreeMap::new();
    for ack in &history.acks {
        acks.entry(&ack.lease).or_default().push(ack);
    }
    for look in history.looks.iter().filter(|look| !unsure.contains(look.lease.as_str())) {
        for (held, since) in look.held.iter().filter_map(|held| Some((held, held.since?))) {
            let told = acks.get(look.lease.as_str()).into_iter().flatten();
            let before = told.filter(|ack| ack.deadline.saturating_sub(ack.remaining.as_millis() as u64) < since);
            let Some(deadline) = before.map(|ack| ack.deadline).max().filter(|deadline| *deadline < since) else {
                continue;
            };
            let (lease, resource) = (&look.lease, &held.resource);
            found.push(format!("{lease} was over at lease time {deadline} and was given {resource} at {since}"));
        }
    }
}

/// The leases that begin to wait for several resources at once.
fn want_several(change: &Change) -> BTreeSet<&str> {
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for event in change.events.iter().filter(|event| event.kind == "queued") {
        *wanted.entry(&event.lease).or_default() += 1;
    }
    wanted.into_iter().filter(|(_, count)| *count > 1).map(|(lease, _)| lease).collect()
}

/// How much each log entry swept of what was due.
struct Swept<'a> {
    by_entry: BTreeMap<&'a str, usize>,
    piece: usize,
    /// Whether entries may also have swept what leaves no event: the ends of rests.
    rests: bool,
}

impl<'a> Swept<'a> {
    fn of(timeline: &Timeline<'a>, piece: usize) -> Swept<'a> {
        let mut swept = Swept { by_entry: BTreeMap::new(), piece, rests: false };
        for change in timeline.whole() {
            let ended: BTreeSet<&str> =
                change.events.iter().filter(|e| e.kind == "lease_ended").map(|e| e.lease.as_str()).collect();
            for event in &change.events {
                swept.rests |= event.may_rest();
                let by_time = matches!(event.cause.as_str(), "expired" | "wait_elapsed" | "parent_ended");
                let with_lease = !event.ended.is_empty();
                // A wait that ends while its lease lives on counts for all that the lease carries.
                let heavy =
                    event.kind == "unqueued" && event.cause == "wait_elapsed" && !ended.contains(event.lease.as_str());
                let weight = if heavy { piece } else { usize::from(by_time || with_lease) };
                *swept.by_entry.entry(&event.at).or_default() += weight;
            }
        }
        swept
    }

    /// Whether an entry may have left something due to the next one.
    fn in_pieces(&self, at: &str) -> bool {
        self.by_entry.get(at).is_some_and(|swept| *swept >= self.piece || (self.rests && *swept > 0))
    }
}

#[cfg(test)]
mod tests;
