//! Commands on their way through the log: sent to a leader, not yet applied here.
//!
//! Every parcel of commands has a number, which its entry carries. When this node applies that entry it answers the
//! callers, whoever led meanwhile. When a later leader's first entry is applied before it, its own entry is not in
//! the log and never will be: it comes back to be sent again, and so takes effect once. What a leader says of a parcel
//! counts only while the parcel is its: said late, it must not bring back what was sent to the next one. Of what is lost from sight
//! (a leader that does not answer, a snapshot in place of entries) the callers are told that it may have happened.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use leasehold_log::{Origin, Pack};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Failure;
use crate::lanes::{Lanes, Reply, ReplyTo, Segment};
use crate::service::{ANSWER_WITHIN, NO_ANSWER};

/// What was sent.
#[derive(Debug)]
struct Sent {
    /// To whom.
    leader: LeaderId,
    /// Whether that is another node.
    forwarded: bool,
    /// The commands, as an entry or a parcel.
    bytes: Bytes,
    replies: Vec<ReplyTo>,
    /// When its callers are told that the outcome is not known, and why.
    until: Instant,
    why: Cow<'static, str>,
}

#[derive(Debug, Default)]
struct Inside {
    /// The number of the next parcel.
    next: u64,
    sent: BTreeMap<u64, Sent>,
    /// What certainly did not happen and is to be sent again, in the old order.
    returned: BTreeMap<u64, Segment>,
}

/// Commands on their way.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The number of this process: other ones have sent parcels, too.
    run: u64,
    inside: Mutex<Inside>,
    /// Something came back.
    came_back: Notify,
}

impl Default for Pending {
    fn default() -> Self {
        // Zero means that nobody is to be answered.
        Self { run: rand::random::<u64>().max(1), inside: Mutex::default(), came_back: Notify::new() }
    }
}

impl Pending {
    /// The commands to send next: what came back goes before what waits in the lanes.
    pub(crate) fn next(&self, lanes: &Lanes) -> Option<(u64, Segment)> {
        let mut inside = self.inside.lock();
        if let Some(first) = inside.returned.pop_first() {
            return Some(first);
        }
        let segment = lanes.pop()?;
        inside.next += 1;
        Some((inside.next, segment))
    }

    /// What the entry of a parcel carries to be known again.
    pub(crate) fn origin(&self, number: u64) -> Origin {
        Origin { run: self.run, number }
    }

    /// Notes what is about to be sent, before it can be applied.
    pub(crate) fn send(&self, number: u64, leader: LeaderId, forwarded: bool, bytes: Bytes, replies: Vec<ReplyTo>) {
        let sent =
            Sent { leader, forwarded, bytes, replies, until: Instant::now() + ANSWER_WITHIN, why: NO_ANSWER.into() };
        self.inside.lock().sent.insert(number, sent);
    }

    /// Answers the callers of an entry that was applied here, if they are here.
    pub(crate) fn applied(&self, origin: Origin, applied: &mut Applied) {
        if origin.run != self.run {
            return;
        }
        let Some(sent) = self.inside.lock().sent.remove(&origin.number) else { return };
        if let Some(void) = applied.void {
            // A caller that tries again is served under the leader that there is now.
            return refuse(sent.replies, &unavailable(false, void.to_string()));
        }
        let forwarded_to = sent.forwarded.then_some(sent.leader.node);
        let (now, revision) = (applied.now, applied.revision);
        for (reply, answer) in sent.replies.into_iter().zip(std::mem::take(&mut applied.answers)) {
            reply.send(Ok(Reply { answer, now, revision, forwarded_to }));
        }
    }

    /// A leader's first entry was applied: what was sent to an earlier one and is not applied by now never will be.
    pub(crate) fn taken_over(&self, by: LeaderId) {
        let mut inside = self.inside.lock();
        let earlier = inside.sent.extract_if(.., |_, sent| sent.leader.term < by.term);
        let lost: Vec<_> = earlier.collect();
        for (number, sent) in lost {
            inside.take_back(number, sent);
        }
        drop(inside);
        self.came_back.notify_one();
    }

    /// A snapshot took the place of entries: whether those of what was sent are among them is not known.
    pub(crate) fn skipped(&self) {
        let sent = std::mem::take(&mut self.inside.lock().sent);
        let failure = unavailable(true, "this node was far behind and took over a snapshot");
        sent.into_values().for_each(|sent| refuse(sent.replies, &failure));
    }

