//! The one road by which a lease ends: with all it carries, in one revision, and what is freed is handed on.

use super::{Claim, Core, End, Event, LEASES, Lease, LeaseId, Life, RESOURCES, ResourceId, Time};
use crate::plant::{Plant, Rules};

impl Core {
    /// Ends a lease whose time is over, or else the nearest of its ancestors whose time is.
    pub(super) fn end_due(&mut self, rules: &Rules, lease: LeaseId, events: &mut Vec<Event>) {
        let mut over = lease;
        while self.leases[over].deadline >= self.now {
            let Some(parent) = self.leases[over].parent else { break };
            over = parent;
        }
        self.end(rules, over, End::Expired, events);
    }

    /// Ends a lease with all it carries, in one revision.
    pub(super) fn end(&mut self, rules: &Rules, root: LeaseId, end: End, events: &mut Vec<Event>) {
        self.revision += 1;
        let (own, below) = rests(rules, end);
        let deadline = self.deadline(root);
        self.bury(root, end, deadline, own, events);
        if !rules.broken(Plant::ChildLeftBehind) {
            self.end_children(rules, root, deadline, below, events);
        }
        self.revisit(rules, events);
    }

    fn end_children(&mut self, rules: &Rules, parent: LeaseId, until: Time, rests: bool, events: &mut Vec<Event>) {
        for child in (0..LEASES).filter(|child| *child != parent) {
            if self.leases[child].parent != Some(parent) {
                continue;
            }
            if rules.broken(Plant::ChildEndsLater) {
                self.revision += 1;
            }
            let until = until.min(self.leases[child].deadline);
            self.bury(child, End::WithParent, until, rests, events);
            self.end_children(rules, child, until, rests, events);
        }
    }

    /// Leaves a tombstone of a lease. What it held rests, if told to, until the deadline it had.
    fn bury(&mut self, lease: LeaseId, end: End, deadline: Time, rests: bool, events: &mut Vec<Event>) {
        let (at, revision) = (self.now, self.revision);
        let row = std::mem::replace(&mut self.leases[lease], Lease::UNKNOWN);
        self.leases[lease].life = Life::Ended { end, at, revision };
        events.push(Event::Ended { lease, end, revision, deadline });
        for (resource, claim) in row.claims.into_iter().enumerate() {
            if rests && matches!(claim, Claim::Held { .. }) {
                self.rest(resource, deadline);
            }
        }
    }

    /// Ends a wait, and with it a lease that was granted for it and carries nothing else.
    pub(super) fn end_wait(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        resource: ResourceId,
        end: End,
        events: &mut Vec<Event>,
    ) {
        let row = &mut self.leases[lease];
        let others = (0..RESOURCES).any(|other| other != resource && row.claims[other] != Claim::None);
        let born = matches!(row.claims[resource], Claim::Waiting { born: true, .. });
        if born && !others {
            return self.end(rules, lease, end, events);
        }
        row.claims[resource] = Claim::None;
        self.revision += 1;
        self.revisit(rules, events);
    }

    /// Lets a resource rest until `until`, or longer if it already does.
    fn rest(&mut self, resource: ResourceId, until: Time) {
        if until >= self.now {
            let row = &mut self.resources[resource];
            row.rests_until = row.rests_until.max(until);
        }
    }

    /// Ends what is over of a lease that a command touches, if the sweep has not come to it yet.
    pub(super) fn settle_lease(&mut self, rules: &Rules, lease: LeaseId, events: &mut Vec<Event>) {
        if rules.broken(Plant::DueCommandRuns) {
            return;
        }
        for resource in 0..RESOURCES {
            if let Claim::Waiting { until, .. } = self.leases[lease].claims[resource]
                && until < self.now
                && until < self.deadline(lease)
            {
                self.end_wait(rules, lease, resource, End::Impatient, events);
            }
        }
        if self.leases[lease].is_living() && self.is_due(lease) {
            self.end_due(rules, lease, events);
        }
    }

    /// Ends what is over at a resource that a command touches: its holder, then waiters.
    pub(super) fn settle_resource(&mut self, rules: &Rules, resource: ResourceId, events: &mut Vec<Event>) {
        for lease in 0..LEASES {
            if self.leases[lease].claims[resource] != Claim::None {
                self.settle_lease(rules, lease, events);
            }
        }
        self.revisit(rules, events);
    }
}

/// Whether what a lease held itself, and what its children held, rests until the deadline it had: a holder that did
/// not give it back may still believe that it holds it.
fn rests(rules: &Rules, end: End) -> (bool, bool) {
    let below = !rules.broken(Plant::ChildWithoutRest);
    match end {
        End::Expired => (false, false),
        End::Released | End::Impatient => (false, below),
        End::Revoked => (!rules.broken(Plant::RevokeWithoutRest), below),
        End::WithParent => (below, below),
    }
}
