//! Claims of a lease: asked for, waited for, taken, given back.

use std::collections::BTreeSet;

use crate::deadlines::Due;
use crate::lease::{Lease, claim_size};
use crate::planted::{self, Bug};
use crate::queue::Waiter;
use crate::resource::ResourceKey;
use crate::{
    Answer, Ask, Asks, Bound, Caller, Claim, EndCause, Event, Fact, HeldClaim, LeaseKey, LeaseTime, Leave, Namespace,
    Once, Outcome, Patience, Receipt, Rejection, Revision, Span, State, Token, Unclaim, Wait,
};

impl Asks {
    /// Puts the resources in order: a repetition may name them in another, and a lease keeps them by name.
    pub(crate) fn sort(&mut self) {
        self.claims.sort_by(|a, b| a.resource.cmp(&b.resource));
    }
}

impl State {
    /// Asks for more resources on a living lease: all or none.
    pub(crate) fn claim(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        mut claim: Claim,
        events: &mut Vec<Event>,
    ) -> Answer {
        claim.asks.sort();
        let key = self.own_lease(caller, namespace, claim.lease, events)?;
        self.once(key, claim.once, |state| {
            if claim.asks.claims.is_empty() {
                return Err(Box::new(Rejection::AsksNothing));
            }
            let waits = state.check_asks(namespace, &claim.asks, Some(key), events)?;
            state.step();
            if waits {
                state.queue_up(key, claim.asks, false, events);
            } else {
                state.take_all(key, &claim.asks, events);
            }
            Ok(Outcome::Claimed(Box::new(state.lease_view(key))))
        })
    }

    /// Gives one held claim back.
    pub(crate) fn unclaim(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        unclaim: Unclaim,
        events: &mut Vec<Event>,
    ) -> Answer {
        let key = self.own_lease(caller, namespace, unclaim.lease, events)?;
        self.once(key, unclaim.once, |state| {
            let Unclaim { resource, token, .. } = unclaim;
            let lease = state.leases.get(&key).expect("it was just found");
            let Some(held) = lease.held_claim(&resource) else {
                return Err(Box::new(Rejection::NotClaimed { resource }));
            };
            if held.token != token {
                let current = Some(held.token);
                return Err(Box::new(Rejection::StaleToken { resource, given: token, current }));
            }
            state.settle_resource(&(key.namespace, resource.clone()), events);
            state.step();
            let freed = state.give_back(key, &resource, events);
            state.end_marker(key, &resource, events);
            state.hand_on_freed(vec![((key.namespace, resource), freed)], events);
            Ok(Outcome::Unclaimed)
        })
    }

    /// Leaves the queues a wait stands in; a lease that was granted for the wait ends.
    pub(crate) fn leave(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        leave: Leave,
        events: &mut Vec<Event>,
    ) -> Answer {
        let key = self.own_lease(caller, namespace, leave.lease, events)?;
        let lease = self.leases.get(&key).expect("it was just found");
        if lease.wait(leave.wait).is_none() {
            return Err(Box::new(Rejection::UnknownWait));
        }
        self.end_wait(key, leave.wait, EndCause::Left, events);
        Ok(Outcome::Left)
    }

    /// Ends a wait, and with it a lease that was granted for it. One that carries more than the wait lives on: its
    /// holder was promised that time and gave nothing back.
    pub(crate) fn end_wait(&mut self, key: LeaseKey, number: Revision, cause: EndCause, events: &mut Vec<Event>) {
        let lease = self.leases.get(&key).expect("a wait belongs to a living lease");
        let wait = lease.wait(number).expect("only present waits end");
        if wait.born && lease.weight as usize == 1 + wait.asks.len() {
            self.end(key, cause, events);
        } else {
            self.step();
            self.drop_wait(key, number, cause, events);
        }
    }

