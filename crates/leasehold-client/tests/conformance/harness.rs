//! What a store brings to be tested, and the runner of the list.
//!
//! The behaviours run side by side, each with resources of its own, so that the whole list takes hardly longer than
//! its slowest part. What ran, what was not promised and what was skipped is told on stderr, captured or not.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_api::{Class, Mode};
use leasehold_client::http::new_lease_id;
use leasehold_client::store::{Granted, ProgressTo, Store, Wish};
use leasehold_client::{Error, Validity};
use leasehold_core::{Patience, Span, Ttl};

use crate::behaviours;

/// How long a server may take to start, and any behaviour to come to its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that can be tested.
pub(crate) trait Harness: Send + Sync {
    /// One more client of the same store, with connections of its own.
    fn client(&self) -> Arc<dyn Store>;

    /// The shortest ttl it grants.
    fn shortest_ttl(&self) -> Span {
        Span(400)
    }

    /// A client of a store that is not there, and the address it must name; none if the store is always there.
    fn absent(&self) -> Option<(Arc<dyn Store>, String)>;

    /// Makes its process crash and starts it again in the same place; false if it has none.
    fn crash(&self) -> bool {
        false
    }

    /// What was started, for the report.
    fn version(&self) -> String;
}

/// Why a store cannot be tested here.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

/// Starts a store and holds it against the whole list.
pub(crate) fn run<H: Harness + 'static>(name: &str, start: impl FnOnce() -> Result<H, Missing>) {
    let began = Instant::now();
    let Some(harness) = started(&format!("conformance of {name}"), start) else { return };
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let (ran, unpromised) = runtime().block_on(async {
        ready(&*harness.client()).await;
        run_all(name, &harness).await
    });
    tell(&format!(
        "conformance of {name} ({}): {ran} behaviours hold, {:.1} s; not promised: {}",
        harness.version(),
        began.elapsed().as_secs_f32(),
        if unpromised.is_empty() { "nothing".to_owned() } else { unpromised.join(", ") },
    ));
}

/// Starts a store for one test that is not in the list.
#[cfg(feature = "postgres")]
pub(crate) fn run_alone<H: Harness + 'static>(
    name: &str,
    start: impl FnOnce() -> Result<H, Missing>,
    test: impl FnOnce(&H, Case) -> futures_util::future::BoxFuture<'static, ()>,
) {
    let Some(harness) = started(name, start) else { return };
    let harness = Arc::new(harness);
    let case = Case { harness: harness.clone(), resource: "case/alone".to_owned() };
    runtime().block_on(async {
        ready(&*harness.client()).await;
        tokio::time::timeout(PATIENCE, test(&harness, case)).await.expect("it comes to its end in time");
    });
}

