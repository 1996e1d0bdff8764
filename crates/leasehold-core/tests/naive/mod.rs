//! A naive model of the lease rules: plain lists, everything counted anew each time, nothing indexed.
//!
//! It predicts what happens and in which order, but no revisions: those are learned from the core after each
//! entry (see [`Model::learn`]), which checks that they rise.

mod ask;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    Asks, Caller, Command, EndCause, Grant, LeaseId, LeaseTime, Limits, Mode, Patience, Request, Revision, Span, Token,
    Ttl,
};

pub(crate) type Ns = String;
pub(crate) type Who = (Ns, u64);
pub(crate) type Place = (Ns, String);

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) who: Who,
    pub(crate) caller: Caller,
    pub(crate) grant: Grant,
    pub(crate) ttl: Ttl,
    pub(crate) deadline: LeaseTime,
    pub(crate) seq: u64,
    pub(crate) receipts: Vec<(u64, &'static str)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) who: Who,
    pub(crate) at: Place,
    pub(crate) mode: Mode,
    pub(crate) cooldown: Span,
    /// Not known before the end of the entry that granted it.
    pub(crate) token: Option<Token>,
}

#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) who: Who,
    pub(crate) order: u64,
    pub(crate) asks: Asks,
    pub(crate) deadline: LeaseTime,
    pub(crate) born: bool,
    /// Not known before the end of the entry that queued it.
    pub(crate) number: Option<Revision>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Vec<u8>,
    pub(crate) version: u64,
    pub(crate) lease: Option<u64>,
    pub(crate) modified: Option<Revision>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tomb {
    pub(crate) who: Who,
    pub(crate) caller: Caller,
    pub(crate) ended: LeaseTime,
    pub(crate) cause: EndCause,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Rest {
    None,
    Cooldown,
    Deadline,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) now: LeaseTime,
    pub(crate) limits: Limits,
    pub(crate) leases: Vec<Lease>,
    pub(crate) held: Vec<Held>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) entries: BTreeMap<(Ns, Vec<u8>), Entry>,
    pub(crate) rests: BTreeMap<Place, LeaseTime>,
    pub(crate) tombs: Vec<Tomb>,
    /// The numbers of the namespaces, learned from the core: things due together end in their order.
    pub(crate) namespaces: BTreeMap<Ns, u32>,
    horizon: Option<LeaseTime>,
    /// How many holders the present entry asked.
    asked: usize,
    orders: u64,
    tokens: BTreeMap<Place, Token>,
}

impl Model {
    /// Applies an entry; an answer in words for each command.
    pub(crate) fn apply(&mut self, now: LeaseTime, requests: &[Request]) -> Vec<String> {
        self.now = self.now.max(now);
        self.asked = 0;
        self.sweep();
        let answers = requests.iter().map(|request| {
            let answer = self.execute(request);
            self.serve(None);
            answer.unwrap_or_else(|refusal| format!("refused {refusal}"))
        });
        let answers = answers.collect();
        self.forget();
        answers
    }

