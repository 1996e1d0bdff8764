//! The list of all aspects: what each is about, which plants it must find, and how to search it.

use crate::aspects::durability::DurabilityModel;
use crate::aspects::family::FamilyModel;
use crate::aspects::leader_memory::LeaderMemoryModel;
use crate::aspects::queue::QueueModel;
use crate::aspects::retry::RetryModel;
use crate::aspects::time::TimeModel;
use crate::check::{Reach, Report, check};
use crate::plant::Plant;

/// An aspect of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The rules that it knows and can break.
    pub plants: &'static [Plant],
    search: fn(Option<Plant>, Reach) -> Report,
}

impl Listed {
    /// Searches it, with one rule broken or none.
    pub fn search(&self, plant: Option<Plant>, reach: Reach) -> Report {
        (self.search)(plant, reach)
    }
}

/// Finds an aspect or a counter-example by its name.
pub fn find(name: &str) -> Option<&'static Listed> {
    ASPECTS.iter().chain(COUNTER_EXAMPLES).find(|aspect| aspect.name == name)
}

/// Ways that are not ours; each fails.
pub const COUNTER_EXAMPLES: &[Listed] = &[
    Listed {
        name: "leader-memory",
        about: "renewals in the leader's memory, acknowledged without a commit",
        plants: &[],
        search: |_, reach| check(LeaderMemoryModel::new(false), reach),
    },
    Listed {
        name: "leader-memory-fenced",
        about: "the same, where ends that a deposed leader proposes are refused",
        plants: &[],
        search: |_, reach| check(LeaderMemoryModel::new(true), reach),
    },
];

/// All aspects of the design; each holds, and finds each of its plants.
pub const ASPECTS: &[Listed] = &[
    Listed {
        name: "time",
        about: "leader changes, stamps and renewals",
        plants: &[
            Plant::ForeignStampCounts,
            Plant::ForeignCommandRuns,
            Plant::TimeGoesBack,
            Plant::StampCached,
            Plant::AckBeforeCommit,
            Plant::CountFromAnswer,
        ],
        search: |plant, reach| check(TimeModel::time(plant, reach.deep), reach),
    },
    Listed {
        name: "renewals",
        about: "renewals that ask for less, and releases",
        plants: &[Plant::DeadlineFalls, Plant::ValidUntilReleased],
        search: |plant, reach| check(TimeModel::renewals(plant, reach.deep), reach),
    },
    Listed {
        name: "drift",
        about: "clocks that are as wrong as they may be",
        plants: &[Plant::OneSidedDrift],
        search: |plant, reach| check(TimeModel::drift(plant, reach.deep), reach),
    },
    Listed {
        name: "flapping",
        about: "leaders that change all the time, and leases that nobody renews",
        plants: &[Plant::GraceEveryTime],
        search: |plant, reach| check(TimeModel::flapping(plant, reach.deep), reach),
    },
    Listed {
        name: "queue",
        about: "waiters, hand-on, patience and pushes",
        plants: &[
            Plant::DeadWaiterServed,
            Plant::LastComeFirst,
            Plant::HandOnNotRenewed,
            Plant::PushCountsFromArrival,
            Plant::PushBelievedAfterRelease,
            Plant::TokenPerHolder,
        ],
        search: |plant, reach| check(QueueModel::queue(plant, reach.deep), reach),
    },
    Listed {
        name: "backlog",
        about: "leases that are over and not swept yet",
        plants: &[Plant::DueCommandRuns],
        search: |plant, reach| check(QueueModel::backlog(plant, reach.deep), reach),
    },
    Listed {
        name: "family",
        about: "parents, children, and revoke with rest",
        plants: &[
            Plant::RevokeWithoutRest,
            Plant::ChildWithoutRest,
            Plant::NewcomerIgnoresRest,
            Plant::ParentNotAsked,
            Plant::PushForgetsParent,
            Plant::ChildLeftBehind,
            Plant::ChildEndsLater,
        ],
        search: |plant, reach| check(FamilyModel::family(plant, reach.deep), reach),
    },
    Listed {
        name: "grants",
        about: "late copies of grants, and ended leases that are forgotten",
        plants: &[
            Plant::RepeatAnswersTtl,
            Plant::TombstoneIgnored,
            Plant::HorizonForgotten,
            Plant::SeenAtArrival,
            Plant::SeenAtRepeat,
            Plant::SnapshotWithoutHorizon,
        ],
        search: |plant, reach| check(RetryModel::grants(plant, reach.deep), reach),
    },
    Listed {
        name: "numbered",
        about: "late copies of numbered commands on a lease",
        plants: &[
            Plant::SeqNotChecked,
            Plant::RefusalNotKept,
            Plant::LateAnswerBelieved,
            Plant::SnapshotWithoutReceipts,
        ],
        search: |plant, reach| check(RetryModel::numbered(plant, reach.deep), reach),
    },
    Listed {
        name: "durability",
        about: "crashes of all nodes, snapshots in place of entries, cut logs",
        plants: &[
            Plant::AckBeforeFlush,
            Plant::VoteForgotten,
            Plant::SnapshotWithoutTime,
            Plant::SnapshotWithoutRevision,
            Plant::CutBeyondSnapshot,
            Plant::TtlRestarts,
            Plant::InstallDropsLog,
        ],
        search: |plant, reach| check(DurabilityModel::durability(plant, reach.deep), reach),
    },
];
