//! What arrived for a connection and was not looked at yet.
//!
//! Whoever carries out commands only puts their answers here, and the ends of leases: that is the thread of the log, and
//! everybody waits for it. What follows is done when the connection looks through them, on its own thread, which has
//! at hand what it knows of its commands and leases. It is bounded by these: each is answered, and ends, once.

use leasehold_core::{EndCause, Revision};
use parking_lot::Mutex;

use crate::Failure;
use crate::attached::Place;
use crate::lanes::Reply;

/// Something that arrived for a connection.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// The answer to a command; the serial tells commands with the same number apart.
    Answer { number: u64, serial: u64, result: Result<Reply, Failure> },
    /// The end of a lease of the connection.
    Ended { place: Place, cause: EndCause, revision: Revision },
}

/// What is to be done after something was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Somebody must be told to look.
    First,
    /// Somebody was told already.
    Behind,
    /// Nobody looks any more; whoever put it in does.
    Closed,
}

#[derive(Debug, Default)]
struct Inside {
    arrived: Vec<Arrived>,
    closed: bool,
}

/// What arrived, in order.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Inside>);

impl Inbox {
    pub(crate) fn put(&self, arrived: Arrived) -> Put {
        let mut inside = self.0.lock();
        inside.arrived.push(arrived);
        match (inside.closed, inside.arrived.len()) {
            (true, _) => Put::Closed,
            (false, 1) => Put::First,
            (false, _) => Put::Behind,
        }
    }

    /// Takes all of it; `into` is empty, and its room serves the next ones.
    pub(crate) fn take(&self, into: &mut Vec<Arrived>) {
        std::mem::swap(&mut self.0.lock().arrived, into);
    }

    /// Nobody is told any more.
    pub(crate) fn close(&self) {
        self.0.lock().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_rings_and_after_the_end_whoever_puts_one_in_looks_at_it() {
        let inbox = Inbox::default();
        let put = |number| inbox.put(Arrived::Answer { number, serial: number, result: Err(Failure::DiskFull) });
        let number = |arrived| match arrived {
            Arrived::Answer { number, .. } => number,
            Arrived::Ended { .. } => 0,
        };
        let taken = || {
            let mut taken = Vec::new();
            inbox.take(&mut taken);
            taken.into_iter().map(number).collect::<Vec<_>>()
        };
        assert_eq!([put(1), put(2)], [Put::First, Put::Behind]);
        assert_eq!(taken(), [1, 2]);
        assert_eq!(put(3), Put::First, "it was empty again");
        inbox.close();
        assert_eq!(put(4), Put::Closed);
        assert_eq!(taken(), [3, 4]);
    }
}
