//! The wait for a resource in one line, for a terminal.

use std::time::Duration;

use leasehold_api::SpanText;
use leasehold_client::store::Progress;
use leasehold_core::Span;

use super::text::{clock, plain, quoted};

/// The line of a wait that was known to stand so `ago`: times went on since.
pub(crate) fn line(progress: &Progress, rests: Option<Duration>, ago: Duration) -> String {
    let position = match progress.place {
        Some((position, length)) => format!("  position {position} of {}", length.max(position)),
        None => String::new(),
    };
    let held = match (&progress.holder, rests) {
        (Some(holder), _) => {
            let held = clock(span(millis(holder.held_for).saturating_add(ago)));
            format!("  held {held} by {}{}", plain(&holder.holder), quoted(holder.reason.as_deref()))
        }
        (None, Some(rests)) => format!("  rests {} more", clock(span(rests.saturating_sub(ago)))),
        (None, None) => String::new(),
    };
    let left = progress.estimate.and_then(|estimate| estimate.checked_sub(ago)).filter(|left| !left.is_zero());
    let estimate = left.map(|left| format!("  about {}", about(left))).unwrap_or_default();
    format!("lease: waiting for {}{position}{held}{estimate}", plain(&progress.resource))
}

/// A guess has no use for more than one unit: `30s`, `2m`, `3h`, `4d`.
fn about(duration: Duration) -> String {
    let seconds = duration.as_millis().div_ceil(1000);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds.div_ceil(60)),
        3600..86_400 => format!("{}h", seconds.div_ceil(3600)),
        _ => format!("{}d", seconds.div_ceil(86_400)),
    }
}

fn millis(span: SpanText) -> Duration {
    Duration::from_millis(span.0.0)
}

fn span(duration: Duration) -> SpanText {
    SpanText(Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        let holder = serde_json::json!({
            "holder": "ana@box1/4711", "lease": "~1a2b3c4d5e", "token": 5, "mode": "exclusive",
            "since": "2026-11-03T19:02:11.250Z", "held_for": "41s", "remaining": "9s", "renewed_ago": "1s",
            "reason": "backfill 2026-11",
        });
        Progress {
            resource: "nightly".into(),
            place: Some((1, 1)),
            holder: Some(serde_json::from_value(holder).unwrap()),
            estimate: Some(Duration::from_secs(120)),
        }
    }

    #[test]
    fn it_tells_place_holder_reason_and_estimate() {
        let text = "lease: waiting for nightly  position 1 of 1  held 00:41 by ana@box1/4711 \
                    (\"backfill 2026-11\")  about 2m";
        assert_eq!(line(&progress(), None, Duration::ZERO), text);
    }

    #[test]
    fn times_go_on_between_two_looks() {
        let text = line(&progress(), None, Duration::from_secs(80));
        assert!(text.contains("held 02:01") && text.ends_with("about 40s"), "{text}");
        let text = line(&progress(), None, Duration::from_secs(120));
        assert!(text.ends_with("(\"backfill 2026-11\")"), "a guess that was wrong is not told: {text}");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let bare = Progress { place: None, holder: None, estimate: None, ..progress() };
        assert_eq!(line(&bare, None, Duration::ZERO), "lease: waiting for nightly");
        let text = line(&bare, Some(Duration::from_secs(5)), Duration::from_secs(1));
        assert_eq!(text, "lease: waiting for nightly  rests 00:04 more");
    }

    #[test]
    fn guesses_have_one_unit() {
        let found = [1, 59, 60, 61, 3599, 3600, 90_000].map(|seconds| about(Duration::from_secs(seconds)));
        assert_eq!(found, ["1s", "59s", "1m", "2m", "60m", "1h", "2d"]);
    }
}
