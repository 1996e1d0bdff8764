//! Getting a lease, however often the connection breaks on the way.
//!
//! The client chooses the id, so a grant whose answer was lost is repeated with it and finds the lease as it is.
//! Where the place in the queue was lost, the attempt begins anew with another id. A store that has never
//! answered is told at once. A caller that goes away, at whatever moment, leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_api::Code;
use leasehold_core::{LeaseId, Patience, Span};
use tokio::sync::oneshot;

use crate::held::{Held, Keeping};
use crate::keeper::{Errand, Handle, Office, abandon, jittered};
use crate::store::{Granted, ProgressTo, Wish};
use crate::{Error, Guard, Moment};

/// The pause before a repetition, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a store that answers at all may take for it, beyond the wait.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long failures are repeated for a caller that does not wait longer than that.
const REPEAT_MIN: Duration = Duration::from_secs(2);
/// The same for a store that answers, but cannot do it now: another server of it may.
const REPEAT_ANSWERED_MIN: Duration = Duration::from_secs(5);

/// A lease that somebody wants.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) wish: Wish,
    pub(crate) keeping: Keeping,
    pub(crate) progress: ProgressTo,
}

/// A new id, chosen at random.
pub(crate) fn new_id() -> LeaseId {
    LeaseId::new(rand::random_range(1..=LeaseId::MAX)).expect("the range has ids only")
}

/// Gets a lease for one who waits for `reply`, as long as it waits.
pub(crate) async fn run(office: Office, order: Order, mut reply: oneshot::Sender<Result<Guard, Error>>) {
    let mut attempts = Attempts::new(&office, order.wish);
    let result = tokio::select! {
        result = attempts.granted(&order.progress) => Some(result),
        () = reply.closed() => None,
    };
    let (wish, unclear) = (attempts.wish, attempts.unclear);
    match result {
        Some(Ok(granted)) => {
            let Some(errands) = office.errands.upgrade() else { return abandon(&office, &wish).await };
            let handle = Handle { errands, store: Arc::clone(&office.store) };
            let held = Arc::new(Held::new(wish, granted, order.keeping, Arc::clone(&office.clock)));
            handle.send(Errand::Keep(Arc::clone(&held)));
            // A guard that nobody takes any more is dropped, and that gives the lease back.
            let _ = reply.send(Ok(Guard::new(held, handle)));
        }
        Some(Err(error)) => {
            let _ = reply.send(Err(error));
            if unclear {
                abandon(&office, &wish).await;
            }
        }
        None => abandon(&office, &wish).await,
    }
}

/// The attempts to get one lease.
struct Attempts<'a> {
    office: &'a Office,
    wish: Arc<Wish>,
    patience: Patience,
    begun: Moment,
    /// Whether an attempt may have led to something that nobody knows of.
    unclear: bool,
}

/// What to do after an attempt.
enum Next {
    /// The lease is there.
    Done(Granted),
    /// The same grant again.
    Repeat(Error),
    /// What was asked for is gone: a new grant.
    Anew(Error),
}

