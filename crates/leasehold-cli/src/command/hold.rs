//! Holding a lease in the foreground: renew it until told to stop, then give it back.
//!
//! The lease counts as lost when the service says so, or when by our own clocks it may have ended: from then on
//! another may hold what it held.

use std::cell::Cell;
use std::time::Duration;

use leasehold_api::{Code, Id, SpanText};
use leasehold_client::Validity;
use leasehold_client::http::{Error, Granted, HttpClient};
use leasehold_core::{Span, Ttl};

use crate::failure::Failure;
use crate::output;
use crate::render::text::{plain, short};
use crate::signals::Signals;

/// The exit code of a lost lease.
const LOST: u8 = 79;
/// How often a lease that does not end by time is looked after.
const ENDLESS_EVERY: Duration = Duration::from_secs(10);
/// The pause before a renewal is tried again, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The shortest time that one renewal is given.
const RENEWAL_MIN: Duration = Duration::from_millis(500);
/// How long the release may delay the exit.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// Keeps a lease until a signal, then releases it.
pub(crate) async fn hold(
    client: &HttpClient,
    granted: &Granted,
    resources: &[String],
    signals: &mut Signals,
) -> Result<(), Failure> {
    let names = resources.join(", ");
    let validity = Cell::new(granted.validity);
    tokio::select! {
        _ = signals.next() => {
            release(client, granted.id, &names, &validity).await;
            Ok(())
        }
        cause = keep(client, granted.id, granted.lease.ttl.0, &validity) => {
            let failure = Failure::new(LOST, format!("lost {names}: {cause}"));
            Err(failure.hint("stop what it protected; another may hold it now"))
        }
    }
}

/// Renews at a third of the ttl, until the lease is lost; tells why.
async fn keep(client: &HttpClient, id: Id, mut ttl: Ttl, validity: &Cell<Validity>) -> String {
    loop {
        tokio::time::sleep(third(ttl, &validity.get())).await;
        match renewed(client, id, third(ttl, &validity.get()), validity).await {
            Ok(next) => ttl = next,
            Err(cause) => return cause,
        }
    }
}

/// Renews once, however many attempts it takes within the validity; gives the ttl from now on.
async fn renewed(client: &HttpClient, id: Id, patience: Duration, validity: &Cell<Validity>) -> Result<Ttl, String> {
    let (mut is_told, mut pause) = (false, PAUSE);
    loop {
        let left = validity.get().left().unwrap_or(Duration::MAX);
        let attempt = tokio::time::timeout(patience.max(RENEWAL_MIN).min(left), client.renew(id, None)).await;
        let cause = match attempt {
            // An answer whose time is already over makes nobody valid.
            Ok(Ok((renewed, until))) if !until.is_over() => {
                validity.set(until);
                return Ok(renewed.ttl.0);
            }
            Ok(Ok(_)) => "the renewal was answered too late".to_owned(),
            Ok(Err(error)) if is_over(&error) => return Err(plain(&error.to_string())),
            Ok(Err(error)) => plain(&error.to_string()),
            Err(_) => "the server does not answer".to_owned(),
        };
        if validity.get().is_over() {
            return Err(format!("it could not be renewed in time: {cause}"));
        }
        // One message for an outage, however many attempts it takes.
        if !std::mem::replace(&mut is_told, true) {
            let left = validity.get().left().map(|left| format!(" for {}", short(SpanText(millis(left)))));
            let left = left.unwrap_or_default();
            output::message(format!("lease: renewal failed, trying again{left}: {cause}"));
        }
        tokio::time::sleep(pause.min(validity.get().left().unwrap_or(pause))).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A third of the ttl, or of what is left if that is less.
fn third(ttl: Ttl, validity: &Validity) -> Duration {
    let ttl = match ttl {
        Ttl::For(span) => Duration::from_millis(span.0) / 3,
        Ttl::Endless => ENDLESS_EVERY,
    };
    validity.left().map_or(ttl, |left| ttl.min(left / 3))
}

/// Whether the service says that the lease is no more, or not ours.
fn is_over(error: &Error) -> bool {
    matches!(error.code(), Some(Code::LeaseEnded | Code::UnknownLease | Code::NotYours | Code::Denied))
}

/// Gives the lease back; if that fails, time will.
async fn release(client: &HttpClient, id: Id, names: &str, validity: &Cell<Validity>) {
    let cause = match tokio::time::timeout(RELEASE_MAX, client.release(id)).await {
        Ok(Ok(())) => return output::message(format!("lease: released {names}")),
        Ok(Err(error)) => plain(&error.to_string()),
        Err(_) => "the server does not answer".to_owned(),
    };
    let ends = match validity.get().left() {
        Some(left) => format!("it ends by itself in {}", short(SpanText(millis(left)))),
        None => format!("it does not end by itself: run  lease release {id}"),
    };
    output::message(format!("lease: cannot release {names}: {cause}; {ends}"));
}

fn millis(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use leasehold_client::Moment;
    use leasehold_core::Remaining;

    use super::*;

    #[test]
    fn renewal_is_due_after_a_third() {
        let validity = Validity::new(Moment::now(), Remaining::For(Span::seconds(3600)));
        assert_eq!(third(Ttl::For(Span::seconds(30)), &validity), Duration::from_secs(10));
        assert_eq!(third(Ttl::Endless, &Validity::new(Moment::now(), Remaining::Endless)), ENDLESS_EVERY);
        let short = Validity::new(Moment::now(), Remaining::For(Span::seconds(3)));
        assert!(third(Ttl::For(Span::seconds(30)), &short) < Duration::from_secs(1));
    }
}
