//! Durations, moments and foreign text, as people read them.

use leasehold_api::{HolderInfo, Mode, RemainingText, SpanText, Timestamp};
use leasehold_core::{Remaining, Span};

/// How much of a long text a line shows.
const SHOWN_MAX: usize = 60;

/// A duration at a glance: `8.1s`, `53s`, `1m34s`, `2h05m`, `3d4h`.
pub(crate) fn short(span: SpanText) -> String {
    let millis = span.0.0;
    let seconds = millis / 1000;
    match seconds {
        0..10 if !(millis / 100).is_multiple_of(10) => format!("{seconds}.{}s", millis / 100 % 10),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// An amount of bytes at a glance: `812 B`, `1.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut tenths = u128::from(bytes) * 10;
    while tenths >= 10_240 && unit < 4 {
        tenths /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        unit => format!("{}.{} {}", tenths / 10, tenths % 10, ["", "KiB", "MiB", "GiB", "TiB"][unit]),
    }
}

/// A duration that is going on: `00:41`, `1:02:03`, `2d 03:04:05`.
pub(crate) fn clock(span: SpanText) -> String {
    let seconds = span.0.0 / 1000;
    let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3600 % 24, seconds / 86_400);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{:02}", seconds % 60),
        (0, _) => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        (_, _) => format!("{days}d {hours:02}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// When a lease ends: `ends in 8.1s unless renewed`.
pub(crate) fn ends_in(remaining: RemainingText) -> String {
    match remaining.0 {
        Remaining::For(Span::ZERO) => "is ending".to_owned(),
        Remaining::For(span) => format!("ends in {} unless renewed", short(SpanText(span))),
        Remaining::Endless => "does not end by time".to_owned(),
    }
}

/// The time left, for a column: `8.1s`.
pub(crate) fn left(remaining: RemainingText) -> String {
    match remaining.0 {
        Remaining::For(span) => short(SpanText(span)),
        Remaining::Endless => "never".to_owned(),
    }
}

/// A moment: the time of day, with the date unless it is that of `now`. UTC.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (at.to_string(), now.to_string());
    // RFC 3339 has the date before `T` and the time in the eight characters after it.
    let (date, time) = at.split_once('T').unwrap_or(("", &at));
    let time = time.get(..8).unwrap_or(time);
    if now.starts_with(date) { time.to_owned() } else { format!("{date} {time}") }
}

/// Text of others on one line: nothing in it moves the cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The beginning of a text of others.
pub(crate) fn excerpt(text: &str) -> String {
    let shown = plain(text);
    match shown.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// A reason in quotes, if there is one, with a space before it.
pub(crate) fn quoted(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" (\"{}\")", excerpt(reason))).unwrap_or_default()
}

/// The word for a mode.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

/// A place in a queue: `1st`, `2nd`, `11th`.
pub(crate) fn ordinal(number: u32) -> String {
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        (_, _) => "th",
    };
    format!("{number}{suffix}")
}

/// The holders, as many as are told, and how many more there are.
pub(crate) fn names(holders: &[HolderInfo], count: u32) -> String {
    let names: Vec<String> = holders.iter().map(|holder| plain(&holder.holder)).collect();
    match more(holders, count) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// How many holders are not told.
pub(crate) fn more(holders: &[HolderInfo], count: u32) -> u32 {
    count.saturating_sub(u32::try_from(holders.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(millis: u64) -> SpanText {
        SpanText(Span(millis))
    }

    #[test]
    fn sizes_are_short() {
        let found = [0, 812, 1024, 1_500_000, 3 << 30].map(size);
        assert_eq!(found, ["0 B", "812 B", "1.0 KiB", "1.4 MiB", "3.0 GiB"]);
    }

    #[test]
    fn durations_are_short() {
        let found = [0, 900, 8_149, 9_000, 53_000, 94_000, 7_500_000, 273_600_000].map(|millis| short(span(millis)));
        assert_eq!(found, ["0s", "0.9s", "8.1s", "9s", "53s", "1m34s", "2h05m", "3d4h"]);
        let found = [0, 41_000, 3_723_000, 183_845_000].map(|millis| clock(span(millis)));
        assert_eq!(found, ["00:00", "00:41", "1:02:03", "2d 03:04:05"]);
    }

    #[test]
    fn a_moment_of_another_day_has_a_date() {
        let (at, now) = ("2026-11-03T19:02:11.250Z".parse().unwrap(), "2026-11-03T23:00:00Z".parse().unwrap());
        assert_eq!(moment(at, now), "19:02:11");
        assert_eq!(moment(at, "2026-11-04T00:00:00Z".parse().unwrap()), "2026-11-03 19:02:11");
    }

    #[test]
    fn text_of_others_stays_on_its_line() {
        assert_eq!(plain("a\n\x1b[2Jb"), "a  [2Jb");
        assert_eq!(excerpt(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }

    #[test]
    fn places_are_counted_as_people_do() {
        let found = [1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(ordinal);
        assert_eq!(found, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "113th"]);
    }
}
