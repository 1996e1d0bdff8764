//! Asking, waiting and being served in the naive model.

use std::collections::BTreeSet;

use leasehold_core::{Ask, Asks, Caller, Grant, Mode, Once, ResourceName};

use super::{Held, Lease, Model, Ns, Place, Wait, Who, patient};

impl Model {
    pub(crate) fn grant(&mut self, caller: &Caller, ns: Ns, grant: &Grant) -> Result<String, String> {
        let who = (ns, grant.id.number());
        let mut grant = grant.clone();
        grant.asks.claims.sort_by(|a, b| a.resource.cmp(&b.resource));
        if let Some(at) = self.position(&who) {
            let known = &self.leases[at];
            let same = known.caller.identity == caller.identity && same_grant(&known.grant, &grant);
            return if same { Ok(self.view("granted", &who)) } else { Err("IdInUse".to_owned()) };
        }
        if let Some(tomb) = self.tombs.iter().find(|tomb| tomb.who == who) {
            let own = tomb.caller.identity == caller.identity;
            return Err(if own { format!("Ended {}", tomb.cause.word()) } else { "IdInUse".to_owned() });
        }
        if self.horizon().is_some_and(|horizon| grant.seen <= horizon) {
            return Err("TooOld".to_owned());
        }
        self.check_ttl(caller, grant.ttl)?;
        let here = self.leases.iter().filter(|lease| lease.who.0 == who.0);
        let mine = here.clone().filter(|lease| lease.caller.identity == caller.identity).count();
        self.check_limit(here.count() + 1, self.limits.leases, "Leases")?;
        self.check_limit(mine + 1, self.limits.leases_per_identity, "LeasesOfIdentity")?;
        let asked = grant.asks.claims.len();
        if let Some(parent) = grant.parent {
            let parent = (who.0.clone(), parent.number());
            self.own(caller, &parent)?;
            self.check_limit(self.depth(&parent) + 1, u32::from(self.limits.tree_depth), "TreeDepth")?;
            self.check_tree(&parent, 1 + asked)?;
        }
        self.check_shape(&grant.asks, None)?;
        self.check_limit(asked + 1, self.limits.tree_weight, "TreeWeight")?;
        let waits = self.must_wait(&who.0, &grant.asks)?;

        let deadline = grant.ttl.deadline(self.now);
        let (seq, receipts, ttl, asks) = (0, Vec::new(), grant.ttl, grant.asks.clone());
        self.leases.push(Lease { who: who.clone(), caller: caller.clone(), grant, ttl, deadline, seq, receipts });
        self.take_or_queue(&who, asks, waits, true);
        Ok(self.view("granted", &who))
    }

    pub(crate) fn claim(&mut self, who: &Who, asks: &Asks) -> Result<String, String> {
        let mut asks = asks.clone();
        asks.claims.sort_by(|a, b| a.resource.cmp(&b.resource));
        if asks.claims.is_empty() {
            return Err("AsksNothing".to_owned());
        }
        self.check_shape(&asks, Some(who))?;
        self.check_tree(who, asks.claims.len())?;
        let waits = self.must_wait(&who.0, &asks)?;
        self.take_or_queue(who, asks, waits, false);
        Ok(self.view("claimed", who))
    }

    fn check_shape(&self, asks: &Asks, who: Option<&Who>) -> Result<(), String> {
        if asks.cooldown > self.limits.cooldown_max {
            return Err("CooldownTooLong".to_owned());
        }
        let mut claimed: Vec<ResourceName> = Vec::new();
        for held in self.held.iter().filter(|held| Some(&held.who) == who) {
            claimed.push(ResourceName::new(&held.at.1).unwrap());
        }
        for wait in self.waits.iter().filter(|wait| Some(&wait.who) == who) {
            claimed.extend(wait.asks.claims.iter().map(|ask| ask.resource.clone()));
        }
        self.check_limit(claimed.len() + asks.claims.len(), self.limits.claims_per_lease, "ClaimsOfLease")?;
        for (at, ask) in asks.claims.iter().enumerate() {
            if asks.claims[..at].iter().any(|other| other.resource == ask.resource) {
                return Err("AskedTwice".to_owned());
            }
            if claimed.contains(&ask.resource) {
                return Err("AlreadyClaimed".to_owned());
            }
        }
        Ok(())
    }

    /// Whether a newcomer has to wait, or why it may not.
    fn must_wait(&self, ns: &Ns, asks: &Asks) -> Result<bool, String> {
        let place = |ask: &Ask| (ns.clone(), ask.resource.to_string());
        let open = |ask: &&Ask| {
            let first = self.queue(&place(ask)).first().map(|wait| wait.asks.priority);
            self.is_free(&place(ask), ask.mode) && first.is_none_or(|priority| priority < asks.priority)
        };
        let Some(obstacle) = asks.claims.iter().find(|ask| !open(ask)) else { return Ok(false) };
        if !patient(asks.patience) {
            return Err(format!("Held {}", obstacle.resource));
        }
        for ask in &asks.claims {
            self.check_limit(self.queue(&place(ask)).len() + 1, self.limits.waiters, "Waiters")?;
        }
        Ok(true)
    }

    fn is_free(&self, place: &Place, mode: Mode) -> bool {
        let holders: Vec<&Held> = self.held.iter().filter(|held| held.at == *place).collect();
        let all_shared = mode == Mode::Shared && holders.iter().all(|held| held.mode == Mode::Shared);
        let fits = holders.is_empty() || (all_shared && holders.len() < self.limits.shared_holders as usize);
        // The end of one that is over comes before any grant.
        let over = holders.iter().any(|held| self.effective(&held.who).is_due(self.now));
        fits && !over && self.rests.get(place).is_none_or(|until| until.is_due(self.now))
    }

