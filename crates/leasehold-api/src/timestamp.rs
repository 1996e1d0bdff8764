//! Wall time as it travels: RFC 3339, UTC, milliseconds. For people to read; nothing is decided by it.

use std::fmt;
use std::str::FromStr;

use leasehold_core::WallTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment of wall time, shown like `2026-11-03T19:02:11.250Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub WallTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A stamp outside the calendar comes from a broken clock; it is shown as its nearest end.
        let (seconds, millis) = ((self.0.0 / 1000) as i64, (self.0.0 % 1000) as i32);
        let moment = jiff::Timestamp::new(seconds, millis * 1_000_000).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{moment:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Timestamp, jiff::Error> {
        let moment: jiff::Timestamp = text.parse()?;
        Ok(Timestamp(WallTime(u64::try_from(moment.as_millisecond()).unwrap_or(0))))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_rfc_3339_in_utc_with_milliseconds() {
        let at = Timestamp(WallTime(1_793_732_531_250));
        assert_eq!(at.to_string(), "2026-11-03T19:02:11.250Z");
        assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        assert_eq!(Timestamp(WallTime(0)).to_string(), "1970-01-01T00:00:00.000Z");
        assert!(Timestamp(WallTime(u64::MAX)).to_string().starts_with("9999-"));
    }

    #[test]
    fn every_millisecond_of_the_last_second_is_shown_as_it_is() {
        for text in ["9999-12-30T22:00:00.000Z", "9999-12-30T22:00:00.900Z", "9999-12-30T22:00:00.999Z"] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
        }
    }
}
