//! A state that comes back from a backup: a new beginning, later than everything the old cluster can have promised.
//!
//! What happened after the backup is lost, but its holders are not: some may still act on grants that nobody here
//! knows of. So the revision and lease time go on beyond any that can have been seen, and until the rest is over no
//! resource is given to anybody new, known here or not. Whoever holds something keeps it, with the whole ttl ahead.
//! Waits do not survive: their leases may have been served since, and would be renewed for ever beside another holder.
//! Reading a clock is left to the caller. See decision 0015.

use crate::deadlines::{Deadlines, Due};
use crate::lease::Lease;
use crate::planted::{self, Bug};
use crate::{EndCause, LeaseKey, LeaseTime, Revision, Span, State, Ttl, WallTime};

/// A restored state is ahead of its backup by this much where the clock of the machine cannot be trusted: four
/// thousand million revisions, and as many milliseconds.
const LIFT: u64 = 1 << 32;
/// Revisions per second of wall time; no cluster makes as many.
const REVISIONS_PER_SECOND: u128 = 1 << 20;
/// Lease time per wall time; no lease clock goes as fast.
const LEASE_TIME_RATE: u64 = 2;

/// Where a restored state begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Its revision: every later token is above it.
    pub revision: Revision,
    /// Its lease time.
    pub now: LeaseTime,
    /// How long no resource is given to anybody new.
    pub rest: Span,
}

impl Restore {
    /// The beginning of `backup` when it is restored at `wall`.
    ///
    /// Both lines follow wall time, which all copies of all backups have in common, and faster than any cluster goes:
    /// so whatever copy is restored, however often, revision and lease time are above all that there were before.
    pub fn new(backup: &State, wall: WallTime) -> Restore {
        let revision = u128::from(wall.0) * REVISIONS_PER_SECOND / 1000;
        let by_clock = Restore {
            revision: Revision(u64::try_from(revision).unwrap_or(u64::MAX)),
            now: LeaseTime(wall.0.saturating_mul(LEASE_TIME_RATE)),
            rest: backup.longest_ttl,
        };
        if by_clock.follows(backup) && wall >= backup.wall {
            return by_clock;
        }
        Restore {
            revision: Revision(backup.revision.0.saturating_add(LIFT)),
            now: LeaseTime(backup.now.0.saturating_add(LIFT)),
            ..by_clock
        }
    }

    /// Tells whether it is after everything in the backup.
    fn follows(&self, backup: &State) -> bool {
        self.revision > backup.revision && self.now > backup.now
    }
}

impl State {
    /// The wall time of the latest entry.
    pub fn wall(&self) -> WallTime {
        self.wall
    }

    /// How long no resource is given to anybody new, after a restore.
    pub fn rests(&self) -> Option<Span> {
        self.is_resting().then(|| self.until(self.rests_until))
    }

    /// Tells whether no resource is given to anybody new yet.
    pub(crate) fn is_resting(&self) -> bool {
        self.rests_until > LeaseTime::ZERO && !self.rests_until.is_due(self.now)
    }

    /// Begins anew from a backup.
    pub fn restored(mut self, restore: Restore) -> State {
        assert!(restore.follows(&self), "a restored state is later than its backup");
        self.end_all_waits();
        self.move_time(restore.now);
        if !planted::is(Bug::TokenResetByRestore) {
            self.revision = restore.revision.max(Revision(self.revision.0 + 1));
        }
        for key in self.lease_keys() {
            let lease = self.leases.get_mut(&key).expect("it was just listed");
            lease.deadline = whole_ttl(lease, restore.now);
            // Its holder may know of claims and entries that are lost: a renewal tells it to look.
            lease.changed = self.revision;
        }
        // A late copy of any grant sent before may be one whose lease has ended, in the part that is lost.
        self.tombstones.horizon = Some(LeaseTime(restore.now.0 - 1));
        self.rests_until = match restore.rest {
            Span::ZERO => LeaseTime::ZERO,
            rest => restore.now.after(rest),
        };
        self.index_deadlines();
        self.forget();
        self.assert_invariants();
        self
    }

    fn lease_keys(&self) -> Vec<LeaseKey> {
        self.leases.iter().map(|(key, _)| *key).collect()
    }

    /// Empties all queues. A lease that was granted for its wait ends with all it carries.
    fn end_all_waits(&mut self) {
        let mut born = Vec::new();
        for key in self.lease_keys() {
            let waits = self.leases.get(&key).expect("it was just listed").waits().to_vec();
            if waits.iter().any(|wait| wait.born) {
                born.push(key);
            }
            for wait in waits {
                self.drop_wait(key, wait.number, EndCause::Left, &mut Vec::new());
            }
        }
        // Nobody waits any more, so nothing is handed on.
        self.revisit.clear();
        for key in born {
            if self.leases.contains(&key) {
                self.end(key, EndCause::Left, &mut Vec::new());
                // It did not leave by itself. Without a tombstone its holder is told to ask anew.
                self.tombstones.forget_one(&key);
                self.namespaces.usage_mut(key.namespace).tombstones -= 1;
                self.emptied.insert(key.namespace);
            }
        }
    }

