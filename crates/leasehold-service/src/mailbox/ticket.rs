//! The right, and the duty, to answer one command of a connection.

use std::sync::Arc;

use leasehold_core::Outcome;

use super::Mailbox;
use super::inbox::{Arrived, Put};
use crate::lanes::Reply;
use crate::waiting::Progress;
use crate::{Done, Failure};

/// Something that is to be answered soon but is no command; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Busy(pub(super) Arc<Mailbox>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.inside.lock().prompt -= 1;
    }
}

/// The right to answer one command. Dropped, it tells that the outcome is not known.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) number: u64,
    pub(super) serial: u64,
    pub(super) used: bool,
}

impl Ticket {
    /// Answers with what carrying out the command led to; a wait goes on from there.
    pub(crate) fn carried_out(mut self, result: Result<Reply, Failure>) {
        self.used = true;
        let waits = result.as_ref().is_ok_and(|reply| reply.answer.as_ref().is_ok_and(is_queued));
        let answer = Arrived::Answer { number: self.number, serial: self.serial, result };
        match self.mailbox.inbox.put(answer) {
            Put::First => self.mailbox.ready.notify_one(),
            Put::Behind => {}
            Put::Closed => self.mailbox.look_through(),
        }
        // What waits is kept alive from now on, also if its client takes nothing for a while.
        if waits {
            self.mailbox.look_through();
        }
    }

    /// Answers a wait.
    pub(crate) fn waited(mut self, result: Result<Done, Failure>) {
        self.used = true;
        self.mailbox.settle(self.number, self.serial, result);
    }

    /// Tells how a wait stands.
    pub(crate) fn tell(&self, progress: Progress) {
        let mut inside = self.mailbox.inside.lock();
        let is_pending = inside.pending.get(&self.number).is_some_and(|pending| pending.serial == self.serial);
        if is_pending && !inside.closed {
            inside.progress.insert(self.number, progress);
            drop(inside);
            self.mailbox.ready.notify_one();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.used {
            let unknown = Failure::ShuttingDown { may_have_happened: true };
            self.mailbox.settle(self.number, self.serial, Err(unknown));
        }
    }
}

/// Tells whether a command led to a place in a queue.
fn is_queued(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Granted(view) | Outcome::Claimed(view) if !view.waits.is_empty())
}
