//! Who leads, as this node tells it: itself only when it is ready, and cut off when no majority answers it any more.
//!
//! A leader is ready when its own first entry is applied. It is cut off when no majority has acknowledged anything it sent for longer
//! than an election takes: openraft refuses proposals from then on, and another node may lead. It leads again under the same
//! leadership if acknowledgements return before it hears of another one. A node follows whom it hears: what it knows from before
//! its start, or from a leader that has been silent for two elections, is nobody.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::LeaderId;
use leasehold_service::log::{Leadership, Machine};
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Raft, ServerState};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::group_commit::Fatal;
use crate::heard::Heard;
use crate::machine::{Applier, Progress};
use crate::types::Types;

/// How often a leader that is cut off looks whether it still is.
const LOOK: Duration = Duration::from_millis(50);
/// Acknowledgements that have arrived get so long to be counted before a leader is taken for cut off.
const DOUBT: Duration = Duration::from_millis(25);

/// Tells who leads. Also notices when Raft ends.
pub(crate) async fn watch_leadership<M: Machine>(
    raft: Raft<Types, Applier<M>>,
    progress: Arc<Progress>,
    heard: Arc<Heard>,
    mut removed: watch::Receiver<Option<String>>,
    tell: watch::Sender<Leadership>,
    election_max: Duration,
    fatal: Fatal,
) {
    // Not `raft.metrics()`, which changes with every entry.
    let mut server = raft.server_metrics();
    let mut ready = progress.ready();
    let mut majority = Majority::new(election_max);
    loop {
        let (present, alone) = {
            let server = server.borrow_watched();
            let granted = server.vote.committed.then_some(server.vote.leader_id.0);
            let alone = server.membership_config.membership().voter_ids().eq([server.id]);
            (leadership(server.id, granted, server.state, *ready.borrow_and_update()), alone)
        };
        // What a removed node may still believe of its old cluster means nothing.
        let present = if removed.borrow_and_update().is_some() { Leadership::Unknown } else { present };
        let (present, look_again) = match present {
            Leadership::Leads(leader) if !alone => {
                let now = Instant::now();
                let acked = raft.data_metrics().borrow_watched().last_quorum_acked;
                let (verdict, look_again) = majority.judge(leader, acked.map(|acked| now - acked.elapsed()), now);
                heard.led(majority.acked(leader));
                (verdict, Some(look_again))
            }
            Leadership::Follows(_) => match heard.silence().and_then(|silence| (2 * election_max).checked_sub(silence))
            {
                Some(left) => (present, Some(left + DOUBT)),
                None => (Leadership::Unknown, None),
            },
            Leadership::Leads(_) | Leadership::CutOff(_) | Leadership::Unknown => (present, None),
        };
        // Compared first: a look that finds nothing new must not wait for those who are just reading.
        if *tell.borrow() != present {
            tell.send_replace(present);
        }
        tokio::select! {
            changed = server.changed() => if changed.is_err() { break },
            _ = ready.changed() => {}
            () = heard.came(), if present == Leadership::Unknown => {}
            _ = removed.changed() => {}
            () = tokio::time::sleep(look_again.unwrap_or_default()), if look_again.is_some() => {}
        }
    }
    tell.send_replace(Leadership::Unknown);
    match &raft.metrics().borrow_watched().running_state {
        // A shutdown; no failure.
        Err(openraft::errors::Fatal::Stopped) => {}
        // What caused it has usually been named already, and better.
        Err(error) => fatal.set(|| error.to_string()),
        Ok(()) => fatal.set(|| "the consensus task ended without a reason".into()),
    }
}

fn leadership(own: u64, granted: Option<LeaderId>, state: ServerState, ready: Option<LeaderId>) -> Leadership {
    match (granted, state) {
        (Some(leader), ServerState::Leader) if ready == Some(leader) => Leadership::Leads(leader),
        // It led before it was started again, and nobody does as far as it knows.
        (Some(leader), ServerState::Follower | ServerState::Learner) if leader.node == own => Leadership::Unknown,
        (Some(leader), ServerState::Follower | ServerState::Learner) => Leadership::Follows(leader),
        (Some(_), ServerState::Leader | ServerState::Candidate | ServerState::Shutdown) | (None, _) => {
            Leadership::Unknown
        }
    }
}

/// Judges whether a majority still answers a leader.
#[derive(Debug)]
struct Majority {
    election_max: Duration,
    /// The leadership judged last, when it was last acknowledged, and what was told of it.
    last: Option<(LeaderId, Instant)>,
    /// When the acknowledgement was first found too old, and when the next look is due.
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    look_at: Instant,
    cut_off: bool,
}

