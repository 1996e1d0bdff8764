//! Getting a lease, however often the connection breaks on the way.
//!
//! The client chose the id, so a grant whose answer was lost is repeated with it and finds the lease as it is.
//! Where a broken connection has cost the place in the queue, the attempt begins anew with another id. The
//! first contact is not repeated: a server that is not there is told at once.

use std::time::{Duration, Instant};

use leasehold_api::{Code, GrantRequest, Id, Lease, LeaseState, Problem};
use leasehold_core::{Patience, Span};

use super::transport::CALL_TIMEOUT;
use super::{Error, HttpClient, new_lease_id};
use crate::{Moment, Validity};

/// The pause before a repetition, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A lease on its way. Dropping the future of [`Acquire::granted`] breaks the connection and so leaves the queue;
/// [`Acquire::abandon`] makes sure of it.
#[derive(Debug)]
pub struct Acquire {
    client: HttpClient,
    request: GrantRequest,
    id: Id,
    /// Whether the caller chose the id; then it is the only one.
    fixed: bool,
    wait: Patience,
}

/// A lease that was granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Which one.
    pub id: Id,
    /// The lease as it is.
    pub lease: Lease,
    /// Until when its holder may act.
    pub validity: Validity,
}

/// What an attempt led to.
enum Next {
    /// The lease is there.
    Done(Box<Granted>),
    /// The same grant again.
    Repeat,
    /// What was asked for is gone: a new grant.
    Anew,
    /// No server could be reached.
    Unreached(Error),
    /// The answer was lost.
    Lost(Error),
}

impl Acquire {
    pub(crate) fn new(client: HttpClient, request: GrantRequest, wait: Patience) -> Acquire {
        let fixed = request.id.is_some();
        let id = request.id.unwrap_or_else(new_lease_id);
        Acquire { client, request, id, fixed, wait }
    }

    /// The id of the lease that is asked for now.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Asks for the lease and waits until it is granted or refused. `lost` is told of every lost connection.
    pub async fn granted(&mut self, mut lost: impl FnMut(&Error)) -> Result<Granted, Error> {
        let begun = Instant::now();
        let mut pause = PAUSE;
        let mut contact = false;
        self.begin();
        loop {
            match self.attempt(begun).await? {
                Next::Done(granted) => return Ok(*granted),
                Next::Repeat => {}
                Next::Anew => {
                    self.id = new_lease_id();
                    self.begin();
                }
                Next::Unreached(error) if !contact || self.is_over(begun) => return Err(error),
                Next::Lost(error) if self.is_over(begun) => return Err(error),
                Next::Unreached(error) | Next::Lost(error) => {
                    contact = true;
                    lost(&error);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Gives up: ends the lease, whether it waits or was granted meanwhile.
    pub async fn abandon(&self) -> Result<(), Error> {
        self.client.release(self.id).await
    }

    /// Fixes what all repetitions of one id have in common.
    fn begin(&mut self) {
        self.request.id = Some(self.id);
        self.request.seen = self.client.lease_time();
    }

    async fn attempt(&self, begun: Instant) -> Result<Next, Error> {
        let call = self.client.grant_call(&self.request, self.patience_left(begun)).repeatable();
        let answer = match self.client.transport().once(&call).await {
            Ok(answer) => answer,
            Err(failure) if failure.sent => return Ok(Next::Lost(failure.error)),
            Err(failure) => return Ok(Next::Unreached(failure.error)),
        };
        let sent = answer.sent;
        let lease: Lease = match answer.read() {
            Ok(lease) => lease,
            Err(error) => return self.after_refusal(error, begun),
        };
        match (lease.state, self.wait) {
            (LeaseState::Waiting, Patience::None) => return Err(still_waiting(&lease)),
            (LeaseState::Waiting, Patience::For(_) | Patience::Endless) => return Ok(Next::Repeat),
            (LeaseState::Live | LeaseState::Ending, _) => {}
        }
        let validity = Validity::of_answer(sent, Moment::now(), lease.remaining.0);
        // The time left counts from the grant, which came long after the sending: only a renewal tells it.
        let waited = lease.held.iter().any(|claim| claim.waited.0 > Span::ZERO);
        if waited || validity.is_over() {
            return self.confirmed(lease, begun).await;
        }
        Ok(Next::Done(Box::new(Granted { id: self.id, lease, validity })))
    }

    /// Renews a lease that was granted after waiting.
    async fn confirmed(&self, lease: Lease, begun: Instant) -> Result<Next, Error> {
        match self.client.renew(self.id, None).await {
            Ok((renewed, validity)) => {
                let lease = Lease { remaining: renewed.remaining, ttl: renewed.ttl, changed: renewed.changed, ..lease };
                Ok(Next::Done(Box::new(Granted { id: self.id, lease, validity })))
            }
            Err(error @ Error::Unreachable { .. }) => Ok(Next::Lost(error)),
            Err(error @ (Error::Refused(_) | Error::Protocol { .. })) => self.after_refusal(error, begun),
        }
    }

    /// A refusal that only tells what a lost connection led to is not the last word.
    fn after_refusal(&self, error: Error, begun: Instant) -> Result<Next, Error> {
        let over = self.is_over(begun);
        match error.code() {
            Some(Code::LeaseEnded | Code::UnknownLease | Code::TooOld) if !self.fixed && !over => Ok(Next::Anew),
            Some(Code::ShuttingDown | Code::NoQuorum) if !over => Ok(Next::Lost(error)),
            None if matches!(error, Error::Unreachable { .. }) => Ok(Next::Unreached(error)),
            _ => Err(error),
        }
    }

    fn patience_left(&self, begun: Instant) -> Patience {
        match self.wait {
            Patience::For(span) => {
                let gone = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                // Never nothing: a repetition without patience finds the lease waiting and does not wait with it.
                Patience::For(Span(span.0.saturating_sub(gone).max(1)))
            }
            wait @ (Patience::None | Patience::Endless) => wait,
        }
    }

    /// Whether there is no time left to repeat; without patience there is the time of a call.
    fn is_over(&self, begun: Instant) -> bool {
        match self.wait {
            Patience::None => begun.elapsed() >= CALL_TIMEOUT,
            Patience::For(span) => begun.elapsed() >= Duration::from_millis(span.0).max(CALL_TIMEOUT),
            Patience::Endless => false,
        }
    }
}

/// The refusal of a repetition that does not wait, while its lease does.
fn still_waiting(lease: &Lease) -> Error {
    let names: Vec<&str> = lease.waits.iter().flat_map(|wait| &wait.places).map(|place| &*place.resource).collect();
    let detail = format!("the lease {} still waits for {}", lease.digest, names.join(", "));
    let resource = names.first().map(|name| (*name).to_owned());
    Error::Refused(Box::new(Problem { resource, ..Problem::new(Code::Held, detail) }))
}
