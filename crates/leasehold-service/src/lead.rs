//! What the proposer does while this node leads: stamps, proposes, keeps time going.
//!
//! An entry is stamped after its last command was put into it, also the commands of other nodes. When nothing else
//! happens it sleeps until the earliest deadline and proposes an entry without commands; while anything has
//! a deadline it does so at least every half second, so that little time is forgotten at a crash; while a
//! backlog of ended leases exists it does so without pause.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::planted::{self, Bug};
use leasehold_core::{LeaderId, LeaseTime, Span, Stamp};
use leasehold_log::{Origin, Pack};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::Failure;
use crate::clock::{Clocks, LeaseClock};
use crate::disk::Room;
use crate::log::{Answered, Leadership, Log, Parcel, Unavailable};
use crate::pending::unavailable;
use crate::proposer::{InFlight, Incoming, Proposer, return_to_sender};

/// While anything has a deadline, an entry is committed at least this often.
const TICK_MAX: Span = Span(500);
/// How long it waits before it looks at a full disk again.
const DISK_PAUSE: Duration = Duration::from_millis(100);
/// How long it waits after the log refused an entry, as it does while leadership is being handed over.
const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// One leadership of this node.
struct Term<C> {
    leader: LeaderId,
    clock: LeaseClock<C>,
    /// What the clock showed when the last entry was stamped.
    stamped: LeaseTime,
    in_flight: Arc<InFlight>,
    /// A parcel of another node that waits for its turn.
    parcel: Option<Parcel>,
    /// Whose turn it is when both have something: that of other nodes.
    parcel_next: bool,
}

impl<L: Log, C: Clocks + Clone> Proposer<L, C> {
    /// Proposes entries under one leadership.
    pub(crate) async fn lead(
        &self,
        leader: LeaderId,
        again: bool,
        leadership: &mut watch::Receiver<Leadership>,
        incoming: &mut Incoming,
    ) {
        let pulse = self.replica.pulse();
        let grace = if again { Span::ZERO } else { pulse.grace };
        info!(%leader, lease_time = pulse.now.0, grace_ms = grace.0, "leading");
        let clock = LeaseClock::start(self.clocks.clone(), pulse.now, grace);
        let in_flight = Arc::new(InFlight::default());
        let mut term = Term { leader, clock, stamped: pulse.now, in_flight, parcel: None, parcel_next: false };
        let mut seen = pulse.now;
        while *leadership.borrow() == Leadership::Leads(leader) {
            if term.in_flight.was_refused() {
                let _ = tokio::time::timeout(REFUSED_PAUSE, leadership.changed()).await;
                continue;
            }
            let pulse = self.replica.pulse();
            if pulse.now > seen {
                seen = pulse.now;
                term.clock.applied(seen);
            }
            self.vitals.note_lag(pulse.next_deadline.map_or(Span::ZERO, |_| term.clock.lag()));
            term.parcel = term.parcel.take().or_else(|| incoming.ready());
            if term.in_flight.count() >= self.in_flight_max {
                wait_for_landing(&term, leadership).await;
                continue;
            }
            if !self.has_work(&term) && !self.tick_is_due(&mut term) {
                self.wait_for_work(&mut term, leadership, incoming).await;
                continue;
            }
            if self.disk.look() == Room::None {
                self.refuse_for_want_of_room(&mut term);
                tokio::time::sleep(DISK_PAUSE).await;
                continue;
            }
            self.let_it_fill(&term).await;
            self.propose_next(&mut term).await;
        }
        if let Some(parcel) = term.parcel {
            return_to_sender(parcel, *leadership.borrow());
        }
    }

    fn has_work(&self, term: &Term<C>) -> bool {
        term.parcel.is_some() || !self.lanes.is_empty() || self.pending().has_returned()
    }

    fn refuse_for_want_of_room(&self, term: &mut Term<C>) {
        self.lanes.refuse_all(&Failure::DiskFull);
        if let Some(parcel) = term.parcel.take() {
            (parcel.done)(Err(Unavailable::NoRoom));
        }
    }

    async fn wait_for_work(
        &self,
        term: &mut Term<C>,
        leadership: &mut watch::Receiver<Leadership>,
        incoming: &mut Incoming,
    ) {
        let sleep = self.until_tick(term);
        let Term { parcel, in_flight, .. } = term;
        let expiry = self.pending().expire();
        tokio::select! {
            () = self.lanes.filled() => {}
            () = self.replica.applied() => {}
            () = in_flight.landed() => {}
            () = self.pending().came_back() => {}
            came = incoming.next() => *parcel = Some(came),
            _ = leadership.changed() => {}
            () = async { match sleep {
                Some(span) => tokio::time::sleep(span).await,
                None => std::future::pending().await,
            } } => {}
            () = async { match expiry {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            } } => {}
        }
    }

