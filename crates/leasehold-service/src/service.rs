//! The service: what every API calls, and the only way to the log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_core::planted::{self, Bug};
use leasehold_core::{
    Caller, Command, LeaseId, LeaseTime, Limits, Namespace, Outcome, Request, Revision, Rights, State,
};
use tokio::sync::{oneshot, watch};
use tracing::{error, info};

use crate::Failure;
use crate::access::{Access, Action};
use crate::backup::Backups;
use crate::bounds;
use crate::calls::Calls;
use crate::clock::Clocks;
use crate::cluster::{Answerer, Cluster};
use crate::disk::{DiskGuard, Room};
use crate::fingerprint::Fingerprints;
use crate::lanes::{Lane, Lanes, Reply, ReplyTo};
use crate::log::{Leadership, Log, Unavailable};
use crate::proposer::Proposer;
use crate::replica::Replica;
use crate::vitals::{Health, Vitals};
use crate::watch::{Watch, WatchFilter};

/// Why there is no answer, as far as is known.
pub(crate) const NO_ANSWER: &str = "the log has not answered in time";
/// How long a caller waits for the log before it is told that the outcome is not known.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long a watch waits for this node to have applied what its watcher has seen elsewhere.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(2);

/// How the service is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who may do what.
    pub access: Access,
    /// The limits to put into the log; none leaves those that are there.
    pub limits: Option<Limits>,
    /// The directory whose disk must keep some room.
    pub data: Option<PathBuf>,
    /// How many bytes must stay free on that disk.
    pub disk_reserve: u64,
    /// How many entries may be on their way at a time.
    pub in_flight: usize,
    /// How long commands are kept while nobody leads, or the leader is not reached: as long as an election takes.
    pub leaderless_patience: Duration,
    /// What can tell of the cluster and change it.
    pub cluster: Option<Arc<dyn Cluster>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            access: Access::open(false),
            limits: None,
            data: None,
            disk_reserve: 64 << 20,
            in_flight: 2,
            leaderless_patience: Duration::from_secs(2),
            cluster: None,
        }
    }
}

/// What a command achieved, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What it achieved.
    pub outcome: Outcome,
    /// Lease time at the entry that answered.
    pub now: LeaseTime,
    /// The revision after that entry.
    pub revision: Revision,
    /// The name of the node that led, if this one passed the command on to it.
    pub forwarded_to: Option<String>,
}

/// What a query answered, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered<T> {
    /// What it answered.
    pub value: T,
    /// Lease time of the state it looked at.
    pub now: LeaseTime,
    /// The revision of the state it looked at.
    pub revision: Revision,
    /// How old a stale answer may be; none for a linearizable one.
    pub age: Option<Duration>,
}

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// It reflects everything acknowledged before the call.
    #[default]
    Linearizable,
    /// It reflects what this node has applied.
    Stale,
}

/// What the service asks of the log beside carrying commands.
trait Reach: Send + Sync {
    fn barrier(&self) -> BoxFuture<'static, Result<(), Unavailable>>;
    fn staleness(&self) -> Duration;
    fn name_of(&self, node: u64) -> String;
}

impl<L: Log> Reach for Arc<L> {
    fn barrier(&self) -> BoxFuture<'static, Result<(), Unavailable>> {
        let log = Arc::clone(self);
        if planted::is(Bug::ReadWithoutBarrier) && matches!(*log.leadership().borrow(), Leadership::Leads(_)) {
            return Box::pin(async { Ok(()) });
        }
        Box::pin(async move { log.read_barrier().await })
    }

    fn staleness(&self) -> Duration {
        Log::staleness(&**self)
    }

    fn name_of(&self, node: u64) -> String {
        Log::name_of(&**self, node)
    }
}

struct Inner {
    access: Access,
    replica: Arc<Replica>,
    lanes: Arc<Lanes>,
    disk: Arc<DiskGuard>,
    vitals: Arc<Vitals>,
    calls: Arc<Calls>,
    backups: Backups,
    log: Box<dyn Reach>,
    cluster: Option<Arc<dyn Cluster>>,
    /// This node, without its term.
    answerer: Answerer,
    fingerprints: Fingerprints,
    stop: watch::Sender<bool>,
}

