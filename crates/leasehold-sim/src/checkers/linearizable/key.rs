//! An entry as an object: a number, or nothing.

use std::collections::BTreeMap;

use super::search::{Op, Step};
use crate::checkers::timeline::Timeline;
use crate::history::{History, KeyCall, KeyOutcome, KeyWhat, Moment};

/// What calls do to an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// A number, or nothing, is put in place of whatever is there.
    Put(Option<u64>),
    /// A number is put in place of what was expected.
    Swap(Option<u64>, u64),
    /// Something else than expected is there.
    Unlike(Option<u64>),
    /// It is seen as it stands.
    Seen(Option<u64>),
}

impl Step for Access {
    type State = Option<u64>;

    fn apply(&self, state: &Option<u64>) -> Option<Option<u64>> {
        match *self {
            Access::Put(number) => Some(number),
            Access::Swap(expected, number) => (*state == expected).then_some(Some(number)),
            Access::Unlike(expected) => (*state != expected).then_some(*state),
            Access::Seen(seen) => (*state == seen).then_some(*state),
        }
    }

    fn changes(&self) -> bool {
        matches!(self, Access::Put(_) | Access::Swap(..))
    }

    fn shown(state: &Option<u64>) -> Option<u64> {
        *state
    }

    fn needs(&self) -> Option<u64> {
        match *self {
            Access::Swap(number, _) | Access::Seen(number) => number,
            Access::Put(_) | Access::Unlike(_) => None,
        }
    }

    fn brings(&self) -> Option<u64> {
        match *self {
            Access::Put(number) => number,
            Access::Swap(_, number) => Some(number),
            Access::Unlike(_) | Access::Seen(_) => None,
        }
    }
}

/// What is known of the numbers under one key.
#[derive(Default)]
struct Numbers {
    /// When each was first known to be there.
    seen: BTreeMap<u64, Moment>,
    /// How many calls wrote each.
    writers: BTreeMap<u64, usize>,
    /// Whether somebody was told that something unexpected is there, which may be a number that nobody saw.
    surprised: bool,
}

/// What happened to each key, as calls.
pub(super) fn ops<'a>(history: &'a History, timeline: &Timeline<'a>) -> BTreeMap<&'a str, Vec<Op<Access>>> {
    let mut keys: BTreeMap<&str, Numbers> = BTreeMap::new();
    history.key_calls.iter().for_each(|call| keys.entry(&call.key).or_default().learn(call));
    for (_, moment, event) in timeline.events().filter(|(_, _, event)| event.kind == "entry_put") {
        if let (Some(numbers), Ok(number)) = (keys.get_mut(event.key.as_str()), event.value.parse()) {
            numbers.saw(number, moment);
        }
    }
    let mut ops: BTreeMap<&str, Vec<Op<Access>>> = BTreeMap::new();
    for call in &history.key_calls {
        let Some((step, words)) = step(call) else { continue };
        let op = Op { step, from: call.sent, to: call.answered, words };
        let op = if call.outcome == KeyOutcome::Unknown { keys[call.key.as_str()].settle(op) } else { Some(op) };
        ops.entry(&call.key).or_default().extend(op);
    }
    ops
}

impl Numbers {
    fn saw(&mut self, number: u64, at: Moment) {
        let first = self.seen.entry(number).or_insert(at);
        *first = at.min(*first);
    }

    fn learn(&mut self, call: &KeyCall) {
        if let KeyWhat::Put { number } | KeyWhat::CompareAndSet { number, .. } = call.what {
            *self.writers.entry(number).or_default() += 1;
        }
        let expected = match call.what {
            KeyWhat::CompareAndSet { expected, .. } if call.outcome == KeyOutcome::Done => expected,
            KeyWhat::CompareAndSet { .. } | KeyWhat::Put { .. } | KeyWhat::Delete | KeyWhat::Read => None,
        };
        let read = match call.outcome {
            KeyOutcome::Read { number } => number,
            KeyOutcome::Unknown | KeyOutcome::Done | KeyOutcome::NotAsExpected => None,
        };
        self.surprised |= call.outcome == KeyOutcome::NotAsExpected;
        if let (Some(number), Some(answered)) = (expected.or(read), call.answered) {
            self.saw(number, answered);
        }
    }

    /// Finds out whether a write without an answer happened: its number was seen, or it made no difference to anybody.
    fn settle(&self, op: Op<Access>) -> Option<Op<Access>> {
        let number = match op.step {
            Access::Put(number) => number,
            Access::Swap(_, number) => Some(number),
            Access::Unlike(_) | Access::Seen(_) => None,
        };
        let Some(number) = number.filter(|number| self.writers.get(number) == Some(&1)) else { return Some(op) };
        match self.seen.get(&number) {
            Some(seen) => Some(Op { to: Some(*seen), ..op }),
            None => self.surprised.then_some(op),
        }
    }
}

fn step(call: &KeyCall) -> Option<(Access, String)> {
    let (client, key) = (&call.client, &call.key);
    let maybe = if call.outcome == KeyOutcome::Unknown { " without an answer" } else { "" };
    Some(match (call.what, call.outcome) {
        (KeyWhat::Put { number }, KeyOutcome::Done | KeyOutcome::Unknown) => {
            (Access::Put(Some(number)), format!("{client} put {number} into {key}{maybe}"))
        }
        (KeyWhat::Delete, KeyOutcome::Done | KeyOutcome::Unknown) => {
            (Access::Put(None), format!("{client} deleted {key}{maybe}"))
        }
        (KeyWhat::CompareAndSet { expected, number }, KeyOutcome::Done | KeyOutcome::Unknown) => (
            Access::Swap(expected, number),
            format!("{client} put {number} into {key} in place of {}{maybe}", shown(expected)),
        ),
        (KeyWhat::CompareAndSet { expected, .. }, KeyOutcome::NotAsExpected) => {
            (Access::Unlike(expected), format!("{client} was told that {key} is not {}", shown(expected)))
        }
        (KeyWhat::Read, KeyOutcome::Read { number }) => {
            (Access::Seen(number), format!("{client} read {} in {key}", shown(number)))
        }
        (KeyWhat::Read, KeyOutcome::Unknown | KeyOutcome::Done | KeyOutcome::NotAsExpected)
        | (KeyWhat::Put { .. } | KeyWhat::Delete, KeyOutcome::NotAsExpected | KeyOutcome::Read { .. })
        | (KeyWhat::CompareAndSet { .. }, KeyOutcome::Read { .. }) => return None,
    })
}

fn shown(number: Option<u64>) -> String {
    number.map_or_else(|| "nothing".to_owned(), |number| number.to_string())
}
