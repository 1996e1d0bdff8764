//! Promise 14: every resource and every entry behaves as if calls on it happened one after the other, each between its
//! sending and its answer.
//!
//! A resource is free or held with a token; its holder may lose it without a call, but not while it was promised to it. Watchers
//! help: what one has seen has happened. A search that would take too long gives up; [`undecided`] tells of those.

mod key;
mod resource;
mod search;

use super::timeline::Timeline;
use super::{Contradiction, Found};
use crate::history::{History, Moment};
use search::{Op, Step, Verdict};

/// The stable name of this checker.
pub const NAME: &str = "linearizable";

/// How many calls before the one that does not fit are told.
const TOLD: usize = 12;

/// Finds resources and entries whose calls fit no order.
pub fn check(history: &History) -> Vec<Contradiction> {
    let mut found = Found::by(NAME);
    judge(history, |name, misfit| {
        if let Some(misfit) = misfit {
            found.push(format!("no order explains {name}: {misfit}"));
        }
    });
    found.all
}

/// The resources and entries for which the search gave up: they are neither right nor wrong.
pub fn undecided(history: &History) -> Vec<String> {
    let mut names = Vec::new();
    judge(history, |name, misfit| {
        if misfit.is_none() {
            names.push(name.to_owned());
        }
    });
    names
}

/// Tells of each object whose calls fit no order how they do not fit, or nothing if that took too long.
fn judge(history: &History, mut tell: impl FnMut(&str, Option<String>)) {
    if history.calls.is_empty() && history.key_calls.is_empty() {
        return;
    }
    let timeline = Timeline::of(history);
    let resources = resource::ops(history, &timeline).into_iter().map(|(name, ops)| (name, misfit(&ops)));
    let keys = key::ops(history, &timeline).into_iter().map(|(name, ops)| (name, misfit(&ops)));
    for (name, misfit) in resources.chain(keys) {
        match misfit {
            Misfit::None => {}
            Misfit::Undecided => tell(name, None),
            Misfit::Found(words) => tell(name, Some(words)),
        }
    }
}

/// How calls do not fit.
enum Misfit {
    None,
    Undecided,
    Found(String),
}

fn misfit<S: Step>(ops: &[Op<S>]) -> Misfit {
    match search::search(ops, Moment::NEVER) {
        Verdict::Fits => Misfit::None,
        Verdict::Undecided => Misfit::Undecided,
        Verdict::Never => Misfit::Found(in_words(ops, search::first_misfit(ops))),
    }
}

/// Tells of the shortest beginning that fits no order: its last call, and those before it.
fn in_words<S>(ops: &[Op<S>], until: Moment) -> String {
    let mut ended: Vec<&Op<S>> = ops.iter().filter(|op| op.to.is_some_and(|to| to <= until)).collect();
    ended.sort_by_key(|op| op.to);
    let Some(last) = ended.pop() else { return "nothing happened".to_owned() };
    let told = |op: &Op<S>| {
        let to = op.to.filter(|to| *to <= until).map_or_else(|| "later or never".to_owned(), |to| to.to_string());
        format!("[{} to {to}] {}", op.from, op.words)
    };
    let open = ops.iter().filter(|op| op.from <= until && op.to.is_none_or(|to| to > until));
    let skipped = ended.len().saturating_sub(TOLD);
    let mut text = format!("after {} calls that fit, {}", ended.len(), told(last));
    let before = ended.iter().skip(skipped).map(|op| told(op)).chain(open.map(told));
    text.push_str("; before it");
    before.for_each(|call| {
        text.push_str("\n    ");
        text.push_str(&call);
    });
    text
}

#[cfg(test)]
mod tests;
