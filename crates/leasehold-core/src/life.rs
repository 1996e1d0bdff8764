//! The life of a lease after its grant: renewals, and the one road by which it ends.

use crate::deadlines::Due;
use crate::hand_on::Freed;
use crate::lease::{Lease, claim_size};
use crate::planted::{self, Bug};
use crate::tombstones::Tombstone;
use crate::{
    Answer, Bound, Caller, EndCause, EndView, Event, Fact, HeldClaim, Holder, LeaseId, LeaseKey, LeaseTime, Namespace,
    Outcome, Past, PastFact, Rejection, Release, Remaining, Renew, Renewal, Revision, Revoke, Span, State, Ttl,
};

/// How long a resource rests when a claim on it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Not at all: its holder gave it back, or the operator insists.
    None,
    /// For its cooldown.
    Cooldown,
    /// Until the deadline of its lease: the holder may still believe that it holds it.
    UntilDeadline,
}

impl State {
    /// Extends leases; each has an answer of its own.
    pub(crate) fn renew(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        renew: Renew,
        events: &mut Vec<Event>,
    ) -> Answer {
        if renew.leases.len() > self.limits.renewals as usize {
            return Err(Rejection::limit(Bound::Renewals, self.limits.renewals));
        }
        if let Some(ttl) = renew.ttl {
            self.check_ttl(caller, ttl)?;
        }
        let each = |id: &LeaseId| self.renew_one(caller, namespace, *id, renew.ttl, events);
        Ok(Outcome::Renewed(renew.leases.iter().map(each).collect()))
    }

    fn renew_one(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        id: LeaseId,
        ttl: Option<Ttl>,
        events: &mut Vec<Event>,
    ) -> Result<Renewal, Box<Rejection>> {
        let key = self.own_lease(caller, namespace, id, events)?;
        if let Some(ttl) = ttl {
            self.note_ttl(ttl);
            self.leases.get_mut(&key).expect("it was just found").set_ttl(ttl);
        }
        self.extend(key);
        let lease = self.leases.get(&key).expect("it was just found");
        Ok(Renewal { remaining: self.remaining(key), ttl: lease.ttl(), changed: lease.changed })
    }

    /// Sets the deadline of a lease anew; a deadline never falls.
    pub(crate) fn extend(&mut self, key: LeaseKey) {
        let now = self.now;
        let lease = self.leases.get_mut(&key).expect("only living leases are extended");
        lease.renewed = now;
        let (old, mut new) = (lease.deadline, lease.deadline.max(lease.ttl().deadline(now)));
        if planted::is(Bug::RenewalShortens) {
            new = lease.ttl().deadline(now);
        }
        if new != old {
            lease.deadline = new;
            self.deadlines.remove(old, Due::Lease(key));
            self.deadlines.add(new, Due::Lease(key));
        }
    }

    /// Ends a lease by its holder's wish; one that is over already stays so.
    pub(crate) fn release(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        release: Release,
        events: &mut Vec<Event>,
    ) -> Answer {
        match self.own_lease(caller, namespace, release.lease, events) {
            Ok(key) => {
                self.settle_held(key, events);
                self.end(key, EndCause::Released, events);
                Ok(Outcome::Released { already: false })
            }
            Err(rejection) if matches!(*rejection, Rejection::Ended(_)) => Ok(Outcome::Released { already: true }),
            Err(rejection) => Err(rejection),
        }
    }

    /// Ends a lease by an operator's wish. What it held rests until its deadline, unless `now` is asked for.
    pub(crate) fn revoke(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        revoke: Revoke,
        events: &mut Vec<Event>,
    ) -> Answer {
        if !caller.rights.operator {
            return Err(Box::new(Rejection::NeedsRight("operator")));
        }
        if revoke.reason.len() > self.limits.metadata_bytes as usize {
            return Err(Rejection::limit(Bound::MetadataBytes, self.limits.metadata_bytes));
        }
        let key = self.own_lease(caller, namespace, revoke.lease, events)?;
        let may_act = match self.remaining(key) {
            Remaining::For(span) => span,
            Remaining::Endless if revoke.now => Span(u64::MAX),
            Remaining::Endless => return Err(Box::new(Rejection::EndlessRevoke)),
        };
        let cause = EndCause::Revoked { by: caller.identity.clone(), reason: revoke.reason };
        let rest = if revoke.now || planted::is(Bug::RevokeWithoutRest) { Rest::None } else { Rest::UntilDeadline };
        self.settle_held(key, events);
        self.end_resting(key, cause, rest, rest, events);
        Ok(Outcome::Revoked { may_act })
    }

