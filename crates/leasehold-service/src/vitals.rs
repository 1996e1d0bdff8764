//! What the tasks of the service tell about themselves: who leads as far as they know, and how far time lags.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::Span;

use crate::log::Leadership;

const ALONE: u8 = 0;
const FOLLOWS: u8 = 1;
const LEADS: u8 = 2;

/// How the service is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// It can have commands committed and answer linearizable queries, by itself or through the leader.
    pub ready: bool,
    /// This node leads.
    pub leads: bool,
    /// New work is refused for want of disk space.
    pub disk_full: bool,
    /// New work is refused because too much waits.
    pub overloaded: bool,
    /// How far the lease clock is ahead of applied lease time.
    pub lease_time_lag: Duration,
}

/// What the tasks of the service tell about themselves.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    role: AtomicU8,
    /// The node that leads, if one does.
    leader: AtomicU64,
    /// The term of the latest leader that is known.
    term: AtomicU64,
    lag_ms: AtomicU64,
}

impl Vitals {
    pub(crate) fn note(&self, leadership: Leadership) {
        if let Leadership::Leads(leader) | Leadership::Follows(leader) | Leadership::CutOff(leader) = leadership {
            self.leader.store(leader.node, Ordering::Release);
            self.term.store(leader.term, Ordering::Release);
        }
        let role = match leadership {
            Leadership::Leads(_) => LEADS,
            Leadership::Follows(_) => FOLLOWS,
            Leadership::CutOff(_) | Leadership::Unknown => ALONE,
        };
        self.role.store(role, Ordering::Release);
        if role != LEADS {
            self.lag_ms.store(0, Ordering::Release);
        }
    }

    pub(crate) fn note_lag(&self, lag: Span) {
        self.lag_ms.store(lag.0, Ordering::Release);
    }

    /// Whether this node leads.
    pub(crate) fn leads(&self) -> bool {
        self.role.load(Ordering::Acquire) == LEADS
    }

    /// The node that this one follows.
    pub(crate) fn follows(&self) -> Option<u64> {
        let follows = self.role.load(Ordering::Acquire) == FOLLOWS;
        follows.then(|| self.leader.load(Ordering::Acquire))
    }

    /// Whether this node or another leads.
    pub(crate) fn led(&self) -> bool {
        self.role.load(Ordering::Acquire) != ALONE
    }

    /// The term of the latest leader that is known; 0 while none was.
    pub(crate) fn term(&self) -> u64 {
        self.term.load(Ordering::Acquire)
    }

    pub(crate) fn lag(&self) -> Duration {
        Duration::from_millis(self.lag_ms.load(Ordering::Acquire))
    }
}
