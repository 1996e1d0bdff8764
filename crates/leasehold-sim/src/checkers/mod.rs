//! One promise per file. A checker reads a history and returns what contradicts the promise; each has tests that show
//! that it finds what it must and is silent when it must.
//!
//! A checker never guesses: what a history does not tell is taken as kept. Each is about linear in the number of facts,
//! with indices made once, so that a long run is judged in well under a second.

pub mod fifo;
pub mod linearizable;
pub mod never_early;
pub mod never_late;
pub mod nothing_lost;
pub mod once;
pub mod one_holder;
pub mod one_revision;
pub mod revisions_rise;
pub mod stays_ended;
pub mod tokens_rise;
pub mod watches;

mod lives;
#[cfg(test)]
mod made;
mod timeline;

use std::fmt;

use crate::history::History;

/// Something in a history that a promise does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The stable name of the checker that found it.
    pub checker: &'static str,
    /// What was seen, in a sentence.
    pub sentence: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.sentence)
    }
}

/// A checker: its stable name and what it does.
pub type Checker = (&'static str, fn(&History) -> Vec<Contradiction>);

/// Every checker.
pub const ALL: [Checker; 12] = [
    (one_holder::NAME, one_holder::check),
    (tokens_rise::NAME, tokens_rise::check),
    (nothing_lost::NAME, nothing_lost::check),
    (never_early::NAME, never_early::check),
    (never_late::NAME, never_late::check),
    (one_revision::NAME, one_revision::check),
    (watches::NAME, watches::check),
    (fifo::NAME, fifo::check),
    (once::NAME, once::check),
    (linearizable::NAME, linearizable::check),
    (stays_ended::NAME, stays_ended::check),
    (revisions_rise::NAME, revisions_rise::check),
];

/// Runs all checkers and returns everything they found.
pub fn check_all(history: &History) -> Vec<Contradiction> {
    ALL.iter().flat_map(|(_, check)| check(history)).collect()
}

/// Runs all checkers and fails with everything they found.
///
/// # Panics
///
/// If they found anything.
#[track_caller]
pub fn assert_kept(history: &History) {
    let found: Vec<String> = check_all(history).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} contradictions:\n{}", found.len(), found.join("\n"));
}

/// Collects what one checker finds.
struct Found {
    checker: &'static str,
    all: Vec<Contradiction>,
}

impl Found {
    fn by(checker: &'static str) -> Found {
        Found { checker, all: Vec::new() }
    }

    fn push(&mut self, sentence: String) {
        self.all.push(Contradiction { checker: self.checker, sentence });
    }
}