/// The seam for all APIs. Clones share one service.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl Service {
    /// Starts the service over a log that drives `replica`.
    pub fn start<L: Log>(log: Arc<L>, replica: Arc<Replica>, clocks: impl Clocks + Clone, options: Options) -> Self {
        let lanes = Arc::new(Lanes::default());
        let disk = Arc::new(DiskGuard::new(options.data, options.disk_reserve));
        let vitals = Arc::new(Vitals::default());
        replica.clock.set({
            let clocks = clocks.clone();
            move || clocks.read().monotonic
        });
        let proposer = Proposer {
            log: Arc::clone(&log),
            clocks,
            replica: Arc::clone(&replica),
            lanes: Arc::clone(&lanes),
            disk: Arc::clone(&disk),
            vitals: Arc::clone(&vitals),
            in_flight_max: options.in_flight.max(1),
            leaderless_patience: options.leaderless_patience,
        };
        let leadership = log.leadership();
        log.runtime().spawn(proposer.run());
        tokio::spawn(watch_disk(Arc::clone(&disk)));
        let log = Box::new(log);
        let stop = watch::Sender::new(false);
        let (access, cluster) = (options.access, options.cluster);
        let calls = Arc::new(Calls::default());
        let status = cluster.as_ref().map(|cluster| cluster.status()).unwrap_or_default();
        let service = Self(Arc::new(Inner {
            access,
            replica,
            lanes,
            disk,
            vitals,
            calls,
            backups: Backups::default(),
            log,
            cluster,
            answerer: Answerer { cluster: status.cluster, node: status.node, term: 0 },
            fingerprints: Fingerprints::default(),
            stop,
        }));
        if let Some(limits) = options.limits {
            tokio::spawn(service.clone().configure(limits, leadership));
        }
        service
    }

    /// Carries out a command. One that has to wait in a queue is answered with its place there.
    pub async fn execute(&self, caller: &Caller, namespace: &Namespace, command: Command) -> Result<Done, Failure> {
        self.0.calls.note(namespace, &command);
        self.carry_out(caller, namespace, command).await
    }

    /// Carries out a command of a call that is already known.
    pub(crate) async fn carry_out(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        command: Command,
    ) -> Result<Done, Failure> {
        let (send, receive) = oneshot::channel();
        self.take_on(caller, namespace, command, ReplyTo::Caller(send));
        match tokio::time::timeout(ANSWER_WITHIN, receive).await {
            Ok(Ok(reply)) => self.done(reply?),
            Ok(Err(_)) => Err(Failure::ShuttingDown { may_have_happened: true }),
            Err(_) => Err(Failure::NoQuorum { may_have_happened: true, why: NO_ANSWER.into() }),
        }
    }

    /// What a reply says, with names in place of numbers.
    pub(crate) fn done(&self, reply: Reply) -> Result<Done, Failure> {
        let Reply { answer, now, revision, forwarded_to } = reply;
        let forwarded_to = forwarded_to.map(|node| self.0.log.name_of(node));
        Ok(Done { outcome: answer?, now, revision, forwarded_to })
    }

    /// Takes a command on its way into the log, or refuses it at once; either is told to `reply`.
    pub(crate) fn take_on(&self, caller: &Caller, namespace: &Namespace, command: Command, reply: ReplyTo) {
        match self.admit(caller, namespace, &command) {
            Ok(()) => {
                let reply = if planted::is(Bug::RenewalAcknowledgedEarly) && self.0.vitals.leads() {
                    self.0.replica.acknowledge_early(namespace, &command, reply)
                } else {
                    reply
                };
                let request = Request { caller: caller.clone(), namespace: namespace.clone(), command };
                self.0.lanes.push(&request, reply);
            }
            Err(refusal) => reply.send(Err(refusal)),
        }
    }

    fn admit(&self, caller: &Caller, namespace: &Namespace, command: &Command) -> Result<(), Failure> {
        self.0.access.authorize(caller, namespace, Action::Command(command))?;
        if self.0.disk.room() != Room::Ample && Lane::of(command) == Lane::New {
            return Err(Failure::DiskFull);
        }
        bounds::check(command)
    }

    /// Answers a query. It should look at a bounded part of the state: commands wait while it does.
    pub async fn read<T>(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        consistency: Consistency,
        query: impl FnOnce(&State) -> T,
    ) -> Result<Answered<T>, Failure> {
        self.0.access.authorize(caller, namespace, Action::Query)?;
        let age = match consistency {
            Consistency::Linearizable => {
                self.read_barrier().await?;
                None
            }
            Consistency::Stale => Some(self.0.vitals.lag() + self.0.log.staleness()),
        };
        Ok(self.0.replica.look(|state| {
            let (now, revision) = (state.now(), state.revision());
            Answered { value: query(state), now, revision, age }
        }))
    }

    /// Opens a watch on events after `since`, or from now on.
    pub async fn watch(
        &self,
        caller: &Caller,
        namespace: &Namespace,
        filter: WatchFilter,
        since: Option<Revision>,
    ) -> Result<Watch, Failure> {
        let feed = self.feed(caller, namespace, since).await?;
        let since = since.unwrap_or(feed.seen());
        Ok(Watch::new(feed, namespace, filter, since))
    }

    /// The lease time and revision that this node has applied.
    pub fn present(&self) -> (LeaseTime, Revision) {
        self.0.replica.present()
    }

    /// How the service is doing.
    pub fn health(&self) -> Health {
        let inner = &*self.0;
        let room = inner.disk.room();
        Health {
            ready: inner.vitals.led() && room != Room::None && !*inner.stop.borrow(),
            leads: inner.vitals.leads(),
            disk_full: room != Room::Ample,
            overloaded: inner.lanes.is_full(),
            lease_time_lag: inner.vitals.lag(),
        }
    }

    /// Who answers; cheap enough to be told with every answer.
    pub fn answerer(&self) -> Answerer {
        Answerer { term: self.0.vitals.term(), ..self.0.answerer }
    }

    /// The name of the leader that commands are passed on to; none if this node leads, or follows nobody.
    pub fn passes_on_to(&self) -> Option<String> {
        self.0.vitals.follows().map(|node| self.0.log.name_of(node))
    }

    /// Tells whether this node leads; none if it knows of no leader.
    pub fn leads(&self) -> Option<bool> {
        let vitals = &self.0.vitals;
        if vitals.leads() { Some(true) } else { vitals.follows().map(|_| false) }
    }

    /// Tells whether somebody leads, as far as this node knows.
    pub fn is_led(&self) -> bool {
        self.0.vitals.led()
    }

    /// The caller of a connection without credentials.
    pub fn anonymous(&self) -> Caller {
        self.0.access.anonymous()
    }

    /// Tells whether these limits are in force.
    pub fn limits_are(&self, limits: &Limits) -> bool {
        self.0.replica.look(|state| state.limits() == limits)
    }

    /// Refuses new commands, lets those under way finish, and ends all watches.
    pub async fn stop(&self) {
        self.0.lanes.close();
        let drained = async {
            while !self.0.lanes.is_empty() || !self.0.replica.pending.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(5), drained).await.is_err() {
            self.0.lanes.refuse_all(&Failure::ShuttingDown { may_have_happened: false });
        }
        self.0.stop.send_replace(true);
        self.0.replica.wake_feeds();
    }

    /// Tells whether the service was told to stop and has done so.
    pub fn is_stopping(&self) -> bool {
        *self.0.stop.borrow()
    }

    /// Returns when the service stops.
    pub async fn stopped(&self) {
        let mut stop = self.stopping();
        // The sender lives in this very service.
        let _ = stop.wait_for(|stopped| *stopped).await;
    }

    /// Tells when the service stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stop.subscribe()
    }

    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    pub(crate) fn backups(&self) -> &Backups {
        &self.0.backups
    }

    pub(crate) fn fingerprints(&self) -> &Fingerprints {
        &self.0.fingerprints
    }

    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.0.calls
    }

    pub(crate) fn operated(&self) -> Option<&Arc<dyn Cluster>> {
        self.0.cluster.as_ref()
    }

    pub(crate) fn shared_replica(&self) -> Arc<Replica> {
        Arc::clone(&self.0.replica)
    }

    pub(crate) fn replica(&self) -> &Replica {
        &self.0.replica
    }

    /// Waits until this node has applied what a watcher has seen elsewhere, for a while.
    pub(crate) async fn reached(&self, since: Option<Revision>) {
        let Some(since) = since else { return };
        let mut revisions = self.0.replica.revisions();
        let reached = revisions.wait_for(|revision| *revision >= since);
        // Whoever has seen more than there is to see is told so when the watch is opened.
        let _ = tokio::time::timeout(CATCH_UP_WITHIN, reached).await;
    }

    pub(crate) async fn read_barrier(&self) -> Result<(), Failure> {
        let proved = tokio::time::timeout(ANSWER_WITHIN, self.0.log.barrier()).await;
        let why = match proved {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(unavailable)) => unavailable.to_string().into(),
            Err(_) => NO_ANSWER.into(),
        };
        Err(Failure::NoQuorum { may_have_happened: false, why })
    }

    /// Puts the configured limits into the log whenever this node leads and others are in force.
    async fn configure(self, limits: Limits, mut leadership: watch::Receiver<Leadership>) {
        let operator = Caller { identity: None, rights: Rights { operator: true, endless: false } };
        let namespace = Namespace::new("system").expect("it is a well-formed name");
        loop {
            let leads = matches!(*leadership.borrow_and_update(), Leadership::Leads(_));
            let mut again = None;
            if leads && !self.limits_are(&limits) {
                let command = Command::Configure(Box::new(limits.clone()));
                match self.execute(&operator, &namespace, command).await {
                    Ok(_) => info!("limits put into the log"),
                    Err(failure) => {
                        error!(%failure, "the configured limits are not in force; trying again");
                        again = Some(Duration::from_secs(1));
                    }
                }
            }
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(again.unwrap_or(Duration::MAX)), if again.is_some() => {}
                () = self.stopped() => return,
            }
        }
    }
}

/// A random lease id, for a client that chose none.
pub fn random_lease_id() -> LeaseId {
    loop {
        if let Some(id) = LeaseId::new(rand::random::<u64>() >> 1) {
            return id;
        }
    }
}

/// Looks at the disk now and then, so that refusals begin before the log notices.
async fn watch_disk(disk: Arc<DiskGuard>) {
    loop {
        disk.look();
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