    /// Carries out a command on a lease once, however often it arrives.
    pub(crate) fn once(&mut self, key: LeaseKey, once: Option<Once>, run: impl FnOnce(&mut Self) -> Answer) -> Answer {
        let Some(Once { seq, acked }) = once else { return run(self) };
        let more = self.leases.get_mut(&key).expect("the lease was just found").more_mut();
        more.receipts.retain(|(done, _)| *done > acked);
        if seq <= more.seq || seq <= acked {
            let receipt = more.receipts.iter().find(|(done, _)| *done == seq).map(|(_, receipt)| receipt.clone());
            return self.repeated(key, seq, receipt);
        }
        let answer = run(self);
        if planted::is(Bug::ReceiptForgotten) {
            return answer;
        }
        let receipts_max = self.limits.receipts as usize;
        let Some(lease) = self.leases.get_mut(&key) else { return answer };
        let more = lease.more_mut();
        more.seq = seq;
        more.receipts.push_back((seq, receipt_of(&answer)));
        while more.receipts.len() > receipts_max {
            more.receipts.pop_front();
        }
        answer
    }

    fn repeated(&self, key: LeaseKey, seq: u64, receipt: Option<Receipt>) -> Answer {
        match receipt {
            None => Err(Box::new(Rejection::LateCopy { seq })),
            Some(Receipt::Refused) => Err(Box::new(Rejection::RefusedBefore { seq })),
            Some(Receipt::Claimed) => Ok(Outcome::Claimed(Box::new(self.lease_view(key)))),
            Some(Receipt::Unclaimed) => Ok(Outcome::Unclaimed),
            Some(Receipt::Written { succeeded, revision }) => {
                Ok(Outcome::Written(Box::new(crate::Written { succeeded, revision, results: Vec::new() })))
            }
        }
    }

    /// Checks what a command asks for. Tells whether it would have to wait, if it is willing to.
    pub(crate) fn check_asks(
        &mut self,
        namespace: &Namespace,
        asks: &Asks,
        lease: Option<LeaseKey>,
        events: &mut Vec<Event>,
    ) -> Result<bool, Box<Rejection>> {
        self.check_shape(asks, lease)?;
        let Some(number) = self.namespaces.number(namespace) else {
            return if self.is_resting() { self.check_resting(asks) } else { Ok(false) };
        };
        let keys: Vec<ResourceKey> = asks.claims.iter().map(|ask| (number, ask.resource.clone())).collect();
        for key in &keys {
            self.settle_resource(key, events);
        }
        let obstacle = asks.claims.iter().zip(&keys).find(|(ask, key)| !self.is_open(key, ask, asks.priority));
        let Some((_, obstacle)) = obstacle else { return Ok(false) };
        if asks.patience == Patience::None {
            return Err(Box::new(Rejection::Held(self.held_by(obstacle, asks.priority))));
        }
        let full = |key: &ResourceKey| {
            self.resources.get(key).is_some_and(|row| row.queue_len() >= self.limits.waiters as usize)
        };
        if keys.iter().any(full) {
            return Err(Rejection::limit(Bound::Waiters, self.limits.waiters));
        }
        Ok(true)
    }

    /// Checks what is asked for in a namespace that has nothing yet, while everything rests.
    fn check_resting(&self, asks: &Asks) -> Result<bool, Box<Rejection>> {
        match (asks.claims.first(), asks.patience) {
            (None, _) => Ok(false),
            (Some(first), Patience::None) => Err(Box::new(Rejection::Held(self.resting(&first.resource)))),
            (Some(_), Patience::For(_) | Patience::Endless) => Ok(true),
        }
    }

    fn check_shape(&self, asks: &Asks, lease: Option<LeaseKey>) -> Result<(), Box<Rejection>> {
        if asks.cooldown > self.limits.cooldown_max {
            let (given, max) = (asks.cooldown, self.limits.cooldown_max);
            return Err(Box::new(Rejection::CooldownTooLong { given, max }));
        }
        let row = lease.and_then(|key| self.leases.get(&key));
        if row.map_or(0, Lease::claims) + asks.claims.len() > self.limits.claims_per_lease as usize {
            return Err(Rejection::limit(Bound::ClaimsOfLease, self.limits.claims_per_lease));
        }
        let waits = row.map_or(&[][..], Lease::waits);
        let awaited: BTreeSet<_> = waits.iter().flat_map(|wait| &wait.asks).map(|ask| &ask.resource).collect();
        for (at, Ask { resource, .. }) in asks.claims.iter().enumerate() {
            // They are sorted.
            if at > 0 && asks.claims[at - 1].resource == *resource {
                return Err(Box::new(Rejection::AskedTwice { resource: resource.clone() }));
            }
            if awaited.contains(resource) || row.is_some_and(|row| row.held_claim(resource).is_some()) {
                return Err(Box::new(Rejection::AlreadyClaimed { resource: resource.clone() }));
            }
        }
        if let Some(key) = lease {
            self.check_weight(key, asks.claims.len())?;
        } else if asks.claims.len() + 1 > self.limits.tree_weight as usize {
            return Err(Rejection::limit(Bound::TreeWeight, self.limits.tree_weight));
        }
        self.check_bytes(asks.claims.iter().map(|ask| claim_size(&ask.resource)).sum())
    }