    /// All waits for a resource that are not over, in order.
    pub(crate) fn queue(&self, place: &Place) -> Vec<&Wait> {
        let asks =
            |wait: &&Wait| wait.who.0 == place.0 && wait.asks.claims.iter().any(|ask| ask.resource.as_str() == place.1);
        let living = |wait: &&Wait| !wait.deadline.is_due(self.now) && !self.effective(&wait.who).is_due(self.now);
        let mut queue: Vec<&Wait> = self.waits.iter().filter(asks).filter(living).collect();
        queue.sort_by_key(|wait| (-i64::from(wait.asks.priority), wait.order));
        queue
    }

    fn take_or_queue(&mut self, who: &Who, asks: Asks, waits: bool, born: bool) {
        if waits {
            let (order, deadline) = (self.next_order(), asks.patience.deadline(self.now));
            self.waits.push(Wait { who: who.clone(), order, asks, deadline, born, number: None });
        } else {
            self.take(who, &asks);
        }
    }

    fn take(&mut self, who: &Who, asks: &Asks) {
        for ask in &asks.claims {
            let at = (who.0.clone(), ask.resource.to_string());
            self.held.push(Held { who: who.clone(), at, mode: ask.mode, cooldown: asks.cooldown, token: None });
        }
    }

    /// Serves every wait that can be served at one of the places, or anywhere, until there is none.
    pub(crate) fn serve(&mut self, mut places: Option<BTreeSet<Place>>) {
        loop {
            let ready = |wait: &&Wait| {
                wait.asks.claims.iter().all(|ask| {
                    let place = (wait.who.0.clone(), ask.resource.to_string());
                    let first = self.queue(&place).first().map(|wait| wait.order);
                    first == Some(wait.order) && self.is_free(&place, ask.mode)
                })
            };
            let touched = |wait: &&Wait| {
                let at = |ask: &Ask| (wait.who.0.clone(), ask.resource.to_string());
                places.as_ref().is_none_or(|places| wait.asks.claims.iter().any(|ask| places.contains(&at(ask))))
            };
            let Some(wait) = self.waits.iter().filter(touched).find(ready).cloned() else { return };
            self.waits.retain(|other| other.order != wait.order);
            if let Some(places) = &mut places {
                places.extend(wait.asks.claims.iter().map(|ask| (wait.who.0.clone(), ask.resource.to_string())));
            }
            let at = self.position(&wait.who).unwrap();
            self.extend(at);
            self.take(&wait.who, &wait.asks);
        }
    }

    /// Carries out a numbered command once.
    pub(crate) fn once(
        &mut self,
        who: &Who,
        once: Option<Once>,
        run: impl FnOnce(&mut Self) -> Result<String, String>,
    ) -> Result<String, String> {
        let Some(Once { seq, acked }) = once else { return run(self) };
        let at = self.position(who).unwrap();
        self.leases[at].receipts.retain(|(done, _)| *done > acked);
        if seq <= self.leases[at].seq.max(acked) {
            let receipt = self.leases[at].receipts.iter().find(|(done, _)| *done == seq);
            return match receipt.map(|(_, what)| *what) {
                None => Err("LateCopy".to_owned()),
                Some("refused") => Err("RefusedBefore".to_owned()),
                Some("claimed") => Ok(self.view("claimed", who)),
                Some(what) => Ok(what.to_owned()),
            };
        }
        let answer = run(self);
        let receipt = match answer.as_deref().map(|text| text.split(' ').next().unwrap_or_default()) {
            Err(_) => "refused",
            Ok("claimed") => "claimed",
            Ok("unclaimed") => "unclaimed",
            Ok("then") => "then",
            Ok(_) => "else",
        };
        let max = self.limits.receipts as usize;
        let at = self.position(who).unwrap();
        let lease = &mut self.leases[at];
        lease.seq = seq;
        lease.receipts.push((seq, receipt));
        let excess = lease.receipts.len().saturating_sub(max);
        lease.receipts.drain(..excess);
        answer
    }

    pub(crate) fn view(&self, verb: &str, who: &Who) -> String {
        let at = self.position(who).unwrap();
        let mut held: Vec<&str> =
            self.held.iter().filter(|held| held.who == *who).map(|held| held.at.1.as_str()).collect();
        held.sort();
        let mut text = format!("{verb} {} of {} holds {held:?}", self.remaining(who), self.leases[at].ttl);
        let mut waits: Vec<&Wait> = self.waits.iter().filter(|wait| wait.who == *who).collect();
        waits.sort_by_key(|wait| wait.order);
        for wait in waits {
            text += " waits";
            for ask in &wait.asks.claims {
                let queue = self.queue(&(who.0.clone(), ask.resource.to_string()));
                let position = queue.iter().position(|other| other.order == wait.order).unwrap() + 1;
                text += &format!(" {}:{position}/{}", ask.resource, queue.len());
            }
        }
        text
    }
}

fn same_grant(a: &Grant, b: &Grant) -> bool {
    let asks = |grant: &Grant| (grant.asks.claims.clone(), grant.asks.priority, grant.asks.cooldown);
    (&a.holder, a.ttl, a.class, a.parent, &a.metadata) == (&b.holder, b.ttl, b.class, b.parent, &b.metadata)
        && asks(a) == asks(b)
}
