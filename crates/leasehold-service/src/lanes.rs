//! Commands on their way into the log: encoded as they come, bounded, in two lanes.
//!
//! Renewals, releases and what else makes room have a lane of their own, so that a flood of new work neither
//! delays them nor fills their place. A command goes straight into the bytes of the entry that will carry it;
//! what is kept beside them is whom to answer. A full lane refuses at once.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_core::{Answer, Command, LeaseTime, Request, Revision};
use leasehold_log::Pack;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::Failure;
use crate::mailbox::Ticket;

/// An entry carries at most this many commands.
pub(crate) const ENTRY_COMMANDS: u32 = 1024;
/// An entry takes no further command once it has this many bytes.
pub(crate) const ENTRY_BYTES: usize = 256 << 10;
/// A single command may have this many bytes.
pub const COMMAND_BYTES_MAX: usize = 2 << 20;

/// The answer to a command, and when it was given.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) now: LeaseTime,
    pub(crate) revision: Revision,
    /// The node that led, if it was another one.
    pub(crate) forwarded_to: Option<u64>,
}

/// Whom to answer: everybody once. One that is dropped tells that the outcome is not known.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// A caller that waits for this answer alone.
    Caller(oneshot::Sender<Result<Reply, Failure>>),
    /// A connection that takes answers as they come.
    Mailbox(Ticket),
}

impl ReplyTo {
    pub(crate) fn send(self, result: Result<Reply, Failure>) {
        match self {
            // A caller that is gone needs no answer.
            ReplyTo::Caller(caller) => drop(caller.send(result)),
            ReplyTo::Mailbox(ticket) => ticket.carried_out(result),
        }
    }
}

/// Which lane a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What keeps or ends what is there.
    Keep,
    /// What makes something new.
    New,
}

impl Lane {
    /// The lane of a command.
    pub(crate) fn of(command: &Command) -> Lane {
        match command {
            Command::Renew(_)
            | Command::Release(_)
            | Command::Revoke(_)
            | Command::Unclaim(_)
            | Command::Leave(_)
            | Command::Configure(_) => Lane::Keep,
            Command::Grant(_)
            | Command::GrantAnew(_)
            | Command::Claim(_)
            | Command::ClaimMarked(_)
            | Command::AskHandover(_)
            | Command::Write(_) => Lane::New,
        }
    }
}

/// Commands that go into one entry, and whom to answer.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    pub(crate) pack: Pack,
    pub(crate) replies: Vec<ReplyTo>,
}

impl Segment {
    fn has_room(&self) -> bool {
        self.pack.count() < ENTRY_COMMANDS && self.pack.len_bytes() < ENTRY_BYTES
    }

    fn joins(&self, other: &Segment) -> bool {
        self.pack.count() + other.pack.count() <= ENTRY_COMMANDS
            && self.pack.len_bytes() + other.pack.len_bytes() <= ENTRY_BYTES
    }
}

/// One lane: segments in order, the last one open.
#[derive(Debug)]
struct Waiting {
    segments: VecDeque<Segment>,
    commands: usize,
    bytes: usize,
    commands_max: usize,
    bytes_max: usize,
}

impl Waiting {
    fn bounded(commands_max: usize, bytes_max: usize) -> Self {
        Self { segments: VecDeque::new(), commands: 0, bytes: 0, commands_max, bytes_max }
    }

    fn is_full(&self) -> bool {
        self.commands >= self.commands_max || self.bytes >= self.bytes_max
    }

    fn push(&mut self, request: &Request, reply: ReplyTo) {
        if self.segments.back().is_none_or(|segment| !segment.has_room()) {
            self.segments.push_back(Segment::default());
        }
        let segment = self.segments.back_mut().expect("one was just pushed");
        let before = segment.pack.len_bytes();
        segment.pack.push(request);
        segment.replies.push(reply);
        self.commands += 1;
        self.bytes += segment.pack.len_bytes() - before;
    }

    fn pop(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        self.commands -= segment.pack.count() as usize;
        self.bytes = self.segments.iter().map(|segment| segment.pack.len_bytes()).sum();
        Some(segment)
    }
}

#[derive(Debug)]
struct Both {
    keep: Waiting,
    new: Waiting,
    /// Whose turn it is when both do not fit into one entry.
    keep_next: bool,
    closed: bool,
}

/// Commands on their way into the log.
#[derive(Debug)]
pub(crate) struct Lanes {
    both: Mutex<Both>,
    filled: Notify,
}

impl Default for Lanes {
    fn default() -> Self {
        let both = Both {
            keep: Waiting::bounded(262_144, 64 << 20),
            new: Waiting::bounded(65_536, 64 << 20),
            keep_next: true,
            closed: false,
        };
        Self { both: Mutex::new(both), filled: Notify::new() }
    }
}

