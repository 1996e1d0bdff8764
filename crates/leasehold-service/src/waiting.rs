//! Calls that wait in a queue: kept alive while they are open, cleaned up when they break.
//!
//! The wait runs in a task of its own, so a caller that goes away at any moment leaves its queue, unless it has come
//! back meanwhile: see `calls.rs`. What was granted is never given back in the caller's name, not even if it left just
//! then: a repetition of its call, here or at another node, may have been told that it holds it. Nobody renews it
//! if not, and its ttl ends it.

use std::time::Duration;

use leasehold_core::{
    Caller, Claim, Command, EndCause, Grant, HeldBy, LeaseId, LeaseView, Leave, Namespace, Outcome, Patience,
    Rejection, Renew, ResourceName, Revision, Ttl,
};
use tokio::sync::oneshot;
use tracing::debug;

use crate::calls::Call;
use crate::{Done, Failure, Service};

/// A wait as its caller described it.
#[derive(Clone, Debug)]
struct Wish {
    caller: Caller,
    namespace: Namespace,
    lease: LeaseId,
    /// By name, as the core keeps them.
    resources: Vec<ResourceName>,
    priority: i32,
    /// Whether the lease is granted for this wait and ends with it.
    born: bool,
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
        let (asks, lease, born) = match &command {
            Command::Grant(Grant { id, asks, .. }) => (asks, *id, true),
            Command::Claim(Claim { lease, asks, .. }) => (asks, *lease, false),
            Command::Renew(_)
            | Command::Release(_)
            | Command::Revoke(_)
            | Command::Unclaim(_)
            | Command::Leave(_)
            | Command::AskHandover(_)
            | Command::Write(_)
            | Command::Configure(_) => return self.execute(caller, namespace, command).await,
        };
        if asks.patience == Patience::None {
            return self.execute(caller, namespace, command).await;
        }
        let mut resources: Vec<ResourceName> = asks.claims.iter().map(|ask| ask.resource.clone()).collect();
        resources.sort();
        let wish = Wish {
            caller: caller.clone(),
            namespace: namespace.clone(),
            lease,
            resources,
            priority: asks.priority,
            born,
        };
        let (send, receive) = oneshot::channel();
        tokio::spawn(self.clone().wait(wish, command, send));
        receive.await.unwrap_or(Err(Failure::ShuttingDown { may_have_happened: true }))
    }

    async fn wait(self, wish: Wish, command: Command, mut reply: oneshot::Sender<Result<Done, Failure>>) {
        let call = self.calls().enter(&wish.namespace, &command);
        let only = || call.as_ref().is_none_or(Call::is_the_only_one);
        let queued = self.carry_out(&wish.caller, &wish.namespace, command).await;
        let waits = queued.as_ref().ok().and_then(|done| waits_for(&done.outcome, &wish));
        let result = match (queued, waits) {
            (Ok(_), Some(number)) => tokio::select! {
                result = self.until_served(&wish, number) => result,
                () = reply.closed() => {
                    if only() {
                        self.leave_queue(&wish, number).await;
                    }
                    return;
                }
            },
            (at_once, _) => at_once,
        };
        // A caller that is gone needs no answer.
        let _ = reply.send(result);
    }

    async fn until_served(&self, wish: &Wish, number: Revision) -> Result<Done, Failure> {
        let mut position = 0;
        let parked = self.replica().parking.listen(&wish.namespace, wish.lease);
        loop {
            let bell = parked.bell.notified();
            tokio::pin!(bell);
            bell.as_mut().enable();
            let looked = self.replica().look(|state| {
                let view = state.lease(&wish.namespace, wish.lease);
                let held = wish.resources.iter().find_map(|name| state.obstacle(&wish.namespace, name, wish.priority));
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
                    return Ok(Done { outcome, now, revision });
                }
                // A claim on a living lease whose patience is over is gone without its lease.
                None => return Err(elapsed(Box::new(Rejection::UnknownWait), held, position)),
            }
            tokio::select! {
                () = &mut bell => {}
                () = tokio::time::sleep(renewal_pause(&view)) => self.keep_alive(wish).await?,
                () = self.stopped() => return Err(Failure::ShuttingDown { may_have_happened: true }),
            }
        }
    }

    async fn keep_alive(&self, wish: &Wish) -> Result<(), Failure> {
        let renew = Command::Renew(Renew { leases: vec![wish.lease], ttl: None });
        match self.execute(&wish.caller, &wish.namespace, renew).await {
            // What became of the lease is seen by the next look; a failure passes or is met there again.
            Ok(_) | Err(Failure::Overloaded { .. } | Failure::DiskFull | Failure::NoQuorum { .. }) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Leaves the queue, if it still stands there.
    async fn leave_queue(&self, wish: &Wish, number: Revision) {
        let leave = Command::Leave(Leave { lease: wish.lease, wait: number });
        let left = self.execute(&wish.caller, &wish.namespace, leave).await;
        debug!(left = left.is_ok(), "a waiting caller went away");
    }
}

/// The number of the wait that the wish led to, if it waits.
fn waits_for(outcome: &Outcome, wish: &Wish) -> Option<Revision> {
    let view = match outcome {
        Outcome::Granted(view) | Outcome::Claimed(view) => view,
        Outcome::Renewed(_)
        | Outcome::Released
        | Outcome::Revoked { .. }
        | Outcome::Unclaimed
        | Outcome::Left
        | Outcome::HandoverAsked { .. }
        | Outcome::Written(_)
        | Outcome::Configured => return None,
    };
    let same =
        |wait: &&leasehold_core::WaitView| wait.places.iter().map(|place| &place.resource).eq(wish.resources.iter());
    view.waits.iter().find(same).map(|wait| wait.wait)
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
