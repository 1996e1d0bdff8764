//! Whether the states of the nodes agree: the rule alone, without clocks, files or connections.
//!
//! At a checkpoint every node reports a hash of its state. A node goes on as long as its own hash can still be that
//! of a majority of the voters, and stops when it no longer can: because a majority has another one, or because no
//! hash can have a majority any more, and then all stop. Voters are those of the membership at the checkpoint, the same on
//! every node. Hashes of different forms are not compared. A few checkpoints are kept, so that late reports count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use leasehold_log::LogPosition;

/// How many checkpoints are kept, of this node and of each other.
const KEPT: usize = 4;
/// How many nodes are listened to; a cluster has far fewer.
const NODES_MAX: usize = 64;

/// The SHA-256 of a state as its view writes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hash(pub(crate) [u8; 32]);

impl fmt::Display for Hash {
    /// Shows enough of it to tell two apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The state of one node at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Where the checkpoint stands.
    pub(crate) at: LogPosition,
    /// The form of the bytes that were hashed.
    pub(crate) form: u8,
    pub(crate) hash: Hash,
}

impl Report {
    /// Says whether two nodes have the same state; none if that cannot be told.
    fn agrees(&self, other: &Report) -> Option<bool> {
        // Another leader at the same index is another log, whatever the states.
        (self.form == other.form).then(|| self.at == other.at && self.hash == other.hash)
    }
}

/// The last checkpoint at which this node's state was compared with another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The checkpoint's index in the log.
    pub index: u64,
    /// How many voters are known to have the same state as this node, itself included if it votes.
    pub agreed: usize,
    /// How many voters there were.
    pub voters: usize,
}

/// What a new report shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Nodes that are now known to have another state, with words for it.
    pub(crate) others: Vec<String>,
    /// Why this node must stop, if it must.
    pub(crate) stop: Option<String>,
}

/// A checkpoint of this node.
#[derive(Clone, Debug)]
struct Own {
    report: Report,
    voters: BTreeSet<u64>,
    /// Nodes whose other state was told already.
    told: BTreeSet<u64>,
}

/// What is known of the states of all nodes.
#[derive(Debug)]
pub(crate) struct Agreement {
    node: u64,
    own: VecDeque<Own>,
    heard: BTreeMap<u64, VecDeque<Report>>,
}

impl Agreement {
    pub(crate) fn new(node: u64) -> Agreement {
        Agreement { node, own: VecDeque::new(), heard: BTreeMap::new() }
    }

    /// Takes this node's own report, with those who voted at the checkpoint.
    pub(crate) fn report(&mut self, report: Report, voters: BTreeSet<u64>) -> Finding {
        self.own.retain(|own| own.report.at.index != report.at.index);
        self.own.push_back(Own { report, voters, told: BTreeSet::new() });
        while self.own.len() > KEPT {
            self.own.pop_front();
        }
        self.find(report.at.index)
    }

    /// Takes the report of another node.
    pub(crate) fn hear(&mut self, from: u64, report: Report) -> Finding {
        let known = self.heard.contains_key(&from);
        if from == self.node || (!known && self.heard.len() >= NODES_MAX) {
            return Finding::default();
        }
        let reports = self.heard.entry(from).or_default();
        reports.retain(|before| before.at.index != report.at.index);
        reports.push_back(report);
        while reports.len() > KEPT {
            reports.pop_front();
        }
        self.find(report.at.index)
    }

    /// Forgets all nodes but these.
    pub(crate) fn keep(&mut self, members: &BTreeSet<u64>) {
        self.heard.retain(|node, _| members.contains(node));
    }

    /// Returns this node's own report of the checkpoint at an index.
    pub(crate) fn own_at(&self, index: u64) -> Option<Report> {
        self.own.iter().map(|own| own.report).find(|report| report.at.index == index)
    }

    /// Returns the newest checkpoint of which another node's state is known too.
    pub(crate) fn compared(&self) -> Option<Compared> {
        let comparable = |own: &&Own| self.others(own).next().is_some();
        let own = self.own.iter().rev().find(comparable)?;
        Some(Compared { index: own.report.at.index, agreed: self.agreed(own), voters: own.voters.len() })
    }

    /// The nodes that reported a checkpoint in the same form: whether they agree, and what they have.
    fn others<'a>(&'a self, own: &'a Own) -> impl Iterator<Item = (u64, bool, Report)> + 'a {
        self.heard.iter().filter_map(|(node, reports)| {
            let theirs = reports.iter().find(|report| report.at.index == own.report.at.index)?;
            own.report.agrees(theirs).map(|agrees| (*node, agrees, *theirs))
        })
    }

    fn agreed(&self, own: &Own) -> usize {
        let others = self.others(own).filter(|(node, agrees, _)| *agrees && own.voters.contains(node)).count();
        others + usize::from(own.voters.contains(&self.node))
    }

