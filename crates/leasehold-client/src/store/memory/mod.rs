//! A store in this process: the service's own state machine, behind a mutex.
//!
//! It promises all that the service promises except durability, by the machine's clock or one that a test moves.
//! Clones are the same store. Time passes whenever something is done and while somebody waits or listens for
//! notices, so there is no thread and no task behind it.

mod desk;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use leasehold_api::{Code, Problem};
use leasehold_core::{
    Ask, AskHandover, Asks, Command, EndCause, Grant, HeldBy, Holder, LeaseId, LeaseView, Metadata, Outcome, Patience,
    Rejection, Release, Renew, ResourceName, Revoke, Span, Ttl,
};
use tokio::sync::Notify;

use super::{Capabilities, Granted, HandoverAsk, Incumbent, Notice, Progress, ProgressTo, Store, Wish};
use crate::{Clock, Error, MachineClock, Moment, Validity};
use desk::Desk;

/// A store in this process: all that the service promises, except durability. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Memory {
    desk: Arc<Desk>,
}

impl Memory {
    /// An empty store, by the machine's clock.
    pub fn new() -> Memory {
        Memory::with_clock(Arc::new(MachineClock))
    }

    /// An empty store, by this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Memory {
        Memory { desk: Arc::new(Desk::new(clock)) }
    }

    /// Takes the leases that hold a resource from their holders, as an operator: tells how many.
    pub fn revoke(&self, resource: &str, reason: &str) -> Result<usize, Error> {
        let name = resource_name(resource)?;
        let holders = self.desk.look(|state, space| state.resource(space, &name).map(|found| found.holders));
        let holders = holders.unwrap_or_default();
        for holder in &holders {
            let revoke = Revoke { lease: holder.lease, reason: reason.into(), now: false };
            answered(self.desk.apply(Command::Revoke(revoke)))?;
        }
        Ok(holders.len())
    }

    /// How many leases there are, held and waiting.
    pub fn lease_count(&self) -> usize {
        self.desk.look(|state, _| state.counts().leases)
    }

    /// Who holds a resource.
    pub fn holders(&self, resource: &str) -> Result<Vec<String>, Error> {
        let name = resource_name(resource)?;
        let view = self.desk.look(|state, space| state.resource(space, &name));
        Ok(view.iter().flat_map(|view| &view.holders).map(|holder| holder.holder.to_string()).collect())
    }

    /// The token of a resource's first holder.
    pub fn token(&self, resource: &str) -> Option<u64> {
        let name = resource_name(resource).ok()?;
        let view = self.desk.look(|state, space| state.resource(space, &name))?;
        view.holders.first().map(|holder| holder.token.0)
    }

    async fn grant_wish(self, wish: Arc<Wish>, progress: ProgressTo) -> Result<Granted, Error> {
        wish.check(&self)?;
        let sent = self.desk.now();
        let names = wish.resources.iter().map(|name| resource_name(name)).collect::<Result<Vec<_>, _>>()?;
        let grant = Command::Grant(self.grant_command(&wish, &names)?);
        let Outcome::Granted(view) = answered(self.desk.apply(grant))? else {
            unreachable!("a grant is answered by a lease")
        };
        if view.waits.is_empty() {
            // How much is left was told by the command that was sent just now, whoever was granted it before.
            return Ok(granted(&view, &names, sent));
        }
        if wish.patience == Patience::None {
            let held = self.obstacle(&names, wish.priority);
            let problem = held.map(|held| Problem::from(&Rejection::Held(held)));
            return Err(Error::Held(Box::new(problem.unwrap_or_else(|| Problem::new(Code::Held, "it is held")))));
        }
        self.wait(&wish, &names, &progress).await
    }

    fn grant_command(&self, wish: &Wish, names: &[ResourceName]) -> Result<Grant, Error> {
        let holder = Holder::new(&wish.holder).map_err(|reason| invalid_name("holder", &wish.holder, reason))?;
        let mode = wish.mode.into();
        let cooldown = Span(u64::try_from(wish.cooldown.as_millis()).unwrap_or(u64::MAX));
        Ok(Grant {
            id: wish.id,
            holder,
            ttl: wish.ttl,
            class: wish.class.into(),
            parent: None,
            metadata: Metadata::new(wish.metadata.clone()),
            asks: Asks {
                claims: names.iter().map(|resource| Ask { resource: resource.clone(), mode }).collect(),
                patience: wish.patience,
                priority: wish.priority,
                cooldown,
            },
            seen: self.desk.look(|state, _| state.now()),
        })
    }

    /// Waits in the queue until all is granted, or the patience is over. The lease is kept alive meanwhile.
    async fn wait(&self, wish: &Wish, names: &[ResourceName], progress: &ProgressTo) -> Result<Granted, Error> {
        let mut told = None;
        loop {
            let bells: Vec<Arc<Notify>> = names.iter().map(|name| self.desk.bell(name.as_str())).collect();
            let rings = bells.iter().map(|bell| Arc::clone(bell).notified_owned()).map(Box::pin);
            let ring = futures_util::future::select_all(rings);
            let sent = self.desk.now();
            match self.desk.look(|state, space| state.lease(space, wish.id)) {
                Ok(view) if view.waits.is_empty() => return self.confirm(wish, names, &view, sent),
                Ok(view) => {
                    let news = self.progress(&view);
                    if told.as_ref() != news.as_ref() {
                        told = news;
                        told.iter().cloned().for_each(|news| progress.tell(news));
                    }
                }
                Err(rejection) => {
                    let position = told.and_then(|news| news.place).map(|(position, _)| position);
                    return Err(self.over(*rejection, names, wish.priority, position));
                }
            }
            tokio::select! {
                _ = ring => {}
                () = self.desk.time_goes_on() => {}
                () = self.desk.clock().sleep(renewal_pause(wish.ttl)) => {
                    // What became of it is seen by the next look.
                    let _ = self.desk.apply(Command::Renew(Renew { leases: vec![wish.id], ttl: None }));
                }
            }
        }
    }

    /// Renews a lease that was granted after waiting: that tells how much is left, counted from now.
    fn confirm(&self, wish: &Wish, names: &[ResourceName], view: &LeaseView, sent: Moment) -> Result<Granted, Error> {
        let renewed = self.renew_all(vec![wish.id], sent)?.pop();
        let validity = renewed.expect("each lease of a renewal has an answer")?;
        Ok(Granted { validity, ..granted(view, names, sent) })
    }

    /// Renews leases, at most as many as one command may name.
    fn renew_all(&self, leases: Vec<LeaseId>, sent: Moment) -> Result<Vec<Result<Validity, Error>>, Error> {
        let Outcome::Renewed(results) = answered(self.desk.apply(Command::Renew(Renew { leases, ttl: None })))? else {
            unreachable!("a renewal is answered by one result for each lease")
        };
        let result = |result: Result<leasehold_core::Renewal, Box<Rejection>>| match result {
            Ok(renewal) => Ok(Validity::new(sent, renewal.remaining)),
            Err(rejection) => Err(refusal(&rejection)),
        };
        Ok(results.into_iter().map(result).collect())
    }

    /// Makes sure that a lease is over and stays so.
    fn end(&self, lease: LeaseId) -> Result<(), Error> {
        match self.desk.apply(Command::Release(Release { lease })) {
            Ok(_) => Ok(()),
            // It never was, or is forgotten: one that ends at once keeps a late copy of its grant out.
            Err(rejection) if *rejection == Rejection::UnknownLease => self.desk.bury(lease),
            Err(rejection) => Err(refusal(&rejection)),
        }
    }

    /// Who and what stands in the way.
    fn obstacle(&self, names: &[ResourceName], priority: i32) -> Option<HeldBy> {
        self.desk.look(|state, space| names.iter().find_map(|name| state.obstacle(space, name, priority)))
    }

    fn progress(&self, view: &LeaseView) -> Option<Progress> {
        let place = view.waits.first()?.places.first()?;
        let resource = &place.resource;
        let holder = self.desk.look(|state, space| state.resource(space, resource)?.holders.into_iter().next());
        Some(Progress {
            resource: resource.to_string(),
            place: Some((place.position, place.length)),
            holder: holder.as_ref().map(Into::into),
            estimate: place.estimate.map(|span| Duration::from_millis(span.0)),
        })
    }

    /// What to tell a caller whose wait is over without a grant.
    fn over(&self, rejection: Rejection, names: &[ResourceName], priority: i32, position: Option<u32>) -> Error {
        let elapsed = matches!(&rejection, Rejection::Ended(end) if end.cause == EndCause::WaitElapsed);
        match self.obstacle(names, priority) {
            Some(held) if elapsed => {
                let detail = format!("{} was not free within the wait", held.resource);
                let problem = Problem::held(Code::WaitElapsed, detail, &held, position.unwrap_or(1));
                Error::TimedOut { position, problem: Box::new(problem) }
            }
            Some(_) | None => refusal(&rejection),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { durability: false, ..Capabilities::ALL }
    }

    fn grant(&self, wish: Arc<Wish>, progress: ProgressTo) -> BoxFuture<'static, Result<Granted, Error>> {
        Box::pin(self.clone().grant_wish(wish, progress))
    }

    fn renew(&self, leases: Vec<Arc<Wish>>) -> BoxFuture<'static, Result<Vec<Result<Validity, Error>>, Error>> {
        let memory = self.clone();
        Box::pin(async move {
            let sent = memory.desk.now();
            let ids: Vec<LeaseId> = leases.iter().map(|wish| wish.id).collect();
            let max = memory.desk.look(|state, _| state.limits().renewals as usize);
            let mut results = Vec::with_capacity(ids.len());
            for some in ids.chunks(max) {
                results.extend(memory.renew_all(some.to_vec(), sent)?);
            }
            Ok(results)
        })
    }

    fn release(&self, lease: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let memory = self.clone();
        Box::pin(async move { memory.end(lease.id) })
    }

    fn abandon(&self, wish: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        self.release(wish)
    }

    fn notices(&self) -> BoxStream<'static, Notice> {
        let desk = Arc::clone(&self.desk);
        let notices = desk.subscribe();
        stream::unfold((desk, notices), |(desk, mut notices)| async move {
            loop {
                let notice = tokio::select! {
                    notice = notices.recv() => notice?,
                    () = desk.time_goes_on() => continue,
                };
                return Some((notice, (desk, notices)));
            }
        })
        .boxed()
    }

    fn incumbent(&self, resource: &str) -> BoxFuture<'static, Result<Option<Incumbent>, Error>> {
        let (memory, resource) = (self.clone(), resource.to_owned());
        Box::pin(async move {
            let name = resource_name(&resource)?;
            let view = memory.desk.look(|state, space| state.resource(space, &name));
            let holder = view.and_then(|view| view.holders.into_iter().find(|holder| !holder.ending));
            Ok(holder.map(|holder| Incumbent { holder: holder.holder.to_string(), token: Some(holder.token.0) }))
        })
    }

    fn changed(&self, resource: &str) -> BoxFuture<'static, Result<(), Error>> {
        let desk = Arc::clone(&self.desk);
        let ring = desk.bell(resource).notified_owned();
        Box::pin(async move {
            tokio::pin!(ring);
            loop {
                tokio::select! {
                    () = &mut ring => return Ok(()),
                    () = desk.time_goes_on() => {}
                }
            }
        })
    }

    fn request_handover(&self, ask: HandoverAsk) -> BoxFuture<'static, Result<(), Error>> {
        let memory = self.clone();
        Box::pin(async move {
            let resource = resource_name(&ask.resource)?;
            let by = Holder::new(&ask.by).map_err(|reason| invalid_name("by", &ask.by, reason))?;
            let ask = AskHandover { resource, by, reason: ask.reason.map(String::into_boxed_str) };
            answered(memory.desk.apply(Command::AskHandover(ask)))?;
            Ok(())
        })
    }
}

