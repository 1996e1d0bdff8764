//! The numbers that the rules speak of, and the rules that can be broken one at a time.
//!
//! A model that holds says little unless it can also fail. Each plant breaks one rule; the aspect that knows the rule
//! must find a counter-example.

use crate::core::{NEVER, Time};

/// The rules under which a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The one that is broken.
    pub plant: Option<Plant>,
    /// The longest grace.
    pub grace: Time,
    /// How far the leader's clock may be ahead of the last applied lease time.
    pub ahead: Time,
    /// How many ends one entry sweeps.
    pub piece: u8,
    /// How long an ended lease is remembered.
    pub tombstone_age: Time,
}

impl Rules {
    /// The design, with numbers that a small model can exhaust.
    pub const DESIGN: Rules = Rules { plant: None, grace: 1, ahead: 2, piece: 8, tombstone_age: NEVER };

    /// Tells whether a rule is broken.
    pub fn broken(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
}

macro_rules! plants {
    ($($(#[doc = $what:literal])+ $plant:ident = $name:literal,)+) => {
        /// A rule broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Plant {
            $($(#[doc = $what])+ $plant,)+
        }

        impl Plant {
            /// Every plant there is.
            pub const ALL: &[Plant] = &[$(Plant::$plant,)+];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Plant::$plant => $name,)+
                }
            }

            /// What is wrong, in a sentence.
            pub fn what(self) -> &'static str {
                match self {
                    $(Plant::$plant => concat!($($what,)+).trim_ascii(),)+
                }
            }
        }
    };
}

plants! {
    /// An entry stamped under another leader moves time and runs.
    ForeignStampCounts = "foreign-stamp-counts",
    /// An entry stamped under another leader runs its command, though its stamp is ignored.
    ForeignCommandRuns = "foreign-command-runs",
    /// Lease time is the latest stamp, not the largest, and a leader's clock starts when it is elected.
    TimeGoesBack = "time-goes-back",
    /// The stamp is read when the entry is opened, before its command is put in.
    StampCached = "stamp-cached",
    /// A renewal is acknowledged when the leader has appended it, before it is committed.
    AckBeforeCommit = "ack-before-commit",
    /// A renewal with a shorter ttl brings the deadline nearer.
    DeadlineFalls = "deadline-falls",
    /// The holder counts from the moment of the answer.
    CountFromAnswer = "count-from-answer",
    /// The holder stays valid until its release is answered.
    ValidUntilReleased = "valid-until-released",
    /// The holder allows for the drift of its own clock only.
    OneSidedDrift = "one-sided-drift",
    /// Every take-over gives the whole grace.
    GraceEveryTime = "grace-every-time",
    /// The first in line is served even if its time is over.
    DeadWaiterServed = "dead-waiter-served",
    /// Who came last is served first.
    LastComeFirst = "last-come-first",
    /// Getting a resource after a wait does not extend the lease, though the holder is told so.
    HandOnNotRenewed = "hand-on-not-renewed",
    /// The holder counts a deadline that was pushed to it from the moment it hears of it.
    PushCountsFromArrival = "push-counts-from-arrival",
    /// The holder believes a push though it has given up already.
    PushBelievedAfterRelease = "push-believed-after-release",
    /// A command finds a lease alive that is due but not swept yet.
    DueCommandRuns = "due-command-runs",
    /// A token is the holder's number instead of the revision.
    TokenPerHolder = "token-per-holder",
    /// What a revoked lease held is free at once.
    RevokeWithoutRest = "revoke-without-rest",
    /// What the children of an ended lease held is free at once.
    ChildWithoutRest = "child-without-rest",
    /// A newcomer gets a resource that rests.
    NewcomerIgnoresRest = "newcomer-ignores-rest",
    /// Answers tell the remaining time of the lease itself and forget its ancestors.
    ParentNotAsked = "parent-not-asked",
    /// A push tells the deadline of the lease itself and forgets its ancestors.
    PushForgetsParent = "push-forgets-parent",
    /// A lease ends without its children.
    ChildLeftBehind = "child-left-behind",
    /// A lease and its children end in revisions of their own.
    ChildEndsLater = "child-ends-later",
    /// A repeated grant is answered with the whole ttl.
    RepeatAnswersTtl = "repeat-answers-ttl",
    /// The id of a remembered ended lease can be granted again.
    TombstoneIgnored = "tombstone-ignored",
    /// Nobody remembers which ends were forgotten, so a late copy of a grant runs.
    HorizonForgotten = "horizon-forgotten",
    /// A grant is taken to be as new as its arrival.
    SeenAtArrival = "seen-at-arrival",
    /// A repeated grant carries the lease time that its client saw last, not what it had seen at the first attempt.
    SeenAtRepeat = "seen-at-repeat",
    /// The number of a command on a lease is not looked at.
    SeqNotChecked = "seq-not-checked",
    /// A refused command leaves no trace, so a late copy of it can succeed.
    RefusalNotKept = "refusal-not-kept",
    /// An answer to a copy of a claim is believed after the claim was given back.
    LateAnswerBelieved = "late-answer-believed",
    /// A node says that it has an entry before its disk has.
    AckBeforeFlush = "ack-before-flush",
    /// A node forgets its term and vote when it crashes.
    VoteForgotten = "vote-forgotten",
    /// A snapshot lacks lease time.
    SnapshotWithoutTime = "snapshot-without-time",
    /// A snapshot lacks the revision.
    SnapshotWithoutRevision = "snapshot-without-revision",
    /// A snapshot lacks the numbers of commands done.
    SnapshotWithoutReceipts = "snapshot-without-receipts",
    /// A snapshot lacks the horizon of what was forgotten.
    SnapshotWithoutHorizon = "snapshot-without-horizon",
    /// The log is cut up to its end, not up to what the snapshot has.
    CutBeyondSnapshot = "cut-beyond-snapshot",
    /// A restarted node gives every lease its whole ttl.
    TtlRestarts = "ttl-restarts",
    /// A node that gets a snapshot drops its whole log, with entries after the snapshot that others count on.
    InstallDropsLog = "install-drops-log",
}
