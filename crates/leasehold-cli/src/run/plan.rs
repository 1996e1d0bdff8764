//! When a tree of processes is asked to end and when it is killed: pure, on the timeline of the caller.
//!
//! Two moments follow from the deadline of the lease: `deadline - margin - kill grace`, when the command is asked, and
//! `deadline - margin`, when the tree is killed. A stop for another reason asks at once, and kills after the kill grace
//! but never later than the deadline has it. Once asked, a later deadline saves nobody: the command is ending.

use super::wire::NEVER;

/// The lengths that a plan is made of, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// From asking to killing.
    pub(crate) kill_grace: u64,
    /// From killing to the deadline.
    pub(crate) margin: u64,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing yet.
    Wait,
    /// The deadline is near: ask the command to end.
    Lapse,
    /// Kill the tree.
    Kill,
}

/// The end of a tree, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    lengths: Lengths,
    deadline: u64,
    asked: Option<u64>,
    killing: bool,
}

impl Plan {
    /// A plan without a deadline.
    pub(crate) fn new(lengths: Lengths) -> Plan {
        Plan { lengths, deadline: NEVER, asked: None, killing: false }
    }

    /// Moves the deadline.
    pub(crate) fn set_deadline(&mut self, deadline: u64) {
        self.deadline = deadline;
    }

    /// The command was asked to end; only the first time counts.
    pub(crate) fn ask(&mut self, now: u64) {
        self.asked.get_or_insert(now);
    }

    /// The tree is to be killed, for whatever reason.
    pub(crate) fn kill(&mut self) {
        self.killing = true;
    }

    /// Whether the tree was asked to end or is being killed.
    pub(crate) fn is_ending(&self) -> bool {
        self.asked.is_some() || self.killing
    }

    /// What is to be done at `now`.
    pub(crate) fn step(&self, now: u64) -> Step {
        if self.killing || self.kills_at().is_some_and(|at| at <= now) {
            Step::Kill
        } else if self.asked.is_none() && self.lapses_at().is_some_and(|at| at <= now) {
            Step::Lapse
        } else {
            Step::Wait
        }
    }

    /// When there will be something to do, if nothing else happens.
    pub(crate) fn due(&self) -> Option<u64> {
        if self.asked.is_none() { self.lapses_at() } else { self.kills_at() }
    }

    fn lapses_at(&self) -> Option<u64> {
        self.deadline_less_margin().map(|at| at.saturating_sub(self.lengths.kill_grace))
    }

    fn kills_at(&self) -> Option<u64> {
        let granted = self.asked.map(|asked| asked.saturating_add(self.lengths.kill_grace));
        granted.into_iter().chain(self.deadline_less_margin()).min()
    }

    fn deadline_less_margin(&self) -> Option<u64> {
        (self.deadline != NEVER).then(|| self.deadline.saturating_sub(self.lengths.margin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Lengths = Lengths { kill_grace: 20, margin: 5 };

    #[test]
    fn without_a_deadline_nothing_is_due() {
        let plan = Plan::new(PLAN);
        assert_eq!((plan.step(u64::MAX - 1), plan.due()), (Step::Wait, None));
    }

    #[test]
    fn the_command_is_asked_and_then_killed_before_the_deadline() {
        let mut plan = Plan::new(PLAN);
        plan.set_deadline(100);
        assert_eq!((plan.step(74), plan.due()), (Step::Wait, Some(75)));
        assert_eq!(plan.step(75), Step::Lapse);
        plan.ask(75);
        assert_eq!((plan.step(94), plan.due()), (Step::Wait, Some(95)));
        assert_eq!(plan.step(95), Step::Kill);
    }

    #[test]
    fn a_renewal_moves_both_moments() {
        let mut plan = Plan::new(PLAN);
        plan.set_deadline(100);
        plan.set_deadline(200);
        assert_eq!((plan.step(174), plan.step(175)), (Step::Wait, Step::Lapse));
    }

    #[test]
    fn one_who_wakes_late_kills_without_asking() {
        let mut plan = Plan::new(PLAN);
        plan.set_deadline(100);
        assert_eq!(plan.step(97), Step::Kill);
    }

    #[test]
    fn a_renewal_saves_nobody_who_was_asked() {
        let mut plan = Plan::new(PLAN);
        plan.set_deadline(100);
        plan.ask(75);
        plan.set_deadline(1000);
        assert_eq!((plan.step(94), plan.step(95)), (Step::Wait, Step::Kill));
    }

    #[test]
    fn a_stop_kills_after_the_grace_but_never_after_the_deadline() {
        let mut plan = Plan::new(PLAN);
        plan.ask(10);
        plan.ask(25);
        assert_eq!((plan.step(29), plan.step(30)), (Step::Wait, Step::Kill));
        plan.set_deadline(20);
        assert_eq!((plan.step(14), plan.step(15)), (Step::Wait, Step::Kill));
    }
}
