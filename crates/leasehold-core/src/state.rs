//! The tables, and the one road by which anything changes: [`State::apply`].
//!
//! Time comes first: an entry's stamp sets lease time, what is due ends in order of its deadline, then the
//! commands run. A mass expiry is swept in pieces: while a backlog exists, a command first ends the due leases it
//! touches, waiters that are due are passed over, and queries show a due lease as ending. The rules are those
//! of decision 0001; `lease.rs`, `claim.rs` and the others hold what each command does.

use std::collections::{BTreeMap, BTreeSet};

use crate::deadlines::{Deadlines, Due};
use crate::entry::{Entry, EntryKey};
use crate::hand_on::Freed;
use crate::lease::Lease;
use crate::marker::Marked;
use crate::namespaces::Namespaces;
use crate::ordered::OrderedSet;
use crate::planted::{self, Bug};
use crate::resource::{Resource, ResourceKey};
use crate::shared::SharedHolders;
use crate::table::Table;
use crate::tombstones::Tombstones;
use crate::{
    Answer, Applied, Caller, Command, EndCause, Event, Fact, LeaderId, LeaseId, LeaseKey, LeaseTime, Limits,
    NamespaceId, Outcome, Rejection, Request, Revision, Span, Stamp, Void, WallTime,
};

/// An entry stamped further ahead of lease time than this is void, so a broken clock cannot end the world.
pub const AHEAD_MAX: Span = Span(1000);

/// Everything there is. The same entries in the same order give the same state on every node.
#[derive(Debug, Default)]
pub struct State {
    pub(crate) now: LeaseTime,
    pub(crate) wall: WallTime,
    pub(crate) revision: Revision,
    pub(crate) taken_over: LeaseTime,
    pub(crate) grace: Span,
    pub(crate) longest_ttl: Span,
    /// Until when no resource is given to anybody new, after a restore; zero if all are.
    pub(crate) rests_until: LeaseTime,
    pub(crate) limits: Limits,
    pub(crate) namespaces: Namespaces,
    pub(crate) leases: Table<LeaseKey, Lease>,
    pub(crate) resources: Table<ResourceKey, Resource>,
    pub(crate) entries: Table<EntryKey, Entry>,
    /// The claims that entries stand for.
    pub(crate) markers: Table<EntryKey, Marked>,
    pub(crate) tombstones: Tombstones,
    /// Roughly how many bytes all of it takes.
    pub(crate) bytes: u64,
    pub(crate) deadlines: Deadlines,
    /// Leases in the order of their grants. Lists are in this order and not by id: ids are secrets, and an order by id
    /// would let a caller find another's by placing its own around it.
    pub(crate) by_grant: OrderedSet<(NamespaceId, Revision, LeaseId)>,
    /// Holders seen lately, to keep equal ones once.
    pub(crate) holders: SharedHolders,
    /// Resources that nobody holds, wants or rests, oldest first.
    pub(crate) idle: BTreeSet<(Revision, ResourceKey)>,
    /// Resources whose first waiter may have changed; empty between entries.
    pub(crate) revisit: BTreeSet<ResourceKey>,
    /// What the present step freed and has not handed on yet; empty between commands.
    pub(crate) freed: Vec<(ResourceKey, Freed)>,
    /// Namespaces that may have nothing left; empty between entries.
    pub(crate) emptied: BTreeSet<NamespaceId>,
    /// Where to look first for what a wait lacks; a hint only, empty between entries.
    pub(crate) lacking: BTreeMap<(LeaseKey, Revision), usize>,
    /// Resources whose due holders are ended already; empty between entries.
    pub(crate) settled: BTreeSet<ResourceKey>,
    /// How many holders the present entry asked; zero between entries.
    pub(crate) asked: u32,
}

impl State {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lease time: the largest stamp applied so far.
    pub fn now(&self) -> LeaseTime {
        self.now
    }

    /// The counter of visible changes.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How long lease time stands still after the latest take-over.
    pub fn grace(&self) -> Span {
        self.grace
    }

    /// The longest ttl ever granted.
    pub fn longest_ttl(&self) -> Span {
        self.longest_ttl
    }

    /// The earliest moment at which something ends by time.
    pub fn next_deadline(&self) -> Option<LeaseTime> {
        self.deadlines.next()
    }

    /// Tells whether something that is over still waits for the sweep.
    pub fn has_backlog(&self) -> bool {
        self.deadlines.next().is_some_and(|at| at.is_due(self.now))
    }

    /// Notes that a new leader took over: its grace is as long as lease time went on since the last take-over, at
    /// most the limit, or flapping would keep the dead alive.
    pub fn take_over(&mut self) -> Applied {
        self.grace = self.limits.grace.min(self.now.since(self.taken_over));
        if planted::is(Bug::GraceAtEveryTakeOver) {
            self.grace = self.limits.grace;
        }
        self.taken_over = self.now;
        self.applied(Vec::new(), Vec::new())
    }

