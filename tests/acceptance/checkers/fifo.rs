//! Promise 8: waiters are served in commit order, dead ones are skipped, nobody goes past the living, and nobody is left
//! waiting for what is free.
//!
//! A waiter that is passed over, or not given what is free, must have been dead: the same log entry that did so takes it
//! out of the queue, because its time or its patience was over. The scenarios that it judges ask for exclusive claims
//! of one resource each, with equal priority.

use std::collections::BTreeMap;

use crate::history::{Event, History};

#[derive(Default)]
struct Queue<'a> {
    waiters: Vec<&'a str>,
    holder: Option<&'a str>,
    /// Those that somebody got past, or that were not given what was free, and at which entry.
    passed: BTreeMap<&'a str, &'a str>,
}

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut queues: BTreeMap<&str, Queue<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for change in &history.changes {
        let mut touched = Vec::new();
        for event in change.events.iter().filter(|event| !event.resource.is_empty()) {
            let queue = queues.entry(&event.resource).or_default();
            found.extend(queue.take(event).map(|text| format!("fifo: {text} at revision {}", change.revision)));
            touched.push((event.resource.as_str(), event.at.as_str()));
        }
        for (resource, at) in touched {
            let queue = queues.entry(resource).or_default();
            if queue.holder.is_none() {
                for waiter in &queue.waiters {
                    queue.passed.entry(waiter).or_insert(at);
                }
            }
        }
    }
    for (resource, queue) in queues {
        found.extend(queue.passed.keys().map(|waiter| format!("fifo: {waiter} was passed over for {resource}")));
    }
    found
}

impl<'a> Queue<'a> {
    fn take(&mut self, event: &'a Event) -> Option<String> {
        let (lease, resource) = (event.lease.as_str(), &event.resource);
        match event.kind.as_str() {
            "queued" => {
                self.waiters.push(lease);
                let place = self.waiters.len() as u64;
                let given = event.position;
                (place != given).then(|| format!("{lease} came as number {place} for {resource} and got place {given}"))
            }
            "unqueued" => {
                self.waiters.retain(|waiter| *waiter != lease);
                let passed = self.passed.remove(lease)?;
                let was_dead = matches!(event.cause.as_str(), "expired" | "wait_elapsed") && passed == event.at;
                (!was_dead).then(|| format!("{lease} lived when it was passed over for {resource}"))
            }
            "claim_granted" => {
                let before = self.holder.replace(lease);
                let place = self.waiters.iter().position(|waiter| *waiter == lease).unwrap_or(self.waiters.len());
                self.passed.extend(self.waiters[..place].iter().map(|waiter| (*waiter, event.at.as_str())));
                self.waiters.retain(|waiter| *waiter != lease);
                if self.passed.remove(lease).is_some() {
                    return Some(format!("{lease} got {resource} after it had been passed over"));
                }
                before.map(|holder| format!("{lease} got {resource} while {holder} held it"))
            }
            "claim_ended" => {
                let holder = self.holder.take();
                (holder != Some(lease)).then(|| format!("{lease} lost {resource} that it did not hold"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::change;

    fn with(end: &[&str]) -> Vec<String> {
        let changes = vec![
            change(1, &["claim_granted lease=~1 resource=a"]),
            change(2, &["queued lease=~2 resource=a position=1"]),
            change(3, &["queued lease=~3 resource=a position=2"]),
            change(4, end),
        ];
        check(&History { changes, ..History::default() })
    }

    #[test]
    fn the_oldest_waiter_is_next() {
        assert_eq!(with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~2 resource=a"]), [""; 0]);
        let skipped =
            ["unqueued lease=~2 resource=a", "claim_ended lease=~1 resource=a", "claim_granted lease=~3 resource=a"];
        assert_eq!(with(&skipped), [""; 0], "the dead are skipped");
        assert_eq!(with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~3 resource=a"]).len(), 1);
    }

    #[test]
    fn only_the_dead_are_passed_over() {
        let passed = ["claim_ended lease=~1 resource=a at=9", "claim_granted lease=~3 resource=a at=9"];
        let then = |event: &str| with(&[passed[0], passed[1], event]).len();
        assert_eq!(then("unqueued lease=~2 resource=a at=9 cause=expired"), 0);
        assert_eq!(then("unqueued lease=~2 resource=a at=10 cause=expired"), 1, "it lived then");
        assert_eq!(then("unqueued lease=~2 resource=a at=9 cause=released"), 1);
        assert_eq!(then("queued lease=~4 resource=a position=2 at=9"), 1, "it still waits");
    }

    #[test]
    fn what_is_free_may_wait_only_while_the_dead_leave() {
        let changes = |ends: &[&str]| {
            let mut changes = vec![
                change(1, &["claim_granted lease=~1 resource=a"]),
                change(2, &["queued lease=~2 resource=a position=1"]),
                change(3, &["claim_ended lease=~1 resource=a at=9"]),
            ];
            changes.extend((4..).zip(ends).map(|(revision, end)| change(revision, &[end])));
            check(&History { changes, ..History::default() }).len()
        };
        assert_eq!(changes(&["unqueued lease=~2 resource=a at=9 cause=expired"]), 0, "they ended together");
        assert_eq!(changes(&["unqueued lease=~2 resource=a at=9 cause=wait_elapsed"]), 0);
        assert_eq!(changes(&["unqueued lease=~2 resource=a at=10 cause=expired"]), 1, "it lived an entry longer");
        assert_eq!(changes(&["claim_granted lease=~2 resource=a at=9"]), 1, "it came too late");
        assert_eq!(changes(&[]), 1, "it never came");
    }

    #[test]
    fn nobody_goes_past_the_queue_or_is_left_in_it() {
        assert_eq!(
            with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~9 resource=a"]).len(),
            2,
            "both were passed over"
        );
        assert_eq!(with(&["claim_ended lease=~1 resource=a"]).len(), 2, "a gap, with two who wait");
        assert_eq!(with(&["claim_granted lease=~2 resource=a"]).len(), 1, "it was not free");
        assert_eq!(with(&["queued lease=~4 resource=a position=1"]).len(), 1, "a wrong place");
    }
}
