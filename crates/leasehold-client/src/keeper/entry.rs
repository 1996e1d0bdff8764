//! One kept lease: when it is due, by its strategy and by how its renewals went.
//!
//! Times are counted from the keeper's beginning. They say when to look again; whether a lease is still valid
//! is decided by its validity and the clock alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::held::{Held, Phase};
use crate::{Error, LostCause, Moment, Renewal};

/// The pause before a second repetition; later ones are longer.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between repetitions, and the longest wait for an answer before the next attempt.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The shortest wait for an answer before the next attempt.
const ANSWER_MIN: Duration = Duration::from_millis(200);
/// How long before the end of its validity a lease is told lost, at most.
const MARGIN_MAX: Duration = Duration::from_millis(50);
/// How long [`Guard::renew`](crate::Guard::renew) tries.
const ASKED_MAX: Duration = Duration::from_secs(10);

/// This moment, on the keeper's count and on the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) at: Duration,
    pub(super) moment: Moment,
}

/// A kept lease.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) held: Arc<Held>,
    /// When to send a renewal.
    due: Option<Duration>,
    /// When the keeper looks at it next: its place in the schedule.
    pub(super) wake: Option<Duration>,
    /// When the last renewal was sent.
    sent: Option<Duration>,
    /// Whether that one has no answer yet.
    unanswered: bool,
    /// How many renewals have failed since the last one that did not.
    failures: u32,
    /// What went wrong last.
    failure: Option<String>,
    /// How much activity there was, and how much of it is covered by renewals.
    touches: u64,
    covered: u64,
    /// Those who asked for a renewal, and how long they wait for it.
    asked: Vec<(Duration, oneshot::Sender<Result<(), Error>>)>,
}

/// How a lease stands by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is valid, or there is still hope.
    Stays,
    /// It is no longer valid here.
    Lost(LostCause),
}

impl Entry {
    pub(super) fn new(held: Arc<Held>, now: Now) -> Entry {
        let mut entry = Entry {
            held,
            due: None,
            wake: None,
            sent: None,
            unanswered: false,
            failures: 0,
            failure: None,
            touches: 0,
            covered: 0,
            asked: Vec::new(),
        };
        entry.plan(now);
        entry
    }

    /// Compares its validity with the clock.
    pub(super) fn verdict(&self, now: Now) -> Verdict {
        let standing = self.held.standing();
        let left = standing.validity.left_at(now.moment);
        if standing.phase != Phase::Safe || left.is_none_or(|left| left > self.margin()) {
            return Verdict::Stays;
        }
        if self.held.keep_in_jeopardy && self.held.renewal != Renewal::None {
            self.held.endanger();
            return Verdict::Stays;
        }
        Verdict::Lost(match (&self.failure, self.wants()) {
            (Some(cause), true) => LostCause::Unreachable { cause: cause.clone() },
            (None, true) if self.unanswered => LostCause::Unreachable { cause: "no answer came".to_owned() },
            (_, true) if self.held.renewal.is_automatic() => {
                LostCause::Unreachable { cause: "this process did not get to renew it".to_owned() }
            }
            (_, _) => LostCause::Expired,
        })
    }

    /// Whether a renewal is to be sent now, or so soon that it goes along with others.
    pub(super) fn is_due(&self, now: Now, along: bool) -> bool {
        let Some(due) = self.due else { return false };
        let nearly = self.held.ttl().unwrap_or_default() / 20;
        due <= now.at || (along && self.failures == 0 && due - now.at <= nearly)
    }

    /// Notes that a renewal was sent. Tells how much activity it covers.
    pub(super) fn note_sent(&mut self, now: Now) -> u64 {
        if self.unanswered {
            self.failure.get_or_insert_with(|| "no answer came".to_owned());
        }
        self.unanswered = true;
        self.sent = Some(now.at);
        self.held.untouch();
        self.due = Some(now.at + self.answer_time());
        self.touches
    }

    /// Notes a renewal that succeeded.
    pub(super) fn note_renewed(&mut self, covered: u64, now: Now) {
        self.unanswered = false;
        self.failures = 0;
        self.failure = None;
        self.covered = self.covered.max(covered);
        for (_, done) in self.asked.drain(..) {
            // Who no longer waits needs no answer.
            let _ = done.send(Ok(()));
        }
        self.plan(now);
    }

