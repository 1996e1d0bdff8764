//! Who holds and who waits for one resource, as the events tell it.

use std::collections::BTreeMap;

use super::Swept;
use crate::history::Event;

/// One resource.
#[derive(Default)]
pub(super) struct Queue<'a> {
    /// In the order of service.
    waiters: Vec<Waiter<'a>>,
    holders: Vec<(&'a str, bool)>,
    /// Those that somebody got past, or that were not given what was free.
    passed: BTreeMap<&'a str, Passed<'a>>,
    /// Whether it may rest although nobody holds it.
    rests: bool,
}

struct Waiter<'a> {
    lease: &'a str,
    priority: i32,
    /// Whether it wants other resources too.
    several: bool,
}

/// How a waiter was passed over.
struct Passed<'a> {
    /// At which log entry.
    at: &'a str,
    /// Whether the same entry may still serve it, at a later revision.
    may_come: bool,
}

impl<'a> Queue<'a> {
    /// Takes one event; what contradicts the order is told.
    pub(super) fn take(&mut self, event: &'a Event, priority: i32, several: bool, swept: &Swept<'_>) -> Option<String> {
        let (lease, resource) = (event.lease.as_str(), &event.resource);
        match event.kind.as_str() {
            "queued" => {
                let place = self.behind(priority);
                self.waiters.insert(place, Waiter { lease, priority, several });
                let (place, given) = (place as u64 + 1, event.position);
                (place != given).then(|| format!("{lease} came as number {place} for {resource} and got place {given}"))
            }
            "unqueued" => {
                self.waiters.retain(|waiter| waiter.lease != lease);
                let passed = self.passed.remove(lease)?;
                let by_time = matches!(event.cause.as_str(), "expired" | "wait_elapsed" | "parent_ended");
                let was_dead = by_time && (passed.at == event.at || swept.in_pieces(passed.at));
                (!was_dead).then(|| format!("{lease} lived when it was passed over for {resource}"))
            }
            "claim_granted" => self.grant(event, priority),
            "claim_ended" => {
                self.rests |= event.may_rest();
                let held = self.holders.iter().position(|(holder, _)| *holder == lease);
                let held = held.map(|at| self.holders.swap_remove(at));
                held.is_none().then(|| format!("{lease} lost {resource} that it did not hold"))
            }
            _ => None,
        }
    }

    fn grant(&mut self, event: &'a Event, priority: i32) -> Option<String> {
        let (lease, resource) = (event.lease.as_str(), &event.resource);
        let in_the_way = self.holders.iter().find(|(_, shared)| !(*shared && event.shared)).map(|(holder, _)| *holder);
        self.holders.push((lease, event.shared));
        self.rests = false;
        let waited = self.waiters.iter().position(|waiter| waiter.lease == lease);
        let place = waited.unwrap_or_else(|| self.behind(priority));
        for waiter in &self.waiters[..place] {
            self.passed.insert(waiter.lease, Passed { at: &event.at, may_come: false });
        }
        self.waiters.retain(|waiter| waiter.lease != lease);
        if let Some(passed) = self.passed.remove(lease)
            && !(passed.may_come && passed.at == event.at)
        {
            return Some(format!("{lease} got {resource} after it had been passed over"));
        }
        in_the_way.map(|holder| format!("{lease} got {resource} while {holder} held it"))
    }

    /// The place of a newcomer with this priority.
    fn behind(&self, priority: i32) -> usize {
        self.waiters.partition_point(|waiter| waiter.priority >= priority)
    }

    /// Ends a revision: whoever waits for what is free is passed over. A claim that ended is handed on in the same
    /// revision; when only a waiter left, those behind it are served later in the same entry.
    pub(super) fn settle(&mut self, at: &'a str, ended: bool) {
        if !self.holders.is_empty() || self.rests {
            return;
        }
        // Whoever wants more than this may lack something else, and nobody goes past it.
        for waiter in self.waiters.iter().take_while(|waiter| !waiter.several) {
            self.passed.entry(waiter.lease).or_insert(Passed { at, may_come: !ended });
        }
    }

    /// Those that were passed over and never left, with the log entry.
    pub(super) fn passed_over(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.passed.iter().map(|(waiter, passed)| (*waiter, passed.at))
    }
}
