//! Elections: a loop over terms.
//!
//! An election is a resource, its candidates are the waiters and its incumbent is the holder. A candidate that is
//! elected leads for a term, which ends when it is lost, resigned or done; then the next one begins. The next
//! candidate is elected within a ttl if the incumbent dies, at once if it resigns.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_api::Class;
use tokio::sync::watch;

use crate::client::Client;
use crate::keeper::{Errand, Office, jittered};
use crate::store::Incumbent;
use crate::{Error, Guard, Lock, LostCause, Renewal};

/// The pause before a failed look is repeated, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long the first look is repeated while the store says that it cannot answer now.
const FIRST_MAX: Duration = Duration::from_secs(5);

/// An election that one can stand for or look at.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for before `campaign`, `run` or `observe`"]
pub struct Election {
    client: Client,
    name: String,
    lock: Lock,
}

/// A term of leadership: the right to act as the incumbent, as long as it is valid. Clones are the same term, which
/// is given up when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Term {
    guard: Arc<Guard>,
}

impl Election {
    pub(crate) fn new(client: Client, name: String) -> Election {
        let lock = Lock::new(client.clone(), vec![name.clone()], Class::Election);
        Election { client, name, lock }
    }

    /// For how long a term lasts unless it is renewed: after a crash the next one begins at most that much later.
    pub fn ttl(mut self, ttl: Duration) -> Election {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// The name of this candidate, instead of the client's holder.
    pub fn candidate(mut self, name: impl Into<String>) -> Election {
        self.lock = self.lock.holder(name);
        self
    }

    /// When the term is renewed.
    pub fn renewal(mut self, renewal: Renewal) -> Election {
        self.lock = self.lock.renewal(renewal);
        self
    }

    /// Something that people should know about this candidate, such as its address.
    pub fn metadata(mut self, name: impl Into<String>, text: impl Into<String>) -> Election {
        self.lock = self.lock.metadata(name, text);
        self
    }

    /// Higher goes first among the candidates; 0 unless given.
    pub fn priority(mut self, priority: i32) -> Election {
        self.lock = self.lock.priority(priority);
        self
    }

    /// Stands for election until elected. Dropping the future withdraws the candidacy.
    pub async fn campaign(&self) -> Result<Term, Error> {
        let guard = Arc::new(self.lock.clone().acquire().await?);
        Ok(Term { guard })
    }

    /// Stands for election and leads, again and again.
    ///
    /// `lead` is called with every term. If it returns while its term lasts, that is the end: the term is given up and
    /// the result returned. If the term is lost, the future of `lead` is dropped where it waits, just before the time
    /// of the term is over, and the next campaign begins; what it has started elsewhere listens to [`Term::lost`]. If it
    /// [resigns](Term::resign), it may finish, and then the next campaign begins. Dropping the future of `run`
    /// withdraws, whatever the moment.
    pub async fn run<T, E, F, Leading>(&self, mut lead: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnMut(Term) -> Leading,
        Leading: Future<Output = Result<T, E>>,
    {
        loop {
            let term = self.campaign().await?;
            let leading = lead(term.clone());
            tokio::pin!(leading);
            let result = tokio::select! {
                // A result that comes together with the loss is not one of the term.
                biased;
                cause = term.lost() => match cause {
                    LostCause::Released | LostCause::HandedOver => {
                        // It gave the term up itself, so it acts no more; it may tidy up.
                        let _ = leading.await;
                        continue;
                    }
                    LostCause::Expired
                    | LostCause::Superseded { .. }
                    | LostCause::Revoked { .. }
                    | LostCause::Unreachable { .. } => continue,
                },
                result = &mut leading => result,
            };
            if term.guard.lost_cause().is_some() {
                continue;
            }
            match term.resign().await {
                Err(Error::Lost { .. }) => {}
                // Without an answer it ends by time.
                Ok(()) | Err(_) => return result,
            }
        }
    }

    /// Who leads, now and after every change.
    pub fn observe(&self) -> Observe {
        let (tell, seen) = watch::channel(None);
        let name = self.name.clone();
        self.client.handle().send(Errand::Run(Box::new(move |office: &Office| {
            let office = office.clone();
            Box::pin(observe(office, name, tell))
        })));
        Observe { seen, _client: self.client.clone() }
    }
}

impl Term {
    /// The fencing token of the term: hand it to whatever the incumbent writes to. An error once the term is over.
    pub fn token(&self) -> Result<u64, Error> {
        self.guard.token()
    }

    /// Makes sure that the term is valid for at least this long: a look at the clock, no round trip.
    pub fn ensure_valid(&self, for_: Duration) -> Result<(), Error> {
        self.guard.ensure_valid(for_)
    }

    /// Returns when the term is lost or given up: a little before its time is over, at the latest.
    pub fn lost(&self) -> impl Future<Output = LostCause> + Send + 'static {
        self.guard.lost()
    }

    /// Gives the term up: the next candidate is elected at once. An error if it was lost before, or if the store
    /// did not answer; then it ends by time at the latest.
    pub async fn resign(&self) -> Result<(), Error> {
        self.guard.end(LostCause::Released).await
    }

    /// The lease of the term.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The incumbents of an election, one after the other.
#[derive(Debug)]
pub struct Observe {
    seen: watch::Receiver<Option<Seen>>,
    /// Keeps the client's thread alive.
    _client: Client,
}

/// The incumbent, or why it cannot be told.
type Seen = Result<Option<Incumbent>, Error>;

impl Observe {
    /// The incumbent at first, then the next one after each change; none while nobody leads. Short terms between
    /// two calls may be passed over.
    pub async fn next(&mut self) -> Result<Option<Incumbent>, Error> {
        let ended =
            || Error::Unreachable { addr: "store".to_owned(), cause: "the client's thread has ended".to_owned() };
        self.seen.changed().await.map_err(|_| ended())?;
        self.seen.borrow_and_update().clone().unwrap_or_else(|| Err(ended()))
    }
}

/// Looks at an election and tells every change, as long as somebody listens.
async fn observe(office: Office, name: String, tell: watch::Sender<Option<Seen>>) {
    let (mut pause, begun) = (PAUSE, office.clock.now());
    // A store may count changes from its latest look, so there is one before the first change is waited for.
    tokio::select! {
        _ = office.store.incumbent(&name) => {}
        () = tell.closed() => return,
    }
    loop {
        let changed = office.store.changed(&name);
        let looked = async {
            let incumbent = office.store.incumbent(&name).await?;
            tell.send_if_modified(|seen| {
                let new = seen.as_ref() != Some(&Ok(incumbent.clone()));
                *seen = Some(Ok(incumbent));
                new
            });
            changed.await
        };
        let result = tokio::select! {
            result = looked => result,
            () = tell.closed() => return,
        };
        match result {
            Ok(()) => pause = PAUSE,
            // What was seen stays true until something else is seen; a store that answers may do so soon.
            Err(error)
                if error.is_passing()
                    && (tell.borrow().is_some()
                        || error.problem().is_some() && office.clock.now().since(begun) < FIRST_MAX) =>
            {
                office.clock.sleep(jittered(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => return drop(tell.send(Some(Err(error)))),
        }
    }
}
