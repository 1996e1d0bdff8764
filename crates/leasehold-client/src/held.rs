//! A held lease as its guard and the keeper share it: what was granted, until when it is valid, how it stands.
//!
//! Reading takes no turn of the client's thread: whether the holder may act is a comparison with the clock, so it
//! is right even while that thread stands still. A lease that is lost stays lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{LeaseId, Ttl};
use tokio::sync::watch;

use crate::store::{Granted, HandoverAsk, Wish};
use crate::{Clock, Error, LostCause, Renewal, Validity};

/// How many requests to hand over are remembered for those who listen late.
const ASKS_MAX: usize = 64;

/// A held lease.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) wish: Arc<Wish>,
    pub(crate) tokens: Vec<Option<u64>>,
    pub(crate) waited: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) keep_in_jeopardy: bool,
    clock: Arc<dyn Clock>,
    standing: watch::Sender<Standing>,
    asks: watch::Sender<Asks>,
    touched: AtomicBool,
}

/// How a lease stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Standing {
    pub(crate) validity: Validity,
    pub(crate) phase: Phase,
}

/// What its holder may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Act, as long as it is valid.
    Safe,
    /// Not act, but hope.
    Jeopardy,
    /// Nothing any more.
    Lost(LostCause),
}

/// Requests to hand over, and how many there were before them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    pub(crate) forgotten: usize,
    pub(crate) latest: Vec<HandoverAsk>,
}

/// How a lease is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    pub(crate) renewal: Renewal,
    pub(crate) keep_in_jeopardy: bool,
}

impl Held {
    pub(crate) fn new(wish: Arc<Wish>, granted: Granted, keeping: Keeping, clock: Arc<dyn Clock>) -> Held {
        Held {
            wish,
            tokens: granted.tokens,
            waited: granted.waited,
            renewal: keeping.renewal,
            keep_in_jeopardy: keeping.keep_in_jeopardy,
            clock,
            standing: watch::Sender::new(Standing { validity: granted.validity, phase: Phase::Safe }),
            asks: watch::Sender::default(),
            touched: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> LeaseId {
        self.wish.id
    }

    /// The length of its ttl; none if it does not end by time.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        match self.wish.ttl {
            Ttl::For(span) => Some(Duration::from_millis(span.0)),
            Ttl::Endless => None,
        }
    }