/// Starts a store, or tells that it is skipped; in CI nothing is.
fn started<H>(what: &str, start: impl FnOnce() -> Result<H, Missing>) -> Option<H> {
    match start() {
        Ok(harness) => Some(harness),
        Err(Missing(why)) if std::env::var_os("CI").is_none_or(|ci| ci.is_empty()) => {
            tell(&format!("skipped: {what}: {why}"));
            None
        }
        Err(Missing(why)) => panic!("{why}; in CI nothing is skipped"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn run_all(name: &str, harness: &Arc<dyn Harness>) -> (usize, Vec<&'static str>) {
    let can = harness.client().capabilities();
    let mut running = Vec::new();
    let mut unpromised = Vec::new();
    for (index, behaviour) in behaviours::ALL.iter().enumerate() {
        if let Some(lacking) = behaviour.needs.filter(|needed| !can.has(*needed)) {
            eprintln!("{name}: {}: not promised, there is no {lacking}", behaviour.name);
            unpromised.push(behaviour.name);
            continue;
        }
        let case = Case { harness: harness.clone(), resource: format!("case/{index}") };
        running.push((behaviour.name, tokio::spawn(tokio::time::timeout(PATIENCE, (behaviour.run)(case)))));
    }
    let ran = running.len();
    let mut broken = Vec::new();
    for (behaviour, task) in running {
        match task.await {
            Ok(Ok(())) => eprintln!("{name}: {behaviour}: holds"),
            Ok(Err(_)) => broken.push(format!("{behaviour}: not over after {PATIENCE:?}")),
            Err(panic) => broken.push(format!("{behaviour}: {panic}")),
        }
    }
    assert!(broken.is_empty(), "{name} breaks the contract:\n{}", broken.join("\n"));
    let case = Case { harness: harness.clone(), resource: "case/crash".to_owned() };
    let crashed = tokio::time::timeout(PATIENCE, behaviours::after_a_crash(case)).await;
    (ran + usize::from(crashed.expect("a crash is overcome in time")), unpromised)
}

/// Waits until the store answers.
async fn ready(store: &dyn Store) {
    let began = Instant::now();
    while let Err(error) = store.incumbent("ready").await {
        assert!(error.is_passing() && began.elapsed() < PATIENCE, "{} does not start: {error}", store.name());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Tells something on stderr, past the capture of tests.
pub(crate) fn tell(line: &str) {
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "{line}").unwrap();
}

/// What one behaviour has to work with.
pub(crate) struct Case {
    harness: Arc<dyn Harness>,
    /// A resource that no other behaviour touches, nor any below it.
    pub(crate) resource: String,
}

impl Case {
    pub(crate) fn client(&self) -> Client {
        Client(self.harness.client())
    }

    pub(crate) fn absent(&self) -> Option<(Client, String)> {
        self.harness.absent().map(|(store, addr)| (Client(store), addr))
    }

    /// Makes the store crash and come back; false if it cannot.
    pub(crate) fn crash(&self) -> bool {
        self.harness.crash()
    }

    /// The shortest ttl.
    pub(crate) fn short(&self) -> Span {
        self.harness.shortest_ttl()
    }

    /// A wish for the resource that lasts longer than any behaviour and does not wait.
    pub(crate) fn wish(&self, holder: &str) -> Wish {
        Wish {
            id: new_lease_id().0,
            holder: holder.to_owned(),
            resources: vec![self.resource.clone()],
            mode: Mode::Exclusive,
            ttl: Ttl::For(Span::seconds(120)),
            class: Class::Lock,
            patience: Patience::None,
            fair: false,
            priority: 0,
            cooldown: Duration::ZERO,
            metadata: [("reason".to_owned(), format!("{holder} has a reason"))].into(),
        }
    }

    /// The same with the shortest ttl.
    pub(crate) fn short_wish(&self, holder: &str) -> Wish {
        Wish { ttl: Ttl::For(self.short()), ..self.wish(holder) }
    }
}

/// A store with shorter words for what behaviours do.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Arc<dyn Store>);

impl Client {
    pub(crate) async fn grant(&self, wish: &Wish) -> Result<Granted, Error> {
        self.0.grant(Arc::new(wish.clone()), ProgressTo::nobody()).await
    }

    pub(crate) async fn renew(&self, wish: &Wish) -> Result<Validity, Error> {
        self.0.renew(vec![Arc::new(wish.clone())]).await?.remove(0)
    }

    pub(crate) async fn release(&self, wish: &Wish) {
        self.0.release(Arc::new(wish.clone())).await.unwrap();
    }

    pub(crate) async fn abandon(&self, wish: &Wish) {
        self.0.abandon(Arc::new(wish.clone())).await.unwrap();
    }

    /// The holder of a resource, and its token.
    pub(crate) async fn incumbent(&self, resource: &str) -> Option<(String, Option<u64>)> {
        self.0.incumbent(resource).await.unwrap().map(|incumbent| (incumbent.holder, incumbent.token))
    }
}

/// Checks that a grant was refused because the resource is held, and tells by whom.
pub(crate) fn held_by(refused: Result<Granted, Error>) -> String {
    match refused {
        Err(Error::Held(problem)) => problem.holders.unwrap_or_default().remove(0).holder,
        other => panic!("a refusal that names the holder was expected, not {other:?}"),
    }
}

/// Checks that a lease was refused because it is over.
pub(crate) fn assert_over<T: std::fmt::Debug>(refused: Result<T, Error>) {
    assert!(
        matches!(refused, Err(Error::Lost { .. } | Error::Conflict(_))),
        "a lease that is over was expected, not {refused:?}"
    );
}
