//! Who gets a resource: what is free goes to the first living waiter, in the order in which they came.

use super::{Claim, Core, Event, LEASES, LeaseId, RESOURCES, ResourceId, Time};
use crate::plant::{Plant, Rules};

impl Core {
    /// Looks at all queues: whatever is free is handed on.
    pub(super) fn revisit(&mut self, rules: &Rules, events: &mut Vec<Event>) {
        for resource in 0..RESOURCES {
            if self.is_free(resource)
                && let Some(lease) = self.next_served(rules, resource)
            {
                self.serve(rules, lease, resource, events);
            }
        }
    }

    /// Tells whether nobody holds a resource and it does not rest.
    pub fn is_free(&self, resource: ResourceId) -> bool {
        self.holder(resource).is_none() && !self.is_resting(resource)
    }

    /// Tells whether a resource is given to nobody for a while.
    pub fn is_resting(&self, resource: ResourceId) -> bool {
        let until = self.resources[resource].rests_until;
        until > 0 && until >= self.now
    }

    /// Who stands in the queue of a resource, in order.
    fn waiters(&self, resource: ResourceId) -> Vec<(u8, LeaseId)> {
        let number = |lease: LeaseId| match self.leases[lease].claims[resource] {
            Claim::Waiting { number, .. } => Some((number, lease)),
            Claim::None | Claim::Held { .. } => None,
        };
        let mut waiters: Vec<_> = (0..LEASES).filter_map(number).collect();
        waiters.sort_unstable();
        waiters
    }

    /// The first waiter whose time and patience are not over.
    pub fn first_living(&self, resource: ResourceId) -> Option<LeaseId> {
        self.waiters(resource).into_iter().map(|(_, lease)| lease).find(|lease| self.waits(*lease, resource))
    }

    /// Tells whether a lease stands in a queue and neither its time nor its patience is over.
    fn waits(&self, lease: LeaseId, resource: ResourceId) -> bool {
        match self.leases[lease].claims[resource] {
            Claim::Waiting { until, .. } => until >= self.now && !self.is_due(lease),
            Claim::None | Claim::Held { .. } => false,
        }
    }

    fn next_served(&self, rules: &Rules, resource: ResourceId) -> Option<LeaseId> {
        if rules.broken(Plant::DeadWaiterServed) {
            return self.waiters(resource).first().map(|(_, lease)| *lease);
        }
        if rules.broken(Plant::LastComeFirst) {
            let mut waiters = self.waiters(resource).into_iter().map(|(_, lease)| lease);
            return waiters.rfind(|lease| self.waits(*lease, resource));
        }
        self.first_living(resource)
    }

    /// Gives a waiter what it waits for, as if its lease were renewed.
    fn serve(&mut self, rules: &Rules, lease: LeaseId, resource: ResourceId, events: &mut Vec<Event>) {
        // A token belongs to one grant only.
        if self.resources[resource].last_token >= self.revision {
            self.revision += 1;
        }
        if !rules.broken(Plant::HandOnNotRenewed) {
            self.extend(rules, lease);
        }
        self.take(rules, lease, resource, true, events);
    }

    /// Sets the deadline of a lease anew; a deadline never falls.
    pub(super) fn extend(&mut self, rules: &Rules, lease: LeaseId) {
        let now: Time = self.now;
        let row = &mut self.leases[lease];
        let new = now + row.ttl;
        row.deadline = if rules.broken(Plant::DeadlineFalls) { new } else { row.deadline.max(new) };
    }

    /// Gives a resource to a lease, in the present step: its token is the present revision.
    pub(super) fn take(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        resource: ResourceId,
        waited: bool,
        events: &mut Vec<Event>,
    ) {
        let first = self.first_living(resource);
        let overtook = first.is_some_and(|first| first != lease);
        let (due, last) = (self.is_due(lease), self.resources[resource].last_token);
        let token = if rules.broken(Plant::TokenPerHolder) { lease as u8 + 1 } else { self.revision };
        self.resources[resource].last_token = token;
        self.leases[lease].claims[resource] = Claim::Held { token };
        events.push(Event::Taken { lease, resource, token, last, waited, due, overtook });
    }
}
