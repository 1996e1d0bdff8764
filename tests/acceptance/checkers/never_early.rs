//! Promise 4: no lease ends by time before its promised time, over restarts and pauses.

use std::collections::BTreeMap;

use crate::history::History;

pub(crate) fn check(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    // In lease time, where the promise is exact: due means that the deadline has passed.
    let promises = history.promises();
    for end in history.ends.iter().filter(|end| end.cause == "expired") {
        if let Some(deadline) = promises.get(end.lease.as_str()).filter(|deadline| end.ended_by <= **deadline) {
            let (lease, by) = (&end.lease, end.ended_by);
            found.push(format!("never early: {lease} expired by {by}, promised until {deadline} (lease time)"));
        }
    }
    // In real time, as a holder counts.
    let mut valid_until = BTreeMap::new();
    for ack in &history.acks {
        let until = valid_until.entry(ack.lease.as_str()).or_insert(ack.valid_until());
        *until = ack.valid_until().max(*until);
    }
    let expired = history.changes.iter().flat_map(|change| change.events.iter().map(|event| (event, change.seen)));
    let expired = expired.filter(|(event, _)| event.kind == "lease_ended" && event.cause == "expired");
    for (event, seen) in expired {
        if let Some(until) = valid_until.get(event.holder.as_str()).filter(|until| seen < **until) {
            found.push(format!(
                "never early: {} expired {:?} before its holder's deadline",
                event.holder,
                *until - seen
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{ack, change};
    use crate::history::End;

    #[test]
    fn an_early_end_is_found_in_answers() {
        let end = |ended_by| End { lease: "ann".into(), cause: "expired".into(), ended_by };
        let with = |end| History { acks: vec![ack("ann", 0, 1000)], ends: vec![end], ..History::default() };
        assert_eq!(check(&with(end(1001))), [""; 0]);
        assert_eq!(check(&with(end(1000))).len(), 1);
        assert_eq!(check(&with(End { cause: "released".into(), ..end(5) })), [""; 0]);
    }

    #[test]
    fn an_early_end_is_found_in_events() {
        let with = |moment| History {
            acks: vec![ack("ann", 0, 1000), ack("ann", 500, 1000)],
            changes: vec![change(moment, &["lease_ended holder=ann cause=expired"])],
            ..History::default()
        };
        assert_eq!(check(&with(1400)).len(), 1);
        assert_eq!(check(&with(1500)), [""; 0]);
    }
}