    /// Gives all that is asked for to a lease, in the present step.
    pub(crate) fn take_all(&mut self, key: LeaseKey, asks: &Asks, events: &mut Vec<Event>) {
        for ask in &asks.claims {
            self.take(key, ask, Span::ZERO, asks.cooldown, events);
        }
        self.add_weight(key, asks.claims.len() as i64);
    }

    /// Gives a resource to a lease, in the present step: its token is the present revision.
    pub(crate) fn take(&mut self, key: LeaseKey, ask: &Ask, waited: Span, cooldown: Span, events: &mut Vec<Event>) {
        let token = Token(self.revision.0);
        let resource = self.resource_or_new(key.namespace, ask);
        self.change_resource(&resource, |row| {
            assert!(row.last_token < token, "tokens of {} rise strictly", ask.resource);
            row.last_token = token;
            row.holders.add(key.id, ask.mode);
        });
        self.bytes += claim_size(&ask.resource);
        let claim = HeldClaim {
            resource: resource.1,
            mode: ask.mode,
            token,
            since: self.now,
            since_wall: self.wall,
            waited,
            cooldown,
        };
        let revision = self.revision;
        let lease = self.leases.get_mut(&key).expect("only living leases are given resources");
        lease.changed = revision;
        lease.add_held(claim);
        let holder = lease.holder.clone();
        let fact =
            Fact::ClaimGranted { lease: key.id, holder, resource: ask.resource.clone(), mode: ask.mode, token, waited };
        self.tell(key.namespace, fact, events);
    }

    /// Puts a lease into the queues of all it asks for, in the present step.
    pub(crate) fn queue_up(&mut self, key: LeaseKey, asks: Asks, born: bool, events: &mut Vec<Event>) {
        let wait = Wait {
            number: self.revision,
            deadline: asks.patience.deadline(self.now),
            asks: asks.claims,
            priority: asks.priority,
            cooldown: asks.cooldown,
            since: self.now,
            born,
        };
        for ask in &wait.asks {
            let resource = self.resource_or_new(key.namespace, ask);
            if self.is_resting() {
                // A resource that is wanted rests by itself, so that the end of its rest hands it on.
                self.rest(&resource, self.rests_until);
            }
            let holder = self.leases.get(&key).expect("only living leases wait").holder.clone();
            self.join_queue(&resource, &wait, key, ask);
            let queue = self.resources.get(&resource).and_then(|row| row.queue.as_ref());
            let position = queue.expect("it was just joined").position(wait.priority, wait.number);
            let fact = Fact::Queued { lease: key.id, holder, resource: ask.resource.clone(), mode: ask.mode, position };
            self.tell(key.namespace, fact, events);
        }
        self.insert_wait(key, wait);
        self.note_change(key);
    }

    /// Notes that what a lease carries changes in the present step.
    fn note_change(&mut self, key: LeaseKey) {
        let revision = self.revision;
        self.leases.get_mut(&key).expect("only living leases change").changed = revision;
    }

    /// Enters a waiter into the queue of one resource.
    pub(crate) fn join_queue(&mut self, resource: &ResourceKey, wait: &Wait, key: LeaseKey, ask: &Ask) {
        self.change_resource(resource, |row| {
            let queue = row.queue.get_or_insert_default();
            queue.join(wait.priority, wait.number, Waiter { lease: key.id, mode: ask.mode });
        });
    }

