//! An exclusive resource as an object: free, or held with a token; tokens rise.
//!
//! Each token is granted once and ends once. The end may come from the moment on at which its holder gave it back, an
//! operator took it or nobody is promised anything any more, and it has come when a release is acknowledged or a
//! watcher sees it.

use std::collections::{BTreeMap, BTreeSet};

use super::search::{Op, Step};
use crate::checkers::lives::Lives;
use crate::checkers::timeline::Timeline;
use crate::history::{Call, History, Moment, Outcome, What};

/// How a resource stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Register {
    last: u64,
    holder: Option<u64>,
}

/// What calls do to a resource.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It is given away with this token.
    Grant(u64),
    /// It is given back or taken.
    End(u64),
    /// It is seen as it stands.
    Seen(Option<u64>),
    /// It is not held with this token.
    NotHeld(u64),
}

impl Step for Turn {
    type State = Register;

    fn apply(&self, state: &Register) -> Option<Register> {
        let Register { last, holder } = *state;
        match *self {
            Turn::Grant(token) => {
                (holder.is_none() && token > last).then_some(Register { last: token, holder: Some(token) })
            }
            // A token ends once, for whatever reason.
            Turn::End(token) => (holder == Some(token)).then_some(Register { last, holder: None }),
            Turn::Seen(seen) => (seen == holder).then(|| state.clone()),
            Turn::NotHeld(token) => (holder != Some(token)).then(|| state.clone()),
        }
    }

    fn changes(&self) -> bool {
        matches!(self, Turn::Grant(_) | Turn::End(_))
    }

    fn shown(state: &Register) -> Option<u64> {
        state.holder
    }

    fn needs(&self) -> Option<u64> {
        match *self {
            Turn::End(token) => Some(token),
            Turn::Seen(seen) => seen,
            Turn::Grant(_) | Turn::NotHeld(_) => None,
        }
    }

    fn brings(&self) -> Option<u64> {
        match *self {
            Turn::Grant(token) => Some(token),
            Turn::End(_) | Turn::Seen(_) | Turn::NotHeld(_) => None,
        }
    }
}

/// What is known of one token of a resource.
#[derive(Default)]
struct Known<'a> {
    lease: Option<&'a str>,
    asked: Option<Moment>,
    /// Before this moment it was granted.
    granted: Option<Moment>,
    /// Before this moment it had ended.
    ended: Option<Moment>,
    /// Its holder may have given it back from this moment on.
    given_back: Option<Moment>,
}

/// The tokens of one resource, and the leases they belong to.
#[derive(Default)]
struct Tokens<'a> {
    by_number: BTreeMap<u64, Known<'a>>,
    by_lease: BTreeMap<&'a str, BTreeSet<u64>>,
}

/// What happened to each resource that was called, as calls.
pub(super) fn ops<'a>(history: &'a History, timeline: &Timeline<'a>) -> BTreeMap<&'a str, Vec<Op<Turn>>> {
    let mut calls: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        calls.entry(&call.resource).or_default().push(call);
    }
    let mut tokens: BTreeMap<&str, Tokens<'_>> = BTreeMap::new();
    for (_, seen, event) in timeline.events().filter(|(_, _, event)| calls.contains_key(event.resource.as_str())) {
        let known = tokens.entry(&event.resource).or_default();
        match event.kind.as_str() {
            "claim_granted" => known.granted(event.token, Some(&event.holder), seen),
            "claim_ended" => known.of(event.token).ended = Some(seen),
            _ => {}
        }
    }
    for hold in history.holds.iter().filter(|hold| calls.contains_key(hold.resource.as_str())) {
        let known = tokens.entry(&hold.resource).or_default();
        known.granted(hold.token, Some(&hold.lease), hold.answered);
    }
    let lives = Lives::of(history);
    let ops = calls.into_iter().map(|(resource, calls)| {
        let mut known = tokens.remove(resource).unwrap_or_default();
        calls.iter().for_each(|call| known.learn(call));
        calls.iter().for_each(|call| known.trace(call));
        let mut ops = known.lives(resource, &lives);
        ops.extend(calls.iter().filter_map(|call| op(call)));
        (resource, ops)
    });
    ops.collect()
}