impl Majority {
    fn new(election_max: Duration) -> Majority {
        Majority { election_max, last: None, doubt: None }
    }

    /// When the leadership that was judged last was last acknowledged.
    fn acked(&self, leader: LeaderId) -> Instant {
        self.last.filter(|(last, _)| *last == leader).map_or_else(Instant::now, |(_, acked)| acked)
    }

    /// Returns what to tell, and when to judge again.
    fn judge(&mut self, leader: LeaderId, acked: Option<Instant>, now: Instant) -> (Leadership, Duration) {
        if self.last.is_none_or(|(last, _)| last != leader) {
            // Its first entry is applied, so a majority has just answered.
            (self.last, self.doubt) = (Some((leader, now)), None);
        }
        let acked = self.last.map(|(_, before)| before).max(acked).unwrap_or(now);
        self.last = Some((leader, acked));
        let age = now.saturating_duration_since(acked);
        if age <= self.election_max {
            self.doubt = None;
            return (Leadership::Leads(leader), (self.election_max - age).max(DOUBT));
        }
        let cut_off = self.confirmed(now, age);
        let wait = if cut_off { LOOK } else { DOUBT };
        self.doubt = Some(Doubt { look_at: now + wait, cut_off });
        (if cut_off { Leadership::CutOff(leader) } else { Leadership::Leads(leader) }, wait)
    }

    /// A look that comes much too late, on a busy machine, may come before acknowledgements that wait to be read; so it counts
    /// only if it is the second in a row that came on time, or if far too much time has passed.
    fn confirmed(&self, now: Instant, age: Duration) -> bool {
        let Some(doubt) = self.doubt else { return false };
        let on_time = now >= doubt.look_at && now < doubt.look_at + DOUBT;
        doubt.cut_off || on_time || age > 2 * self.election_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: LeaderId = LeaderId { term: 2, node: 1 };
    const LEADS: Leadership = Leadership::Leads(LEADER);
    const CUT_OFF: Leadership = Leadership::CutOff(LEADER);

    /// Judges at times in milliseconds.
    struct Script(Majority, Instant);

    impl Script {
        fn new() -> Script {
            Script(Majority::new(Duration::from_millis(600)), Instant::now())
        }

        fn at(&mut self, now: u64, acked: u64) -> Leadership {
            let time = |millis| self.1 + Duration::from_millis(millis);
            self.0.judge(LEADER, Some(time(acked)), time(now)).0
        }
    }

    #[test]
    fn a_node_that_led_before_it_was_started_again_follows_nobody() {
        let follows = |own| leadership(own, Some(LEADER), ServerState::Follower, None);
        assert_eq!((follows(1), follows(2)), (Leadership::Unknown, Leadership::Follows(LEADER)));
    }

    #[test]
    fn a_leader_that_is_acknowledged_leads() {
        let mut script = Script::new();
        assert_eq!([script.at(0, 0), script.at(600, 500), script.at(1100, 1000)], [LEADS; 3]);
    }

    #[test]
    fn a_leader_without_a_majority_is_cut_off_after_a_second_look_and_leads_again_with_one() {
        let mut script = Script::new();
        assert_eq!([script.at(0, 0), script.at(601, 0), script.at(610, 0)], [LEADS; 3]);
        assert_eq!([script.at(636, 0), script.at(700, 0)], [CUT_OFF; 2]);
        assert_eq!([script.at(1500, 1450), script.at(1600, 1450)], [LEADS; 2]);
        assert_eq!([script.at(2060, 1450), script.at(2086, 1450)], [LEADS, CUT_OFF]);
    }

    #[test]
    fn a_look_that_comes_too_late_is_not_counted_at_first() {
        let mut script = Script::new();
        assert_eq!([script.at(0, 0), script.at(700, 0), script.at(900, 0)], [LEADS; 3]);
        assert_eq!(script.at(950, 850), LEADS, "the acknowledgement was only waiting to be read");
        assert_eq!([script.at(1600, 850), script.at(2100, 850)], [LEADS, CUT_OFF], "but not for ever");
    }

    #[test]
    fn a_new_leadership_begins_acknowledged() {
        let mut script = Script::new();
        script.at(0, 0);
        let later = script.1 + Duration::from_secs(5);
        let next = LeaderId { term: 3, node: 1 };
        assert_eq!(script.0.judge(next, None, later).0, Leadership::Leads(next));
    }
}