    /// Moves the whole state to a later time; all spans stay as they are.
    fn move_time(&mut self, to: LeaseTime) {
        let by = to.since(self.now);
        self.now = to;
        self.taken_over = self.taken_over.after(by);
        for key in self.lease_keys() {
            let lease = self.leases.get_mut(&key).expect("it was just listed");
            for at in [&mut lease.granted, &mut lease.renewed, &mut lease.deadline] {
                *at = at.after(by);
            }
            lease.held.iter_mut().for_each(|claim| claim.since = claim.since.after(by));
        }
        let resting = |row: &crate::resource::Resource| row.rests_until > LeaseTime::ZERO;
        let rests: Vec<_> = self.resources.iter().filter(|(_, row)| resting(row)).map(|(key, _)| key.clone()).collect();
        for key in rests {
            let row = self.resources.get_mut(&key).expect("it was just listed");
            row.rests_until = row.rests_until.after(by);
        }
        self.tombstones.move_time(by);
    }

    /// Fills the index of deadlines anew.
    fn index_deadlines(&mut self) {
        self.deadlines = Deadlines::default();
        self.deadlines.set_leases(self.leases.iter().map(|(key, lease)| (lease.deadline, *key)).collect());
        for (key, row) in self.resources.iter().filter(|(_, row)| row.rests_until > LeaseTime::ZERO) {
            self.deadlines.add(row.rests_until, Due::Rest(key.clone()));
        }
        if self.rests_until > LeaseTime::ZERO {
            self.deadlines.add(self.rests_until, Due::AllRest);
        }
    }
}

/// The deadline of a lease that has its whole ttl ahead, or more if it was promised more; time has been moved.
fn whole_ttl(lease: &Lease, now: LeaseTime) -> LeaseTime {
    match lease.ttl() {
        Ttl::For(span) => lease.deadline.max(now.after(span)),
        Ttl::Endless => LeaseTime::NEVER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(revision: u64, now: u64, wall: u64) -> State {
        let longest_ttl = Span::seconds(30);
        let (revision, now, wall) = (Revision(revision), LeaseTime(now), WallTime(wall));
        State { revision, now, wall, longest_ttl, ..State::default() }
    }

    /// A cluster that was restored at `wall` and is backed up so much later, after a million grants.
    fn goes_on(state: &State, wall: u64, later: u64) -> State {
        let restore = Restore::new(state, WallTime(wall));
        backup(restore.revision.0 + 1_000_000, restore.now.0 + later, wall + later)
    }

    #[test]
    fn both_lines_follow_the_clock_where_it_can_be_trusted() {
        let restore = Restore::new(&backup(500, 70_000, 1_000_000), WallTime(2_000_000));
        let (revision, now) = (Revision(2000 << 20), LeaseTime(4_000_000));
        assert_eq!(restore, Restore { revision, now, rest: Span::seconds(30) });
    }

    #[test]
    fn a_clock_that_is_behind_does_not_decide() {
        let lifted = |revision, now| (Revision(revision + LIFT), LeaseTime(now + LIFT));
        // Behind the latest entry, behind the revision, behind lease time.
        for (state, wall) in [
            (backup(500, 70_000, 1_000_000), 999_999),
            (backup(2000 << 20, 70_000, 1_000_000), 2_000_000),
            (backup(500, 4_000_000, 1_000_000), 2_000_000),
        ] {
            let restore = Restore::new(&state, WallTime(wall));
            assert_eq!((restore.revision, restore.now), lifted(state.revision.0, state.now.0));
        }
    }

    #[test]
    fn whatever_copy_is_restored_the_next_one_is_above_it() {
        let hour = 3_600_000;
        let first = backup(10_000, 100 * hour, 1_700_000_000_000);
        let second = goes_on(&first, first.wall.0 + hour, hour);
        // The older copy after the newer one, and the same copy twice, a few seconds apart.
        let mut last = goes_on(&second, second.wall.0 + 2000, 1000);
        for (copy, wall) in [(&first, 3000), (&first, 6000), (&second, 9000), (&first, 12_000)] {
            let wall = second.wall.0 + 2000 + wall;
            let restore = Restore::new(copy, WallTime(wall));
            assert!(restore.revision > last.revision && restore.now > last.now, "{restore:?} after {last:?}");
            last = goes_on(copy, wall, 1000);
        }
    }
}
