//! Nodes of a cluster that exists only in a test: they share one ledger, speak the stream of the gRPC contract, and each
//! does with commands what it is told to. Waiting is first come, first served; time never ends a lease here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use leasehold_api::grpc::leases_server::{Leases, LeasesServer};
use leasehold_api::grpc::{self, Down, Up, answer::Outcome, command::Command};
use leasehold_api::{Code, Problem};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// How often a node shows that it is alive.
const ALIVE_EVERY: Duration = Duration::from_millis(80);

/// What a node does with commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Carries them out.
    Serves,
    /// Refuses them so.
    Refuses(Code),
    /// Keeps them and shows that it is alive.
    Holds,
    /// Does nothing and says nothing.
    Frozen,
}

/// What all nodes have in common.
#[derive(Debug)]
pub(crate) struct Ledger {
    begun: Instant,
    state: watch::Sender<Leased>,
}

#[derive(Debug, Default)]
struct Leased {
    token: u64,
    /// The lease that holds a resource, and its token.
    holders: BTreeMap<String, (u64, u64)>,
    queues: BTreeMap<String, VecDeque<u64>>,
    ended: BTreeSet<u64>,
}

impl Ledger {
    pub(crate) fn new() -> Arc<Ledger> {
        Arc::new(Ledger { begun: Instant::now(), state: watch::Sender::new(Leased::default()) })
    }

    fn now(&self) -> u64 {
        1 + u64::try_from(self.begun.elapsed().as_millis()).unwrap()
    }

    /// The token of a resource's holder.
    pub(crate) fn token(&self, resource: &str) -> Option<u64> {
        self.state.borrow().holders.get(resource).map(|(_, token)| *token)
    }

    /// How many wait for a resource.
    pub(crate) fn waiters(&self, resource: &str) -> usize {
        self.state.borrow().queues.get(resource).map_or(0, VecDeque::len)
    }

    fn grant(&self, id: u64, resource: &str, waits: bool) -> Result<Option<u64>, Code> {
        let mut result = Err(Code::LeaseEnded);
        self.state.send_modify(|leased| {
            if leased.ended.contains(&id) {
                return;
            }
            let queue = leased.queues.entry(resource.to_owned()).or_default();
            match leased.holders.get(resource) {
                Some((holder, token)) if *holder == id => result = Ok(Some(*token)),
                Some(_) if waits => {
                    if !queue.contains(&id) {
                        queue.push_back(id);
                    }
                    result = Ok(None);
                }
                Some(_) => result = Err(Code::Held),
                None => {
                    leased.token += 1;
                    leased.holders.insert(resource.to_owned(), (id, leased.token));
                    result = Ok(Some(leased.token));
                }
            }
        });
        result
    }

    fn end(&self, id: u64) {
        self.state.send_modify(|leased| {
            leased.ended.insert(id);
            leased.queues.values_mut().for_each(|queue| queue.retain(|waiter| *waiter != id));
            let held = leased.holders.iter().find(|(_, (holder, _))| *holder == id).map(|(name, _)| name.clone());
            let Some(resource) = held else { return };
            leased.holders.remove(&resource);
            if let Some(next) = leased.queues.get_mut(&resource).and_then(VecDeque::pop_front) {
                leased.token += 1;
                leased.holders.insert(resource, (next, leased.token));
            }
        });
    }

    fn lives(&self, id: u64) -> bool {
        self.state.borrow().holders.values().any(|(holder, _)| *holder == id)
    }
}

/// What a node was asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// How many streams were opened.
    pub(crate) streams: AtomicUsize,
    /// The ids of the grants that came, in order.
    pub(crate) grants: Mutex<Vec<u64>>,
    /// The leases that were attached.
    pub(crate) attached: Mutex<BTreeSet<u64>>,
    pub(crate) renewals: AtomicUsize,
    /// The streams that are open.
    open: Mutex<Vec<mpsc::UnboundedSender<Result<Down, Status>>>>,
}

/// A node, on a runtime of its own so that it can be killed.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Asked>,
    mode: watch::Sender<Mode>,
    leads: watch::Sender<Option<bool>>,
    ledger: Arc<Ledger>,
    runtime: Option<Runtime>,
}

impl Node {
    pub(crate) fn start(ledger: &Arc<Ledger>) -> Node {
        let address = "127.0.0.1:0".parse().unwrap();
        let (asked, ledger) = (Arc::default(), Arc::clone(ledger));
        let (mode, leads) = (watch::Sender::new(Mode::Serves), watch::Sender::new(None));
        let mut node = Node { address, asked, mode, leads, ledger, runtime: None };
        node.restart();
        node
    }