    /// Applies an entry that was appended by `appended_by`: first time, then the commands in order.
    pub fn apply(
        &mut self,
        appended_by: LeaderId,
        stamp: Stamp,
        requests: impl IntoIterator<Item = Request>,
    ) -> Applied {
        if let Some(void) = self.void(appended_by, stamp) {
            return Applied { void: Some(void), ..self.applied(Vec::new(), Vec::new()) };
        }
        self.now = self.now.max(stamp.now);
        self.wall = stamp.wall;
        let mut events = Vec::new();
        self.sweep(&mut events);
        let answers = requests
            .into_iter()
            .map(|request| {
                let answer = self.execute(request, &mut events);
                self.revisit_queues(&mut events);
                answer
            })
            .collect();
        self.lacking.clear();
        self.settled.clear();
        self.asked = 0;
        self.forget();
        self.assert_invariants();
        self.applied(answers, events)
    }

    fn applied(&self, answers: Vec<Answer>, events: Vec<Event>) -> Applied {
        Applied { now: self.now, revision: self.revision, answers, void: None, events }
    }

    fn void(&self, appended_by: LeaderId, stamp: Stamp) -> Option<Void> {
        if stamp.leader != appended_by && !planted::is(Bug::ForeignEntryCounts) {
            return Some(Void::OtherLeader);
        }
        let ahead = stamp.now.since(self.now);
        (ahead > AHEAD_MAX && !planted::is(Bug::ClockRunsAhead)).then_some(Void::TooFarAhead(ahead))
    }

    fn execute(&mut self, request: Request, events: &mut Vec<Event>) -> Answer {
        let Request { caller, namespace, command } = request;
        match command {
            Command::Grant(grant) => self.grant(&caller, &namespace, grant, events),
            Command::GrantAnew(grant) => self.grant_anew(&caller, &namespace, grant, events),
            Command::Renew(renew) => self.renew(&caller, &namespace, renew, events),
            Command::Release(release) => self.release(&caller, &namespace, release, events),
            Command::Revoke(revoke) => self.revoke(&caller, &namespace, revoke, events),
            Command::Claim(claim) => self.claim(&caller, &namespace, claim, events),
            Command::ClaimMarked(marked) => self.claim_marked(&caller, &namespace, marked, events),
            Command::Unclaim(unclaim) => self.unclaim(&caller, &namespace, unclaim, events),
            Command::Leave(leave) => self.leave(&caller, &namespace, leave, events),
            Command::AskHandover(ask) => self.ask_handover(&namespace, ask, events),
            Command::Write(write) => self.write(&caller, &namespace, write, events),
            Command::Configure(limits) => self.configure(&caller, *limits),
        }
    }

    fn configure(&mut self, caller: &Caller, limits: Limits) -> Answer {
        if !caller.rights.operator {
            return Err(Box::new(Rejection::NeedsRight("operator")));
        }
        if let Some(contradiction) = limits.contradiction() {
            return Err(Box::new(Rejection::BadLimits(contradiction)));
        }
        self.limits = limits;
        Ok(Outcome::Configured)
    }

    /// Ends what is due, in order of its deadline, up to the size of one piece.
    fn sweep(&mut self, events: &mut Vec<Event>) {
        let mut left = i64::from(self.limits.sweep_piece);
        while left > 0 {
            let Some((at, due)) = self.deadlines.first_due(self.now) else { break };
            left -= match due {
                Due::Lease(lease) => i64::from(self.end_due(lease, events)),
                Due::Wait(lease, number) => self.elapse(lease, number, events),
                Due::Rest(resource) => {
                    self.deadlines.remove(at, Due::Rest(resource.clone()));
                    self.change_resource(&resource, |row| row.rests_until = LeaseTime::ZERO);
                    self.revisit.insert(resource);
                    1
                }
                Due::AllRest => {
                    self.deadlines.remove(at, Due::AllRest);
                    self.rests_until = LeaseTime::ZERO;
                    1
                }
            };
        }
        self.revisit_queues(events);
    }

    /// Begins a step: all facts until the next one share a revision.
    pub(crate) fn step(&mut self) {
        self.revision = Revision(self.revision.0 + 1);
    }

    pub(crate) fn tell(&self, namespace: NamespaceId, fact: Fact, events: &mut Vec<Event>) {
        let namespace = self.namespaces.usage(namespace).name.clone();
        events.push(Event { revision: self.revision, wall: self.wall, namespace, fact });
    }

    /// Keeps what is only remembered within its bounds.
    pub(crate) fn forget(&mut self) {
        for key in self.tombstones.forget(self.now, &self.limits) {
            self.namespaces.usage_mut(key.namespace).tombstones -= 1;
            self.emptied.insert(key.namespace);
        }
        while self.idle.len() > self.limits.idle_resources as usize {
            let (_, resource) = self.idle.pop_first().expect("it is longer than its bound");
            self.drop_resource(&resource);
        }
        for namespace in std::mem::take(&mut self.emptied) {
            self.namespaces.forget_if_empty(namespace);
        }
    }

    /// Takes a resource out of the tables.
    pub(crate) fn drop_resource(&mut self, resource: &ResourceKey) {
        self.resources.remove(resource);
        self.namespaces.usage_mut(resource.0).resources -= 1;
        self.emptied.insert(resource.0);
    }

    /// Ends a wait whose patience is over. Tells how much work it was.
    pub(crate) fn elapse(&mut self, lease: LeaseKey, number: Revision, events: &mut Vec<Event>) -> i64 {
        let work = self.leases.get(&lease).expect("a wait belongs to a living lease").weight;
        self.end_wait(lease, number, EndCause::WaitElapsed, events);
        i64::from(work)
    }
}