/// What a lease was granted.
fn granted(view: &LeaseView, names: &[ResourceName], sent: Moment) -> Granted {
    let claim = |name: &ResourceName| view.held.iter().find(|claim| claim.resource == *name);
    let waited = view.held.iter().map(|claim| claim.waited.0).max().unwrap_or(0);
    Granted {
        validity: Validity::new(sent, view.remaining),
        tokens: names.iter().map(|name| claim(name).map(|claim| claim.token.0)).collect(),
        waited: Duration::from_millis(waited),
    }
}

/// How long a waiting lease can go without renewal, with room for two more attempts.
fn renewal_pause(ttl: Ttl) -> Duration {
    match ttl {
        Ttl::For(span) => Duration::from_millis((span.0 / 3).clamp(10, 60_000)),
        Ttl::Endless => Duration::from_secs(60),
    }
}

fn answered(answer: leasehold_core::Answer) -> Result<Outcome, Error> {
    answer.map_err(|rejection| refusal(&rejection))
}

fn refusal(rejection: &Rejection) -> Error {
    Error::from_problem(Problem::from(rejection))
}

fn resource_name(name: &str) -> Result<ResourceName, Error> {
    ResourceName::new(name).map_err(|reason| invalid_name("resources", name, reason))
}

fn invalid_name(field: &str, name: &str, reason: leasehold_core::InvalidName) -> Error {
    Error::from_problem(Problem::from(&leasehold_api::Invalid::name(field, name, reason)))
}
