//! Who gets a resource: what is free goes to the first waiters that can have all they asked for.
//!
//! Waiters are served in order: by priority, then as they came. A wait for several resources is served when it
//! is first at each of them and all are free, so nobody overtakes it, and since every queue has the same order,
//! two such waits never block each other. Waiters whose time is over are passed over; the sweep ends them.

use crate::deadlines::Due;
use crate::planted::{self, Bug};
use crate::queue::{Place, Waiter};
use crate::resource::{Resource, ResourceKey};
use crate::{Ask, Event, LeaseKey, LeaseTime, NamespaceId, Revision, Span, State, Token, Wait};

/// How a resource stands after one of its claims ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Nobody waits for it.
    Unwanted,
    /// Nobody holds it, somebody waits.
    Wanted,
    /// Others still hold it, somebody waits.
    Shared,
}

impl State {
    /// Hands freed resources on, in the present step. One that others still share is looked at when the command or
    /// the sweep is done, so that many holders ending together cost one look.
    pub(crate) fn hand_on_freed(&mut self, freed: Vec<(ResourceKey, Freed)>, events: &mut Vec<Event>) {
        let mut free = Vec::new();
        for (key, freed) in freed {
            match freed {
                Freed::Unwanted => {}
                Freed::Wanted => free.push(key),
                Freed::Shared => {
                    self.revisit.insert(key);
                }
            }
        }
        self.hand_on(free, true, events);
    }

    /// Looks at all queues whose first waiter may have changed.
    pub(crate) fn revisit_queues(&mut self, events: &mut Vec<Event>) {
        while let Some(resource) = self.revisit.pop_first() {
            self.hand_on(vec![resource], false, events);
        }
    }

    /// Serves the first waiters of the resources. `stepped` tells whether the present step may carry their grants.
    fn hand_on(&mut self, mut resources: Vec<ResourceKey>, mut stepped: bool, events: &mut Vec<Event>) {
        resources.reverse();
        while let Some(resource) = resources.pop() {
            let Some((lease, number)) = self.next_served(&resource) else { continue };
            let taken = self.asked_resources(lease, number);
            // A token belongs to one grant only, so a second one at the same resource is a step of its own.
            let token = Token(self.revision.0);
            let spent = |key: &ResourceKey| self.resources.get(key).is_some_and(|row| row.last_token >= token);
            if !stepped || taken.iter().any(spent) {
                self.step();
                stepped = true;
            }
            self.serve(lease, number, events);
            // Others that share may go along, here and at the other resources it was first at.
            resources.extend(taken.into_iter().rev());
        }
    }

    /// The first waiter of a resource, if it can have all it asked for now.
    fn next_served(&mut self, resource: &ResourceKey) -> Option<(LeaseKey, Revision)> {
        let (lease, wait) = self.first_in_line(resource)?;
        let number = wait.number;
        // What it lacked last is asked first: one wait for very many resources is looked at for each of them.
        let from = self.lacking.get(&(lease, number)).copied().unwrap_or(0);
        match self.lacks(lease, wait, from) {
            None => Some((lease, number)),
            Some(at) => {
                self.lacking.insert((lease, number), at);
                None
            }
        }
    }

    /// The first waiter of a resource that does not rest.
    pub(crate) fn first_in_line(&self, resource: &ResourceKey) -> Option<(LeaseKey, &Wait)> {
        let row = self.resources.get(resource).filter(|row| self.rest_of(row).is_none())?;
        let (place, waiter) = self.first_living(resource.0, row)?;
        let lease = LeaseKey { namespace: resource.0, id: waiter.lease };
        Some((lease, self.leases.get(&lease)?.wait(place.1)?))
    }

    /// Which of the resources it asked for, from the one numbered `from` on and around, a wait cannot have now.
    pub(crate) fn lacks(&self, lease: LeaseKey, wait: &Wait, from: usize) -> Option<usize> {
        let ready = |ask: &Ask| {
            let key = (lease.namespace, ask.resource.clone());
            let row = self.resources.get(&key).expect("a wanted resource exists");
            let first = self.first_living(lease.namespace, row).map(|(place, _)| place.1);
            first == Some(wait.number) && self.is_free(lease.namespace, row, ask)
        };
        let (before, after) = wait.asks.split_at(from);
        let at = after.iter().chain(before).position(|ask| !ready(ask))?;
        Some((from + at) % wait.asks.len())
    }

    /// Tells whether one more may have a resource. Not while one of those who share it is over: its end comes first, and
    /// the resource may rest then.
    fn is_free(&self, namespace: NamespaceId, row: &Resource, ask: &Ask) -> bool {
        let is_over = |id| self.is_due(LeaseKey { namespace, id });
        self.rest_of(row).is_none()
            && row.admits(ask.mode, self.limits.shared_holders)
            && !(self.has_backlog() && row.holders.iter().any(is_over))
    }

    /// The first waiter whose time is not over.
    fn first_living(&self, namespace: NamespaceId, row: &Resource) -> Option<(Place, Waiter)> {
        let mut living =
            row.queue.as_ref()?.iter().filter(|(place, waiter)| self.is_living(namespace, *place, *waiter));
        let first = living.next();
        if planted::is(Bug::QueueNotFifo) {
            let equal = |(place, _): &(Place, Waiter)| first.is_some_and(|(first, _)| first.0 == place.0);
            return living.take_while(equal).last().or(first);
        }
        first
    }