    /// A living lease that `caller` may use; a due one is ended first.
    pub(crate) fn own_lease(
        &mut self,
        caller: &Caller,
        namespace: &Namespace,
        id: LeaseId,
        events: &mut Vec<Event>,
    ) -> Result<LeaseKey, Box<Rejection>> {
        let Some(number) = self.namespaces.number(namespace) else {
            return Err(Box::new(Rejection::UnknownLease));
        };
        let key = LeaseKey { namespace: number, id };
        self.settle_lease(key, events);
        let lease = self.leases.get(&key).map(|lease| &lease.identity);
        let living = lease.is_some();
        let Some(identity) = lease.or_else(|| self.tombstones.get(&key).map(|tombstone| &tombstone.identity)) else {
            return Err(Box::new(Rejection::UnknownLease));
        };
        if *identity != caller.identity && !caller.rights.operator {
            return Err(Box::new(Rejection::NotYours));
        }
        if living { Ok(key) } else { Err(Box::new(self.ended(key))) }
    }

    /// How a remembered lease ended, as a refusal.
    pub(crate) fn ended(&self, key: LeaseKey) -> Rejection {
        match self.tombstones.get(&key) {
            None => Rejection::UnknownLease,
            Some(tombstone) => Rejection::Ended(EndView {
                lease: key.id,
                holder: tombstone.holder.clone(),
                cause: tombstone.cause.clone(),
                revision: tombstone.revision,
                at: tombstone.ended_wall,
                ago: self.now.since(tombstone.ended),
            }),
        }
    }

    /// Ends what is over of a lease that a command touches: waits without patience, then the lease itself.
    pub(crate) fn settle_lease(&mut self, key: LeaseKey, events: &mut Vec<Event>) {
        if !self.has_backlog() {
            return;
        }
        while let Some(number) = self.due_wait(key) {
            self.elapse(key, number, events);
        }
        if self.leases.contains(&key) && self.is_due(key) {
            self.end_due(key, events);
        }
    }

    /// The first wait of a lease whose patience was over before the lease itself.
    fn due_wait(&self, key: LeaseKey) -> Option<Revision> {
        let waits = self.leases.get(&key)?.waits().iter();
        let (deadline, number) = waits.map(|wait| (wait.deadline, wait.number)).min()?;
        (deadline.is_due(self.now) && deadline < self.effective_deadline(key)).then_some(number)
    }

    /// Ends a lease whose time is over, or else the nearest of its ancestors whose time is. Tells how much ended.
    pub(crate) fn end_due(&mut self, key: LeaseKey, events: &mut Vec<Event>) -> u32 {
        let over = |key: &LeaseKey| self.leases.get(key).is_some_and(|row| row.deadline.is_due(self.now));
        let nearest = std::iter::once(key).chain(self.ancestors(key)).find(over).unwrap_or(key);
        let weight = self.leases.get(&nearest).map_or(1, |row| row.weight);
        self.end(nearest, EndCause::Expired, events);
        weight
    }

    /// Ends a lease, with all it carries, and hands its resources on: all in one revision.
    pub(crate) fn end(&mut self, root: LeaseKey, cause: EndCause, events: &mut Vec<Event>) {
        let (own, below) = match cause {
            EndCause::Expired => (Rest::Cooldown, Rest::Cooldown),
            // The holders of child leases did not give anything back.
            EndCause::Released | EndCause::WaitElapsed | EndCause::Left => (Rest::None, Rest::UntilDeadline),
            EndCause::Revoked { .. } | EndCause::ParentEnded => (Rest::UntilDeadline, Rest::UntilDeadline),
        };
        self.end_resting(root, cause, own, below, events);
    }

    fn end_resting(&mut self, root: LeaseKey, cause: EndCause, own: Rest, below: Rest, events: &mut Vec<Event>) {
        self.step();
        self.untie_from_parent(root);
        let mut freed = Vec::new();
        let mut open = vec![(root, self.effective_deadline(root), cause, own)];
        while let Some((key, until, cause, rest)) = open.pop() {
            let lease = self.leases.remove(&key).expect("a lease ends once");
            if let Some(more) = &lease.more {
                for child in more.children.iter().rev() {
                    let child = LeaseKey { id: *child, ..key };
                    if planted::is(Bug::ChildOutlivesParent) {
                        self.leases.get_mut(&child).expect("a living lease has living children").more_mut().parent =
                            None;
                        continue;
                    }
                    let deadline = self.leases.get(&child).map_or(until, |row| row.deadline.min(until));
                    open.push((child, deadline, EndCause::ParentEnded, below));
                }
            }
            self.bury(key, &lease, cause.clone(), events);
            self.end_waits(key, &lease, &cause, events);
            if planted::is(Bug::EntryLeftBehind) && cause == EndCause::Expired {
                for entry in lease.more.iter().flat_map(|more| &more.entries) {
                    let entry = self.entries.get_mut(&(key.namespace, entry.clone()));
                    entry.expect("a lease lists what is there").lease = None;
                }
            } else {
                self.end_entries(key, &lease, events);
            }
            self.end_markers(key, lease.more.iter().flat_map(|more| more.markers.values().cloned()), events);
            for claim in &lease.held {
                let until = rest_until(self.now, rest, until, claim.cooldown);
                let after = self.end_claim(key, &lease.holder, claim, &cause, until, events);
                freed.push(((key.namespace, claim.resource.clone()), after));
            }
        }
        freed.append(&mut self.freed);
        self.hand_on_freed(freed, events);
    }

