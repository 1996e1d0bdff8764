//! Getting the lease: wait in the queue, show how far it is, leave it on a signal.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::SpanText;
use leasehold_client::http::HttpClient;
use leasehold_client::store::{Leasehold, Progress};
use leasehold_client::{Client, Error, Guard, Lock};
use leasehold_core::{Patience, Span, Ttl};
use tokio::sync::watch;

use super::signals::Signals;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::render::refusal;
use crate::render::text::{clock, plain, short};
use crate::waiting::WaitingLine;

/// How often the times in the line of a wait go on.
const TICK: Duration = Duration::from_secs(1);
/// How long leaving the queue may delay the exit.
const LEAVE_MAX: Duration = Duration::from_secs(2);
const LEAVE_LOOK: Duration = Duration::from_millis(5);
/// How long the end of the holder before may delay the command.
const PAST_MAX: Duration = Duration::from_millis(500);

/// The lease client of these settings.
pub(crate) fn client(context: &Context) -> Client {
    let settings = &context.settings;
    let store = Leasehold::new(settings.endpoints.clone(), &*settings.namespace);
    Client::builder().holder(&*settings.holder).over(store)
}

/// What a wait led to.
pub(crate) enum Outcome {
    Acquired(Guard),
    Refused(Error),
    /// A signal ended the wait; the exit code tells which.
    Left(u8),
}

/// Waits for the lease, until it is granted or refused, or a signal ends the wait.
pub(crate) async fn acquire(lock: Lock, signals: &mut Signals) -> Outcome {
    let (tell, mut news) = watch::channel(None::<Progress>);
    let lock = lock.on_progress(move |progress| drop(tell.send_replace(Some(progress))));
    let mut acquiring = std::pin::pin!(lock.acquire());
    let mut line = WaitingLine::new(output::is_watched());
    loop {
        tokio::select! {
            result = &mut acquiring => return match result {
                Ok(guard) => Outcome::Acquired(guard),
                Err(error) => Outcome::Refused(error),
            },
            exit = signals.ending() => return Outcome::Left(exit),
            Ok(()) = news.changed() => if let Some(progress) = &*news.borrow_and_update() {
                line.update(progress);
            },
            () = tokio::time::sleep(TICK) => line.tick(),
        }
    }
}

/// Makes sure that nothing is left in a queue before the process ends.
pub(crate) async fn leave(client: Client) {
    let store = Arc::downgrade(client.store());
    drop(client);
    // The client's thread gives back what it still has and then lets go of the store.
    let gone = async {
        while store.strong_count() > 0 {
            tokio::time::sleep(LEAVE_LOOK).await;
        }
    };
    let _ = tokio::time::timeout(LEAVE_MAX, gone).await;
}

/// Tells what was acquired.
pub(crate) async fn tell(word: &str, resources: &[String], guard: &Guard, http: &HttpClient) {
    let tokens: Vec<String> = resources
        .iter()
        .map(|name| guard.token_of(name).map_or_else(|_| "none".into(), |token| token.to_string()))
        .collect();
    let tokens = match tokens.iter().all(|token| *token == tokens[0]) {
        true => format!("token={}", tokens[0]),
        false => format!("tokens={}", tokens.join(",")),
    };
    let rest = match guard.waited() {
        waited if waited < Duration::from_secs(1) => {
            let ttl = match guard.ttl() {
                Ttl::For(span) => short(SpanText(span)),
                Ttl::Endless => "none".to_owned(),
            };
            format!("ttl={ttl}  holder={}", plain(guard.holder()))
        }
        waited => {
            let waited = clock(SpanText(Span(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))));
            let before = tokio::time::timeout(PAST_MAX, before(resources, guard, http)).await.ok().flatten();
            format!("waited {waited}{}", before.map(|what| format!("  (previous holder {what})")).unwrap_or_default())
        }
    };
    output::message(format!("lease: {word} {}  {tokens}  {rest}", plain(&resources.join(", "))));
}

/// How the holder before ended.
async fn before(resources: &[String], guard: &Guard, http: &HttpClient) -> Option<String> {
    let name = resources.first()?;
    let token = guard.token_of(name).ok()?;
    let past = http.history(name).await.ok()?.history;
    let ended = past.into_iter().find(|past| past.what != "granted" && past.token < token)?;
    Some(plain(&ended.what))
}

/// The failure of a lease that was not had.
pub(crate) fn refused(error: &Error, wait: Patience, not_acquired: u8) -> Failure {
    match error {
        Error::Held(problem) | Error::TimedOut { problem, .. } => refusal::not_acquired(problem, wait, not_acquired),
        Error::Denied(problem) | Error::Conflict(problem) | Error::Invalid(problem) | Error::Unavailable(problem) => {
            refusal::failure(problem)
        }
        Error::Unreachable { .. } => {
            Failure::new(69, plain(&error.to_string())).hint("start one with `lease serve`, or set LEASE_ADDR")
        }
        Error::Lost { .. } | Error::TooShort { .. } => Failure::new(79, plain(&error.to_string())),
        Error::Unsupported { .. } => Failure::new(2, plain(&error.to_string())),
    }
}