    fn execute(&mut self, request: &Request) -> Result<String, String> {
        let (caller, ns) = (&request.caller, request.namespace.to_string());
        match &request.command {
            Command::Grant(grant) => self.grant(caller, ns, grant),
            Command::GrantAnew(_) | Command::ClaimMarked(_) => unreachable!("the model does not know it"),
            Command::Renew(renew) => {
                if let Some(ttl) = renew.ttl {
                    self.check_ttl(caller, ttl)?;
                }
                let each = renew.leases.iter().map(|id| match self.own(caller, &(ns.clone(), id.number())) {
                    Err(refusal) => refusal,
                    Ok(at) => {
                        self.leases[at].ttl = renew.ttl.unwrap_or(self.leases[at].ttl);
                        self.extend(at);
                        format!("{} of {}", self.remaining(&self.leases[at].who), self.leases[at].ttl)
                    }
                });
                Ok(format!("renewed {}", each.collect::<Vec<_>>().join(",")))
            }
            Command::Release(release) => match self.own(caller, &(ns, release.lease.number())) {
                Ok(at) => {
                    self.end(self.leases[at].who.clone(), EndCause::Released, Rest::None, Rest::Deadline);
                    Ok("released".to_owned())
                }
                Err(refusal) if refusal.starts_with("Ended") => Ok("released".to_owned()),
                Err(refusal) => Err(refusal),
            },
            Command::Revoke(revoke) => {
                if !caller.rights.operator {
                    return Err("NeedsRight".to_owned());
                }
                let at = self.own(caller, &(ns, revoke.lease.number()))?;
                let who = self.leases[at].who.clone();
                let until = self.effective(&who);
                if until == LeaseTime::NEVER && !revoke.now {
                    return Err("EndlessRevoke".to_owned());
                }
                let rest = if revoke.now { Rest::None } else { Rest::Deadline };
                let cause = EndCause::Revoked { by: caller.identity.clone(), reason: revoke.reason.clone() };
                self.end(who, cause, rest, rest);
                Ok("revoked".to_owned())
            }
            Command::Claim(claim) => {
                let at = self.own(caller, &(ns, claim.lease.number()))?;
                let who = self.leases[at].who.clone();
                self.once(&who, claim.once, |model| model.claim(&who, &claim.asks))
            }
            Command::Unclaim(unclaim) => {
                let at = self.own(caller, &(ns.clone(), unclaim.lease.number()))?;
                let who = self.leases[at].who.clone();
                self.once(&who, unclaim.once, |model| {
                    let place = (ns.clone(), unclaim.resource.to_string());
                    let held = model.held.iter().position(|held| held.who == who && held.at == place);
                    let held = held.ok_or("NotClaimed")?;
                    if model.held[held].token != Some(unclaim.token) {
                        return Err("StaleToken".to_owned());
                    }
                    model.held.remove(held);
                    Ok("unclaimed".to_owned())
                })
            }
            Command::Leave(leave) => {
                let at = self.own(caller, &(ns, leave.lease.number()))?;
                let who = self.leases[at].who.clone();
                let wait = self.waits.iter().find(|wait| wait.who == who && wait.number == Some(leave.wait));
                let order = wait.ok_or("UnknownWait")?.order;
                self.end_wait(order, EndCause::Left);
                Ok("left".to_owned())
            }
            Command::AskHandover(ask) => {
                let place = (ns, ask.resource.to_string());
                let asked = self.held.iter().filter(|held| held.at == place).count();
                if asked == 0 {
                    return Err("NotHeld".to_owned());
                }
                self.asked += asked;
                if self.asked > asked {
                    self.check_limit(self.asked, self.limits.tree_weight, "AskedHolders")
                        .inspect_err(|_| self.asked -= asked)?;
                }
                Ok(format!("asked {asked}"))
            }
            Command::Write(write) => match write.session {
                None => self.write(caller, ns, write),
                Some((session, once)) => {
                    let at = self.own(caller, &(ns.clone(), session.number()))?;
                    let who = self.leases[at].who.clone();
                    self.once(&who, Some(once), |model| model.write(caller, ns, write))
                }
            },
            Command::Configure(limits) => {
                self.limits = (**limits).clone();
                Ok("configured".to_owned())
            }
        }
    }

    /// Ends all that is due, in order of deadline; leases before waits before rests.
    fn sweep(&mut self) {
        loop {
            let of = |who: &Who| (self.namespaces[&who.0], who.1);
            let leases = self.leases.iter().map(|lease| (lease.deadline, 0, of(&lease.who), 0, lease.who.clone()));
            let waits = self.waits.iter().map(|wait| (wait.deadline, 1, of(&wait.who), wait.order, wait.who.clone()));
            let due = leases.chain(waits).filter(|row| row.0.is_due(self.now)).min();
            let Some((_, kind, _, order, who)) = due else { break };
            if kind == 0 {
                self.end(who, EndCause::Expired, Rest::Cooldown, Rest::Cooldown);
            } else {
                self.end_wait(order, EndCause::WaitElapsed);
            }
        }
        self.rests.retain(|_, until| !until.is_due(self.now));
        self.serve(None);
    }