impl<'a> Attempts<'a> {
    fn new(office: &'a Office, wish: Wish) -> Attempts<'a> {
        let (patience, begun) = (wish.patience, office.clock.now());
        Attempts { office, wish: Arc::new(wish), patience, begun, unclear: false }
    }

    async fn granted(&mut self, progress: &ProgressTo) -> Result<Granted, Error> {
        let mut pause = PAUSE;
        let mut first = true;
        let contact = Arc::clone(&self.office.contact);
        let told = progress.clone();
        let progress = ProgressTo::new(move |progress| {
            contact.store(true, Ordering::Release);
            told.tell(progress);
        });
        loop {
            let known = self.office.contact.load(Ordering::Acquire);
            let begun = self.office.clock.now();
            match self.attempt(&progress).await? {
                Next::Done(granted) => return Ok(granted),
                Next::Anew(error) | Next::Repeat(error) if self.is_over(&error) => return Err(error),
                Next::Anew(_) => self.renew_wish(new_id()),
                Next::Repeat(error) => {
                    let quick = self.office.clock.now().since(begun) < PAUSE_MAX;
                    let known = known || self.office.contact.load(Ordering::Acquire);
                    // One repetition finds out what became of an answer that was lost on the way.
                    let again = known || (first && quick);
                    if !again {
                        return Err(error);
                    }
                    self.renew_wish(self.wish.id);
                }
            }
            if !first {
                self.office.clock.sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            first = false;
        }
    }

    async fn attempt(&mut self, progress: &ProgressTo) -> Result<Next, Error> {
        self.unclear = true;
        let granted = self.office.store.grant(Arc::clone(&self.wish), progress.clone());
        let granted = self.bounded(granted).await;
        let result = match granted {
            Ok(granted) if granted.validity.is_over_at(self.office.clock.now()) => self.confirmed(granted).await,
            result => result,
        };
        match result {
            Ok(granted) => {
                self.office.contact.store(true, Ordering::Release);
                Ok(Next::Done(granted))
            }
            Err(error) if error.is_passing() => {
                self.office.contact.fetch_or(error.problem().is_some(), Ordering::AcqRel);
                Ok(Next::Repeat(error))
            }
            Err(error) => {
                self.office.contact.store(true, Ordering::Release);
                self.unclear = false;
                self.after_refusal(error)
            }
        }
    }

    /// Renews a lease whose answer came so late that it is not known to be valid.
    async fn confirmed(&self, granted: Granted) -> Result<Granted, Error> {
        let renewal = self.office.store.renew(vec![Arc::clone(&self.wish)]);
        let tokens = granted.tokens;
        let validity = self.bounded(renewal).await?.pop().unwrap_or_else(|| Err(self.no_answer()))?;
        if validity.is_over_at(self.office.clock.now()) {
            return Err(self.no_answer());
        }
        Ok(Granted { validity, tokens, waited: granted.waited })
    }

    /// A refusal that only tells what a lost connection led to is not the last word.
    fn after_refusal(&self, error: Error) -> Result<Next, Error> {
        let problem = error.problem();
        let code = problem.and_then(leasehold_api::Problem::known_code);
        let revoked = problem.and_then(|problem| problem.ended.as_ref()).is_some_and(|ended| ended.cause == "revoked");
        match code {
            Some(Code::LeaseEnded | Code::UnknownLease | Code::TooOld) if !revoked => Ok(Next::Anew(error)),
            _ => Err(error),
        }
    }

    /// An answer, or the error of a store that does not give one in time.
    async fn bounded<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let wait = match self.wish.patience {
            Patience::None => ANSWER_MAX,
            Patience::For(span) => Duration::from_millis(span.0).saturating_add(ANSWER_MAX),
            Patience::Endless => return answer.await,
        };
        tokio::select! {
            answer = answer => answer,
            () = self.office.clock.sleep(wait) => Err(self.no_answer()),
        }
    }

    fn no_answer(&self) -> Error {
        Error::Unreachable { addr: self.office.store.name().to_owned(), cause: "no answer came in time".to_owned() }
    }

    /// The wish for the next attempt: with what is left of the patience.
    fn renew_wish(&mut self, id: LeaseId) {
        let patience = match self.patience {
            Patience::For(span) => {
                let gone = u64::try_from(self.gone().as_millis()).unwrap_or(u64::MAX);
                // Never nothing: a repetition without patience finds the lease waiting and does not wait with it.
                Patience::For(Span(span.0.saturating_sub(gone).max(1)))
            }
            patience @ (Patience::None | Patience::Endless) => patience,
        };
        self.wish = Arc::new(Wish { id, patience, ..(*self.wish).clone() });
    }

    fn gone(&self) -> Duration {
        self.office.clock.now().since(self.begun)
    }

    /// Whether there is no time left to repeat.
    fn is_over(&self, error: &Error) -> bool {
        let least = if error.problem().is_some() { REPEAT_ANSWERED_MIN } else { REPEAT_MIN };
        match self.patience {
            Patience::None => self.gone() >= least,
            Patience::For(span) => self.gone() >= Duration::from_millis(span.0).max(least),
            Patience::Endless => false,
        }
    }
}
