//! True time: moments since the start of a run, and spans between two of them.

use std::time::Duration;

/// A moment of true time, counted from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The start of the run.
    pub const START: Moment = Moment(Duration::ZERO);
    /// Later than everything.
    pub const NEVER: Moment = Moment(Duration::MAX);

    /// The moment so many milliseconds after the start.
    pub const fn millis(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    /// The moment so much later.
    pub const fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }

    /// How long ago `earlier` was; zero if it is later.
    pub const fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Moment::NEVER { f.write_str("never") } else { write!(f, "{:.3}s", self.0.as_secs_f64()) }
    }
}

/// A period of true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Its beginning.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
}

impl Span {
    /// Sorts periods and joins those that touch.
    pub fn joined(spans: &[Span]) -> Vec<Span> {
        let mut sorted: Vec<Span> = spans.iter().copied().filter(|span| span.from < span.to).collect();
        sorted.sort();
        let mut joined: Vec<Span> = Vec::new();
        for span in sorted {
            match joined.last_mut() {
                Some(last) if span.from <= last.to => last.to = last.to.max(span.to),
                Some(_) | None => joined.push(span),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_that_touch_become_one() {
        let span = |from, to| Span { from: Moment::millis(from), to: Moment::millis(to) };
        let joined = Span::joined(&[span(5, 7), span(0, 2), span(7, 9), span(1, 3), span(4, 4)]);
        assert_eq!(joined, [span(0, 3), span(5, 9)]);
    }

    #[test]
    fn moments_never_overflow() {
        assert_eq!(Moment::NEVER.after(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment::START.since(Moment::millis(1)), Duration::ZERO);
        assert_eq!(format!("{} {}", Moment::millis(1500), Moment::NEVER), "1.500s never");
    }
}
