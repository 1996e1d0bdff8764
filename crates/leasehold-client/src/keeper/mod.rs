//! The keeper: one task that renews all leases of a client, watches their deadlines and runs errands.
//!
//! It lives on the client's thread. Leases are ordered by when they have to be looked at, so many of them cost
//! little; all that are due go into one call of the store. The clock decides, never a timer: after a pause of
//! the process the first thing it does is to tell what was lost.

mod entry;
mod jobs;
mod loss;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use leasehold_core::LeaseId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::acquire::{self, Order};
use crate::held::Held;
use crate::store::{Notice, Store};
use crate::thread::Pulse;
use crate::{Clock, Error, Guard, LostCause, Moment, Validity};

pub(crate) use entry::jittered;
use entry::{Entry, Now, Verdict};
pub(crate) use jobs::abandon;

/// How many leases one call renews at most.
const BATCH_MAX: usize = 4096;
/// Leases that are due within this time may go along with one that is due now.
const ALONG: Duration = Duration::from_millis(500);
/// How long an unanswered renewal is waited for at most: a late answer may still help.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);
/// How long the keeper works on after the last client and guard are gone.
const PARTING: Duration = Duration::from_secs(10);
/// How many notices about unknown leases are remembered: their grant may still be on its way here.
const EARLY_MAX: usize = 256;

/// Something to do with the store, on the client's thread.
type Job = Box<dyn FnOnce(&Office) -> BoxFuture<'static, ()> + Send>;

/// What a client or a guard wants of the keeper.
pub(crate) enum Errand {
    /// Get a lease.
    Acquire { order: Box<Order>, reply: oneshot::Sender<Result<Guard, Error>> },
    /// Keep a lease that was granted.
    Keep(Arc<Held>),
    /// Give a lease back; it has ended here already.
    Release { held: Arc<Held>, done: Option<oneshot::Sender<Result<(), Error>>> },
    /// Renew a lease now.
    Renew { held: Arc<Held>, done: oneshot::Sender<Result<(), Error>> },
    /// Its holder was active.
    Touched(LeaseId),
    /// Something else to do with the store.
    Run(Job),
}

/// What every task of the client's thread works with.
#[derive(Clone)]
pub(crate) struct Office {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pulse: Arc<Pulse>,
    /// Whether the store has ever answered.
    pub(crate) contact: Arc<AtomicBool>,
    pub(crate) errands: mpsc::WeakUnboundedSender<Errand>,
}

/// The way to the keeper; it works as long as there is one.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) errands: mpsc::UnboundedSender<Errand>,
    pub(crate) store: Arc<dyn Store>,
}

impl Handle {
    /// Hands in an errand that needs no answer.
    pub(crate) fn send(&self, errand: Errand) {
        // Without a keeper nothing can be done; leases end by time.
        let _ = self.errands.send(errand);
    }

    /// Hands in an errand and waits for its answer.
    pub(crate) async fn ask<T>(&self, errand: impl FnOnce(oneshot::Sender<T>) -> Errand) -> Result<T, Error> {
        let (done, answer) = oneshot::channel();
        self.send(errand(done));
        answer.await.map_err(|_| Error::Unreachable {
            addr: self.store_name().to_owned(),
            cause: "the client's thread has ended".to_owned(),
        })
    }

    /// Makes a call of the store that is safe to repeat, on the client's thread; again while the store is known but cannot
    /// be reached or cannot do it, for a short while.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl Fn(&dyn Store) -> BoxFuture<'static, Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let job = |mut done: oneshot::Sender<Result<T, Error>>| {
            Errand::Run(Box::new(move |office: &Office| {
                let office = office.clone();
                Box::pin(async move {
                    tokio::select! {
                        // Who no longer waits needs no answer.
                        result = jobs::answered(&office, call) => drop(done.send(result)),
                        () = done.closed() => {}
                    }
                })
            }))
        };
        self.ask(job).await?
    }

    pub(crate) fn store_name(&self) -> &'static str {
        self.store.name()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.store.name())
    }
}

/// What a renewal of several leases led to.
struct Answer {
    /// Which leases, and how much of their activity it covers.
    leases: Vec<(LeaseId, u64)>,
    results: Result<Vec<Result<Validity, Error>>, Error>,
}

/// The keeper of all leases of a client.
pub(crate) struct Keeper {
    office: Office,
    begun: Moment,
    leases: HashMap<LeaseId, Entry>,
    schedule: BTreeSet<(Duration, LeaseId)>,
    /// Notices about leases that are not known yet.
    early: VecDeque<Notice>,
    answers: mpsc::UnboundedSender<Answer>,
    /// Renewals that are not answered yet.
    attempts: JoinSet<()>,
    /// Everything else that goes on.
    tasks: JoinSet<()>,
}