    /// Notes a renewal that failed but may be repeated.
    pub(super) fn note_failed(&mut self, error: &Error, now: Now) {
        self.unanswered = false;
        self.failures += 1;
        self.failure = Some(error.to_string());
        let wants = self.wants();
        let pause = self.pause();
        self.due = wants.then(|| now.at + pause);
    }

    /// Notes activity.
    pub(super) fn note_touched(&mut self, now: Now) {
        self.touches += 1;
        if self.held.renewal == Renewal::OnActivity && self.due.is_none() {
            self.plan(now);
        }
    }

    /// Takes one who asks for a renewal.
    pub(super) fn note_asked(&mut self, done: oneshot::Sender<Result<(), Error>>, now: Now) {
        self.asked.push((now.at + ASKED_MAX, done));
        self.due = Some(now.at);
    }

    /// Answers those who asked for a renewal and have waited long enough.
    pub(super) fn give_up_asked(&mut self, now: Now, store: &str) {
        if !self.asked.iter().any(|(until, _)| *until <= now.at) {
            return;
        }
        let cause = self.failure.clone().unwrap_or_else(|| "no answer came".to_owned());
        let error = Error::Unreachable { addr: store.to_owned(), cause };
        for (until, done) in std::mem::take(&mut self.asked) {
            if until > now.at {
                self.asked.push((until, done));
                continue;
            }
            let _ = done.send(Err(error.clone()));
        }
        if !self.wants() {
            self.due = None;
        }
    }

    /// Answers all who asked for a renewal: there will be none.
    pub(super) fn refuse_asked(self, cause: &LostCause) {
        for (_, done) in self.asked {
            let _ = done.send(Err(self.held.lost_error(cause.clone())));
        }
    }

    /// When the keeper has to look at it next.
    pub(super) fn next_look(&self, now: Now) -> Option<Duration> {
        let standing = self.held.standing();
        let left = standing.validity.left_at(now.moment).filter(|_| standing.phase == Phase::Safe);
        let end = left.map(|left| now.at + left.saturating_sub(self.margin()));
        let asked = self.asked.iter().map(|(until, _)| *until).min();
        [self.due, end, asked].into_iter().flatten().min()
    }

    /// How long before the end of its validity it is told lost.
    fn margin(&self) -> Duration {
        (self.held.ttl().unwrap_or_default() / 50).min(MARGIN_MAX)
    }

    /// Whether somebody or something wants it renewed.
    fn wants(&self) -> bool {
        self.held.renewal.is_automatic() || self.touches > self.covered || !self.asked.is_empty()
    }

    /// Sets when it is due next, after a grant or a renewal.
    fn plan(&mut self, now: Now) {
        let validity = self.held.validity();
        let (Some(lasts), Some(ttl)) = (validity.lasts(), self.held.ttl()) else {
            self.due = None;
            return;
        };
        let sent = now.at.saturating_sub(now.moment.since(validity.sent()));
        let rested = self.sent.map_or(Duration::ZERO, |sent| sent + ttl / 10);
        self.due = match self.held.renewal {
            Renewal::At(fraction) => Some(sent + jittered(fraction.part_of(lasts)).min(lasts * 17 / 20)),
            Renewal::Continuous => Some(now.at.max(rested)),
            Renewal::OnActivity if self.touches > self.covered => Some((sent + lasts / 3).max(rested)),
            Renewal::OnActivity | Renewal::Manual | Renewal::None => None,
        };
    }

    /// How long to wait for an answer before the next attempt.
    fn answer_time(&self) -> Duration {
        (self.held.ttl().unwrap_or_default() / 6).clamp(ANSWER_MIN, PAUSE_MAX)
    }

    /// How long to pause after a failure: not at all after the first one.
    fn pause(&self) -> Duration {
        let Some(doublings) = self.failures.checked_sub(2) else { return Duration::ZERO };
        let longest = (self.held.ttl().unwrap_or_default() / 10).clamp(PAUSE, PAUSE_MAX);
        jittered((PAUSE * (1 << doublings.min(10))).min(longest))
    }
}

/// A tenth more or less, so that many do not come at once.
pub(crate) fn jittered(duration: Duration) -> Duration {
    duration * rand::random_range(90..=110) / 100
}