    /// Tells whether neither the patience of a waiter nor its lease is over.
    fn is_living(&self, namespace: NamespaceId, place: Place, waiter: Waiter) -> bool {
        let lease = LeaseKey { namespace, id: waiter.lease };
        let row = self.leases.get(&lease).expect("a waiter is a living lease");
        let wait = row.wait(place.1).expect("a place belongs to a wait");
        planted::is(Bug::DeadWaiterGranted) || !wait.deadline.is_due(self.now) && !self.is_due(lease)
    }

    fn asked_resources(&self, lease: LeaseKey, number: Revision) -> Vec<ResourceKey> {
        let wait = self.leases.get(&lease).and_then(|row| row.wait(number)).expect("the wait was just found");
        wait.asks.iter().map(|ask| (lease.namespace, ask.resource.clone())).collect()
    }

    /// Gives a wait all it asked for, as if its lease were renewed.
    fn serve(&mut self, lease: LeaseKey, number: Revision, events: &mut Vec<Event>) {
        let wait = self.remove_wait(lease, number);
        self.extend(lease);
        let waited = self.now.since(wait.since);
        for ask in &wait.asks {
            self.leave_queue(&(lease.namespace, ask.resource.clone()), &wait);
            self.take(lease, ask, waited, wait.cooldown, events);
        }
    }

    /// Tells whether a newcomer may have a resource at once: it is free, and nobody of its priority waits.
    pub(crate) fn is_open(&self, key: &ResourceKey, ask: &Ask, priority: i32) -> bool {
        let Some(row) = self.resources.get(key) else { return !self.is_resting() };
        let overtakes = |(place, _): (Place, Waiter)| place.0.0 < priority;
        self.is_free(key.0, row, ask) && self.first_living(key.0, row).is_none_or(overtakes)
    }

    /// Ends what is over at a resource that a command touches: its holders, then its first waiters.
    pub(crate) fn settle_resource(&mut self, key: &ResourceKey, events: &mut Vec<Event>) {
        if !self.has_backlog() {
            return;
        }
        // Time stands still within an entry, so nobody who holds it later is due.
        if self.settled.insert(key.clone()) {
            for lease in self.due_holders(key) {
                self.settle_lease(lease, events);
            }
        }
        while let Some(lease) = self.due_first_waiter(key) {
            self.settle_lease(lease, events);
        }
        self.revisit.insert(key.clone());
        self.revisit_queues(events);
    }

    /// Ends what is over at all that a lease holds, before it is given back.
    pub(crate) fn settle_held(&mut self, key: LeaseKey, events: &mut Vec<Event>) {
        if !self.has_backlog() {
            return;
        }
        let held = self.leases.get(&key).into_iter().flat_map(|lease| &lease.held);
        let resources: Vec<ResourceKey> = held.map(|claim| (key.namespace, claim.resource.clone())).collect();
        for resource in &resources {
            self.settle_resource(resource, events);
        }
    }

    fn due_holders(&self, key: &ResourceKey) -> Vec<LeaseKey> {
        let holders = self.resources.get(key).into_iter().flat_map(|row| row.holders.iter());
        holders.map(|id| LeaseKey { namespace: key.0, id }).filter(|lease| self.is_due(*lease)).collect()
    }

    fn due_first_waiter(&self, key: &ResourceKey) -> Option<LeaseKey> {
        let (place, waiter) = self.resources.get(key)?.queue.as_ref()?.iter().next()?;
        let due = !self.is_living(key.0, place, waiter);
        due.then_some(LeaseKey { namespace: key.0, id: waiter.lease })
    }

    /// The key of the resource asked for, which exists afterwards.
    pub(crate) fn resource_or_new(&mut self, namespace: NamespaceId, ask: &Ask) -> ResourceKey {
        let key = (namespace, ask.resource.clone());
        if !self.resources.contains(&key) {
            self.resources.insert(key.clone(), Resource::default());
            self.namespaces.usage_mut(namespace).resources += 1;
        }
        key
    }

    /// How long a resource still rests, by itself or after a restore.
    pub(crate) fn rest_of(&self, row: &Resource) -> Option<Span> {
        let own = if row.rests(self.now) { row.rests_until } else { LeaseTime::ZERO };
        let until = if self.is_resting() { own.max(self.rests_until) } else { own };
        (until > LeaseTime::ZERO).then(|| self.until(until))
    }

    /// Lets a resource rest until `until`, or longer if it already does.
    pub(crate) fn rest(&mut self, key: &ResourceKey, until: LeaseTime) {
        let row = self.resources.get_mut(key).expect("only existing resources rest");
        let old = row.rests_until;
        if until <= old {
            return;
        }
        row.rests_until = until;
        self.deadlines.remove(old, Due::Rest(key.clone()));
        self.deadlines.add(until, Due::Rest(key.clone()));
    }

    /// Changes a resource, and notes whether anybody holds or wants it then; one that nobody needs to remember goes.
    pub(crate) fn change_resource<T>(&mut self, key: &ResourceKey, change: impl FnOnce(&mut Resource) -> T) -> T {
        let row = self.resources.get_mut(key).expect("only existing resources change");
        let result = change(row);
        let (idle, since) = (row.is_idle(), row.idle_since);
        if idle != (since > Revision(0)) {
            let forgotten = idle && row.history.is_empty();
            row.idle_since = if idle { self.revision } else { Revision(0) };
            self.idle.remove(&(since, key.clone()));
            if forgotten {
                self.drop_resource(key);
            } else if idle {
                self.idle.insert((self.revision, key.clone()));
            }
        }
        result
    }
}