/// Runs errands and keeps leases until there is nobody left to keep them for.
pub(crate) async fn keep(office: Office, mut errands: mpsc::UnboundedReceiver<Errand>) {
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut notices = office.store.notices().fuse();
    let mut keeper = Keeper {
        begun: office.clock.now(),
        leases: HashMap::new(),
        schedule: BTreeSet::new(),
        early: VecDeque::new(),
        answers,
        attempts: JoinSet::new(),
        tasks: JoinSet::new(),
        office,
    };
    let mut parting = None;
    loop {
        let now = keeper.tend();
        if parting.is_some_and(|until| keeper.tasks.is_empty() || now.at >= until) {
            return;
        }
        let nap = keeper.nap(now, parting);
        tokio::select! {
            errand = errands.recv(), if parting.is_none() => match errand {
                Some(errand) => keeper.run(errand),
                None => parting = Some(now.at + PARTING),
            },
            Some(answer) = answered.recv() => {
                keeper.tell_lost();
                keeper.take(answer);
            }
            Some(notice) = notices.next() => keeper.hear(notice),
            Some(_) = keeper.tasks.join_next() => {}
            Some(_) = keeper.attempts.join_next() => {}
            () = nap => {}
        }
    }
}

impl Keeper {
    fn now(&self) -> Now {
        let moment = self.office.clock.now();
        Now { at: moment.since(self.begun), moment }
    }