    /// The first resource, for messages.
    pub(crate) fn resource(&self) -> &str {
        self.wish.resources.first().map_or("", String::as_str)
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    pub(crate) fn validity(&self) -> Validity {
        self.standing.borrow().validity
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(crate) fn watch_asks(&self) -> watch::Receiver<Asks> {
        self.asks.subscribe()
    }

    /// The time left to act; none if there is no end by time. An error if the holder must not act.
    pub(crate) fn left(&self) -> Result<Option<Duration>, Error> {
        let standing = self.standing.borrow();
        let left = standing.validity.left_at(self.clock.now());
        let cause = match &standing.phase {
            Phase::Lost(cause) => cause.clone(),
            Phase::Safe | Phase::Jeopardy if left == Some(Duration::ZERO) => LostCause::Expired,
            Phase::Jeopardy => LostCause::Unreachable { cause: "it is being renewed too late".to_owned() },
            Phase::Safe => return Ok(left),
        };
        Err(self.lost_error(cause))
    }

    pub(crate) fn lost_error(&self, cause: LostCause) -> Error {
        Error::Lost { resource: self.resource().to_owned(), cause }
    }

    /// Why it was lost, if it was.
    pub(crate) fn lost_cause(&self) -> Option<LostCause> {
        match &self.standing.borrow().phase {
            Phase::Lost(cause) => Some(cause.clone()),
            Phase::Safe | Phase::Jeopardy => None,
        }
    }

    /// Takes an answer: what it promises counts if it lasts longer and is not over. Tells whether it is.
    pub(crate) fn extend(&self, validity: Validity) -> bool {
        let now = self.clock.now();
        let mut valid = false;
        self.standing.send_if_modified(|standing| {
            if matches!(standing.phase, Phase::Lost(_)) {
                return false;
            }
            let longer = standing.validity.longer(validity, now);
            valid = !longer.is_over_at(now);
            let before = standing.clone();
            standing.validity = longer;
            if valid {
                standing.phase = Phase::Safe;
            }
            *standing != before
        });
        valid
    }

    /// Puts it into jeopardy.
    pub(crate) fn endanger(&self) {
        self.standing.send_if_modified(|standing| {
            let safe = standing.phase == Phase::Safe;
            if safe {
                standing.phase = Phase::Jeopardy;
            }
            safe
        });
    }

    /// Ends it here. Tells whether it was not lost before.
    pub(crate) fn lose(&self, cause: LostCause) -> bool {
        self.standing.send_if_modified(|standing| {
            let first = !matches!(standing.phase, Phase::Lost(_));
            if first {
                standing.phase = Phase::Lost(cause);
            }
            first
        })
    }

    /// Notes a request to hand over.
    pub(crate) fn ask(&self, ask: HandoverAsk) {
        self.asks.send_modify(|asks| {
            asks.latest.push(ask);
            if asks.latest.len() > ASKS_MAX {
                asks.latest.remove(0);
                asks.forgotten += 1;
            }
        });
    }

    /// Notes activity. Tells whether it is the first since the last renewal.
    pub(crate) fn touch(&self) -> bool {
        !self.touched.swap(true, Ordering::AcqRel)
    }

    /// Forgets activity. Tells whether there was any.
    pub(crate) fn untouch(&self) -> bool {
        self.touched.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::{Class, Mode};
    use leasehold_core::{Patience, Remaining, Span};

    use super::*;
    use crate::Moment;
    use crate::testing::VirtualClock;

    fn held(clock: &VirtualClock) -> Held {
        let wish = Wish {
            id: LeaseId::new(7).unwrap(),
            holder: "ann".into(),
            resources: vec!["a".into()],
            mode: Mode::Exclusive,
            ttl: Ttl::For(Span::seconds(102)),
            class: Class::Lock,
            patience: Patience::None,
            fair: false,
            priority: 0,
            cooldown: Duration::ZERO,
            metadata: Default::default(),
        };
        let granted = Granted { validity: validity(0), tokens: vec![Some(1)], waited: Duration::ZERO };
        let keeping = Keeping { renewal: Renewal::THIRD, keep_in_jeopardy: false };
        Held::new(Arc::new(wish), granted, keeping, Arc::new(clock.clone()))
    }

    /// Valid for 98 s from a sending at this second.
    fn validity(sent: u64) -> Validity {
        Validity::new(Moment::at(Duration::from_secs(sent)), Remaining::For(Span::seconds(102)))
    }

    #[test]
    fn answers_that_overtake_each_other_do_not_shorten_anything() {
        let clock = VirtualClock::new();
        let held = held(&clock);
        clock.jump(Duration::from_secs(50));
        assert!(held.extend(validity(40)));
        assert!(held.extend(validity(20)), "a late answer to an earlier attempt");
        assert_eq!(held.left().unwrap(), Some(Duration::from_secs(88)));
    }

    #[test]
    fn an_answer_whose_time_is_over_makes_nobody_valid() {
        let clock = VirtualClock::new();
        let held = held(&clock);
        clock.jump(Duration::from_secs(120));
        held.endanger();
        assert!(!held.extend(validity(20)));
        assert_eq!(held.standing().phase, Phase::Jeopardy);
        assert!(held.left().is_err());
        assert!(held.extend(validity(110)));
        assert_eq!(held.left().unwrap(), Some(Duration::from_secs(88)));
    }

    #[test]
    fn what_is_lost_stays_lost() {
        let clock = VirtualClock::new();
        let held = held(&clock);
        assert!(held.lose(LostCause::Released));
        assert!(!held.lose(LostCause::Expired));
        assert!(!held.extend(validity(50)));
        assert_eq!(held.lost_cause(), Some(LostCause::Released));
    }
}
