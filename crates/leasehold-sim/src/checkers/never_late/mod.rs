//! Promise 5: a lease that is not renewed ends by its deadline and a little, in calm; within two ttls, the grace and all
//! outages in trouble; none is immortal.
//!
//! Late is only what surely was: after the bound somebody still saw the lease alive, or saw the whole state at a revision
//! before its end. Ends by command are not judged, nor is a lease that waits, because an open call may keep it alive. Of many
//! that end together each may have to wait for those before it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lives::{Life, Lives};
use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{Bounds, History, Moment, Span};

/// The stable name of this checker.
pub const NAME: &str = "never_late";

/// Finds leases that lived too long.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    let timeline = Timeline::of(history);
    let proofs = Proofs::of(history, &timeline);
    let lives = Lives::of(history);
    let calm = Span::joined(&history.calm);
    let outages = history.outages.as_deref().map(Span::joined);
    let attempts = attempts(history);
    let stays = stays(&timeline);
    let mut lasts = Vec::new();
    for (lease, life) in lives.iter().filter(|(lease, _)| lives.may_end_from(lease) == Moment::NEVER) {
        let stay = stays.get(lease).copied().unwrap_or_default();
        lasts.extend(Last::of(life, attempts.get(lease), stay, &history.bounds).map(|last| (lease, last)));
    }
    let crowds = Crowds::of(lasts.iter().map(|(_, last)| last), &history.bounds);
    for (lease, last) in lasts {
        let late = history.bounds.late + crowds.before(&last);
        let by = last.deadline.after(late);
        let period = calm.iter().find(|period| period.from <= last.from && by < period.to);
        let in_trouble =
            outages.as_ref().map(|outages| last.in_trouble(outages, &history.changes, late, &history.bounds));
        let bound = match (period, in_trouble) {
            (Some(_), _) => by,
            (None, Some(bound)) => bound,
            (None, None) => continue,
        };
        if let Some(proof) = proofs.alive_after(lease, bound) {
            found.push(format!("{lease} should have ended by {bound}: {proof}"));
        } else if let (Some(period), Some(delivery)) = (period, history.bounds.delivery) {
            let told_by = by.after(delivery);
            let seen = proofs.ended.get(lease).map(|(_, seen)| *seen);
            if let Some(seen) = seen.filter(|seen| *seen > told_by && told_by < period.to) {
                found.push(format!("{lease} should have ended by {by}, and nobody saw it before {seen}"));
            }
        }
    }
    found.all
}

/// What a lease was last extended to.
struct Last {
    /// Lease time went on undisturbed if all was calm from here on.
    from: Moment,
    /// The latest moment at which it may have been extended.
    extended: Moment,
    /// The latest moment at which its deadline passed, by a slow clock and without outages.
    deadline: Moment,
    ttl: Duration,
}

impl Last {
    fn of(life: &Life<'_>, attempts: Option<&Option<Moment>>, stay: Stay, bounds: &Bounds) -> Option<Last> {
        let slow = |span: Duration| if span == Duration::MAX { span } else { span.div_f64(1.0 - bounds.drift) };
        let ttl = life.acks.iter().map(|ack| ack.ttl).max().filter(|ttl| *ttl < Duration::MAX)?;
        let mut last = Last {
            from: life.acks.iter().map(|ack| ack.sent).max()?,
            extended: life.acks.iter().map(|ack| ack.answered).max()?,
            deadline: life.acks.iter().map(|ack| ack.answered.after(slow(ack.remaining))).max()?,
            ttl,
        };
        let until = match attempts {
            None => Moment::START,
            Some(over_by) => (*over_by)?,
        };
        if stay.waits {
            return None;
        }
        let extended = until.max(stay.served);
        if extended > Moment::START {
            last.extended = last.extended.max(extended);
            last.deadline = last.deadline.max(extended.after(slow(ttl)));
        }
        Some(last)
    }

    /// When it must have ended if not all was calm: outages stop the count, and each may forget a little. A leader that
    /// follows at once forgets no more than what passed since an entry was applied.
    fn in_trouble(&self, outages: &[Span], changes: &[Span], late: Duration, bounds: &Bounds) -> Moment {
        let most = (self.ttl * 2).div_f64(1.0 - bounds.drift) + bounds.grace + late + bounds.forgotten;
        let mut by = self.extended.after(most);
        for outage in outages.iter().filter(|outage| outage.to > self.extended) {
            if outage.from > by {
                break;
            }
            by = by.after(outage.to.since(outage.from.max(self.extended)) + bounds.forgotten);
        }
        let within = |change: &&Span| change.to > self.extended && change.from <= by;
        let forgotten: Duration = changes.iter().filter(within).map(|change| change.to.since(change.from)).sum();
        by.after(forgotten)
    }
}