    /// Sleeps until something is due, or never.
    fn nap(&self, now: Now, parting: Option<Duration>) -> impl Future<Output = ()> + use<> {
        let next = self.schedule.first().map(|(at, _)| *at);
        let next = next.into_iter().chain(parting).min().map(|at| at.saturating_sub(now.at));
        // A suspended machine does not fire timers; look often enough to notice.
        let nap = next.map(|nap| nap.min(self.office.clock.longest_nap()));
        let sleep = nap.map(|nap| self.office.clock.sleep(nap));
        async move {
            match sleep {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Looks at all leases that have to be looked at: first what is lost, then what is to be renewed.
    fn tend(&mut self) -> Now {
        let mut batch = Vec::new();
        for id in self.tell_lost() {
            let now = self.now();
            let Some(entry) = self.leases.get_mut(&id) else { continue };
            entry.give_up_asked(now, self.office.store.name());
            if entry.is_due(now, false) {
                batch.push(id);
            } else {
                self.schedule_again(id);
            }
        }
        if !batch.is_empty() {
            self.add_nearly_due(&mut batch);
            for some in batch.chunks(BATCH_MAX) {
                self.send(some);
            }
        }
        self.now()
    }

    /// Takes from the schedule what has to be looked at now and tells what of it is lost. Gives the rest.
    fn tell_lost(&mut self) -> Vec<LeaseId> {
        let now = self.now();
        let mut rest = Vec::new();
        while let Some((at, id)) = self.schedule.first().copied().filter(|(at, _)| *at <= now.at) {
            self.schedule.remove(&(at, id));
            let Some(entry) = self.leases.get_mut(&id) else { continue };
            entry.wake = None;
            match entry.verdict(now) {
                Verdict::Stays => rest.push(id),
                Verdict::Lost(cause) => self.lose(id, cause),
            }
        }
        rest
    }

    /// Adds what is due so soon that it may as well go along.
    fn add_nearly_due(&mut self, batch: &mut Vec<LeaseId>) {
        let now = self.now();
        let soon = self.schedule.range(..(now.at + ALONG, LeaseId::new(1).expect("one is an id")));
        let along = soon.filter(|(_, id)| self.leases.get(id).is_some_and(|entry| entry.is_due(now, true)));
        let along: Vec<LeaseId> = along.map(|(_, id)| *id).collect();
        batch.extend(along);
    }

    /// Sends a renewal of several leases; its answer comes to [`Keeper::take`].
    fn send(&mut self, batch: &[LeaseId]) {
        let now = self.now();
        let (mut leases, mut wishes, mut lasts) = (Vec::new(), Vec::new(), Duration::ZERO);
        for id in batch {
            let Some(entry) = self.leases.get_mut(id) else { continue };
            leases.push((*id, entry.note_sent(now)));
            wishes.push(Arc::clone(&entry.held.wish));
            lasts = lasts.max(entry.held.ttl().unwrap_or(ATTEMPT_MAX));
            self.schedule_again(*id);
        }
        let renewal = self.office.store.renew(wishes);
        let too_late = self.office.clock.sleep(lasts.min(ATTEMPT_MAX));
        let answers = self.answers.clone();
        self.attempts.spawn(self.office.pulse.counted(async move {
            tokio::select! {
                // An answer that nobody takes any more is not needed.
                results = renewal => drop(answers.send(Answer { leases, results })),
                () = too_late => {}
            }
        }));
    }

    /// Takes the answer to a renewal.
    fn take(&mut self, answer: Answer) {
        match answer.results {
            Ok(results) => {
                self.office.contact.store(true, Ordering::Release);
                for ((id, covered), result) in answer.leases.into_iter().zip(results) {
                    self.take_one(id, covered, result);
                }
            }
            Err(error) => {
                for (id, covered) in answer.leases {
                    self.take_one(id, covered, Err(error.clone()));
                }
            }
        }
    }

    fn take_one(&mut self, id: LeaseId, covered: u64, result: Result<Validity, Error>) {
        let now = self.now();
        let Some(entry) = self.leases.get_mut(&id) else { return };
        match result {
            Ok(validity) if entry.held.extend(validity) => entry.note_renewed(covered, now),
            Ok(_) => entry.note_failed(&late(self.office.store.name()), now),
            Err(error) => match loss::cause_of(&error) {
                Some(cause) => return self.lose(id, cause),
                None => entry.note_failed(&error, now),
            },
        }
        self.schedule_again(id);
    }

    /// Puts a lease at its place in the schedule.
    fn schedule_again(&mut self, id: LeaseId) {
        let now = self.now();
        let Some(entry) = self.leases.get_mut(&id) else { return };
        if let Some(wake) = entry.wake.take() {
            self.schedule.remove(&(wake, id));
        }
        entry.wake = entry.next_look(now);
        if let Some(wake) = entry.wake {
            self.schedule.insert((wake, id));
        }
    }

    fn forget(&mut self, id: LeaseId) -> Option<Entry> {
        let entry = self.leases.remove(&id)?;
        if let Some(wake) = entry.wake {
            self.schedule.remove(&(wake, id));
        }
        Some(entry)
    }

    /// Notes that a lease is lost and tells it.
    fn lose(&mut self, id: LeaseId, cause: LostCause) {
        let Some(entry) = self.forget(id) else { return };
        let held = Arc::clone(&entry.held);
        let first = held.lose(cause.clone());
        entry.refuse_asked(&cause);
        // The store may still count it as held. With a cooldown it is to rest as after any unclean end.
        if first && matches!(cause, LostCause::Unreachable { .. }) && held.wish.cooldown.is_zero() {
            let job = jobs::release_late(self.office.clone(), held);
            self.tasks.spawn(self.office.pulse.counted(job));
        }
    }

    fn run(&mut self, errand: Errand) {
        let now = self.now();
        match errand {
            Errand::Acquire { order, reply } => {
                let job = acquire::run(self.office.clone(), *order, reply);
                self.tasks.spawn(self.office.pulse.counted(job));
            }
            Errand::Keep(held) => {
                let id = held.id();
                self.leases.insert(id, Entry::new(held, now));
                self.schedule_again(id);
                self.hear_early(id);
            }
            Errand::Release { held, done } => {
                if let (Some(entry), Some(cause)) = (self.forget(held.id()), held.lost_cause()) {
                    entry.refuse_asked(&cause);
                }
                let job = jobs::release(self.office.clone(), held, done);
                self.tasks.spawn(self.office.pulse.counted(job));
            }
            Errand::Renew { held, done } => match self.leases.get_mut(&held.id()) {
                Some(entry) => {
                    entry.note_asked(done, now);
                    self.schedule_again(held.id());
                }
                None => {
                    let cause = held.lost_cause().unwrap_or(LostCause::Expired);
                    let _ = done.send(Err(held.lost_error(cause)));
                }
            },
            Errand::Touched(id) => {
                if let Some(entry) = self.leases.get_mut(&id) {
                    entry.note_touched(now);
                    self.schedule_again(id);
                }
            }
            Errand::Run(job) => {
                let job = job(&self.office);
                self.tasks.spawn(self.office.pulse.counted(job));
            }
        }
    }

    fn hear(&mut self, notice: Notice) {
        let lease = match &notice {
            Notice::Ended { lease, .. } | Notice::HandoverAsked { lease, .. } => *lease,
        };
        match (self.leases.get(&lease), notice) {
            (None, notice) => {
                self.early.push_back(notice);
                if self.early.len() > EARLY_MAX {
                    self.early.pop_front();
                }
            }
            (Some(_), Notice::Ended { cause, .. }) => self.lose(lease, cause),
            (Some(entry), Notice::HandoverAsked { ask, .. }) => entry.held.ask(ask),
        }
    }

    /// Hears what was told about a lease before it was known here.
    fn hear_early(&mut self, id: LeaseId) {
        let about = |notice: &Notice| match notice {
            Notice::Ended { lease, .. } | Notice::HandoverAsked { lease, .. } => *lease == id,
        };
        if !self.early.iter().any(about) {
            return;
        }
        let (early, rest) = std::mem::take(&mut self.early).into_iter().partition::<VecDeque<_>, _>(about);
        self.early = rest;
        for notice in early {
            self.hear(notice);
        }
    }
}

fn late(store: &str) -> Error {
    Error::Unreachable { addr: store.to_owned(), cause: "the answer came too late".to_owned() }
}