impl<'a> Tokens<'a> {
    fn of(&mut self, token: u64) -> &mut Known<'a> {
        self.by_number.entry(token).or_default()
    }

    fn granted(&mut self, token: u64, lease: Option<&'a str>, by: Moment) {
        let known = self.of(token);
        known.granted = known.granted.into_iter().chain([by]).min();
        known.lease = known.lease.or(lease);
        if let Some(lease) = lease {
            self.by_lease.entry(lease).or_default().insert(token);
        }
    }

    /// Learns which tokens there are from what calls were told.
    fn learn(&mut self, call: &'a Call) {
        let Some(answered) = call.answered else { return };
        match (&call.what, call.outcome) {
            (What::TryAcquire { lease }, Outcome::Granted { token }) => self.granted(token, Some(lease), answered),
            (_, Outcome::HeldBy { token } | Outcome::Seen { holder: Some(token) } | Outcome::Granted { token }) => {
                self.granted(token, None, answered);
            }
            (_, Outcome::Seen { holder: None } | Outcome::Unknown | Outcome::Released | Outcome::NotHeld) => {}
        }
    }

    /// Traces tokens back to when they were asked for and when they may have been given back.
    fn trace(&mut self, call: &'a Call) {
        match &call.what {
            What::TryAcquire { lease } => {
                // Whoever asked several times may have got any of its tokens by the first call.
                for token in self.by_lease.get(lease.as_str()).cloned().unwrap_or_default() {
                    let known = self.of(token);
                    known.asked = known.asked.into_iter().chain([call.sent]).min();
                }
            }
            What::Release { lease, token } => {
                let Some(token) = self.released(lease, *token) else { return };
                let known = self.of(token);
                known.given_back = known.given_back.into_iter().chain([call.sent]).min();
                if call.outcome == Outcome::Released {
                    known.ended = known.ended.into_iter().chain(call.answered).min();
                }
            }
            What::Look => {}
        }
    }

    /// The token that a release gave back, if that is certain.
    fn released(&self, lease: &str, token: Option<u64>) -> Option<u64> {
        let of_lease = self.by_lease.get(lease)?;
        token.or_else(|| of_lease.first().copied().filter(|_| of_lease.len() == 1))
    }

    /// The grant of every known token, and its end by itself.
    fn lives(&self, resource: &str, lives: &Lives<'_>) -> Vec<Op<Turn>> {
        let mut ops = Vec::new();
        for (&token, known) in &self.by_number {
            let Some(granted) = known.granted else { continue };
            let whom = known.lease.unwrap_or("somebody");
            ops.push(Op {
                step: Turn::Grant(token),
                from: known.asked.unwrap_or(Moment::START),
                to: Some(granted),
                words: format!("{whom} got {resource} with token {token}"),
            });
            let promised = known.lease.map_or(Moment::START, |lease| {
                lives.lives_until(lease).min(lives.kept_until(lease, resource, Moment::START))
            });
            ops.push(Op {
                step: Turn::End(token),
                from: promised.min(known.given_back.unwrap_or(Moment::NEVER)),
                to: known.ended.into_iter().chain(known.lease.and_then(|lease| lives.get(lease)?.released)).min(),
                words: format!("{whom} gave back or lost {resource} with token {token}"),
            });
        }
        ops
    }
}

/// What a call saw; what it changed is told of its token.
fn op(call: &Call) -> Option<Op<Turn>> {
    let (client, resource) = (&call.client, &call.resource);
    let (step, words) = match (&call.what, call.outcome) {
        (What::Release { lease, token: Some(token) }, Outcome::NotHeld) => {
            (Turn::NotHeld(*token), format!("{lease} was told that {resource} is not its with token {token}"))
        }
        (_, Outcome::HeldBy { token }) => {
            (Turn::Seen(Some(token)), format!("{client} was refused {resource}, held with token {token}"))
        }
        (_, Outcome::Seen { holder: Some(token) }) => {
            (Turn::Seen(Some(token)), format!("{client} saw {resource} held with token {token}"))
        }
        (_, Outcome::Seen { holder: None }) => (Turn::Seen(None), format!("{client} saw {resource} free")),
        (_, Outcome::Granted { .. } | Outcome::Released | Outcome::NotHeld | Outcome::Unknown) => return None,
    };
    Some(Op { step, from: call.sent, to: call.answered, words })
}