/// Leases that end together, a piece of them with each entry.
struct Crowds {
    /// When each lease should end, in order.
    deadlines: Vec<Moment>,
    by_entry: usize,
    entry: Duration,
    /// What lies this long before may still be swept.
    late: Duration,
}

impl Crowds {
    /// What ends with most leases: itself, a claim, an entry, a wait.
    const WEIGHT: usize = 4;

    fn of<'a>(lasts: impl Iterator<Item = &'a Last>, bounds: &Bounds) -> Crowds {
        let mut deadlines: Vec<Moment> = lasts.map(|last| last.deadline).collect();
        deadlines.sort_unstable();
        let by_entry = (bounds.sweep_piece / Self::WEIGHT).max(1);
        Crowds { deadlines, by_entry, entry: bounds.entry, late: bounds.late }
    }

    /// How long those before a lease may take.
    fn before(&self, last: &Last) -> Duration {
        let to = self.deadlines.partition_point(|deadline| *deadline < last.deadline.after(self.late));
        let from = self.deadlines.partition_point(|deadline| deadline.after(self.late) < last.deadline);
        self.entry * ((to - from - 1) / self.by_entry) as u32
    }
}

/// Until when grants and renewals without an answer may have taken effect, by lease; none if that is not known.
fn attempts(history: &History) -> BTreeMap<&str, Option<Moment>> {
    let mut attempts: BTreeMap<&str, Option<Moment>> = BTreeMap::new();
    for attempt in &history.attempts {
        let over_by = attempts.entry(&attempt.lease).or_insert(Some(Moment::START));
        *over_by = over_by.zip(attempt.over_by).map(|(one, other)| one.max(other));
    }
    attempts
}

/// Whether a lease waits, and when it was last served or stopped waiting: that extends it, or may have.
#[derive(Clone, Copy, Default)]
struct Stay {
    waits: bool,
    served: Moment,
}

fn stays<'a>(timeline: &Timeline<'a>) -> BTreeMap<&'a str, Stay> {
    let mut stays: BTreeMap<&str, Stay> = BTreeMap::new();
    for (_, seen, event) in timeline.events() {
        let stay = stays.entry(&event.holder).or_default();
        match event.kind.as_str() {
            "queued" => stay.waits = true,
            "claim_granted" | "unqueued" => *stay = Stay { waits: false, served: seen },
            _ => {}
        }
    }
    stays
}

/// What proves that a lease lived.
struct Proofs<'a> {
    /// When it was last asked about a lease that was then seen alive.
    seen_alive: BTreeMap<&'a str, Moment>,
    /// The revision at which each lease ended, and when that was first seen.
    ended: BTreeMap<&'a str, (u64, Moment)>,
    born: BTreeMap<&'a str, u64>,
    /// By the moment of sending: the least revision that this or any later call saw.
    least: Vec<(Moment, u64)>,
    known_up_to: u64,
}

impl<'a> Proofs<'a> {
    fn of(history: &'a History, timeline: &Timeline<'a>) -> Proofs<'a> {
        let mut seen_alive: BTreeMap<&str, Moment> = BTreeMap::new();
        for look in history.looks.iter().filter(|look| look.lives) {
            let latest = seen_alive.entry(&look.lease).or_default();
            *latest = look.sent.max(*latest);
        }
        let (mut ended, mut born) = (BTreeMap::new(), BTreeMap::new());
        for (revision, seen, event) in timeline.events() {
            match event.kind.as_str() {
                "lease_granted" => drop(born.insert(event.holder.as_str(), revision)),
                "lease_ended" => drop(ended.insert(event.holder.as_str(), (revision, seen))),
                _ => {}
            }
        }
        let mut least: Vec<(Moment, u64)> = history.answers.iter().map(|a| (a.sent, a.revision)).collect();
        least.sort_unstable();
        let mut smallest = u64::MAX;
        for (_, revision) in least.iter_mut().rev() {
            smallest = smallest.min(*revision);
            *revision = smallest;
        }
        Proofs { seen_alive, ended, born, least, known_up_to: timeline.known_up_to() }
    }

    /// How it is known that a lease lived after a moment.
    fn alive_after(&self, lease: &str, moment: Moment) -> Option<String> {
        if let Some(sent) = self.seen_alive.get(lease).filter(|sent| **sent > moment) {
            return Some(format!("it was seen alive after {sent}"));
        }
        let at = self.least.partition_point(|(sent, _)| *sent <= moment);
        let (_, revision) = *self.least.get(at)?;
        match (self.ended.get(lease), self.born.get(lease)) {
            (Some((end, _)), _) if *end > revision => {
                Some(format!("it ended at revision {end}, and a later call was still at {revision}"))
            }
            (None, Some(_)) if revision <= self.known_up_to => {
                Some(format!("it had not ended at revision {revision}, which a later call saw"))
            }
            (Some(_) | None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests;