    fn find(&mut self, index: u64) -> Finding {
        let Some(at) = self.own.iter().position(|own| own.report.at.index == index) else { return Finding::default() };
        let own = &self.own[at];
        let differing: Vec<(u64, Report)> =
            self.others(own).filter(|(_, agrees, _)| !agrees).map(|(node, _, theirs)| (node, theirs)).collect();
        let stop = self.reason_to_stop(own, &differing);
        let agreed = self.agreed(own);
        let own = &mut self.own[at];
        let mut others = Vec::new();
        for (node, theirs) in differing {
            if own.told.insert(node) {
                others.push(warning(node, &theirs, own, agreed));
            }
        }
        Finding { others, stop }
    }

    fn reason_to_stop(&self, own: &Own, differing: &[(u64, Report)]) -> Option<String> {
        let mut counts = BTreeMap::<(LogPosition, Hash), usize>::new();
        for (_, theirs) in differing.iter().filter(|(node, _)| own.voters.contains(node)) {
            *counts.entry((theirs.at, theirs.hash)).or_default() += 1;
        }
        let (voters, majority) = (own.voters.len(), own.voters.len() / 2 + 1);
        let agreed = self.agreed(own);
        let others = voters - counts.values().sum::<usize>();
        if others >= majority {
            return None;
        }
        let unheard = others.saturating_sub(agreed);
        let Report { at, hash, .. } = own.report;
        let index = at.index;
        let ((_, other), count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some(if count >= majority {
            format!(
                "the state of this node has diverged: at entry {index} of the log {count} of {voters} voters agree on the \
                 state hash {other}, this node has {hash}; keep its files for inquiry, do not start it again with them, \
                 remove it from the cluster and let it join anew with an empty --data directory"
            )
        } else if count + unheard >= majority {
            // It cannot be in a majority, but whether there is one is not known yet.
            format!(
                "the state of this node has diverged: at entry {index} of the log {count} of {voters} voters agree on \
                 the state hash {other}, this node has {hash}, as {agreed} do, {unheard} were not heard; keep its files for \
                 inquiry; if the others go on, remove it from the cluster and let it join anew with an empty --data \
                 directory"
            )
        } else {
            format!(
                "the states of the nodes have diverged, and no majority agrees: at entry {index} of the log this node has \
                 the state hash {hash}, as {agreed} of {voters} voters do, and {count} have {other}; every node stops; keep \
                 all files for inquiry and restore the cluster from a backup, or begin anew from the node whose state \
                 is right"
            )
        })
    }
}

fn warning(node: u64, theirs: &Report, own: &Own, agreed: usize) -> String {
    let (index, voters) = (own.report.at.index, own.voters.len());
    format!(
        "node {node} has another state: at entry {index} of the log its state hash is {}, this node has {}, as {agreed} of \
         {voters} voters are known to; the minority stops by itself and must be replaced",
        theirs.hash, own.report.hash
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::LeaderId;

    fn report(index: u64, state: u8) -> Report {
        let leader = LeaderId { term: 2, node: 1 };
        Report { at: LogPosition { leader, index }, form: 1, hash: Hash([state; 32]) }
    }

    fn voters(count: u64) -> BTreeSet<u64> {
        (1..=count).collect()
    }

    /// What each of the nodes finds when each has a state and all have heard of all; nodes after `count` do not vote.
    fn stops(count: u64, states: &[u8]) -> Vec<bool> {
        let node = |at: usize| at as u64 + 1;
        let one = |own: usize| {
            let mut agreement = Agreement::new(node(own));
            let mut finding = agreement.report(report(9, states[own]), voters(count));
            for (at, state) in states.iter().enumerate().filter(|(at, _)| *at != own) {
                finding = agreement.hear(node(at), report(9, *state));
            }
            finding.stop.is_some()
        };
        (0..states.len()).map(one).collect()
    }

    #[test]
    fn a_minority_stops_and_the_majority_goes_on() {
        assert_eq!(stops(3, b"aaa"), [false, false, false]);
        assert_eq!(stops(3, b"aba"), [false, true, false]);
        assert_eq!(stops(5, b"aabab"), [false, false, true, false, true]);
        assert_eq!(stops(4, b"aaab"), [false, false, false, true]);
    }

    #[test]
    fn without_a_majority_all_stop() {
        assert_eq!(stops(2, b"ab"), [true, true]);
        assert_eq!(stops(3, b"abc"), [true, true, true]);
        assert_eq!(stops(4, b"aabb"), [true, true, true, true]);
        assert_eq!(stops(5, b"aabbc"), [true, true, true, true, true]);
    }

    #[test]
    fn a_node_that_only_follows_stops_with_another_state_and_stops_nobody() {
        assert_eq!(stops(3, b"aaab"), [false, false, false, true]);
        assert_eq!(stops(1, b"ab"), [false, true]);
        assert_eq!(stops(1, b"abbb"), [false, true, true, true]);
    }

    #[test]
    fn while_a_majority_is_possible_nobody_stops_but_it_is_told() {
        let mut agreement = Agreement::new(1);
        assert_eq!(agreement.report(report(9, 1), voters(3)), Finding::default());
        let finding = agreement.hear(2, report(9, 2));
        assert_eq!(finding.stop, None);
        assert_eq!(finding.others.len(), 1);
        assert!(finding.others[0].contains("node 2 has another state: at entry 9"), "{}", finding.others[0]);
        assert!(finding.others[0].contains("as 1 of 3 voters"), "{}", finding.others[0]);
        assert_eq!(agreement.hear(2, report(9, 2)), Finding::default(), "it is told once");
        assert_eq!(agreement.hear(3, report(9, 1)), Finding::default());
        assert_eq!(agreement.compared(), Some(Compared { index: 9, agreed: 2, voters: 3 }));
    }

    #[test]
    fn a_stop_names_the_entry_both_hashes_and_what_to_do() {
        let mut agreement = Agreement::new(1);
        agreement.hear(2, report(9, 0xbb));
        agreement.hear(3, report(9, 0xbb));
        let reason = agreement.report(report(9, 0xaa), voters(3)).stop.unwrap();
        for words in
            ["entry 9 ", "2 of 3 voters", "bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa", "keep its files", "join anew"]
        {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        let mut agreement = Agreement::new(1);
        agreement.hear(2, report(9, 0xbb));
        let reason = agreement.report(report(9, 0xaa), voters(2)).stop.unwrap();
        for words in ["entry 9 ", "no majority", "bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa", "backup"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
    }

    #[test]
    fn a_stop_before_all_were_heard_does_not_say_that_all_stop() {
        let mut agreement = Agreement::new(4);
        agreement.report(report(9, 0xaa), voters(4));
        assert_eq!(agreement.hear(1, report(9, 0xbb)).stop, None);
        let reason = agreement.hear(2, report(9, 0xbb)).stop.unwrap();
        for words in ["2 of 4 voters agree", "as 1 do", "1 were not heard", "if the others go on"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        let reason = agreement.hear(3, report(9, 0xaa)).stop.unwrap();
        assert!(reason.contains("no majority agrees"), "{reason}");
    }

    #[test]
    fn reports_may_come_in_any_order_and_late_but_only_of_the_same_checkpoint_count() {
        let mut agreement = Agreement::new(1);
        agreement.hear(2, report(20, 7));
        agreement.hear(3, report(10, 1));
        assert_eq!(agreement.report(report(10, 1), voters(3)).stop, None);
        assert_eq!(agreement.compared(), Some(Compared { index: 10, agreed: 2, voters: 3 }));
        agreement.hear(2, report(10, 1));
        assert_eq!(agreement.compared(), Some(Compared { index: 10, agreed: 3, voters: 3 }));
        // Of the newer one another state is known already.
        let finding = agreement.report(report(20, 1), voters(3));
        assert_eq!((finding.others.len(), finding.stop), (1, None));
        assert_eq!(agreement.compared(), Some(Compared { index: 20, agreed: 1, voters: 3 }));
        assert!(agreement.hear(3, report(20, 7)).stop.is_some());
        assert_eq!(agreement.own_at(10), Some(report(10, 1)));
        assert_eq!(agreement.own_at(11), None);
    }

    #[test]
    fn another_form_is_not_compared_and_another_leader_is_another_log() {
        let mut agreement = Agreement::new(1);
        agreement.report(report(9, 1), voters(2));
        let newer = Report { form: 2, ..report(9, 7) };
        assert_eq!(agreement.hear(2, newer), Finding::default());
        assert_eq!(agreement.compared(), None);
        let elsewhere = LogPosition { leader: LeaderId { term: 3, node: 2 }, index: 9 };
        assert!(agreement.hear(2, Report { at: elsewhere, ..report(9, 1) }).stop.is_some());
    }

    #[test]
    fn one_node_alone_compares_with_nobody() {
        let mut agreement = Agreement::new(1);
        assert_eq!(agreement.report(report(9, 1), voters(1)), Finding::default());
        assert_eq!(agreement.hear(1, report(9, 2)), Finding::default(), "not with itself");
        assert_eq!(agreement.compared(), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut agreement = Agreement::new(1);
        for index in 0..100 {
            agreement.report(report(index, 1), voters(3));
            for from in 2..200 {
                agreement.hear(from, report(index, 1));
            }
        }
        assert_eq!((agreement.own.len(), agreement.heard.len(), agreement.heard[&2].len()), (KEPT, NODES_MAX, KEPT));
        agreement.keep(&voters(3));
        assert_eq!(agreement.heard.len(), 2);
    }
}
