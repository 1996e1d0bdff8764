//! What each command does: repetitions first, then every check, then the change.

use super::{Answer, Claim, Command, Core, End, Event, Lease, LeaseId, Life, ResourceId, Time};
use crate::plant::{Plant, Rules};

/// What a grant asks for.
struct Terms {
    ttl: Time,
    parent: Option<LeaseId>,
    ask: Option<(ResourceId, Time)>,
    seen: Time,
}

impl Core {
    pub(super) fn execute(&mut self, rules: &Rules, command: Command, events: &mut Vec<Event>) -> Answer {
        match command {
            Command::Tick => Answer::Done,
            Command::Grant { lease, ttl, parent, ask, seen } => {
                self.grant(rules, lease, Terms { ttl, parent, ask, seen }, events)
            }
            Command::Renew { lease, ttl } => self.renew(rules, lease, ttl, events),
            Command::Release { lease } => match self.find(rules, lease, events) {
                Ok(()) => {
                    self.settle_held(rules, lease, events);
                    self.end(rules, lease, End::Released, events);
                    Answer::Done
                }
                Err(_) => Answer::Done,
            },
            Command::Revoke { lease } => match self.find(rules, lease, events) {
                Ok(()) => {
                    self.settle_held(rules, lease, events);
                    self.end(rules, lease, End::Revoked, events);
                    Answer::Done
                }
                Err(answer) => answer,
            },
            Command::Claim { lease, resource, patience, seq } => {
                self.once(rules, lease, seq, events, |core, events| {
                    core.claim(rules, lease, resource, patience, events)
                })
            }
            Command::Unclaim { lease, resource, token, seq } => {
                self.once(rules, lease, seq, events, |core, events| core.unclaim(rules, lease, resource, token, events))
            }
        }
    }

    fn grant(&mut self, rules: &Rules, lease: LeaseId, terms: Terms, events: &mut Vec<Event>) -> Answer {
        if let Some(answer) = self.repeated_grant(rules, lease, &terms, events) {
            return answer;
        }
        if let Some(parent) = terms.parent
            && let Err(answer) = self.find(rules, parent, events)
        {
            return answer;
        }
        let waits = match terms.ask {
            None => false,
            Some((resource, patience)) => match self.must_wait(rules, resource, patience, events) {
                Ok(waits) => waits,
                Err(answer) => return answer,
            },
        };
        self.revision += 1;
        let (deadline, ttl, parent) = (self.now + terms.ttl, terms.ttl, terms.parent);
        self.leases[lease] = Lease { life: Life::Living, deadline, ttl, parent, ..Lease::UNKNOWN };
        events.push(Event::Granted { lease });
        if let Some((resource, patience)) = terms.ask {
            self.ask(rules, lease, resource, patience, waits, true, events);
        }
        self.view(rules, lease)
    }

    /// The answer to a grant whose id is or was in use, or that may be a late copy of such a one.
    fn repeated_grant(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        terms: &Terms,
        events: &mut Vec<Event>,
    ) -> Option<Answer> {
        self.settle_lease(rules, lease, events);
        match self.leases[lease].life {
            Life::Living if rules.broken(Plant::RepeatAnswersTtl) => {
                let tokens = std::array::from_fn(|resource| self.token(lease, resource));
                Some(Answer::Lease { now: self.now, remaining: terms.ttl, tokens })
            }
            Life::Living => Some(self.view(rules, lease)),
            Life::Ended { .. } if rules.broken(Plant::TombstoneIgnored) => None,
            Life::Ended { .. } => Some(Answer::Ended),
            Life::Unknown => {
                let seen = if rules.broken(Plant::SeenAtArrival) { self.now } else { terms.seen };
                self.horizon.is_some_and(|horizon| seen <= horizon).then_some(Answer::TooOld)
            }
        }
    }

