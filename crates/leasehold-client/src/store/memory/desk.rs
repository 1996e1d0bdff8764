//! The state of a store in memory: one entry at a time, stamped by a clock, and the bells of those who wait.
//!
//! Lease time follows the clock while anything ends by time, and stands still otherwise. Every fact about a
//! resource rings its bell; those who wait listen first and look afterwards, so none is missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_core::{
    AHEAD_MAX, Answer, Applied, Asks, Caller, Command, EndCause, Event, Fact, Grant, Holder, LeaderId, LeaseId,
    LeaseTime, Metadata, Namespace, Release, Request, Rights, Span, Stamp, State, Ttl, WallTime,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::store::{HandoverAsk, Notice};
use crate::{Clock, Error, LostCause, Moment};

const LEADER: LeaderId = LeaderId { term: 1, node: 1 };

/// The state and all who wait for something of it.
#[derive(Debug)]
pub(super) struct Desk {
    clock: Arc<dyn Clock>,
    begun: Moment,
    begun_wall: Duration,
    space: Namespace,
    book: Mutex<Book>,
    /// Rings when something ends earlier than whoever sleeps until the next end expects.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Book {
    state: State,
    /// The time that went by while nothing could end by time, in milliseconds.
    skipped: u64,
    bells: HashMap<String, Arc<Notify>>,
    listeners: Vec<mpsc::UnboundedSender<Notice>>,
}

impl Desk {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Desk {
        let begun_wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Desk {
            begun: clock.now(),
            begun_wall,
            clock,
            space: Namespace::new("default").expect("it is a name"),
            book: Mutex::default(),
            sooner: Notify::new(),
        }
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Applies a command at this moment.
    pub(super) fn apply(&self, command: Command) -> Answer {
        let mut book = self.book.lock();
        self.catch_up(&mut book);
        let before = book.state.next_deadline();
        let rights = Rights { operator: true, endless: true };
        let caller = Caller { identity: None, rights };
        let request = Request { caller, namespace: self.space.clone(), command };
        let mut applied = self.enter(&mut book, 0, [request]);
        if book.state.next_deadline() < before || before.is_none() {
            self.sooner.notify_waiters();
        }
        applied.answers.pop().expect("an entry at this moment is never void")
    }

    /// Looks at the state at this moment.
    pub(super) fn look<T>(&self, look: impl FnOnce(&State, &Namespace) -> T) -> T {
        let mut book = self.book.lock();
        self.catch_up(&mut book);
        look(&book.state, &self.space)
    }

    /// Leaves a tombstone for a lease that never was.
    pub(super) fn bury(&self, lease: LeaseId) -> Result<(), Error> {
        let seen = self.look(|state, _| state.now());
        let grant = Grant {
            id: lease,
            holder: Holder::new("nobody").expect("it is a name"),
            ttl: Ttl::For(Span::seconds(1)),
            class: leasehold_core::Class::Lock,
            parent: None,
            metadata: Metadata::default(),
            asks: Asks::default(),
            seen,
        };
        let answers = [self.apply(Command::Grant(grant)), self.apply(Command::Release(Release { lease }))];
        answers.into_iter().find_map(Result::err).map_or(Ok(()), |rejection| Err(super::refusal(&rejection)))
    }

    /// The bell that rings for every fact about a resource.
    pub(super) fn bell(&self, resource: &str) -> Arc<Notify> {
        let mut book = self.book.lock();
        Arc::clone(book.bells.entry(resource.to_owned()).or_default())
    }

    /// Notices from now on.
    pub(super) fn subscribe(&self) -> mpsc::UnboundedReceiver<Notice> {
        let (listener, notices) = mpsc::unbounded_channel();
        self.book.lock().listeners.push(listener);
        notices
    }

    /// Returns when something has ended by time, or may have.
    pub(super) async fn time_goes_on(&self) {
        let sooner = self.sooner.notified();
        tokio::pin!(sooner);
        sooner.as_mut().enable();
        let next = self.look(|state, _| state.next_deadline().map(|at| at.after(Span(1)).since(state.now())));
        // A rest until the end of time is no rest that ends.
        let Some(next) = next.filter(|next| next.0 < u64::MAX / 2) else { return sooner.await };
        tokio::select! {
            () = sooner => {}
            () = self.clock.sleep(Duration::from_millis(next.0)) => self.look(|_, _| ()),
        }
    }

    /// Lets lease time go on to this moment, in steps that are not void.
    fn catch_up(&self, book: &mut Book) {
        let elapsed = u64::try_from(self.clock.now().since(self.begun).as_millis()).unwrap_or(u64::MAX);
        let target = elapsed.saturating_sub(book.skipped);
        while book.state.now().0 < target || book.state.has_backlog() {
            let ahead = target.saturating_sub(book.state.now().0);
            if ends_by_time(&book.state) {
                self.enter(book, ahead.min(AHEAD_MAX.0), []);
            } else {
                book.skipped += ahead;
                return;
            }
        }
    }

    /// Applies an entry stamped this much ahead of lease time, and tells what followed.
    fn enter(&self, book: &mut Book, ahead_ms: u64, requests: impl IntoIterator<Item = Request>) -> Applied {
        let now = book.state.now().after(Span(ahead_ms));
        let wall = self.begun_wall + self.clock.now().since(self.begun);
        let wall = WallTime(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        let applied = book.state.apply(LEADER, Stamp { leader: LEADER, now, wall }, requests);
        book.spread(&applied.events);
        applied
    }
}

/// Whether anything in it ends by time.
fn ends_by_time(state: &State) -> bool {
    state.next_deadline().is_some_and(|at| at != LeaseTime::NEVER)
}

impl Book {
    /// Rings the bells of the resources that events are about, and tells what concerns those who hold.
    fn spread(&mut self, events: &[Event]) {
        for event in events {
            if let Some(bell) = event.fact.subject().and_then(|name| std::str::from_utf8(name).ok())
                && let Some(bell) = self.bells.get(bell)
            {
                bell.notify_waiters();
            }
            if let Fact::LeaseEnded { lease, cause, .. } = &event.fact {
                self.tell(&Notice::Ended { lease: *lease, cause: lost_cause(cause) });
            }
            if let Fact::HandoverAsked { lease, resource, by, reason, .. } = &event.fact {
                let (resource, by) = (resource.to_string(), by.to_string());
                let ask = HandoverAsk { resource, by, reason: reason.as_ref().map(ToString::to_string) };
                self.tell(&Notice::HandoverAsked { lease: *lease, ask });
            }
        }
        if events.iter().any(|event| matches!(event.fact, Fact::LeaseEnded { .. })) {
            self.bells.retain(|_, bell| Arc::strong_count(bell) > 1);
        }
    }

    fn tell(&mut self, notice: &Notice) {
        self.listeners.retain(|listener| listener.send(notice.clone()).is_ok());
    }
}

fn lost_cause(cause: &EndCause) -> LostCause {
    let (by, reason) = match cause {
        EndCause::Revoked { by, reason } => (by.as_ref().map(ToString::to_string), Some(reason.to_string())),
        EndCause::Released | EndCause::Expired | EndCause::ParentEnded | EndCause::WaitElapsed | EndCause::Left => {
            (None, None)
        }
    };
    LostCause::from_end(cause.word(), by, reason)
}