    /// A parcel was not taken by this leader, and certainly never will be.
    pub(crate) fn take_back(&self, number: u64, by: LeaderId) {
        let mut inside = self.inside.lock();
        if let Some(sent) = inside.take_sent(number, by) {
            inside.take_back(number, sent);
        }
        drop(inside);
        self.came_back.notify_one();
    }

    /// A parcel was refused by this leader, or its outcome will never be known here.
    pub(crate) fn refuse(&self, number: u64, by: LeaderId, failure: &Failure) {
        let sent = self.inside.lock().take_sent(number, by);
        if let Some(sent) = sent {
            refuse(sent.replies, failure);
        }
    }

    /// The way to this leader broke with a parcel on it: it is waited for a little longer.
    pub(crate) fn doubt(&self, number: u64, by: LeaderId, patience: Duration, why: String) {
        if let Some(sent) = self.inside.lock().sent.get_mut(&number).filter(|sent| sent.leader == by) {
            sent.until = sent.until.min(Instant::now() + patience);
            sent.why = why.into();
        }
    }

    /// Tells the callers of what is unanswered for too long; returns when to look again.
    pub(crate) fn expire(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut inside = self.inside.lock();
        let late: Vec<_> = inside.sent.extract_if(.., |_, sent| sent.until <= now).collect();
        let next = inside.sent.values().map(|sent| sent.until).min();
        drop(inside);
        late.into_iter().for_each(|(_, sent)| refuse(sent.replies, &unavailable(true, sent.why)));
        next
    }

    /// Gives up everything: nobody can commit, and nobody knows for how long.
    pub(crate) fn give_up(&self, why: &str) {
        let Inside { sent, returned, .. } = {
            let mut inside = self.inside.lock();
            let next = inside.next;
            std::mem::replace(&mut *inside, Inside { next, ..Inside::default() })
        };
        sent.into_values().for_each(|sent| refuse(sent.replies, &unavailable(true, why.to_owned())));
        returned.into_values().for_each(|segment| refuse(segment.replies, &unavailable(false, why.to_owned())));
    }

    /// Returns when something came back; for one listener.
    pub(crate) async fn came_back(&self) {
        self.came_back.notified().await;
    }

    /// Tells whether something came back and waits to be sent again.
    pub(crate) fn has_returned(&self) -> bool {
        !self.inside.lock().returned.is_empty()
    }

    /// Tells whether nothing is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        let inside = self.inside.lock();
        inside.sent.is_empty() && inside.returned.is_empty()
    }
}

impl Inside {
    /// A parcel that was sent to this leader, and not to another one since.
    fn take_sent(&mut self, number: u64, to: LeaderId) -> Option<Sent> {
        self.sent.get(&number).is_some_and(|sent| sent.leader == to).then(|| self.sent.remove(&number))?
    }

    fn take_back(&mut self, number: u64, sent: Sent) {
        let (pack, _) = Pack::unpack(&sent.bytes).expect("it was packed here");
        self.returned.insert(number, Segment { pack, replies: sent.replies });
    }
}

/// Nobody can commit, as far as is known here.
pub(crate) fn unavailable(may_have_happened: bool, why: impl Into<Cow<'static, str>>) -> Failure {
    Failure::NoQuorum { may_have_happened, why: why.into() }
}

fn refuse(replies: Vec<ReplyTo>, failure: &Failure) {
    for reply in replies {
        reply.send(Err(failure.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: LeaderId = LeaderId { term: 1, node: 1 };
    const SECOND: LeaderId = LeaderId { term: 2, node: 2 };

    /// Commands that were sent to one leader, came back when another took over, and were sent to that one.
    fn sent_again() -> (Pending, u64) {
        let pending = Pending::default();
        let parcel = || Bytes::from(Pack::new().parcel(pending.origin(1)));
        pending.send(1, FIRST, true, parcel(), Vec::new());
        pending.taken_over(SECOND);
        let (number, _) = pending.next(&Lanes::default()).expect("it came back");
        pending.send(number, SECOND, true, parcel(), Vec::new());
        (pending, number)
    }

    #[test]
    fn a_late_word_of_the_leader_before_does_not_bring_back_what_its_successor_has() {
        let (pending, number) = sent_again();
        pending.take_back(number, FIRST);
        pending.refuse(number, FIRST, &Failure::DiskFull);
        assert!(!pending.has_returned() && !pending.is_empty());
        pending.take_back(number, SECOND);
        assert!(pending.has_returned());
    }
}