    fn untie_from_parent(&mut self, key: LeaseKey) {
        let lease = self.leases.get(&key).expect("only living leases end");
        let (weight, Some(parent)) = (lease.weight, lease.parent()) else { return };
        let parent = LeaseKey { id: parent, ..key };
        let revision = self.revision;
        let row = self.leases.get_mut(&parent).expect("a living lease has a living parent");
        row.more_mut().children.remove(&key.id);
        row.changed = revision;
        self.add_weight(parent, -i64::from(weight));
    }

    /// Takes a lease out of the indices and leaves a tombstone.
    fn bury(&mut self, key: LeaseKey, lease: &Lease, cause: EndCause, events: &mut Vec<Event>) {
        self.deadlines.remove(lease.deadline, Due::Lease(key));
        self.by_grant.remove(&(key.namespace, lease.granted_at, key.id));
        self.bytes -= lease.size();
        let usage = self.namespaces.usage_mut(key.namespace);
        usage.leases -= 1;
        usage.tombstones += 1;
        let count = usage.by_identity.get_mut(&lease.identity).expect("every lease is counted");
        *count -= 1;
        if *count == 0 {
            usage.by_identity.remove(&lease.identity);
        }
        let fact = Fact::LeaseEnded { lease: key.id, holder: lease.holder.clone(), cause: cause.clone() };
        self.tell(key.namespace, fact, events);
        let tombstone = Tombstone {
            holder: lease.holder.clone(),
            identity: lease.identity.clone(),
            ended: self.now,
            ended_wall: self.wall,
            revision: self.revision,
            cause,
        };
        self.tombstones.add(key, tombstone);
    }

    /// Takes a claim from its resource, which then rests until `rests_until`. The lease's own list is the caller's.
    pub(crate) fn end_claim(
        &mut self,
        key: LeaseKey,
        holder: &Holder,
        claim: &HeldClaim,
        cause: &EndCause,
        rests_until: LeaseTime,
        events: &mut Vec<Event>,
    ) -> Freed {
        let held = self.now.since(claim.since);
        let resource = (key.namespace, claim.resource.clone());
        let past = Past {
            at: self.wall,
            revision: self.revision,
            holder: holder.clone(),
            token: claim.token,
            what: PastFact::Ended { held, cause: cause.clone() },
        };
        self.bytes -= claim_size(&claim.resource);
        if rests_until > LeaseTime::ZERO {
            self.rest(&resource, rests_until);
        }
        let history_max = self.limits.history;
        let freed = self.change_resource(&resource, |row| {
            row.holders.remove(key.id);
            row.remember(past, held, history_max);
            match (row.queue.is_some(), row.holders.len()) {
                (false, _) => Freed::Unwanted,
                (true, 0) => Freed::Wanted,
                (true, _) => Freed::Shared,
            }
        });
        let fact = Fact::ClaimEnded {
            lease: key.id,
            holder: holder.clone(),
            resource: claim.resource.clone(),
            token: claim.token,
            held,
            cause: cause.clone(),
            rests: self.until(rests_until),
        };
        self.tell(key.namespace, fact, events);
        freed
    }
}

/// Until when a resource rests after a claim on it ended; zero for not at all.
fn rest_until(now: LeaseTime, rest: Rest, deadline: LeaseTime, cooldown: Span) -> LeaseTime {
    let until = match rest {
        Rest::None => LeaseTime::ZERO,
        Rest::Cooldown if cooldown == Span::ZERO => LeaseTime::ZERO,
        Rest::Cooldown => now.after(cooldown),
        // An endless lease promised no time that could be waited for: only its token protects.
        Rest::UntilDeadline if deadline == LeaseTime::NEVER => LeaseTime::ZERO,
        Rest::UntilDeadline => deadline,
    };
    if until.is_due(now) { LeaseTime::ZERO } else { until }
}