    /// Begins to listen, at the same address as before.
    pub(crate) fn restart(&mut self) {
        let listener = std::net::TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        self.mode.send_replace(Mode::Serves);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (ledger, asked, mode) = (Arc::clone(&self.ledger), Arc::clone(&self.asked), self.mode.subscribe());
        let service = LeasesServer::new(Service { ledger, asked, mode, leads: self.leads.subscribe() });
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let router = axum::Router::new().route_service("/leasehold.v1.Leases/{*method}", service);
            axum::serve(listener, router).await
        });
        self.runtime = Some(runtime);
    }

    /// Ends it with all its connections.
    pub(crate) fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
        self.asked.open.lock().clear();
        // Its port is free again as soon as its listener is gone.
        while std::net::TcpStream::connect(self.address).is_ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn does(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// What it says of who leads: itself, another one, or that it does not know.
    pub(crate) fn leads(&self, leads: Option<bool>) {
        self.leads.send_replace(leads);
    }

    pub(crate) fn streams(&self) -> usize {
        self.asked.streams.load(Ordering::SeqCst)
    }

    /// Asks the holder of a lease to hand over, on every stream.
    pub(crate) fn ask_for_handover(&self, lease: u64, resource: &str) {
        let asked = grpc::HandoverAsked {
            lease,
            resource: resource.to_owned(),
            by: "bob".to_owned(),
            ..grpc::HandoverAsked::default()
        };
        let notice = grpc::Notice { notice: Some(grpc::notice::Notice::HandoverAsked(asked)) };
        for stream in &*self.asked.open.lock() {
            let _ = stream.send(Ok(Down { notices: vec![notice.clone()], ..Down::default() }));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Clone)]
struct Service {
    ledger: Arc<Ledger>,
    asked: Arc<Asked>,
    mode: watch::Receiver<Mode>,
    leads: watch::Receiver<Option<bool>>,
}

/// One stream.
#[derive(Clone)]
struct Line {
    service: Service,
    down: mpsc::UnboundedSender<Result<Down, Status>>,
    /// How many commands are to be answered soon.
    owed: Arc<AtomicUsize>,
}

impl Line {
    async fn read(self, mut up: Streaming<Up>) {
        let alive = tokio::spawn(self.clone().show_life());
        while let Ok(Some(Up { commands })) = up.message().await {
            for grpc::Command { number, command } in commands {
                let line = self.clone();
                self.owed.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move { line.carry_out(number, command.unwrap()).await });
            }
        }
        alive.abort();
    }

    async fn show_life(self) {
        loop {
            tokio::time::sleep(ALIVE_EVERY).await;
            if self.owed.load(Ordering::SeqCst) > 0 && *self.service.mode.borrow() != Mode::Frozen {
                let _ = self.down.send(Ok(Down::default()));
            }
        }
    }

    async fn carry_out(mut self, number: u64, command: Command) {
        let outcome = match self.refusal(&command).await {
            Some(code) => Some(problem(code)),
            None => self.outcome(number, command).await,
        };
        let _ = self.service.mode.wait_for(|mode| *mode != Mode::Frozen).await;
        self.owed.fetch_sub(1, Ordering::SeqCst);
        let Some(outcome) = outcome else { return };
        let now = self.service.ledger.now();
        let answer = grpc::Answer { number, now, revision: now, outcome: Some(outcome) };
        let _ = self.down.send(Ok(Down { answers: vec![answer], ..Down::default() }));
    }

    /// Waits until the mode lets the command pass, or tells how it is refused.
    async fn refusal(&mut self, command: &Command) -> Option<Code> {
        if let Command::Grant(grant) = command {
            self.service.asked.grants.lock().push(grant.id.unwrap());
        }
        let passes = |mode: &Mode| match mode {
            Mode::Serves | Mode::Refuses(_) => true,
            Mode::Holds => matches!(command, Command::Hello(_)),
            Mode::Frozen => false,
        };
        let mode = *self.service.mode.wait_for(passes).await.unwrap();
        match (mode, command) {
            (Mode::Refuses(_), Command::Hello(_)) => None,
            (Mode::Refuses(code), _) => Some(code),
            (Mode::Serves | Mode::Holds | Mode::Frozen, _) => None,
        }
    }

    async fn outcome(&self, number: u64, command: Command) -> Option<Outcome> {
        let ledger = &self.service.ledger;
        Some(match command {
            Command::Hello(_) => {
                let leads = *self.service.leads.borrow();
                Outcome::Hello(grpc::Welcome { leads, ..grpc::Welcome::default() })
            }
            Command::Grant(grant) => self.granted(number, &grant).await,
            Command::Renew(renew) => {
                self.service.asked.renewals.fetch_add(1, Ordering::SeqCst);
                let results = renew.leases.iter().map(|lease| grpc::RenewResult {
                    lease: 0,
                    result: Some(match ledger.lives(*lease) {
                        true => grpc::renew_result::Result::Renewed(grpc::Renewed {
                            remaining_ms: 5_000,
                            ttl_ms: 5_000,
                            ..grpc::Renewed::default()
                        }),
                        false => grpc::renew_result::Result::Problem(Box::new(
                            (&Problem::new(Code::UnknownLease, "no such lease")).into(),
                        )),
                    }),
                });
                Outcome::Renewed(grpc::RenewResponse { results: results.collect() })
            }
            Command::Release(release) => {
                ledger.end(release.lease);
                Outcome::Released(grpc::ReleaseResponse {})
            }
            Command::Attach(attach) => {
                self.service.asked.attached.lock().extend(attach.leases);
                Outcome::Attached(grpc::AttachResponse::default())
            }
            // A node that cannot serve does not even give up a wait.
            Command::Cancel(_)
            | Command::Revoke(_)
            | Command::Claim(_)
            | Command::Unclaim(_)
            | Command::Leave(_)
            | Command::Txn(_)
            | Command::Handover(_) => return None,
        })
    }

    async fn granted(&self, number: u64, grant: &grpc::GrantRequest) -> Outcome {
        let (ledger, id, resource) = (&self.service.ledger, grant.id.unwrap(), grant.resources[0].clone());
        let waits = grant.wait_forever || grant.wait_ms > 0;
        let mut changes = ledger.state.subscribe();
        let mut waited = 0;
        loop {
            match ledger.grant(id, &resource, waits) {
                Err(code) => return problem(code),
                Ok(Some(token)) => {
                    let held = grpc::HeldClaim { resource, token, waited_ms: waited, ..grpc::HeldClaim::default() };
                    return Outcome::Granted(grpc::Lease {
                        id: Some(id),
                        remaining_ms: 5_000,
                        ttl_ms: 5_000,
                        held: vec![held],
                        ..grpc::Lease::default()
                    });
                }
                Ok(None) => {}
            }
            if waited == 0 {
                let place =
                    grpc::WaitPlace { resource: resource.clone(), position: 1, length: 1, ..Default::default() };
                let progress = grpc::Progress { number, places: vec![place], ..grpc::Progress::default() };
                let _ = self.down.send(Ok(Down { progress: vec![progress], ..Down::default() }));
            }
            waited += 1;
            self.owed.fetch_sub(1, Ordering::SeqCst);
            let served = |leased: &Leased| {
                leased.ended.contains(&id) || leased.holders.get(&resource).is_none_or(|(holder, _)| *holder == id)
            };
            let _ = changes.wait_for(served).await;
            self.owed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn problem(code: Code) -> Outcome {
    Outcome::Problem((&Problem { may_have_happened: Some(false), ..Problem::new(code, "not here, not now") }).into())
}

type DownStream = Pin<Box<dyn Stream<Item = Result<Down, Status>> + Send>>;

macro_rules! not_offered {
    ($($method:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl Leases for Service {
            type ConnectStream = DownStream;

            async fn connect(&self, request: Request<Streaming<Up>>) -> Result<Response<DownStream>, Status> {
                let mut mode = self.mode.clone();
                let _ = mode.wait_for(|mode| *mode != Mode::Frozen).await;
                self.asked.streams.fetch_add(1, Ordering::SeqCst);
                let (down, taken) = mpsc::unbounded_channel();
                self.asked.open.lock().push(down.clone());
                let line = Line { service: self.clone(), down, owed: Arc::default() };
                tokio::spawn(line.read(request.into_inner()));
                Ok(Response::new(UnboundedReceiverStream::new(taken).boxed()))
            }

            $(async fn $method(&self, _: Request<grpc::$request>) -> Result<Response<grpc::$response>, Status> {
                Err(Status::unimplemented("this node speaks on its stream only"))
            })*
        }
    };
}

not_offered! {
    grant(GrantRequest) -> Lease;
    renew(RenewRequest) -> RenewResponse;
    release(ReleaseRequest) -> ReleaseResponse;
    revoke(RevokeRequest) -> RevokeResponse;
    claim(ClaimRequest) -> Lease;
    unclaim(UnclaimRequest) -> UnclaimResponse;
    leave(LeaveRequest) -> LeaveResponse;
    get(GetLeaseRequest) -> Lease;
    list(ListLeasesRequest) -> ListLeasesResponse;
}