    /// Gives callers that are ready a moment to join the entry: fuller entries cost less than early ones gain.
    async fn let_it_fill(&self, term: &Term<C>) {
        let turns = if term.in_flight.count() == 0 { 1 } else { 3 };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn tick_is_due(&self, term: &mut Term<C>) -> bool {
        self.until_tick(term) == Some(Duration::ZERO)
    }

    /// How long until an entry must be committed for the sake of time alone.
    fn until_tick(&self, term: &mut Term<C>) -> Option<Duration> {
        let pulse = self.replica.pulse();
        let deadline = pulse.next_deadline?;
        if term.in_flight.count() > 0 {
            // What is on its way carries time along; its landing wakes the proposer.
            return None;
        }
        if pulse.backlog {
            return Some(Duration::ZERO);
        }
        // Due means past the deadline.
        let due = LeaseTime(deadline.0.saturating_add(1));
        let keeping = pulse.now.after(TICK_MAX);
        Some(term.clock.until(due.min(keeping)))
    }

    /// Proposes what is next: own commands and those of other nodes by turns, or nothing but time.
    async fn propose_next(&self, term: &mut Term<C>) {
        if term.parcel.is_some() && (term.parcel_next || self.lanes.is_empty()) {
            term.parcel_next = false;
            let parcel = term.parcel.take().expect("it is there");
            return self.propose_parcel(term, parcel).await;
        }
        term.parcel_next = true;
        match self.pending().next(&self.lanes) {
            Some((number, segment)) => {
                let origin = self.pending().origin(number);
                let payload = stamped(term, segment.pack, origin);
                self.pending().send(number, term.leader, false, payload.clone(), segment.replies);
                let (pending, patience, leader) = (Arc::clone(self.pending()), self.leaderless_patience, term.leader);
                let done = landing(term, move |result| match result {
                    // The callers were answered when it was applied.
                    Ok(_) => {}
                    Err(unavailable @ (Unavailable::Unknown(_) | Unavailable::NoRoom)) => {
                        debug!(%unavailable, "an entry has no known outcome yet");
                        pending.doubt(number, leader, patience, unavailable.to_string());
                    }
                    Err(Unavailable::NotLeader { .. } | Unavailable::Unreachable(_)) => {
                        pending.take_back(number, leader)
                    }
                    Err(stopped @ Unavailable::Stopped(_)) => {
                        warn!(%stopped, "an entry has no known outcome");
                        pending.refuse(number, leader, &unavailable(true, stopped.to_string()));
                    }
                });
                self.log.propose(term.leader, payload, done).await;
            }
            None => {
                let payload = stamped(term, Pack::new(), Origin::default());
                let done = landing(term, drop);
                self.log.propose(term.leader, payload, done).await;
            }
        }
    }

    /// Proposes the commands of another node as an entry of this one.
    async fn propose_parcel(&self, term: &mut Term<C>, parcel: Parcel) {
        let Parcel { to, bytes, done } = parcel;
        if to != term.leader {
            return done(Err(Unavailable::NotLeader { leader: Some(term.leader) }));
        }
        let (pack, origin) = match Pack::unpack(&bytes) {
            Ok(unpacked) => unpacked,
            Err(error) => {
                warn!(%error, "another node hands over commands that cannot be read");
                return done(Err(Unavailable::Unreachable(format!("it cannot read the commands: {error}"))));
            }
        };
        let payload = stamped(term, pack, origin);
        let answered = landing(term, move |result| done(result.map(drop)));
        self.log.propose(to, payload, answered).await;
    }
}

async fn wait_for_landing<C>(term: &Term<C>, leadership: &mut watch::Receiver<Leadership>) {
    tokio::select! {
        () = term.in_flight.landed() => {}
        _ = leadership.changed() => {}
    }
}

/// The stamp is read here, after the last command was put in.
fn stamped<C: Clocks>(term: &mut Term<C>, pack: Pack, origin: Origin) -> Bytes {
    let before = std::mem::replace(&mut term.stamped, term.clock.read());
    let now = if planted::is(Bug::StampCached) { before } else { term.stamped };
    let stamp = Stamp { leader: term.leader, now, wall: term.clock.wall() };
    Bytes::from(pack.seal(stamp, origin))
}

/// Counts an entry until it has landed.
fn landing<C>(
    term: &Term<C>,
    then: impl FnOnce(Result<leasehold_core::Applied, Unavailable>) + Send + Sync + 'static,
) -> Answered {
    term.in_flight.start();
    let in_flight = Arc::clone(&term.in_flight);
    Box::new(move |result| {
        if matches!(result, Err(Unavailable::NotLeader { .. })) {
            in_flight.note_refusal();
        }
        then(result);
        in_flight.land();
    })
}
