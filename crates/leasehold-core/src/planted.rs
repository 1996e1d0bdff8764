//! Known mistakes that can be planted on purpose, so that a simulation can show that its checkers find each of them.
//!
//! Every mistake is an `if planted::is(…)` at the place where it would be made. Without the feature `planted` that is a
//! constant, and nothing of it is left in a build; with it, and nothing planted, everything behaves as without. What is
//! planted holds for the whole process: run each mistake in a process of its own.

use crate::{Remaining, Ttl};

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident = $name:literal breaks $promises:expr;)+) => {
        /// A mistake that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)+
        }

        impl Bug {
            /// Every mistake there is.
            pub const ALL: &'static [Bug] = &[$(Bug::$bug),+];

            /// Its name on a command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)+
                }
            }

            /// The numbers of the promises it can break (docs/guide/failure-model.md).
            pub const fn breaks(self) -> &'static [u8] {
                match self {
                    $(Bug::$bug => &$promises,)+
                }
            }
        }
    };
}

bugs! {
    /// Lease time follows the clock of the node that applies an entry instead of its stamp, so that nodes disagree and
    /// leases end early (promises 1, 4, 14, 16).
    ClockInApply = "clock-in-apply" breaks [1, 4, 14, 16];
    /// An entry that came back keeps its old stamp, and one stamped by another leader than appended it is not void, so
    /// that the clock of a deposed leader ends leases early (promises 1, 4).
    ForeignEntryCounts = "foreign-entry-counts" breaks [1, 4];
    /// An entry carries what the clock showed when the entry before it was stamped, so that a renewal counts from too
    /// early and its lease ends before its promised time (promises 1, 4).
    StampCached = "stamp-cached" breaks [1, 4];
    /// A leader answers a renewal when it takes it, not when it is applied (promises 1, 3, 4).
    RenewalAcknowledgedEarly = "renewal-acknowledged-early" breaks [1, 3, 4];
    /// A renewal with a shorter ttl takes back time that was promised (promises 1, 4).
    RenewalShortens = "renewal-shortens" breaks [1, 4];
    /// A repeated grant is told its whole ttl instead of what is left of it (promises 1, 4).
    RetriedGrantFullTtl = "retried-grant-full-ttl" breaks [1, 4];
    /// A waiter whose time is over is not passed over: it is given the resource, and lives again (promises 5, 8).
    DeadWaiterGranted = "dead-waiter-granted" breaks [5, 8];
    /// An entry survives the lease it is bound to when that ends by time (promise 6).
    EntryLeftBehind = "entry-left-behind" breaks [6];
    /// A restored state goes on with the revision of its backup, so that tokens are given twice (promises 2, 14).
    TokenResetByRestore = "token-reset-by-restore" breaks [2, 14];
    /// Events that the ring forgets, or that a snapshot takes the place of, are gone without a word (promise 7).
    EventDroppedAtCompaction = "event-dropped-at-compaction" breaks [7];
    /// Entries are reported durable before they are synced (promises 3, 9).
    FsyncSkipped = "fsync-skipped" breaks [3, 9];
    /// A client counts its validity from when the answer came instead of when the request was sent (promise 1).
    DeadlineFromReply = "deadline-from-reply" breaks [1];
    /// Lease time stands still for the whole grace at every take-over, so that flapping keeps the dead alive (promise 5).
    GraceAtEveryTakeOver = "grace-at-every-take-over" breaks [5];
    /// A late copy of a grant whose lease has ended is carried out again (promises 9, 11).
    LateCopyRunsAgain = "late-copy-runs-again" breaks [9, 11];
    /// A vote is given before it is synced, so that a node may vote twice in a term (promises 1, 3, 14).
    VoteNotDurable = "vote-not-durable" breaks [1, 3, 14];
    /// A snapshot has no waiting places, so that whoever waited is forgotten (promises 3, 8, 16).
    SnapshotForgetsWaiters = "snapshot-forgets-waiters" breaks [3, 8, 16];
    /// A node that believes to lead answers a linearizable read without proof of it (promise 14).
    ReadWithoutBarrier = "read-without-barrier" breaks [14];
    /// Of the waiters of the highest priority the youngest is served first (promise 8).
    QueueNotFifo = "queue-not-fifo" breaks [8];
    /// A guard is valid until its release is answered, not until it is sent (promise 1).
    ValidUntilReleaseAnswered = "valid-until-release-answered" breaks [1];
    /// A child lease lives on when its parent ends (promises 5, 6).
    ChildOutlivesParent = "child-outlives-parent" breaks [5, 6];
    /// A parcel that may have reached the leader is sent again at once, so that its commands may run twice (promise 11).
    ParcelSentTwice = "parcel-sent-twice" breaks [11];
    /// What a revoked lease held is handed on while its holder may still act, though nobody insisted (promise 1).
    RevokeWithoutRest = "revoke-without-rest" breaks [1];
    /// The lease clock runs on in a stall without bound, and entries stamped too far ahead are not void, so that time
    /// in which nobody could renew ends leases (promise 4).
    ClockRunsAhead = "clock-runs-ahead" breaks [4];
    /// The outcome of a numbered command is not kept, so that a copy of it runs again (promise 11).
    ReceiptForgotten = "receipt-forgotten" breaks [11];
    /// A follower answers a linearizable read before it has applied what the leader's proof goes with (promise 14).
    ReadBeforeCaughtUp = "read-before-caught-up" breaks [14];
    /// A client allows for the error of its own clock but not for that of the leader's (promise 1).
    DriftOneSided = "drift-one-sided" breaks [1];
    /// A watch that is resumed delivers the last change its watcher saw once more (promise 7).
    EventTwiceOnResume = "event-twice-on-resume" breaks [7];
}

