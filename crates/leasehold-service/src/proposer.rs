//! The one task that puts entries into the log: it waits for work, packs, stamps, proposes, and keeps time going.
//!
//! It runs while this node leads. An entry is stamped after its last command was put into it. When nothing else
//! happens it sleeps until the earliest deadline and proposes an entry without commands; while anything has
//! a deadline it does so at least every half second, so that little time is forgotten at a crash; while a
//! backlog of ended leases exists it does so without pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId, LeaseTime, Span, Stamp, WallTime};
use tokio::sync::{Notify, watch};
use tracing::{debug, info, warn};

use crate::clock::{Clocks, LeaseClock};
use crate::disk::{DiskGuard, Room};
use crate::lanes::{Lanes, Reply, ReplyTo, Segment};
use crate::log::{Leadership, Log, Unavailable};
use crate::replica::Replica;
use crate::{Failure, Vitals};

/// While anything has a deadline, an entry is committed at least this often.
const TICK_MAX: Span = Span(500);
/// How long it waits before it looks at a full disk again.
const DISK_PAUSE: Duration = Duration::from_millis(100);

/// What the proposer works with.
pub(crate) struct Proposer<L, C> {
    pub(crate) log: Arc<L>,
    pub(crate) clocks: C,
    pub(crate) replica: Arc<Replica>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) disk: Arc<DiskGuard>,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) in_flight: Arc<InFlight>,
    /// How many entries may be on their way at a time.
    pub(crate) in_flight_max: usize,
}

/// Entries on their way.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    landed: Notify,
}

impl InFlight {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn land(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.landed.notify_one();
    }
}

impl<L: Log, C: Clocks + Clone> Proposer<L, C> {
    /// Leads whenever this node does, until the service stops.
    pub(crate) async fn run(self) {
        let mut leadership = self.log.leadership();
        loop {
            let present = *leadership.borrow_and_update();
            match present {
                Leadership::Leads(leader) => self.lead(leader, &mut leadership).await,
                Leadership::Follows(_) | Leadership::CutOff(_) | Leadership::Unknown => {
                    self.vitals.lead(false);
                    self.lanes.refuse_all(&Failure::NoQuorum { may_have_happened: false, why: "nobody leads".into() });
                    tokio::select! {
                        changed = leadership.changed() => if changed.is_err() { return },
                        () = self.lanes.filled() => {}
                    }
                }
            }
            if leadership.has_changed().is_err() {
                return;
            }
        }
    }

    /// Proposes entries under one leadership.
    async fn lead(&self, leader: LeaderId, leadership: &mut watch::Receiver<Leadership>) {
        let pulse = self.replica.pulse();
        info!(%leader, lease_time = pulse.now.0, grace_ms = pulse.grace.0, "leading");
        let mut clock = LeaseClock::start(self.clocks.clone(), pulse.now, pulse.grace);
        self.vitals.lead(true);
        let mut seen = pulse.now;
        while *leadership.borrow() == Leadership::Leads(leader) {
            let pulse = self.replica.pulse();
            if pulse.now > seen {
                seen = pulse.now;
                clock.applied(seen);
            }
            self.vitals.note_lag(pulse.next_deadline.map_or(Span::ZERO, |_| clock.lag()));
            if self.in_flight.count() >= self.in_flight_max {
                self.wait_for_landing(leadership).await;
                continue;
            }
            if self.lanes.is_empty() && !self.tick_is_due(&mut clock) {
                self.wait_for_work(&mut clock, leadership).await;
                continue;
            }
            if self.disk.look() == Room::None {
                self.lanes.refuse_all(&Failure::DiskFull);
                tokio::time::sleep(DISK_PAUSE).await;
                continue;
            }
            self.let_it_fill().await;
            self.propose(leader, &mut clock).await;
        }
    }

    async fn wait_for_landing(&self, leadership: &mut watch::Receiver<Leadership>) {
        tokio::select! {
            () = self.in_flight.landed.notified() => {}
            _ = leadership.changed() => {}
        }
    }

    async fn wait_for_work(&self, clock: &mut LeaseClock<C>, leadership: &mut watch::Receiver<Leadership>) {
        let sleep = self.until_tick(clock);
        tokio::select! {
            () = self.lanes.filled() => {}
            () = self.replica.applied() => {}
            () = self.in_flight.landed.notified() => {}
            _ = leadership.changed() => {}
            () = async { match sleep {
                Some(span) => tokio::time::sleep(span).await,
                None => std::future::pending().await,
            } } => {}
        }
    }

    /// Gives callers that are ready a moment to join the entry: fuller entries cost less than early ones gain.
    async fn let_it_fill(&self) {
        let turns = if self.in_flight.count() == 0 { 1 } else { 3 };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn tick_is_due(&self, clock: &mut LeaseClock<C>) -> bool {
        self.until_tick(clock) == Some(Duration::ZERO)
    }

    /// How long until an entry must be committed for the sake of time alone.
    fn until_tick(&self, clock: &mut LeaseClock<C>) -> Option<Duration> {
        let pulse = self.replica.pulse();
        let deadline = pulse.next_deadline?;
        if self.in_flight.count() > 0 {
            // What is on its way carries time along; its landing wakes the proposer.
            return None;
        }
        if pulse.backlog {
            return Some(Duration::ZERO);
        }
        // Due means past the deadline.
        let due = LeaseTime(deadline.0.saturating_add(1));
        let keeping = pulse.now.after(TICK_MAX);
        Some(clock.until(due.min(keeping)))
    }

    async fn propose(&self, leader: LeaderId, clock: &mut LeaseClock<C>) {
        let Segment { pack, replies } = self.lanes.pop().unwrap_or_default();
        // The stamp is read here, after the last command was put in.
        let stamp = Stamp { leader, now: clock.read(), wall: wall_time() };
        let payload = Bytes::from(pack.seal(stamp, leasehold_log::Origin::default()));
        self.in_flight.count.fetch_add(1, Ordering::AcqRel);
        let in_flight = Arc::clone(&self.in_flight);
        let done = Box::new(move |result| {
            in_flight.land();
            answer(replies, result);
        });
        self.log.propose(leader, payload, done).await;
    }
}

/// Answers the callers of one entry.
fn answer(replies: Vec<ReplyTo>, result: Result<Applied, Unavailable>) {
    let failure = match result {
        Ok(Applied { void: None, now, revision, answers, .. }) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                reply.send(Ok(Reply { answer, now, revision }));
            }
            return;
        }
        Ok(Applied { void: Some(void), .. }) => {
            debug!(%void, "an entry is void; its callers try again");
            Failure::NoQuorum { may_have_happened: false, why: void.to_string().into() }
        }
        Err(unavailable @ (Unavailable::NotLeader { .. } | Unavailable::Unreachable(_) | Unavailable::NoRoom)) => {
            Failure::NoQuorum { may_have_happened: false, why: unavailable.to_string().into() }
        }
        Err(unavailable @ (Unavailable::Unknown(_) | Unavailable::Stopped(_))) => {
            warn!(%unavailable, "an entry has no known outcome");
            Failure::NoQuorum { may_have_happened: true, why: unavailable.to_string().into() }
        }
    };
    for reply in replies {
        reply.send(Err(failure.clone()));
    }
}

fn wall_time() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(since.as_millis() as u64)
}