    /// Checks whether a resource can be had; otherwise whether the asker would wait for it.
    fn must_wait(
        &mut self,
        rules: &Rules,
        resource: ResourceId,
        patience: Time,
        events: &mut Vec<Event>,
    ) -> Result<bool, Answer> {
        self.settle_resource(rules, resource, events);
        let rests = self.is_resting(resource) && !rules.broken(Plant::NewcomerIgnoresRest);
        let open = self.holder(resource).is_none() && !rests && self.first_living(resource).is_none();
        match (open, patience) {
            (true, _) => Ok(false),
            (false, 0) => Err(Answer::Refused),
            (false, _) => Ok(true),
        }
    }

    /// Gives a resource to a lease or puts it into the queue, in the present step.
    #[expect(clippy::too_many_arguments, reason = "a grant and a claim ask in the same way")]
    fn ask(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        resource: ResourceId,
        patience: Time,
        waits: bool,
        born: bool,
        events: &mut Vec<Event>,
    ) {
        if waits {
            let until = self.now.saturating_add(patience);
            self.leases[lease].claims[resource] = Claim::Waiting { number: self.revision, until, born };
        } else {
            self.take(rules, lease, resource, false, events);
        }
    }

    /// Finds a living lease; a due one is ended first.
    fn find(&mut self, rules: &Rules, lease: LeaseId, events: &mut Vec<Event>) -> Result<(), Answer> {
        self.settle_lease(rules, lease, events);
        match self.leases[lease].life {
            Life::Living => Ok(()),
            Life::Unknown | Life::Ended { .. } => Err(Answer::Ended),
        }
    }

    fn settle_held(&mut self, rules: &Rules, lease: LeaseId, events: &mut Vec<Event>) {
        for resource in 0..super::RESOURCES {
            if self.token(lease, resource).is_some() {
                self.settle_resource(rules, resource, events);
            }
        }
    }

    fn renew(&mut self, rules: &Rules, lease: LeaseId, ttl: Option<Time>, events: &mut Vec<Event>) -> Answer {
        if let Err(answer) = self.find(rules, lease, events) {
            return answer;
        }
        let row = &mut self.leases[lease];
        row.ttl = ttl.unwrap_or(row.ttl);
        self.extend(rules, lease);
        self.view(rules, lease)
    }

    fn claim(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        resource: ResourceId,
        patience: Time,
        events: &mut Vec<Event>,
    ) -> Answer {
        if self.leases[lease].claims[resource] != Claim::None {
            return Answer::Refused;
        }
        let waits = match self.must_wait(rules, resource, patience, events) {
            Ok(waits) => waits,
            Err(answer) => return answer,
        };
        self.revision += 1;
        self.ask(rules, lease, resource, patience, waits, false, events);
        self.view(rules, lease)
    }

    fn unclaim(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        resource: ResourceId,
        token: u8,
        events: &mut Vec<Event>,
    ) -> Answer {
        match self.token(lease, resource) {
            Some(held) if held == token => {}
            Some(_) | None => return Answer::Refused,
        }
        self.settle_resource(rules, resource, events);
        self.revision += 1;
        self.leases[lease].claims[resource] = Claim::None;
        events.push(Event::GivenBack { lease, resource });
        self.revisit(rules, events);
        Answer::Done
    }

    /// Carries out a command on a lease once, however often it arrives.
    fn once(
        &mut self,
        rules: &Rules,
        lease: LeaseId,
        seq: u8,
        events: &mut Vec<Event>,
        run: impl FnOnce(&mut Self, &mut Vec<Event>) -> Answer,
    ) -> Answer {
        if let Err(answer) = self.find(rules, lease, events) {
            return answer;
        }
        let row = self.leases[lease];
        let bit = 1 << seq;
        if seq <= row.seq && !rules.broken(Plant::SeqNotChecked) {
            let [done, refused] = row.receipts;
            return match (done & bit != 0, refused & bit != 0) {
                (true, _) => self.view(rules, lease),
                (false, true) => Answer::Refused,
                (false, false) => Answer::TooOld,
            };
        }
        let answer = run(self, events);
        let refused = matches!(answer, Answer::Refused);
        if refused && rules.broken(Plant::RefusalNotKept) {
            return answer;
        }
        let row = &mut self.leases[lease];
        row.seq = row.seq.max(seq);
        row.receipts[usize::from(refused)] |= bit;
        answer
    }
}
