//! What goes on in the background: giving leases back, and taking back wishes that were given up.
//!
//! Each is repeated until the store has acknowledged it or time has made it unnecessary.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::Ttl;
use tokio::sync::oneshot;

use super::{Office, jittered};
use crate::held::Held;
use crate::store::{Store, Wish};
use crate::{Error, Moment};

/// How long one attempt may take: at least, at most.
const ATTEMPT_MIN: Duration = Duration::from_millis(200);
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
/// How long somebody waits for the acknowledgement.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a call that somebody waits for is repeated.
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long a lease without end is tried to be given back.
const ENDLESS: Duration = Duration::from_secs(60);
/// The pause before a repetition, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Gives a lease back and tells `done` when that is acknowledged, or will not be soon.
pub(super) async fn release(office: Office, held: Arc<Held>, done: Option<oneshot::Sender<Result<(), Error>>>) {
    let left = held.validity().left_at(office.clock.now()).unwrap_or(ENDLESS);
    let repeated = repeat(&office, left, |office| office.store.release(Arc::clone(&held.wish)));
    tokio::pin!(repeated);
    let Some(done) = done else { return drop(repeated.await) };
    let told = tokio::select! {
        result = &mut repeated => {
            // Who no longer waits needs no answer.
            let _ = done.send(result);
            true
        }
        () = office.clock.sleep(ANSWER_MAX) => {
            let _ = done.send(Err(no_answer(&office)));
            false
        }
    };
    if !told {
        let _ = repeated.await;
    }
}

/// Gives back what the store may still hold of a lease that was lost here, once its holder's time is over.
pub(super) async fn release_late(office: Office, held: Arc<Held>) {
    let left = held.validity().left_at(office.clock.now()).unwrap_or_default();
    office.clock.sleep(left).await;
    let ttl = held.ttl().unwrap_or(ENDLESS);
    // The lease ends by time anyway, and nobody waits for this.
    let _ = repeat(&office, ttl, |office| office.store.release(Arc::clone(&held.wish))).await;
}

/// Takes back a wish whose grant was given up at an unknown point.
pub(crate) async fn abandon(office: &Office, wish: &Arc<Wish>) {
    let long = match wish.ttl {
        Ttl::For(span) => Duration::from_millis(span.0) * 2,
        Ttl::Endless => ENDLESS,
    };
    // What is left then has ended by time.
    let _ = repeat(office, long, |office| office.store.abandon(Arc::clone(wish))).await;
}

/// Repeats a call until it is answered, or for this long.
async fn repeat(
    office: &Office,
    long: Duration,
    call: impl Fn(&Office) -> BoxFuture<'static, Result<(), Error>>,
) -> Result<(), Error> {
    let begun: Moment = office.clock.now();
    let attempt = (long / 3).clamp(ATTEMPT_MIN, ATTEMPT_MAX);
    let mut pause = PAUSE;
    loop {
        let result = tokio::select! {
            result = call(office) => result,
            () = office.clock.sleep(attempt) => Err(no_answer(office)),
        };
        match result {
            Err(error) if error.is_passing() => {
                if office.clock.now().since(begun) + pause > long {
                    return Err(error);
                }
            }
            answered => {
                office.contact.store(true, Ordering::Release);
                return answered;
            }
        }
        office.clock.sleep(jittered(pause)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Repeats a call that somebody waits for, while a store that is known cannot be reached or cannot do it now.
pub(super) async fn answered<T>(
    office: &Office,
    call: impl Fn(&dyn Store) -> BoxFuture<'static, Result<T, Error>>,
) -> Result<T, Error> {
    let begun: Moment = office.clock.now();
    let mut pause = PAUSE;
    loop {
        let result = call(&*office.store).await;
        let is_answer = result.as_ref().map_or_else(|error| error.problem().is_some(), |_| true);
        let known = office.contact.fetch_or(is_answer, Ordering::AcqRel) || is_answer;
        match result {
            Err(error) if error.is_passing() && known && office.clock.now().since(begun) < CALL_MAX => {}
            answered => return answered,
        }
        office.clock.sleep(jittered(pause)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn no_answer(office: &Office) -> Error {
    Error::Unreachable { addr: office.store.name().to_owned(), cause: "no answer came".to_owned() }
}
