//! Durations as people write them: `10s`, `1500ms`, `1m30s`, `30d`, or a number of milliseconds.
//!
//! Text always has a unit, so nobody has to guess; a JSON number is milliseconds. What is shown can be read
//! back without loss. The flags of `lease` are read by the same parsers.

use std::fmt;
use std::str::FromStr;

use leasehold_core::{Patience, Remaining, Span, Ttl};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest duration anyone may write: 100 years.
const MAX: Span = Span::seconds(36_500 * 86_400);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Tells what is wrong with the text of a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// There is no text.
    #[error("a duration is missing; write it like 10s or 1m30s")]
    Empty,
    /// It begins with a minus sign.
    #[error("a duration cannot be negative")]
    Negative,
    /// It is zero where something must last.
    #[error("it must be longer than zero")]
    Zero,
    /// A number has no unit behind it.
    #[error("`{0}` has no unit; write it like {0}s or {0}ms")]
    NoUnit(String),
    /// The unit is not known.
    #[error("`{0}` is not a unit; use d, h, m, s or ms")]
    UnknownUnit(String),
    /// Something is not a number.
    #[error("`{0}` does not begin with a whole number; write a duration like 10s or 1500ms")]
    NotANumber(String),
    /// The units are not in falling order.
    #[error("the unit `{0}` is out of place; write larger units first and each once, like 1h30m")]
    Order(String),
    /// It is longer than anyone may write.
    #[error("it is longer than 36500d")]
    TooLong,
}

/// Reads a span of time like `1m30s`.
fn parse(text: &str) -> Result<Span, InvalidDuration> {
    let text = text.trim();
    if text.is_empty() {
        return Err(InvalidDuration::Empty);
    }
    if text.starts_with('-') {
        return Err(InvalidDuration::Negative);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let (number, unit, after) = part(rest)?;
        let Some((_, size)) = units.by_ref().find(|(name, _)| *name == unit) else {
            return Err(match UNITS.iter().any(|(name, _)| *name == unit) {
                true => InvalidDuration::Order(shown(unit)),
                false => InvalidDuration::UnknownUnit(shown(unit)),
            });
        };
        let amount = number.and_then(|n| n.checked_mul(*size)).ok_or(InvalidDuration::TooLong)?;
        total = total.checked_add(amount).ok_or(InvalidDuration::TooLong)?;
        rest = after;
    }
    checked(total)
}

/// Splits off a number (none if it overflows) and its unit.
fn part(text: &str) -> Result<(Option<u64>, &str, &str), InvalidDuration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if digits == 0 || text[digits..].starts_with('.') {
        return Err(InvalidDuration::NotANumber(shown(text)));
    }
    let (number, rest) = text.split_at(digits);
    let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    if letters == 0 {
        return Err(InvalidDuration::NoUnit(shown(number)));
    }
    let (unit, after) = rest.split_at(letters);
    Ok((number.parse().ok(), unit, after))
}

/// Text of a caller, short enough for a message.
fn shown(text: &str) -> String {
    text.chars().take(24).collect()
}

fn checked(millis: u64) -> Result<Span, InvalidDuration> {
    if millis > MAX.0 { Err(InvalidDuration::TooLong) } else { Ok(Span(millis)) }
}

/// A span of time: `10s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanText(pub Span);

/// A ttl: `10s`, or `none` for a lease that does not end by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlText(pub Ttl);

/// How long to wait: `30s`, `forever`, or `0` for not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitText(pub Patience);

/// The time a lease has left: `9900ms`, or `none` if it does not end by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemainingText(pub Remaining);

impl SpanText {
    /// A span of this many milliseconds, if anyone may ask for so long a one.
    pub fn from_millis(millis: u64) -> Result<SpanText, InvalidDuration> {
        checked(millis).map(SpanText)
    }
}

impl FromStr for SpanText {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        parse(text).map(SpanText)
    }
}

impl FromStr for TtlText {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        match text {
            "none" => Ok(TtlText(Ttl::Endless)),
            text => match parse(text)? {
                Span::ZERO => Err(InvalidDuration::Zero),
                span => Ok(TtlText(Ttl::For(span))),
            },
        }
    }
}

impl FromStr for WaitText {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        Ok(WaitText(match text {
            "forever" => Patience::Endless,
            "0" => Patience::None,
            text => match parse(text)? {
                Span::ZERO => Patience::None,
                span => Patience::For(span),
            },
        }))
    }
}

