//! How far a wait is, told when it changes and not too often.
//!
//! Whoever waits in a long queue is woken by every move in it at most once per [`EVERY`]: what moves meanwhile is seen by
//! the next look, and a queue that does not move costs nothing.

use std::time::Duration;

use futures_util::future::select_all;
use leasehold_core::{LeaseId, Namespace, ResourceName, Token};
use tokio::time::Instant;

use crate::mailbox::Ticket;
use crate::parking::Parked;
use crate::replica::Replica;
use crate::waiting::{Progress, Standing, Wish};

/// A wait is told no more often.
const EVERY: Duration = Duration::from_millis(200);

/// What is worth telling about one resource: the place, and who is in the way.
type Worth = (u32, Option<(LeaseId, Token)>, u32);

/// Tells one wait how far it is.
pub(crate) struct News<'a> {
    ticket: &'a Ticket,
    parked: Vec<Parked<'a, (Namespace, ResourceName)>>,
    told: Vec<Worth>,
    looked: Instant,
    /// How often the bells had rung at the last look.
    seen: u64,
}

impl<'a> News<'a> {
    pub(crate) fn of(replica: &'a Replica, wish: &Wish, ticket: &'a Ticket) -> News<'a> {
        let listen = |name: &ResourceName| replica.parking.resources.listen((wish.namespace.clone(), name.clone()));
        let parked = wish.resources.iter().map(listen).collect();
        // The first look is told at once.
        let looked = Instant::now().checked_sub(EVERY).unwrap_or_else(Instant::now);
        News { ticket, parked, told: Vec::new(), looked, seen: 0 }
    }

    /// Tells how the wait stands, if that is news and not too soon.
    pub(crate) fn tell(&mut self, progress: impl FnOnce() -> Progress) {
        if !self.told.is_empty() && self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        self.seen = self.rung();
        let progress = progress();
        let worth: Vec<Worth> = progress.places.iter().map(worth).collect();
        if worth != self.told {
            self.told = worth;
            self.ticket.tell(progress);
        }
    }

    /// Returns when another look may be worth it.
    pub(crate) async fn moved(&mut self) {
        tokio::time::sleep_until(self.looked + EVERY).await;
        let mut rings: Vec<_> = self.parked.iter().map(|place| Box::pin(place.bell.notify.notified())).collect();
        for ring in &mut rings {
            ring.as_mut().enable();
        }
        if self.rung() == self.seen {
            select_all(rings).await;
        }
    }

    fn rung(&self) -> u64 {
        self.parked.iter().map(|place| place.bell.rung()).sum()
    }
}

fn worth(standing: &Standing) -> Worth {
    let holder = standing.holder.as_ref().map(|holder| (holder.lease, holder.token));
    (standing.place.position, holder, standing.holder_count)
}
