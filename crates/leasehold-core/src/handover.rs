//! Asking the holders of a resource to hand it over.
//!
//! An ask is told to every present holder and changes nothing else: the holder agrees, finishes or refuses in its own
//! time, and its claim stands until it ends. Each ask is told, also a repeated one; the resource's history keeps
//! only the latest, so that asking often does not push out who held it.

use crate::resource::ResourceKey;
use crate::{
    Answer, AskHandover, Bound, Event, Fact, Holder, LeaseKey, Namespace, Outcome, Past, PastFact, Rejection, State,
    Token,
};

/// How many of the holders that were asked together the history shows.
pub(crate) const ASKED_SHOWN: usize = 8;

impl State {
    /// Asks all present holders of a resource to hand it over, in one revision.
    pub(crate) fn ask_handover(&mut self, namespace: &Namespace, ask: AskHandover, events: &mut Vec<Event>) -> Answer {
        if ask.reason.as_ref().is_some_and(|reason| reason.len() > self.limits.metadata_bytes as usize) {
            return Err(Rejection::limit(Bound::ReasonBytes, self.limits.metadata_bytes));
        }
        let Some(number) = self.namespaces.number(namespace) else {
            return Err(Box::new(Rejection::NotHeld { resource: ask.resource }));
        };
        let key = (number, ask.resource.clone());
        self.settle_resource(&key, events);
        let asked = self.claims_on(&key);
        if asked.is_empty() {
            return Err(Box::new(Rejection::NotHeld { resource: ask.resource }));
        }
        self.count_asked(asked.len() as u32)?;
        self.step();
        self.remember_ask(&key, &asked, &ask);
        for (lease, holder, _) in &asked {
            let AskHandover { resource, by, reason } = ask.clone();
            let fact = Fact::HandoverAsked { lease: lease.id, holder: holder.clone(), resource, by, reason };
            self.tell(number, fact, events);
        }
        Ok(Outcome::HandoverAsked { holders: asked.len() as u32 })
    }

    fn claims_on(&self, key: &ResourceKey) -> Vec<(LeaseKey, Holder, Token)> {
        let holders = self.resources.get(key).into_iter().flat_map(|row| row.holders.iter());
        let claim = |id| {
            let lease = LeaseKey { namespace: key.0, id };
            let row = self.leases.get(&lease).expect("a holder is a living lease");
            (lease, row.holder.clone(), row.held_claim(&key.1).expect("a holder has a claim").token)
        };
        holders.map(claim).collect()
    }

    /// Keeps the facts of one entry within a bound: unlike ends, asks could repeat without one. The first always fits.
    fn count_asked(&mut self, count: u32) -> Result<(), Box<Rejection>> {
        let sum = self.asked.saturating_add(count);
        if self.asked > 0 && sum > self.limits.tree_weight {
            return Err(Rejection::limit(Bound::AskedHolders, self.limits.tree_weight));
        }
        self.asked = sum;
        Ok(())
    }

    fn remember_ask(&mut self, key: &ResourceKey, asked: &[(LeaseKey, Holder, Token)], ask: &AskHandover) {
        let past = |(_, holder, token): &(LeaseKey, Holder, Token)| Past {
            at: self.wall,
            revision: self.revision,
            holder: holder.clone(),
            token: *token,
            what: PastFact::HandoverAsked { by: ask.by.clone(), reason: ask.reason.clone() },
        };
        let history_max = self.limits.history;
        let shown = ASKED_SHOWN.min(history_max as usize);
        let asks: Vec<Past> = asked.iter().take(shown).map(past).collect();
        self.change_resource(key, |row| row.remember_asks(asks, history_max));
    }
}