impl FromStr for RemainingText {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        Ok(RemainingText(match text {
            "none" => Remaining::Endless,
            text => Remaining::For(parse(text)?),
        }))
    }
}

impl fmt::Display for SpanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TtlText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for WaitText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Patience::None => f.write_str("0"),
            Patience::For(span) => span.fmt(f),
            Patience::Endless => f.write_str("forever"),
        }
    }
}

impl fmt::Display for RemainingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Remaining::For(span) => span.fmt(f),
            Remaining::Endless => f.write_str("none"),
        }
    }
}

/// Reads text or a number of milliseconds; a number takes the same road as its text.
struct Reader<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = InvalidDuration>> de::Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration like \"10s\" or a number of milliseconds")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, millis: u64) -> Result<T, E> {
        format!("{millis}ms").parse().map_err(E::custom)
    }

    /// JSON gives a signed number only if it is negative. TOML gives every number signed, and a
    /// configuration file must name the unit.
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Err(E::custom(match number {
            ..0 => InvalidDuration::Negative,
            0.. => InvalidDuration::NoUnit(number.to_string()),
        }))
    }
}

macro_rules! duration_serde {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Reader(std::marker::PhantomData))
            }
        }
    )*};
}

duration_serde!(SpanText, TtlText, WaitText, RemainingText);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(text: &str) -> Result<u64, InvalidDuration> {
        text.parse::<SpanText>().map(|span| span.0.0)
    }

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(span("10s"), Ok(10_000));
        assert_eq!(span("1500ms"), Ok(1500));
        assert_eq!(span("1m30s"), Ok(90_000));
        assert_eq!(span("2h"), Ok(7_200_000));
        assert_eq!(span("30d"), Ok(2_592_000_000));
        assert_eq!(span("0s"), Ok(0));
    }

    #[test]
    fn bad_durations_are_told_apart() {
        assert_eq!(span(""), Err(InvalidDuration::Empty));
        assert_eq!(span("-1s"), Err(InvalidDuration::Negative));
        assert_eq!(span("10"), Err(InvalidDuration::NoUnit("10".into())));
        assert_eq!(span("10 s"), Err(InvalidDuration::UnknownUnit(" s".into())));
        assert_eq!(span("10y"), Err(InvalidDuration::UnknownUnit("y".into())));
        assert_eq!(span("1.5s"), Err(InvalidDuration::NotANumber("1.5s".into())));
        assert_eq!(span("soon"), Err(InvalidDuration::NotANumber("soon".into())));
        assert_eq!(span("30s1m"), Err(InvalidDuration::Order("m".into())));
        assert_eq!(span("1s1s"), Err(InvalidDuration::Order("s".into())));
        assert_eq!(span("99999999999999999999999d"), Err(InvalidDuration::TooLong));
        assert_eq!(span("18446744073709551615ms"), Err(InvalidDuration::TooLong));
        assert_eq!("0s".parse::<TtlText>(), Err(InvalidDuration::Zero));
    }

    #[test]
    fn words_stand_for_what_has_no_length() {
        assert_eq!("none".parse(), Ok(TtlText(Ttl::Endless)));
        assert_eq!("forever".parse(), Ok(WaitText(Patience::Endless)));
        assert_eq!("0".parse(), Ok(WaitText(Patience::None)));
        assert_eq!("none".parse(), Ok(RemainingText(Remaining::Endless)));
    }

    #[test]
    fn json_takes_text_and_milliseconds() {
        assert_eq!(serde_json::from_str::<SpanText>("1500").unwrap().0, Span(1500));
        assert_eq!(serde_json::from_str::<SpanText>("\"10s\"").unwrap().0, Span(10_000));
        assert_eq!(serde_json::to_string(&SpanText(Span(90_000))).unwrap(), "\"1m30s\"");
        for bad in ["-5", "0", "1.5", "true", "18446744073709551615", "18446744073709551616", "\"5\"", "null"] {
            assert!(serde_json::from_str::<TtlText>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(millis in 0..=MAX.0) {
            let shown = SpanText(Span(millis));
            prop_assert_eq!(shown.to_string().parse(), Ok(shown));
        }

        #[test]
        fn any_text_gets_an_answer(text in ".{0,40}") {
            let _ = text.parse::<SpanText>();
            let _ = text.parse::<TtlText>();
            let _ = text.parse::<WaitText>();
        }
    }
}
