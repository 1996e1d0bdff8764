//! This node's copy of the state, and what follows when an entry is applied to it.
//!
//! The replica is the [`Machine`] that the log drives. Applying an entry changes the state, adds its events to
//! the ring, and wakes whoever waits: watches by the revision, parked claims by their lease, connections by the leases
//! attached to them, the proposer by the next deadline. Callers whose commands were in the entry are answered, if it was
//! this node that took them. Nothing here talks to a client.

use std::io;
use std::sync::Arc;

use leasehold_core::planted::{self, Bug};
use leasehold_core::{
    AHEAD_MAX, Applied, Command, LeaseTime, LeaseView, Namespace, Outcome, Renewal, Request, Revision, Span, Stamp,
    State,
};
use leasehold_log::{BODY_VERSION, BodyError, Origin, open, read_body, write_body};
use parking_lot::{Mutex, RwLock};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot, watch};

use crate::attached::Attached;
use crate::lanes::{Reply, ReplyTo};
use crate::log::{Committed, Machine, Position, View};
use crate::parking::Parking;
use crate::past::Back;
use crate::pending::Pending;
use crate::ring::{Change, Ring};

/// What the proposer must know of the state to keep time going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pulse {
    pub(crate) now: LeaseTime,
    pub(crate) next_deadline: Option<LeaseTime>,
    pub(crate) backlog: bool,
    pub(crate) grace: Span,
}

/// A state and the recent events that led to it.
#[derive(Debug, Default)]
struct Copy {
    state: State,
    ring: Ring,
}

/// This node's copy of the state.
#[derive(Debug)]
pub struct Replica {
    copy: RwLock<Copy>,
    pulse: Mutex<Pulse>,
    applied: Notify,
    revision: watch::Sender<Revision>,
    /// Wakes feeds, those that began to wait first before the others.
    moved: Notify,
    pub(crate) parking: Parking,
    pub(crate) pending: Arc<Pending>,
    pub(crate) attached: Attached,
    pub(crate) clock: planted::NodeClock,
}

impl Default for Replica {
    fn default() -> Self {
        Self::new()
    }
}

impl Replica {
    /// An empty copy.
    pub fn new() -> Self {
        Self {
            copy: RwLock::default(),
            pulse: Mutex::default(),
            applied: Notify::new(),
            revision: watch::Sender::new(Revision(0)),
            moved: Notify::new(),
            parking: Parking::default(),
            pending: Arc::default(),
            attached: Attached::default(),
            clock: planted::NodeClock::default(),
        }
    }

    /// An empty copy that remembers the events of at most so many revisions. All nodes of a cluster must remember as
    /// many, or their states are not equal.
    pub fn remembering(revisions: usize) -> Self {
        let copy = Copy { ring: Ring::of(revisions), ..Copy::default() };
        Self { copy: RwLock::new(copy), ..Self::new() }
    }

    /// Looks at the state as it is applied here.
    pub fn look<T>(&self, query: impl FnOnce(&State) -> T) -> T {
        query(&self.copy.read().state)
    }

    /// A frozen state, without recent events.
    pub(crate) fn frozen_state(&self) -> leasehold_core::View {
        self.copy.read().state.view()
    }

    /// The lease time and revision that were last applied, without a look at the state.
    pub(crate) fn present(&self) -> (LeaseTime, Revision) {
        (self.pulse().now, self.revision())
    }

