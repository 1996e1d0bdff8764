//! A service under virtual time: the lease clock follows tokio's paused clock, so nothing here sleeps.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Ask, Asks, Class, Command, Grant, Holder, LeaseId, LeaseView, Metadata, Mode, Namespace, Outcome, Patience,
    Release, ResourceName, Span, Ttl,
};
use leasehold_service::log::Log;
use leasehold_service::{Clocks, Done, Failure, MemoryLog, Options, Reading, Replica, Service};
use tokio::time::Instant;

/// Tokio's clock, which tests can pause.
#[derive(Clone, Copy)]
pub(crate) struct TestClocks(Instant);

impl TestClocks {
    pub(crate) fn new() -> TestClocks {
        TestClocks(Instant::now())
    }
}

impl Clocks for TestClocks {
    fn read(&self) -> Reading {
        let since = self.0.elapsed();
        Reading { monotonic: since, raw: since }
    }
}

pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) replica: Arc<Replica>,
}

impl Bench {
    pub(crate) async fn new() -> Bench {
        let replica = Arc::new(Replica::new());
        let log = MemoryLog::start(Arc::clone(&replica));
        Bench::over(log, replica).await
    }

    pub(crate) async fn over<L: Log>(log: Arc<L>, replica: Arc<Replica>) -> Bench {
        let service = Service::start(log, Arc::clone(&replica), TestClocks::new(), Options::default());
        while !service.health().leads {
            tokio::task::yield_now().await;
        }
        Bench { service, replica }
    }

    pub(crate) async fn run(&self, command: Command) -> Result<Done, Failure> {
        self.service.execute(&self.service.anonymous(), &namespace(), command).await
    }

    pub(crate) async fn run_waiting(&self, command: Command) -> Result<Done, Failure> {
        self.service.execute_waiting(&self.service.anonymous(), &namespace(), command).await
    }

    pub(crate) async fn release(&self, lease: u64) {
        self.run(release(lease)).await.unwrap();
    }

    pub(crate) fn lease(&self, lease: u64) -> Option<LeaseView> {
        self.replica.look(|state| state.lease(&namespace(), id(lease)).ok())
    }

    pub(crate) fn queue(&self, resource: &str) -> Vec<u64> {
        let name = ResourceName::new(resource).unwrap();
        self.replica.look(|state| state.queue(&namespace(), &name, 100)).iter().map(|w| w.lease.number()).collect()
    }

    /// Lets tasks run until `done`, without time going on.
    pub(crate) async fn until(&self, done: impl Fn(&Bench) -> bool) {
        for _ in 0..10_000 {
            if done(self) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it did not happen");
    }
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new("test").unwrap()
}

pub(crate) fn id(number: u64) -> LeaseId {
    LeaseId::new(number).unwrap()
}

pub(crate) fn asks(resources: &[&str], patience: Patience) -> Asks {
    let claims = resources
        .iter()
        .map(|name| Ask { resource: ResourceName::new(name).unwrap(), mode: Mode::Exclusive })
        .collect();
    Asks { claims, patience, ..Asks::default() }
}

pub(crate) fn grant(lease: u64, ttl_ms: u64, resources: &[&str], patience: Patience) -> Command {
    Command::Grant(Grant {
        id: id(lease),
        holder: Holder::new(&format!("holder-{lease}")).unwrap(),
        ttl: Ttl::For(Span(ttl_ms)),
        class: Class::Lock,
        parent: None,
        metadata: Metadata::default(),
        asks: asks(resources, patience),
        seen: leasehold_core::LeaseTime(u64::MAX),
    })
}

pub(crate) fn release(lease: u64) -> Command {
    Command::Release(Release { lease: id(lease) })
}

pub(crate) fn view(done: &Done) -> &LeaseView {
    let (Outcome::Granted(view) | Outcome::Claimed(view)) = &done.outcome else { panic!("{:?}", done.outcome) };
    view
}

pub(crate) async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
