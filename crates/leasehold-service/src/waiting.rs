//! Calls that wait in a queue: kept alive while they are open, cleaned up when they break.
//!
//! The wait runs in a task of its own, so a caller that goes away at any moment leaves its queue, unless it has come
//! back meanwhile: here (see `calls.rs`), or at another node, which then keeps its lease alive. A node that was
//! stopped or cut off for a while does not know, and leaves that to the ttl. What was granted is never given back in the caller's name, not even if it left just
//! then: a repetition of its call, here or at another node, may have been told that it holds it. Nobody renews it
//! if not, and its ttl ends it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{
    Caller, Claim, Command, EndCause, Grant, HeldBy, HolderView, LeaseId, LeaseView, Leave, Namespace, Outcome,
    Patience, PlaceView, Rejection, Renew, ResourceName, Revision, Span, State, Ttl, WaitView,
};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use crate::access::Action;
use crate::calls::Call;
use crate::mailbox::{Asked, Ticket};
use crate::news::News;
use crate::{Consistency, Done, Failure, Service};

/// A wait as its caller described it.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) caller: Caller,
    pub(crate) namespace: Namespace,
    pub(crate) lease: LeaseId,
    /// By name, as the core keeps them.
    pub(crate) resources: Vec<ResourceName>,
    pub(crate) priority: i32,
    /// Whether the lease is granted for this wait and ends with it.
    pub(crate) born: bool,
}

impl Wish {
    /// The wait that a command may lead to; none if it does not wait.
    pub(crate) fn of(caller: &Caller, namespace: &Namespace, command: &Command) -> Option<Wish> {
        let (asks, lease, born) = match command {
            Command::Grant(Grant { id, asks, .. }) => (asks, *id, true),
            Command::Claim(Claim { lease, asks, .. }) => (asks, *lease, false),
            Command::GrantAnew(_)
            | Command::ClaimMarked(_)
            | Command::Renew(_)
            | Command::Release(_)
            | Command::Revoke(_)
            | Command::Unclaim(_)
            | Command::Leave(_)
            | Command::AskHandover(_)
            | Command::Write(_)
            | Command::Configure(_) => return None,
        };
        if asks.patience == Patience::None {
            return None;
        }
        let mut resources: Vec<ResourceName> = asks.claims.iter().map(|ask| ask.resource.clone()).collect();
        resources.sort();
        let (caller, namespace, priority) = (caller.clone(), namespace.clone(), asks.priority);
        Some(Wish { caller, namespace, lease, resources, priority, born })
    }
}

/// How a wait stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The number of the wait.
    pub wait: Revision,
    /// How it stands at each resource.
    pub places: Vec<Standing>,
}

/// How a wait stands at one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Its place in the queue.
    pub place: PlaceView,
    /// Who holds the resource: the first one.
    pub holder: Option<HolderView>,
    /// How many hold it.
    pub holder_count: u32,
    /// How long it still rests although nobody holds it.
    pub rests: Option<Span>,
}

impl Service {
    /// Carries out a grant or claim and returns when it is held, refused or its patience is over.
    ///
    /// While the future lives the waiting lease is kept alive; dropping the future leaves the queue.
    pub async fn execute_waiting(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        command: Command,
    ) -> Result<Done, Failure> {
        let Some(wish) = Wish::of(caller, namespace, &command) else {
            return self.execute(caller, namespace, command).await;
        };
        let (send, receive) = oneshot::channel();
        tokio::spawn(self.clone().wait(wish, command, send));
        receive.await.unwrap_or(Err(Failure::ShuttingDown { may_have_happened: true }))
    }

    async fn wait(self, wish: Wish, command: Command, mut reply: oneshot::Sender<Result<Done, Failure>>) {
        let call = self.calls().enter(&wish.namespace, &command);
        let queued = self.carry_out(&wish.caller, &wish.namespace, command).await;
        let waits = queued.as_ref().ok().and_then(|done| waits_for(&done.outcome, &wish));
        let result = match (queued, waits) {
            (Ok(done), Some(number)) => {
                let kept = Kept::from(&done, &wish);
                tokio::select! {
                    result = self.until_served(&wish, number, &kept, None) => result,
                    () = reply.closed() => return self.abandon(&wish, number, call.as_ref(), &kept).await,
                }
            }
            (at_once, _) => at_once,
        };
        // A caller that is gone needs no answer.
        let _ = reply.send(result);
    }

    /// Waits for a connection that can give up, break, and wants to know how far it is.
    pub(crate) async fn wait_on(
        self,
        asked: Asked,
        number: Revision,
        kept: Kept,
        given_up: oneshot::Receiver<()>,
        ticket: Ticket,
    ) {
        let Asked { wish, call } = asked;
        let result = tokio::select! {
            biased;
            how = given_up => match how {
                Ok(()) => self.leave_or_be_served(&wish, number, &kept).await,
                Err(_) => return self.abandon(&wish, number, call.as_ref(), &kept).await,
            },
            result = self.until_served(&wish, number, &kept, Some(&ticket)) => result,
        };
        ticket.waited(result);
    }