impl Bug {
    /// The mistake of this name.
    pub fn from_name(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

/// What a mistaken answer tells of a lease: that its whole ttl is left.
pub fn whole(ttl: Ttl) -> Remaining {
    match ttl {
        Ttl::For(span) => Remaining::For(span),
        Ttl::Endless => Remaining::Endless,
    }
}

#[cfg(not(feature = "planted"))]
mod present {
    use std::time::Duration;

    use super::Bug;
    use crate::Span;

    /// Tells whether this mistake is planted: never, in this build.
    #[inline]
    pub const fn is(_: Bug) -> bool {
        false
    }

    /// The clock of a node, which only a planted mistake looks at; nothing in this build.
    #[derive(Debug, Default)]
    pub struct NodeClock(());

    impl NodeClock {
        /// Takes note of what reads the clock.
        #[inline]
        pub fn set(&self, _: impl Fn() -> Duration + Send + Sync + 'static) {}

        /// How long it is since the last call, in whole milliseconds; none without a clock.
        #[inline]
        pub fn since_last(&self) -> Option<Span> {
            None
        }
    }
}

#[cfg(feature = "planted")]
mod present {
    use std::fmt;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::Duration;

    use super::Bug;
    use crate::Span;

    /// One more than the number of the mistake; zero for none.
    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants a mistake in this process, in place of one that was planted before.
    pub fn plant(bug: Bug) {
        PLANTED.store(bug as u8 + 1, Ordering::SeqCst);
    }

    /// The mistake that is planted.
    pub fn planted() -> Option<Bug> {
        Bug::ALL.get(usize::from(PLANTED.load(Ordering::Relaxed)).wrapping_sub(1)).copied()
    }

    /// Tells whether this mistake is planted.
    #[inline]
    pub fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8 + 1
    }

    type Read = Box<dyn Fn() -> Duration + Send + Sync>;

    /// The clock of a node, which only a planted mistake looks at.
    #[derive(Default)]
    pub struct NodeClock {
        read: OnceLock<Read>,
        last: Mutex<Option<Duration>>,
    }

    impl fmt::Debug for NodeClock {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("NodeClock").finish_non_exhaustive()
        }
    }

    impl NodeClock {
        /// Takes note of what reads the clock; the first one stays.
        pub fn set(&self, read: impl Fn() -> Duration + Send + Sync + 'static) {
            self.read.get_or_init(|| Box::new(read));
        }

        /// How long it is since the last call, in whole milliseconds; none without a clock.
        pub fn since_last(&self) -> Option<Span> {
            let now = self.read.get()?();
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let before = last.unwrap_or(now);
            let gone = now.saturating_sub(before).as_millis() as u64;
            // What is less than a millisecond counts next time.
            *last = Some(before + Duration::from_millis(gone));
            Some(Span(gone))
        }
    }
}

pub use present::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_has_a_name_of_its_own_and_breaks_a_promise() {
        for bug in Bug::ALL {
            assert_eq!(Bug::from_name(bug.name()), Some(*bug));
            assert!(!bug.breaks().is_empty() && bug.breaks().iter().all(|promise| (1..=16).contains(promise)));
        }
        assert_eq!(Bug::from_name("none-of-them"), None);
    }

    #[test]
    fn nothing_is_planted_unless_asked_for() {
        assert!(Bug::ALL.iter().all(|bug| !is(*bug)));
    }
}
