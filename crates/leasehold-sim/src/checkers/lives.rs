//! What is known of each lease: promises, when its holder was valid, when it was given back or taken.

use std::collections::BTreeMap;

use crate::history::{Ack, History, Moment, Span};

/// All that is known of one lease.
#[derive(Default)]
pub(crate) struct Life<'a> {
    pub(crate) acks: Vec<&'a Ack>,
    pub(crate) parent: Option<&'a str>,
    /// When its holder first gave it back.
    pub(crate) given_up: Option<Moment>,
    /// When that was first acknowledged.
    pub(crate) released: Option<Moment>,
    /// When an operator first asked for its end.
    revoked: Option<Moment>,
    /// When an operator first asked for its end without regard to its holder.
    forced: Option<Moment>,
    /// When single claims were given back, by resource.
    unclaimed: BTreeMap<&'a str, Vec<Moment>>,
}

/// All that is known of leases.
pub(crate) struct Lives<'a>(BTreeMap<&'a str, Life<'a>>);

/// Leases are nested less deep than this; a circle of parents, which only a broken recorder writes down, ends here.
const DEPTH_MAX: usize = 64;

impl<'a> Lives<'a> {
    pub(crate) fn of(history: &'a History) -> Lives<'a> {
        let mut lives: BTreeMap<&str, Life<'_>> = BTreeMap::new();
        for ack in &history.acks {
            lives.entry(&ack.lease).or_default().acks.push(ack);
        }
        for kinship in &history.kinships {
            lives.entry(&kinship.child).or_default().parent = Some(&kinship.parent);
        }
        for release in &history.releases {
            let life = lives.entry(&release.lease).or_default();
            match &release.resource {
                Some(resource) => life.unclaimed.entry(resource).or_default().push(release.sent),
                None => {
                    life.given_up = earlier(life.given_up, Some(release.sent));
                    life.released = earlier(life.released, release.answered);
                }
            }
        }
        for revoke in &history.revokes {
            let life = lives.entry(&revoke.lease).or_default();
            life.revoked = earlier(life.revoked, Some(revoke.sent));
            life.forced = earlier(life.forced, revoke.now.then_some(revoke.sent));
        }
        lives.values_mut().for_each(|life| life.unclaimed.values_mut().for_each(|sent| sent.sort()));
        Lives(lives)
    }

    pub(crate) fn get(&self, lease: &str) -> Option<&Life<'a>> {
        self.0.get(lease)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &Life<'a>)> {
        self.0.iter().map(|(lease, life)| (*lease, life))
    }

    /// A lease and those that it ends with, nearest first.
    pub(crate) fn line(&self, lease: &str) -> impl Iterator<Item = &Life<'a>> {
        let parent = |life: &&Life<'a>| life.parent.and_then(|parent| self.get(parent));
        std::iter::successors(self.get(lease), parent).take(DEPTH_MAX)
    }

    /// From when on a lease may have ended by a command: its holder's, an operator's, or one on a parent.
    pub(crate) fn may_end_from(&self, lease: &str) -> Moment {
        let moments = self.line(lease).filter_map(|life| earlier(life.given_up, life.revoked));
        moments.min().unwrap_or(Moment::NEVER)
    }

    /// From when on only the token protects, because an operator forced the end.
    fn forced_from(&self, lease: &str) -> Moment {
        self.line(lease).filter_map(|life| life.forced).min().unwrap_or(Moment::NEVER)
    }

    /// When the holder of a lease was sure to hold it, by its own clock: until the deadline of each acknowledgement,
    /// and neither after it sent a release nor after a forced end. Sorted and joined.
    pub(crate) fn validity(&self, lease: &str) -> Vec<Span> {
        let Some(life) = self.get(lease) else { return Vec::new() };
        let stop = life.given_up.unwrap_or(Moment::NEVER).min(self.forced_from(lease));
        let span = |ack: &&Ack| Span { from: ack.answered, to: ack.valid_until.min(stop) };
        Span::joined(&life.acks.iter().map(span).collect::<Vec<_>>())
    }

    /// Until when a claim that was acknowledged at `from` was kept, by its own giving back alone.
    pub(crate) fn kept_until(&self, lease: &str, resource: &str, from: Moment) -> Moment {
        let sent = self.get(lease).and_then(|life| life.unclaimed.get(resource));
        sent.and_then(|sent| sent.get(sent.partition_point(|sent| *sent < from))).copied().unwrap_or(Moment::NEVER)
    }

    /// The true moment before which a lease cannot have ended, neither by time nor by a command.
    pub(crate) fn lives_until(&self, lease: &str) -> Moment {
        let promised = self.get(lease).and_then(|life| life.acks.iter().map(|ack| ack.valid_until).max());
        promised.unwrap_or(Moment::START).min(self.may_end_from(lease))
    }
}

impl Life<'_> {
    /// The latest promised lease time.
    pub(crate) fn promised(&self) -> Option<u64> {
        self.acks.iter().map(|ack| ack.deadline).max()
    }
}

fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::made::{ack, at, release};
    use crate::history::{Kinship, Release, Revoke};

    #[test]
    fn a_holder_is_valid_until_its_deadline_its_release_or_a_forced_end() {
        let mut history = History { acks: vec![ack("ann", 0, 1020), ack("ann", 500, 1020)], ..History::default() };
        let valid =
            |history: &History| Lives::of(history).validity("ann").iter().map(|span| span.to).collect::<Vec<_>>();
        assert_eq!(valid(&history), [at(1480)]);
        history.revokes.push(Revoke { lease: "ann".into(), now: false, sent: at(600), answered: None });
        assert_eq!(valid(&history), [at(1480)], "it may still believe");
        assert_eq!(Lives::of(&history).lives_until("ann"), at(600));
        history.releases.push(release("ann", 900, None));
        assert_eq!(valid(&history), [at(900)]);
        history.kinships.push(Kinship { child: "ann".into(), parent: "eve".into() });
        history.revokes.push(Revoke { lease: "eve".into(), now: true, sent: at(300), answered: None });
        assert_eq!(valid(&history), [at(300)], "with its parent");
    }

    #[test]
    fn a_claim_is_kept_until_it_is_given_back() {
        let unclaim = |sent| Release { resource: Some("a".into()), ..release("ann", sent, None) };
        let history = History { releases: vec![unclaim(50), unclaim(20)], ..History::default() };
        let lives = Lives::of(&history);
        assert_eq!([0, 30, 60].map(|from| lives.kept_until("ann", "a", at(from))), [at(20), at(50), Moment::NEVER]);
        assert_eq!(lives.may_end_from("ann"), Moment::NEVER, "the lease lives on");
    }
}