    /// Leaves the queue; what was granted or was over before is the answer.
    async fn leave_or_be_served(&self, wish: &Wish, number: Revision, kept: &Kept) -> Result<Done, Failure> {
        match self.leave_queue(wish, number).await {
            Ok(_) => Err(Failure::WaitLeft),
            Err(Failure::Rejected(_)) => self.until_served(wish, number, kept, None).await,
            Err(failure) => Err(failure),
        }
    }

    /// A waiting caller went away; somebody else may wait in its place.
    async fn abandon(&self, wish: &Wish, number: Revision, call: Option<&Call>, kept: &Kept) {
        if call.is_none_or(Call::is_the_only_one) && self.is_alone(wish, kept).await {
            let left = self.leave_queue(wish, number).await;
            debug!(left = left.is_ok(), "a waiting caller went away");
        }
    }

    /// Whether no other node serves the same wait, as far as can be known.
    async fn is_alone(&self, wish: &Wish, kept: &Kept) -> bool {
        if kept.doubtful.load(Ordering::Acquire) || !wish.born {
            // The lease of a claim has a holder that renews it anyway: nothing follows from that.
            return !kept.doubtful.load(Ordering::Acquire);
        }
        let here = &wish.namespace;
        let look = |state: &State| state.lease(here, wish.lease).map(|view| state.now().0 - view.renewed_ago.0);
        let looked = self.read(&wish.caller, here, Consistency::Linearizable, look).await;
        looked.is_ok_and(|looked| looked.value.is_ok_and(|renewed| renewed <= kept.at.load(Ordering::Acquire)))
    }

    async fn until_served(
        &self,
        wish: &Wish,
        number: Revision,
        kept: &Kept,
        ticket: Option<&Ticket>,
    ) -> Result<Done, Failure> {
        let mut position = 0;
        // One that comes back, perhaps from another node, makes itself known there by renewing.
        let mut renewed = if kept.again { None } else { Some(Instant::now()) };
        let mut news = ticket.map(|ticket| News::of(self.replica(), wish, ticket));
        let parked = self.replica().parking.leases.listen((wish.namespace.clone(), wish.lease));
        loop {
            let bell = parked.bell.notify.notified();
            tokio::pin!(bell);
            bell.as_mut().enable();
            let looked = self.replica().look(|state| {
                let view = state.lease(&wish.namespace, wish.lease);
                let held = wish.resources.iter().find_map(|name| state.obstacle(&wish.namespace, name, wish.priority));
                let wait = view.as_ref().ok().and_then(|view| view.waits.iter().find(|wait| wait.wait == number));
                if let (Some(news), Some(wait)) = (&mut news, wait) {
                    news.tell(|| progress(state, wish, wait));
                }
                (view, held, state.now(), state.revision())
            });
            let (view, held, now, revision) = looked;
            let view = view.map_err(|rejection| elapsed(rejection, held.clone(), position))?;
            match view.waits.iter().find(|wait| wait.wait == number) {
                Some(wait) => position = wait.places.first().map_or(0, |place| place.position),
                None if holds_all(&view, wish) => {
                    let outcome = match wish.born {
                        true => Outcome::Granted(Box::new(view)),
                        false => Outcome::Claimed(Box::new(view)),
                    };
                    // Granted by an end, not by a command that was passed on.
                    return Ok(Done { outcome, now, revision, forwarded_to: None });
                }
                // A claim on a living lease whose patience is over is gone without its lease.
                None => return Err(elapsed(Box::new(Rejection::UnknownWait), held, position)),
            }
            tokio::select! {
                () = &mut bell => {}
                () = due(renewed, renewal_pause(&view)) => {
                    // A node that stood still may have been left for another.
                    let late = renewed.is_some_and(|renewed| renewed.elapsed() > 2 * renewal_pause(&view));
                    kept.doubtful.fetch_or(late, Ordering::AcqRel);
                    self.keep_alive(wish, kept).await?;
                    renewed = Some(Instant::now());
                }
                () = moved(news.as_mut()) => {}
                () = self.stopped() => return Err(Failure::ShuttingDown { may_have_happened: true }),
            }
        }
    }

    /// Waits until a lease holds a resource that it waits for; an error if it ends, or leaves the queue. Who renews the
    /// lease meanwhile is left to its holder, and so is leaving the queue.
    pub async fn until_held(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        lease: LeaseId,
        resource: &ResourceName,
    ) -> Result<LeaseView, Failure> {
        self.access().authorize(caller, namespace, Action::Query)?;
        let parked = self.replica().parking.leases.listen((namespace.clone(), lease));
        loop {
            let bell = parked.bell.notify.notified();
            tokio::pin!(bell);
            bell.as_mut().enable();
            let view = self.replica().look(|state| state.lease(namespace, lease)).map_err(Failure::Rejected)?;
            if view.held.iter().any(|held| held.resource == *resource) {
                return Ok(view);
            }
            let mut places = view.waits.iter().flat_map(|wait| &wait.places);
            if !places.any(|place| place.resource == *resource) {
                return Err(Failure::WaitLeft);
            }
            tokio::select! {
                () = &mut bell => {}
                () = self.stopped() => return Err(Failure::ShuttingDown { may_have_happened: true }),
            }
        }
    }

