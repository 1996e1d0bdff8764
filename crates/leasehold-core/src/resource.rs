//! A resource: who holds it, who waits for it, when it rests.

use std::collections::BTreeSet;

use crate::queue::Queue;
use crate::{LeaseId, LeaseTime, Mode, NamespaceId, Past, PastFact, ResourceName, Revision, Span, Token};

/// A resource among all namespaces.
pub(crate) type ResourceKey = (NamespaceId, ResourceName);

/// Who holds a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Holders {
    /// Nobody.
    #[default]
    None,
    /// One lease, alone.
    Exclusive(LeaseId),
    /// Leases that share it; at least one.
    Shared(BTreeSet<LeaseId>),
}

impl Holders {
    pub(crate) fn len(&self) -> usize {
        match self {
            Holders::None => 0,
            Holders::Exclusive(_) => 1,
            Holders::Shared(leases) => leases.len(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = LeaseId> + '_> {
        match self {
            Holders::None => Box::new(std::iter::empty()),
            Holders::Exclusive(lease) => Box::new(std::iter::once(*lease)),
            Holders::Shared(leases) => Box::new(leases.iter().copied()),
        }
    }

    /// The mode it is held in; exclusive if nobody holds it.
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Holders::None | Holders::Exclusive(_) => Mode::Exclusive,
            Holders::Shared(_) => Mode::Shared,
        }
    }

    pub(crate) fn add(&mut self, lease: LeaseId, mode: Mode) {
        match (&mut *self, mode) {
            (Holders::None, Mode::Exclusive) => *self = Holders::Exclusive(lease),
            (Holders::None, Mode::Shared) => *self = Holders::Shared(BTreeSet::from([lease])),
            (Holders::Shared(leases), Mode::Shared) => {
                leases.insert(lease);
            }
            (Holders::Exclusive(_), _) | (Holders::Shared(_), Mode::Exclusive) => {
                panic!("a claim is granted only where it fits")
            }
        }
    }

    pub(crate) fn remove(&mut self, lease: LeaseId) {
        if let Holders::Shared(leases) = self {
            leases.remove(&lease);
            if !leases.is_empty() {
                return;
            }
        }
        *self = Holders::None;
    }
}

/// A resource. It exists while it is held, wanted, resting or remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) holders: Holders,
    /// Boxed because most resources are uncontended.
    pub(crate) queue: Option<Box<Queue>>,
    /// The highest token given out.
    pub(crate) last_token: Token,
    /// Until when it rests; zero if it does not.
    pub(crate) rests_until: LeaseTime,
    /// How long holders usually keep it; zero if not known.
    pub(crate) usual_hold: Span,
    /// The revision since which nobody holds, wants or rests it; zero otherwise.
    pub(crate) idle_since: Revision,
    /// Ended claims and the latest ask for a hand-over, oldest first.
    pub(crate) history: Vec<Past>,
}

impl Resource {
    /// Tells whether it still rests at `now`.
    pub(crate) fn rests(&self, now: LeaseTime) -> bool {
        self.rests_until > LeaseTime::ZERO && !self.rests_until.is_due(now)
    }

    /// Tells whether one more claim of `mode` goes together with the present holders.
    pub(crate) fn admits(&self, mode: Mode, shared_max: u32) -> bool {
        match (&self.holders, mode) {
            (Holders::None, _) => true,
            (Holders::Shared(leases), Mode::Shared) => leases.len() < shared_max as usize,
            (Holders::Exclusive(_), _) | (Holders::Shared(_), Mode::Exclusive) => false,
        }
    }

    /// How many wait for it.
    pub(crate) fn queue_len(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len())
    }

    /// Tells whether nobody holds or wants it and it does not rest.
    pub(crate) fn is_idle(&self) -> bool {
        self.holders == Holders::None && self.queue.is_none() && self.rests_until == LeaseTime::ZERO
    }

    /// Remembers an ended claim and learns from how long it was held.
    pub(crate) fn remember(&mut self, past: Past, held: Span, history_max: u32) {
        self.usual_hold = match self.usual_hold {
            Span::ZERO => held,
            usual => Span((usual.0 * 7 + held.0) / 8),
        };
        self.push_past(past, history_max);
    }

    /// Remembers what was asked of its holders in place of what was asked before.
    pub(crate) fn remember_asks(&mut self, asks: Vec<Past>, history_max: u32) {
        self.history.retain(|past| !past.is_ask());
        for ask in asks {
            self.push_past(ask, history_max);
        }
    }

    fn push_past(&mut self, past: Past, history_max: u32) {
        while self.history.len() >= (history_max as usize).max(1) {
            self.history.remove(0);
        }
        if history_max > 0 {
            self.history.push(past);
        }
    }

    /// How long the waiter at `position` may have to wait, by what holders took before.
    pub(crate) fn estimate(&self, position: u32, held: Span) -> Option<Span> {
        if self.usual_hold == Span::ZERO || position == 0 {
            return None;
        }
        let rest_of_present = self.usual_hold.0.saturating_sub(held.0);
        Some(Span(rest_of_present.saturating_add(self.usual_hold.0.saturating_mul(u64::from(position - 1)))))
    }
}

impl Past {
    /// Tells whether it is an ask for a hand-over.
    pub(crate) fn is_ask(&self) -> bool {
        matches!(self.what, PastFact::HandoverAsked { .. })
    }
}