    fn forget(&mut self) {
        let (now, age) = (self.now, self.limits.tombstone_age);
        while self.tombs.len() > self.limits.tombstones as usize
            || self.tombs.first().is_some_and(|tomb| tomb.ended.after(age).is_due(now))
        {
            self.horizon = self.horizon.max(Some(self.tombs.remove(0).ended));
        }
    }

    pub(crate) fn position(&self, who: &Who) -> Option<usize> {
        self.leases.iter().position(|lease| lease.who == *who)
    }

    /// Where a living lease is that the caller may use.
    pub(crate) fn own(&self, caller: &Caller, who: &Who) -> Result<usize, String> {
        let tomb = self.tombs.iter().find(|tomb| tomb.who == *who);
        let creator = match (self.position(who), tomb) {
            (Some(at), _) => &self.leases[at].caller,
            (None, Some(tomb)) => &tomb.caller,
            (None, None) => return Err("UnknownLease".to_owned()),
        };
        if creator.identity != caller.identity && !caller.rights.operator {
            return Err("NotYours".to_owned());
        }
        self.position(who).ok_or_else(|| format!("Ended {}", tomb.map_or("", |tomb| tomb.cause.word())))
    }

    pub(crate) fn check_ttl(&self, caller: &Caller, ttl: Ttl) -> Result<(), String> {
        match ttl {
            Ttl::Endless if !caller.rights.endless => Err("NeedsRight".to_owned()),
            Ttl::For(span) if span < self.limits.ttl_min || span > self.limits.ttl_max => {
                Err("TtlOutOfBounds".to_owned())
            }
            Ttl::Endless | Ttl::For(_) => Ok(()),
        }
    }

    pub(crate) fn extend(&mut self, at: usize) {
        let lease = &mut self.leases[at];
        lease.deadline = lease.deadline.max(lease.ttl.deadline(self.now));
    }

    fn parent(&self, who: &Who) -> Option<Who> {
        let parent = self.leases[self.position(who)?].grant.parent?;
        Some((who.0.clone(), parent.number()))
    }

    pub(crate) fn lineage(&self, who: &Who) -> Vec<Who> {
        std::iter::successors(Some(who.clone()), |who| self.parent(who)).collect()
    }

    pub(crate) fn effective(&self, who: &Who) -> LeaseTime {
        let deadline = |who: &Who| self.position(who).map(|at| self.leases[at].deadline);
        self.lineage(who).iter().filter_map(deadline).min().unwrap_or(LeaseTime::NEVER)
    }

    pub(crate) fn remaining(&self, who: &Who) -> String {
        match self.effective(who) {
            LeaseTime::NEVER => "endless".to_owned(),
            deadline => deadline.since(self.now).to_string(),
        }
    }

    fn children(&self, who: &Who) -> Vec<Who> {
        let child = |lease: &&Lease| self.parent(&lease.who).as_ref() == Some(who);
        self.leases.iter().filter(child).map(|lease| lease.who.clone()).collect()
    }

    /// How much ends with a lease, itself included.
    pub(crate) fn weight(&self, who: &Who) -> usize {
        let held = self.held.iter().filter(|held| held.who == *who).count();
        let waits: usize = self.waits.iter().filter(|wait| wait.who == *who).map(|wait| wait.asks.claims.len()).sum();
        let below: usize = self.children(who).iter().map(|child| self.weight(child)).sum();
        1 + held + waits + self.bound_entries(who) + below
    }

    pub(crate) fn bound_entries(&self, who: &Who) -> usize {
        self.entries.iter().filter(|((ns, _), entry)| *ns == who.0 && entry.lease == Some(who.1)).count()
    }

    /// Refuses what would make the tree of a lease too heavy.
    pub(crate) fn check_tree(&self, who: &Who, more: usize) -> Result<(), String> {
        let root = self.lineage(who).pop().unwrap_or_else(|| who.clone());
        self.check_limit(self.weight(&root) + more, self.limits.tree_weight, "TreeWeight")
    }

