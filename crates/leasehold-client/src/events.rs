//! News about a held lease: how it stands, and who asks for it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::held::{Asks, Held, Phase, Standing};
use crate::store::HandoverAsk;
use crate::{LostCause, Validity};

/// How a lease stands.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseEvent {
    /// Its holder may act.
    Safe {
        /// Until when.
        validity: Validity,
    },
    /// Its time is over here, but it may still be renewed: its holder must not act.
    Jeopardy,
    /// It is lost for good.
    Lost(LostCause),
}

/// How a lease stands: the present state first, then the latest one after each change. Ends after the loss.
#[derive(Debug)]
pub struct Events {
    standing: watch::Receiver<Standing>,
    /// Keeps the sender alive.
    _held: Arc<Held>,
    begun: bool,
    over: bool,
}

impl Events {
    pub(crate) fn new(held: Arc<Held>) -> Events {
        Events { standing: held.watch(), _held: held, begun: false, over: false }
    }

    /// The next event; none after the loss.
    pub async fn next(&mut self) -> Option<LeaseEvent> {
        if self.over {
            return None;
        }
        if self.begun {
            self.standing.changed().await.ok()?;
        }
        self.begun = true;
        let standing = self.standing.borrow_and_update().clone();
        Some(match standing.phase {
            Phase::Safe => LeaseEvent::Safe { validity: standing.validity },
            Phase::Jeopardy => LeaseEvent::Jeopardy,
            Phase::Lost(cause) => {
                self.over = true;
                LeaseEvent::Lost(cause)
            }
        })
    }
}

/// Requests to hand over what a lease holds.
#[derive(Debug)]
pub struct HandoverAsks {
    asks: watch::Receiver<Asks>,
    standing: watch::Receiver<Standing>,
    /// Keeps the senders alive.
    _held: Arc<Held>,
    told: usize,
}

impl HandoverAsks {
    pub(crate) fn new(held: Arc<Held>) -> HandoverAsks {
        HandoverAsks { asks: held.watch_asks(), standing: held.watch(), _held: held, told: 0 }
    }

    /// The next request; none once the lease is lost or given back.
    pub async fn next(&mut self) -> Option<HandoverAsk> {
        loop {
            if matches!(self.standing.borrow_and_update().phase, Phase::Lost(_)) {
                return None;
            }
            let next = {
                let asks = self.asks.borrow_and_update();
                self.told = self.told.max(asks.forgotten);
                asks.latest.get(self.told - asks.forgotten).cloned()
            };
            if let Some(ask) = next {
                self.told += 1;
                return Some(ask);
            }
            tokio::select! {
                changed = self.asks.changed() => changed.ok()?,
                changed = self.standing.changed() => changed.ok()?,
            }
        }
    }
}
