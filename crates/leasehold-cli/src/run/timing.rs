//! How long before the end of a lease its command is asked to end, and killed.
//!
//! A ttl must leave room for it: half of the ttl is for renewals and their repetition, the rest for the kill grace and
//! the margin. One that is too short for that is refused before anything is acquired.

use std::time::Duration;

use leasehold_api::SpanText;
use leasehold_core::{Span, Ttl};

use super::plan::Lengths;
use crate::failure::Failure;
use crate::render::text::short;

/// The margin is this part of the ttl, but at least [`MARGIN_MIN`].
const MARGIN_PERCENT: u32 = 2;
const MARGIN_MIN: Duration = Duration::from_millis(100);
/// The kill grace unless given: a quarter of the ttl, but at most this.
const KILL_GRACE_MAX: Duration = Duration::from_secs(5);
/// What the clocks' rate error takes away from a ttl; see `Validity` of the client.
const SURE: (u32, u32) = (98, 102);
/// The exit code of a wrong use.
const USAGE: u8 = 2;

/// The kill grace and the margin of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) kill_grace: Duration,
    pub(crate) margin: Duration,
}

impl Timing {
    /// The timing of a lease of this ttl, if it fits in.
    pub(crate) fn new(ttl: Ttl, kill_grace: Option<Duration>) -> Result<Timing, Failure> {
        let Ttl::For(span) = ttl else {
            return Ok(Timing { kill_grace: kill_grace.unwrap_or(KILL_GRACE_MAX), margin: MARGIN_MIN });
        };
        let whole = Duration::from_millis(span.0);
        let timing = Timing::unchecked(whole, kill_grace);
        if timing.fits(whole) { Ok(timing) } else { Err(timing.refusal(whole, kill_grace)) }
    }

    fn unchecked(ttl: Duration, kill_grace: Option<Duration>) -> Timing {
        Timing {
            kill_grace: kill_grace.unwrap_or_else(|| KILL_GRACE_MAX.min(ttl / 4)),
            margin: MARGIN_MIN.max(ttl * MARGIN_PERCENT / 100),
        }
    }

    fn fits(self, ttl: Duration) -> bool {
        (ttl * SURE.0 / SURE.1).saturating_sub(self.margin).saturating_sub(self.kill_grace) >= ttl / 2
    }

    fn refusal(self, ttl: Duration, kill_grace: Option<Duration>) -> Failure {
        let steps = (1..).map(|steps| Duration::from_millis(100) * steps);
        let enough = steps.map(whole_seconds).find(|ttl| Timing::unchecked(*ttl, kill_grace).fits(*ttl));
        let longer = exact(enough.unwrap_or(Duration::MAX));
        let failure = Failure::new(
            USAGE,
            format!(
                "a ttl of {} is too short: the command is asked to end {} before its end and killed {} before it, \
                 and half of it is for renewals",
                shown(ttl),
                shown(self.kill_grace + self.margin),
                shown(self.margin),
            ),
        );
        match kill_grace {
            Some(_) => failure.hint(format!("use  --ttl {longer}  or more, or a shorter --kill-grace")),
            None => failure.hint(format!("use  --ttl {longer}  or more")),
        }
    }

    /// The lengths that a warden counts with.
    pub(crate) fn lengths(self) -> Lengths {
        Lengths { kill_grace: nanos(self.kill_grace), margin: nanos(self.margin) }
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration as people read it.
pub(crate) fn shown(duration: Duration) -> String {
    short(span(duration))
}

/// A duration as it can be typed.
fn exact(duration: Duration) -> String {
    span(duration).to_string()
}

fn span(duration: Duration) -> SpanText {
    SpanText(Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

/// Above a second nobody types fractions.
fn whole_seconds(duration: Duration) -> Duration {
    match duration.as_millis() {
        0..=1000 => duration,
        millis => Duration::from_secs(u64::try_from(millis.div_ceil(1000)).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(ttl_ms: u64, kill_grace_ms: Option<u64>) -> Result<(u128, u128), Failure> {
        let found = Timing::new(Ttl::For(Span(ttl_ms)), kill_grace_ms.map(Duration::from_millis))?;
        Ok((found.kill_grace.as_millis(), found.margin.as_millis()))
    }

    #[test]
    fn the_default_is_a_quarter_of_the_ttl_and_two_percent() {
        assert_eq!(timing(10_000, None), Ok((2500, 200)));
        assert_eq!(timing(1_000, None), Ok((250, 100)));
        assert_eq!(timing(60_000, None), Ok((5000, 1200)));
        assert_eq!(timing(10_000, Some(4_000)), Ok((4000, 200)));
        let endless = Timing::new(Ttl::Endless, None).unwrap();
        assert_eq!(endless.kill_grace, KILL_GRACE_MAX);
    }

    #[test]
    fn a_ttl_that_leaves_no_room_is_refused_with_one_that_does() {
        let failure = timing(400, None).unwrap_err();
        let text = "error: a ttl of 0.4s is too short: the command is asked to end 0.2s before its end and killed \
                    0.1s before it, and half of it is for renewals\n  use  --ttl 500ms  or more";
        assert_eq!((failure.text().as_str(), failure.exit()), (text, 2));
        assert!(timing(500, None).is_ok());
        let text = timing(10_000, Some(5_000)).unwrap_err().text();
        assert!(text.ends_with("use  --ttl 12s  or more, or a shorter --kill-grace"), "{text}");
        assert!(timing(12_000, Some(5_000)).is_ok());
    }
}
