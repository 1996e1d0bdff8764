//! Promise 8: waiters are served in commit order, nobody goes past them, and nobody is left waiting for what is free.
//!
//! The scenarios that it judges ask for exclusive claims of one resource each, with equal priority.

use std::collections::BTreeMap;

use crate::history::{Event, History};

#[derive(Default)]
struct Queue<'a> {
    waiters: Vec<&'a str>,
    holder: Option<&'a str>,
}

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut queues: BTreeMap<&str, Queue<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for change in &history.changes {
        let mut touched = Vec::new();
        for event in change.events.iter().filter(|event| !event.resource.is_empty()) {
            let queue = queues.entry(&event.resource).or_default();
            found.extend(take(queue, event).map(|text| format!("fifo: {text} at revision {}", change.revision)));
            touched.push(event.resource.as_str());
        }
        for resource in touched {
            let queue = &queues[resource];
            if let (None, Some(first)) = (queue.holder, queue.waiters.first()) {
                let revision = change.revision;
                found.push(format!("fifo: {resource} is free at revision {revision} while {first} waits"));
            }
        }
    }
    found
}

fn take<'a>(queue: &mut Queue<'a>, event: &'a Event) -> Option<String> {
    let lease = event.lease.as_str();
    match event.kind.as_str() {
        "queued" => {
            queue.waiters.push(lease);
            let place = queue.waiters.len() as u64;
            (place != event.position).then(|| {
                format!("{lease} came as number {place} for {} and got place {}", event.resource, event.position)
            })
        }
        "unqueued" => {
            queue.waiters.retain(|waiter| *waiter != lease);
            None
        }
        "claim_granted" => {
            let before = queue.holder.replace(lease);
            let first = queue.waiters.first().copied();
            queue.waiters.retain(|waiter| *waiter != lease);
            match (before, first) {
                (Some(holder), _) => Some(format!("{lease} got {} while {holder} held it", event.resource)),
                (None, Some(first)) if first != lease => Some(format!("{lease} got {} before {first}", event.resource)),
                (None, _) => None,
            }
        }
        "claim_ended" => {
            let holder = queue.holder.take();
            (holder != Some(lease)).then(|| format!("{lease} lost {} that it did not hold", event.resource))
        }
        _ => None,
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
    fn nobody_goes_past_the_queue_or_is_left_in_it() {
        assert_eq!(with(&["claim_ended lease=~1 resource=a", "claim_granted lease=~9 resource=a"]).len(), 1);
        assert_eq!(with(&["claim_ended lease=~1 resource=a"]).len(), 1, "a gap");
        assert_eq!(with(&["claim_granted lease=~2 resource=a"]).len(), 1, "it was not free");
        assert_eq!(with(&["queued lease=~4 resource=a position=1"]).len(), 1, "a wrong place");
    }
}