    /// The newest applied revision, and every later one.
    pub(crate) fn revisions(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    /// The newest applied revision.
    pub(crate) fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Returns when a later revision was applied, or feeds were told to look.
    pub(crate) fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Has all feeds look whether they go on.
    pub(crate) fn wake_feeds(&self) {
        self.moved.notify_waiters();
    }

    pub(crate) fn pulse(&self) -> Pulse {
        *self.pulse.lock()
    }

    /// Returns when an entry was applied since the last call; for one listener.
    pub(crate) async fn applied(&self) {
        self.applied.notified().await;
    }

    /// At most `limit` changes after `since`; an error with the oldest revision one can resume after, if that is later.
    pub(crate) fn changes(&self, since: Revision, limit: usize) -> Result<Vec<Arc<Change>>, Revision> {
        let copy = self.copy.read();
        if since < copy.ring.floor() {
            return Err(copy.ring.floor());
        }
        Ok(copy.ring.since(since).take(limit).cloned().collect())
    }

    /// The oldest revision after which all events are known.
    pub(crate) fn floor(&self) -> Revision {
        self.copy.read().ring.floor()
    }

    /// Looks at the state together with the changes after `revision`, the newest first; an error with the oldest revision
    /// that can be looked back to.
    pub(crate) fn look_back<T>(
        &self,
        revision: Revision,
        query: impl FnOnce(&State, Back<'_>) -> Result<T, Revision>,
    ) -> Result<T, Revision> {
        let copy = self.copy.read();
        if revision < copy.ring.floor() {
            return Err(copy.ring.floor());
        }
        query(&copy.state, Box::new(copy.ring.since(revision).rev().map(|change| &**change)))
    }

    /// Reads a copy that a frozen one wrote.
    fn read_copy(&self, snapshot: &mut dyn io::Read) -> io::Result<Copy> {
        let (mut loader, mut events) = (State::loader(), Vec::new());
        let floor = read_body(
            snapshot,
            |record| Ok(loader.load(record)?),
            |event| {
                events.push(event);
                Ok(())
            },
        )
        .map_err(|error| match error {
            BodyError::Io(error) => error,
            other @ (BodyError::Format(_) | BodyError::Refused(_)) => io::Error::new(io::ErrorKind::InvalidData, other),
        })?;
        let state = loader.finish().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut ring = self.copy.read().ring.begun_after(floor);
        ring.push(events);
        Ok(Copy { state, ring })
    }

    /// Answers a renewal from this copy, before it is carried out: a mistake that can be planted. Gives whom to answer then.
    pub(crate) fn acknowledge_early(&self, namespace: &Namespace, command: &Command, reply: ReplyTo) -> ReplyTo {
        let Command::Renew(renew) = command else { return reply };
        let promise = |view: LeaseView| {
            let LeaseView { ttl, changed, .. } = view;
            Renewal { remaining: planted::whole(ttl), ttl, changed }
        };
        let results =
            self.look(|state| renew.leases.iter().map(|id| state.lease(namespace, *id).map(promise)).collect());
        let (now, revision) = self.present();
        reply.send(Ok(Reply { answer: Ok(Outcome::Renewed(results)), now, revision, forwarded_to: None }));
        ReplyTo::Caller(oneshot::channel().0)
    }

    fn publish(&self, pulse: Pulse, revision: Revision) {
        *self.pulse.lock() = pulse;
        self.applied.notify_one();
        if self.revision.send_if_modified(|present| std::mem::replace(present, revision) != revision) {
            self.wake_feeds();
        }
    }
}

fn pulse_of(state: &State) -> Pulse {
    Pulse { now: state.now(), next_deadline: state.next_deadline(), backlog: state.has_backlog(), grace: state.grace() }
}

impl Machine for Replica {
    type View = Frozen;

    fn apply(&self, at: Position, entry: Committed<'_>) -> Applied {
        // Decoded before the state is touched: damage must not leave half of an entry's effects.
        let decoded = match entry {
            Committed::Payload(payload) => Some(decode(at, payload)),
            Committed::TakeOver | Committed::Internal => None,
        };
        let mut copy = self.copy.write();
        let mut origin = Origin::default();
        let mut applied = match (entry, decoded) {
            (_, Some(mut decoded)) => {
                origin = decoded.origin;
                if planted::is(Bug::ClockInApply)
                    && let Some(gone) = self.clock.since_last()
                {
                    decoded.stamp.now = copy.state.now().after(gone.min(AHEAD_MAX));
                }
                copy.state.apply(at.leader, decoded.stamp, decoded.requests)
            }
            (Committed::TakeOver, None) => copy.state.take_over(),
            (Committed::Internal | Committed::Payload(_), None) => {
                Applied { now: copy.state.now(), revision: copy.state.revision(), ..Applied::default() }
            }
        };
        let events = std::mem::take(&mut applied.events);
        // Whoever wakes looks at the copy, and so waits until this entry is whole.
        self.parking.wake(&events);
        self.attached.tell(&events);
        copy.ring.push(events);
        let pulse = pulse_of(&copy.state);
        drop(copy);
        self.publish(pulse, applied.revision);
        // Answered last: whoever hears of it finds it in the state.
        self.pending.applied(origin, &mut applied);
        if matches!(entry, Committed::TakeOver) {
            self.pending.taken_over(at.leader);
        }
        applied
    }

    fn view(&self) -> Frozen {
        let copy = self.copy.read();
        Frozen { state: copy.state.view(), floor: copy.ring.floor(), changes: copy.ring.frozen() }
    }

    fn install(&self, snapshot: &mut dyn io::Read) -> io::Result<()> {
        let installed = self.read_copy(snapshot)?;
        let (pulse, revision) = (pulse_of(&installed.state), installed.state.revision());
        *self.copy.write() = installed;
        self.parking.wake_all();
        self.attached.tell_gap();
        self.publish(pulse, revision);
        self.pending.skipped();
        Ok(())
    }
}

/// An entry whose commands are all read.
struct Decoded {
    stamp: Stamp,
    origin: Origin,
    requests: Vec<Request>,
}

fn decode(at: Position, payload: &[u8]) -> Decoded {
    let decoded = open(payload).and_then(|opened| {
        let requests = opened.requests.collect::<Result<Vec<_>, _>>()?;
        Ok(Decoded { stamp: opened.stamp, origin: opened.origin, requests })
    });
    decoded.unwrap_or_else(|error| panic!("the committed entry {} cannot be applied: {error}", at.index))
}

/// A frozen copy.
#[derive(Debug)]
pub struct Frozen {
    state: leasehold_core::View,
    floor: Revision,
    changes: Vec<Arc<Change>>,
}

impl View for Frozen {
    const FORM: u8 = BODY_VERSION;

    fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let forgotten = if planted::is(Bug::EventDroppedAtCompaction) { self.changes.len() } else { 0 };
        let tail = self.changes.iter().skip(forgotten).flat_map(|change| &change.events);
        write_body(self.state.records(), self.floor, tail, out)?;
        Ok(())
    }
}