    /// Enters a wait into its lease and the index of deadlines.
    pub(crate) fn insert_wait(&mut self, key: LeaseKey, wait: Wait) {
        self.deadlines.add(wait.deadline, Due::Wait(key, wait.number));
        self.bytes += wait.asks.iter().map(|ask| claim_size(&ask.resource)).sum::<u64>();
        let weight = wait.asks.len() as i64;
        self.leases.get_mut(&key).expect("only living leases wait").more_mut().waits.push(wait);
        self.add_weight(key, weight);
    }

    /// Takes a wait from its lease and all queues, in the present step, and tells why.
    pub(crate) fn drop_wait(&mut self, key: LeaseKey, number: Revision, cause: EndCause, events: &mut Vec<Event>) {
        let wait = self.remove_wait(key, number);
        let holder = self.leases.get(&key).expect("the wait's lease lives").holder.clone();
        self.add_weight(key, -(wait.asks.len() as i64));
        self.note_change(key);
        self.leave_queues(key, &wait, events, &holder, &cause);
        for ask in &wait.asks {
            self.end_marker(key, &ask.resource, events);
        }
    }

    /// Takes a wait from its lease and the index of deadlines.
    pub(crate) fn remove_wait(&mut self, key: LeaseKey, number: Revision) -> Wait {
        let lease = self.leases.get_mut(&key).expect("the wait's lease lives");
        let waits = &mut lease.more_mut().waits;
        let at = waits.binary_search_by_key(&number, |wait| wait.number).expect("the wait was just found");
        let wait = waits.remove(at);
        self.unindex_wait(key, &wait);
        wait
    }

    fn unindex_wait(&mut self, key: LeaseKey, wait: &Wait) {
        self.deadlines.remove(wait.deadline, Due::Wait(key, wait.number));
        self.bytes -= wait.asks.iter().map(|ask| claim_size(&ask.resource)).sum::<u64>();
    }

    /// Takes all waits of an ending lease from their queues.
    pub(crate) fn end_waits(&mut self, key: LeaseKey, lease: &Lease, cause: &EndCause, events: &mut Vec<Event>) {
        for wait in lease.waits() {
            self.unindex_wait(key, wait);
            self.leave_queues(key, wait, events, &lease.holder, cause);
        }
    }

    fn leave_queues(
        &mut self,
        key: LeaseKey,
        wait: &Wait,
        events: &mut Vec<Event>,
        holder: &crate::Holder,
        cause: &EndCause,
    ) {
        for ask in &wait.asks {
            let resource = (key.namespace, ask.resource.clone());
            self.leave_queue(&resource, wait);
            let (lease, holder, cause) = (key.id, holder.clone(), cause.clone());
            let fact = Fact::Unqueued { lease, holder, resource: ask.resource.clone(), cause };
            self.tell(key.namespace, fact, events);
            // Who stood behind it may be first now.
            self.revisit.insert(resource);
        }
    }

    /// Takes a waiter from the queue of one resource.
    pub(crate) fn leave_queue(&mut self, resource: &ResourceKey, wait: &Wait) {
        let all_rest = if self.is_resting() { self.rests_until } else { LeaseTime::ZERO };
        let unwanted = self.change_resource(resource, |row| {
            let queue = row.queue.as_mut().expect("a waiter stands in a queue");
            queue.leave(wait.priority, wait.number);
            if queue.is_empty() {
                row.queue = None;
            }
            // It rested by itself only to be handed on.
            let unwanted = row.queue.is_none() && all_rest > LeaseTime::ZERO && row.rests_until == all_rest;
            if unwanted {
                row.rests_until = LeaseTime::ZERO;
            }
            unwanted
        });
        if unwanted {
            self.deadlines.remove(all_rest, Due::Rest(resource.clone()));
        }
    }
}

fn receipt_of(answer: &Answer) -> Receipt {
    match answer {
        Err(_) => Receipt::Refused,
        Ok(Outcome::Unclaimed) => Receipt::Unclaimed,
        Ok(Outcome::Written(written)) => Receipt::Written { succeeded: written.succeeded, revision: written.revision },
        Ok(Outcome::Claimed(_)) => Receipt::Claimed,
        Ok(
            Outcome::Granted(_)
            | Outcome::Renewed(_)
            | Outcome::Released { .. }
            | Outcome::Revoked { .. }
            | Outcome::Left
            | Outcome::HandoverAsked { .. }
            | Outcome::Configured,
        ) => unreachable!("these commands carry no number"),
    }
}