impl Lanes {
    /// Takes a command, or refuses it at once.
    pub(crate) fn push(&self, request: &Request, reply: ReplyTo) {
        let mut both = self.both.lock();
        let closed = both.closed;
        let lane = match Lane::of(&request.command) {
            Lane::Keep => &mut both.keep,
            Lane::New => &mut both.new,
        };
        let refusal = match (closed, lane.is_full()) {
            (true, _) => Some(Failure::ShuttingDown { may_have_happened: false }),
            (false, true) => Some(Failure::Overloaded { retry_after: Duration::from_millis(250) }),
            (false, false) => None,
        };
        if let Some(refusal) = refusal {
            drop(both);
            return reply.send(Err(refusal));
        }
        lane.push(request, reply);
        drop(both);
        self.filled.notify_one();
    }

    /// The commands of the next entry: what keeps goes before what is new.
    pub(crate) fn pop(&self) -> Option<Segment> {
        let mut both = self.both.lock();
        let joined = match (both.keep.segments.front(), both.new.segments.front()) {
            (Some(keep), Some(new)) => keep.joins(new),
            (None, _) => return both.new.pop(),
            (Some(_), None) => return both.keep.pop(),
        };
        if joined {
            let (mut segment, new) = (both.keep.pop()?, both.new.pop()?);
            segment.pack.absorb(&new.pack);
            segment.replies.extend(new.replies);
            return Some(segment);
        }
        both.keep_next = !both.keep_next;
        if both.keep_next { both.new.pop() } else { both.keep.pop() }
    }

    /// Tells whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        let both = self.both.lock();
        both.keep.commands == 0 && both.new.commands == 0
    }

    /// Tells whether new work is refused for want of room.
    pub(crate) fn is_full(&self) -> bool {
        self.both.lock().new.is_full()
    }

    /// Returns when a command may have come; for one listener.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Refuses everything from now on; what waits stays.
    pub(crate) fn close(&self) {
        self.both.lock().closed = true;
    }

    /// Refuses everything that waits.
    pub(crate) fn refuse_all(&self, failure: &Failure) {
        while let Some(segment) = self.pop() {
            for reply in segment.replies {
                reply.send(Err(failure.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Caller, LeaseId, Namespace, Release, Write};

    use super::*;

    fn request(command: Command) -> Request {
        Request { caller: Caller::default(), namespace: Namespace::new("a").unwrap(), command }
    }

    fn new_work() -> Request {
        request(Command::Write(Write::default()))
    }

    fn release() -> Request {
        request(Command::Release(Release { lease: LeaseId::new(1).unwrap() }))
    }

    /// Pushes a command; an error is a refusal on the spot.
    fn push(lanes: &Lanes, request: &Request) -> Result<(), Failure> {
        let (send, mut receive) = oneshot::channel();
        lanes.push(request, ReplyTo::Caller(send));
        match receive.try_recv() {
            Ok(Err(refusal)) => Err(refusal),
            Ok(Ok(reply)) => panic!("nobody carried it out: {reply:?}"),
            Err(_) => Ok(()),
        }
    }

    #[test]
    fn small_batches_of_both_lanes_share_an_entry() {
        let lanes = Lanes::default();
        push(&lanes, &new_work()).unwrap();
        push(&lanes, &release()).unwrap();
        let segment = lanes.pop().unwrap();
        assert_eq!((segment.pack.count(), segment.replies.len()), (2, 2));
        assert!(lanes.is_empty() && lanes.pop().is_none());
    }

    #[test]
    fn a_flood_of_new_work_is_refused_while_releases_are_still_taken_and_go_soon() {
        let lanes = Lanes::default();
        while push(&lanes, &new_work()).is_ok() {}
        assert!(lanes.is_full());
        assert!(matches!(push(&lanes, &new_work()), Err(Failure::Overloaded { .. })));
        push(&lanes, &release()).unwrap();
        let sizes = [lanes.pop().unwrap().pack.count(), lanes.pop().unwrap().pack.count()];
        assert!(sizes.contains(&1), "the release goes with one of the next two entries: {sizes:?}");
    }

    #[test]
    fn entries_are_bounded() {
        let lanes = Lanes::default();
        for _ in 0..3000 {
            push(&lanes, &new_work()).unwrap();
        }
        let counts: Vec<u32> = std::iter::from_fn(|| lanes.pop()).map(|segment| segment.pack.count()).collect();
        assert_eq!(counts, [1024, 1024, 952]);
    }
}
