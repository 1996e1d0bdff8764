//! How long a holder may believe that it holds: the local deadline of docs/design.md, section 2.
//!
//! An answer tells the time left at its log entry, which was written after the request was sent. Counting from
//! the sending, and giving away twice the clocks' rate error, the holder stops before the service may go on.

use std::time::Duration;

use leasehold_core::Remaining;
use leasehold_core::planted::{self, Bug};

use crate::Moment;

/// The rate error of a clock that is allowed for, in percent.
const DRIFT_PERCENT: u32 = 2;

/// Until when a holder may act, by its own clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    sent: Moment,
    lasts: Option<Duration>,
}

impl Validity {
    /// The validity that follows from an answer with this time left, to a request sent at `sent`.
    pub fn new(sent: Moment, remaining: Remaining) -> Validity {
        let lasts = match remaining {
            Remaining::For(span) => Some(safe(Duration::from_millis(span.0))),
            Remaining::Endless => None,
        };
        Validity { sent, lasts }
    }

    /// The validity that follows from an answer that came at `came`; it counts from the sending all the same.
    pub fn of_answer(sent: Moment, came: Moment, remaining: Remaining) -> Validity {
        Validity::new(if planted::is(Bug::DeadlineFromReply) { came } else { sent }, remaining)
    }

    /// When the request was sent.
    pub fn sent(&self) -> Moment {
        self.sent
    }

    /// How long it lasts from the sending; none if there is no end by time.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// Whether the holder must no longer act at `now`.
    pub fn is_over_at(&self, now: Moment) -> bool {
        self.left_at(now) == Some(Duration::ZERO)
    }

    /// The validity if the request had been sent earlier by `duration`.
    pub(crate) fn earlier_by(self, duration: Duration) -> Validity {
        Validity { sent: self.sent.earlier_by(duration), ..self }
    }

    /// The time left to act at `now`; none if there is no end by time.
    pub fn left_at(&self, now: Moment) -> Option<Duration> {
        self.lasts.map(|lasts| lasts.saturating_sub(now.since(self.sent)))
    }

    /// The time left to act; none if there is no end by time.
    pub fn left(&self) -> Option<Duration> {
        self.left_at(Moment::now())
    }

    /// How much of it has gone by.
    pub fn age(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Whether the holder must no longer act.
    pub fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// The one of two that lasts longer at `now`: an answer never shortens what another one promised.
    pub fn longer(self, other: Validity, now: Moment) -> Validity {
        match (self.left_at(now), other.left_at(now)) {
            (None, _) => self,
            (_, None) => other,
            (Some(this), Some(that)) => {
                if that > this {
                    other
                } else {
                    self
                }
            }
        }
    }
}

/// A duration shortened so that it is over here before it is over at the service.
fn safe(remaining: Duration) -> Duration {
    let theirs = if planted::is(Bug::DriftOneSided) { 0 } else { DRIFT_PERCENT };
    remaining * (100 - DRIFT_PERCENT) / (100 + theirs)
}

#[cfg(test)]
mod tests {
    use leasehold_core::Span;

    use super::*;

    #[test]
    fn the_holder_stops_before_the_service_goes_on() {
        assert_eq!(safe(Duration::from_millis(10_200)), Duration::from_millis(9_800));
        assert_eq!(safe(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn time_left_counts_from_the_sending() {
        let minute = Moment::at(Duration::from_secs(60));
        let validity = Validity::new(Moment::at(Duration::ZERO), Remaining::For(Span::seconds(102)));
        assert_eq!(validity.left_at(minute), Some(Duration::from_secs(38)));
        assert_eq!(validity.left_at(Moment::at(Duration::from_secs(98))), Some(Duration::ZERO));
        assert_eq!(Validity::new(minute, Remaining::Endless).left_at(minute), None);
    }

    #[test]
    fn an_answer_does_not_shorten_another() {
        let (early, late) = (Moment::at(Duration::ZERO), Moment::at(Duration::from_secs(1)));
        let long = Validity::new(early, Remaining::For(Span::seconds(60)));
        let short = Validity::new(late, Remaining::For(Span::seconds(10)));
        assert_eq!(long.longer(short, late), long);
        assert_eq!(short.longer(long, late), long);
        assert_eq!(short.longer(Validity::new(late, Remaining::Endless), late).left_at(late), None);
    }
}
