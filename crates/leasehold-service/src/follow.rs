//! What the proposer does while another node leads: it sends the commands there as parcels.
//!
//! The callers are answered when this node applies the entry of their parcel. A parcel that was certainly not taken is
//! sent again; if the leader is not reached for as long as an election takes, commands are refused with the reason,
//! so that clients can try another node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_core::planted::{self, Bug};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::Failure;
use crate::clock::Clocks;
use crate::log::{Delivered, Leadership, Log, Unavailable};
use crate::pending::unavailable;
use crate::proposer::{InFlight, Incoming, Proposer, return_to_sender};

/// How long it waits before it sends again what was not taken.
const PAUSE: Duration = Duration::from_millis(20);

/// How the way to the leader is.
#[derive(Debug, Default)]
struct Way {
    in_flight: InFlight,
    /// Since when nothing was taken.
    trouble: Mutex<Option<Instant>>,
}

impl Way {
    fn is_well(&self) {
        *self.trouble.lock() = None;
    }

    /// Notes that nothing is taken; tells for how long that is so.
    fn is_blocked(&self) -> Duration {
        self.trouble.lock().get_or_insert_with(Instant::now).elapsed()
    }
}

impl<L: Log, C: Clocks + Clone> Proposer<L, C> {
    /// Hands commands to the leader for as long as it leads.
    pub(crate) async fn follow(
        &self,
        leader: LeaderId,
        leadership: &mut watch::Receiver<Leadership>,
        incoming: &mut Incoming,
    ) {
        info!(%leader, "following");
        let way = Arc::new(Way::default());
        while *leadership.borrow() == Leadership::Follows(leader) {
            let expiry = self.pending().expire();
            if way.trouble.lock().is_some() {
                self.pause(leadership, incoming).await;
            }
            let next = match way.in_flight.count() < self.in_flight_max {
                true => self.pending().next(&self.lanes),
                false => None,
            };
            match next {
                Some((number, segment)) => {
                    let parcel = Bytes::from(segment.pack.parcel(self.pending().origin(number)));
                    self.pending().send(number, leader, true, parcel.clone(), segment.replies);
                    let delivered = self.delivered(&way, leader, number);
                    self.log.forward(leader, parcel, delivered).await;
                }
                None => self.wait_to_send(&way, expiry, leadership, incoming).await,
            }
        }
    }

    fn delivered(&self, way: &Arc<Way>, leader: LeaderId, number: u64) -> Delivered {
        way.in_flight.start();
        let name = self.log.name_of(leader.node);
        let (way, pending, patience) = (Arc::clone(way), Arc::clone(self.pending()), self.leaderless_patience);
        Box::new(move |result| {
            match result {
                // The callers are answered when it is applied here.
                Ok(()) => way.is_well(),
                Err(refusal @ (Unavailable::NotLeader { .. } | Unavailable::Unreachable(_))) => {
                    debug!(%refusal, "the leader did not take a parcel");
                    match way.is_blocked() < patience {
                        true => pending.take_back(number, leader),
                        false => {
                            pending.refuse(number, leader, &unavailable(false, format!("{name} leads; {refusal}")))
                        }
                    }
                }
                Err(Unavailable::NoRoom) => {
                    way.is_well();
                    pending.refuse(number, leader, &Failure::DiskFull);
                }
                Err(Unavailable::Unknown(_)) if planted::is(Bug::ParcelSentTwice) => pending.take_back(number, leader),
                Err(unavailable @ Unavailable::Unknown(_)) => {
                    debug!(%unavailable, "a parcel has no known outcome yet");
                    pending.doubt(number, leader, patience, unavailable.to_string());
                }
                Err(stopped @ Unavailable::Stopped(_)) => {
                    pending.refuse(number, leader, &unavailable(true, stopped.to_string()));
                }
            }
            way.in_flight.land();
        })
    }

    async fn pause(&self, leadership: &mut watch::Receiver<Leadership>, incoming: &mut Incoming) {
        let enough = Instant::now() + PAUSE;
        loop {
            tokio::select! {
                _ = leadership.changed() => return,
                parcel = incoming.next() => return_to_sender(parcel, *leadership.borrow()),
                () = tokio::time::sleep_until(enough) => return,
            }
        }
    }

    async fn wait_to_send(
        &self,
        way: &Way,
        expiry: Option<Instant>,
        leadership: &mut watch::Receiver<Leadership>,
        incoming: &mut Incoming,
    ) {
        let room = way.in_flight.count() < self.in_flight_max;
        tokio::select! {
            () = self.lanes.filled(), if room => {}
            () = self.pending().came_back(), if room => {}
            () = way.in_flight.landed() => {}
            parcel = incoming.next() => return_to_sender(parcel, *leadership.borrow()),
            _ = leadership.changed() => {}
            () = async { match expiry {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}
