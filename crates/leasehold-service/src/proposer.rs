//! The one task that brings commands into the log: it waits for work, packs, and proposes or hands on.
//!
//! While this node leads it stamps and proposes (`lead.rs`); while another leads it sends parcels there (`follow.rs`).
//! While nobody is known to lead, commands are kept for as long as an election takes, and then refused. A leader that
//! is cut off from its majority refuses at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::clock::Clocks;
use crate::disk::DiskGuard;
use crate::lanes::Lanes;
use crate::log::{Leadership, Log, Parcel, Unavailable};
use crate::pending::{Pending, unavailable};
use crate::replica::Replica;
use crate::vitals::Vitals;

/// What the proposer works with.
pub(crate) struct Proposer<L, C> {
    pub(crate) log: Arc<L>,
    pub(crate) clocks: C,
    pub(crate) replica: Arc<Replica>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) disk: Arc<DiskGuard>,
    pub(crate) vitals: Arc<Vitals>,
    /// How many entries or parcels may be on their way at a time.
    pub(crate) in_flight_max: usize,
    /// How long commands are kept while nobody leads or the leader is not reached.
    pub(crate) leaderless_patience: Duration,
}

/// Entries or parcels on their way under one leadership.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    landed: Notify,
    /// Whether the log has refused one although this node is said to lead.
    refused: AtomicBool,
}

impl InFlight {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn start(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn land(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.landed.notify_one();
    }

    pub(crate) fn note_refusal(&self) {
        self.refused.store(true, Ordering::Release);
    }

    /// Whether one was refused since the last call.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.swap(false, Ordering::AcqRel)
    }

    /// Returns when one has landed; for one listener.
    pub(crate) async fn landed(&self) {
        self.landed.notified().await;
    }
}

/// What other nodes hand to this one.
pub(crate) struct Incoming(Option<mpsc::Receiver<Parcel>>);

impl Incoming {
    /// A parcel that is there already.
    pub(crate) fn ready(&mut self) -> Option<Parcel> {
        self.0.as_mut()?.try_recv().ok()
    }

    /// The next parcel; never, if there are no other nodes.
    pub(crate) async fn next(&mut self) -> Parcel {
        if let Some(parcels) = &mut self.0 {
            if let Some(parcel) = parcels.recv().await {
                return parcel;
            }
            self.0 = None;
        }
        std::future::pending().await
    }
}

/// Tells another node that this one does not lead.
pub(crate) fn return_to_sender(parcel: Parcel, leadership: Leadership) {
    let leader = match leadership {
        Leadership::Follows(leader) => Some(leader),
        Leadership::Leads(_) | Leadership::CutOff(_) | Leadership::Unknown => None,
    };
    (parcel.done)(Err(Unavailable::NotLeader { leader }));
}

impl<L: Log, C: Clocks + Clone> Proposer<L, C> {
    pub(crate) fn pending(&self) -> &Arc<Pending> {
        &self.replica.pending
    }

    /// Brings commands into the log until it is gone.
    pub(crate) async fn run(self) {
        let mut leadership = self.log.leadership();
        let mut incoming = Incoming(self.log.parcels());
        let mut led = None;
        loop {
            let present = *leadership.borrow_and_update();
            self.vitals.note(present);
            match present {
                Leadership::Leads(leader) => {
                    // The grace is for a take-over: one that was cut off and leads again has had it.
                    let again = led.replace(leader) == Some(leader);
                    self.lead(leader, again, &mut leadership, &mut incoming).await;
                }
                Leadership::Follows(leader) => self.follow(leader, &mut leadership, &mut incoming).await,
                Leadership::Unknown => self.wait_for_leader(&mut leadership, &mut incoming).await,
                Leadership::CutOff(_) => {
                    let why = "this node led, and no majority of the cluster has answered it since";
                    self.refuse(why, &mut leadership, &mut incoming).await;
                }
            }
            if leadership.has_changed().is_err() {
                return;
            }
        }
    }

    /// Keeps commands for as long as an election takes.
    async fn wait_for_leader(&self, leadership: &mut watch::Receiver<Leadership>, incoming: &mut Incoming) {
        let enough = Instant::now() + self.leaderless_patience;
        loop {
            let look = self.pending().expire().map_or(enough, |next| next.min(enough));
            tokio::select! {
                _ = leadership.changed() => return,
                parcel = incoming.next() => return_to_sender(parcel, *leadership.borrow()),
                () = tokio::time::sleep_until(look) => {}
            }
            if Instant::now() >= enough {
                return self.refuse("nobody leads the cluster, as far as this node hears", leadership, incoming).await;
            }
        }
    }

    /// Refuses everything until the leadership changes.
    async fn refuse(&self, why: &str, leadership: &mut watch::Receiver<Leadership>, incoming: &mut Incoming) {
        loop {
            self.pending().give_up(why);
            self.lanes.refuse_all(&unavailable(false, why.to_owned()));
            tokio::select! {
                _ = leadership.changed() => return,
                parcel = incoming.next() => return_to_sender(parcel, *leadership.borrow()),
                () = self.lanes.filled() => {}
                () = self.pending().came_back() => {}
            }
        }
    }
}