    async fn keep_alive(&self, wish: &Wish, kept: &Kept) -> Result<(), Failure> {
        let renew = Command::Renew(Renew { leases: vec![wish.lease], ttl: None });
        match self.execute(&wish.caller, &wish.namespace, renew).await {
            // What became of the lease is seen by the next look.
            Ok(done) => kept.at.store(done.now.0, Ordering::Release),
            // A failure passes or is met there again; meanwhile the caller may have gone to another node.
            Err(Failure::Overloaded { .. } | Failure::DiskFull | Failure::NoQuorum { .. }) => {
                kept.doubtful.store(true, Ordering::Release);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Leaves the queue, if it still stands there.
    async fn leave_queue(&self, wish: &Wish, number: Revision) -> Result<Done, Failure> {
        let leave = Command::Leave(Leave { lease: wish.lease, wait: number });
        self.execute(&wish.caller, &wish.namespace, leave).await
    }
}

/// Returns when a renewal is due: at once if there was none.
async fn due(renewed: Option<Instant>, pause: Duration) {
    if let Some(renewed) = renewed {
        tokio::time::sleep_until(renewed + pause).await;
    }
}

/// What this node has done to keep a waiting lease alive.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Lease time when it last renewed, or was asked.
    at: AtomicU64,
    /// The lease was there before this call: another one asked for it.
    again: bool,
    /// Another node may serve the same wait by now.
    doubtful: AtomicBool,
}

impl Kept {
    /// What the answer to the command that waits tells.
    pub(crate) fn from(done: &Done, wish: &Wish) -> Kept {
        let again = wish.born && carried_by(&done.outcome).is_some_and(|view| view.age > Span::ZERO);
        Kept { at: AtomicU64::new(done.now.0), again, doubtful: AtomicBool::new(false) }
    }
}

async fn moved(news: Option<&mut News<'_>>) {
    match news {
        Some(news) => news.moved().await,
        None => std::future::pending().await,
    }
}

fn progress(state: &State, wish: &Wish, wait: &WaitView) -> Progress {
    let standing = |place: &PlaceView| {
        let held = state.obstacle(&wish.namespace, &place.resource, wish.priority);
        let (holder, holder_count, rests) = match held {
            Some(held) => (held.holders.into_iter().next(), held.holder_count, held.rests),
            None => (None, 0, None),
        };
        Standing { place: place.clone(), holder, holder_count, rests }
    };
    Progress { wait: wait.wait, places: wait.places.iter().map(standing).collect() }
}

/// The number of the wait that the wish led to, if it waits.
pub(crate) fn waits_for(outcome: &Outcome, wish: &Wish) -> Option<Revision> {
    let view = carried_by(outcome)?;
    let same = |wait: &&WaitView| wait.places.iter().map(|place| &place.resource).eq(wish.resources.iter());
    view.waits.iter().find(same).map(|wait| wait.wait)
}

/// The lease that a grant or claim is about.
fn carried_by(outcome: &Outcome) -> Option<&LeaseView> {
    match outcome {
        Outcome::Granted(view) | Outcome::Claimed(view) => Some(view),
        Outcome::Renewed(_)
        | Outcome::Released { .. }
        | Outcome::Revoked { .. }
        | Outcome::Unclaimed
        | Outcome::Left
        | Outcome::HandoverAsked { .. }
        | Outcome::Written(_)
        | Outcome::Configured => None,
    }
}

fn holds_all(view: &LeaseView, wish: &Wish) -> bool {
    wish.resources.iter().all(|resource| view.held.iter().any(|held| held.resource == *resource))
}

/// What to tell a caller whose wait is over without a grant.
fn elapsed(rejection: Box<Rejection>, held: Option<HeldBy>, position: u32) -> Failure {
    let over = matches!(&*rejection, Rejection::UnknownWait)
        || matches!(&*rejection, Rejection::Ended(end) if end.cause == EndCause::WaitElapsed);
    match held {
        Some(held) if over => Failure::WaitElapsed { held: Box::new(held), position },
        Some(_) | None => Failure::Rejected(rejection),
    }
}

/// How long a waiting lease can go without renewal, with room for two more attempts.
fn renewal_pause(view: &LeaseView) -> Duration {
    match view.ttl {
        Ttl::For(span) => Duration::from_millis((span.0 / 3).clamp(10, 60_000)),
        Ttl::Endless => Duration::from_secs(60),
    }
}