    pub(crate) fn depth(&self, who: &Who) -> usize {
        self.lineage(who).len()
    }

    pub(crate) fn check_limit(&self, count: usize, max: u32, what: &str) -> Result<(), String> {
        if count > max as usize { Err(format!("LimitReached {what}")) } else { Ok(()) }
    }

    /// Ends a lease with all it carries and hands on what nobody holds any more.
    pub(crate) fn end(&mut self, who: Who, cause: EndCause, own: Rest, below: Rest) {
        let until = self.effective(&who);
        let mut freed = BTreeSet::new();
        let mut ended = vec![(who, until, cause, own)];
        let mut tombs = Vec::new();
        while let Some((who, until, cause, rest)) = ended.pop() {
            for child in self.children(&who) {
                let at = self.position(&child).unwrap();
                let until = self.leases[at].deadline.min(until);
                ended.push((child, until, EndCause::ParentEnded, below));
            }
            let lease = self.leases.remove(self.position(&who).unwrap());
            tombs.push(Tomb { who: who.clone(), caller: lease.caller, ended: self.now, cause });
            self.waits.retain(|wait| wait.who != who);
            self.entries.retain(|(ns, _), entry| *ns != who.0 || entry.lease != Some(who.1));
            for held in self.held.iter().filter(|held| held.who == who) {
                freed.insert(held.at.clone());
                let until = match rest {
                    Rest::Cooldown if held.cooldown > Span::ZERO => self.now.after(held.cooldown),
                    Rest::Deadline if until != LeaseTime::NEVER => until,
                    Rest::None | Rest::Cooldown | Rest::Deadline => continue,
                };
                let old = self.rests.entry(held.at.clone()).or_insert(until);
                *old = until.max(*old);
            }
            self.held.retain(|held| held.who != who);
        }
        tombs.sort_by_key(|tomb| tomb.who.1);
        self.tombs.extend(tombs);
        freed.retain(|place| !self.held.iter().any(|held| held.at == *place));
        self.serve(Some(freed));
    }

    pub(crate) fn end_wait(&mut self, order: u64, cause: EndCause) {
        let at = self.waits.iter().position(|wait| wait.order == order).unwrap();
        let (who, asks, born) = (self.waits[at].who.clone(), self.waits[at].asks.claims.len(), self.waits[at].born);
        if born && self.weight(&who) == 1 + asks {
            self.end(who, cause, Rest::None, Rest::Deadline);
        } else {
            self.waits.remove(at);
        }
    }

    /// Takes the numbers of a new claim or wait from the core, and checks that tokens rise.
    pub(crate) fn learn(&mut self, tokens: &BTreeMap<(Who, String), Token>, waits: &BTreeMap<Who, Vec<Revision>>) {
        for held in self.held.iter_mut().filter(|held| held.token.is_none()) {
            let token = tokens.get(&(held.who.clone(), held.at.1.clone())).copied().expect("the core holds it too");
            held.token = Some(token);
        }
        let mut fresh: Vec<(Token, Place)> =
            self.held.iter().filter_map(|held| Some((held.token?, held.at.clone()))).collect();
        fresh.sort();
        for (token, place) in fresh {
            let last = self.tokens.entry(place).or_default();
            *last = token.max(*last);
        }
        let mut seen = BTreeMap::<Who, usize>::new();
        let mut ordered: Vec<&mut Wait> = self.waits.iter_mut().collect();
        ordered.sort_by_key(|wait| wait.order);
        for wait in ordered {
            let at = seen.entry(wait.who.clone()).or_default();
            let number = waits[&wait.who][*at];
            assert!(wait.number.is_none_or(|known| known == number), "a wait keeps its number");
            wait.number = Some(number);
            *at += 1;
        }
    }

    pub(crate) fn horizon(&self) -> Option<LeaseTime> {
        self.horizon
    }

    pub(crate) fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }
}

pub(crate) fn patient(patience: Patience) -> bool {
    patience != Patience::None
}

pub(crate) fn lease_id(number: u64) -> LeaseId {
    LeaseId::new(number).unwrap()
}
