//! Finds a server and keeps one stream to it: the first address that answers, the next one when it fails. If it says that
//! another one leads, that one is looked for among the other addresses, because every command would go there anyway.
//!
//! A stream that breaks or falls silent is closed; one whose server says that it has no leader or is stopping is left. Who
//! asks next gets a stream to the next address. What still waits for an answer on the one that was left keeps it open.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use leasehold_api::grpc::answer::Outcome;
use leasehold_api::{Code, Problem};
use leasehold_core::LeaseId;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tonic::transport::{Channel, Endpoint};

use super::stream::{Stream, Told};
use super::wire;
use crate::store::Notice;
use crate::{Endpoints, Error};

/// How long a server may take to accept a connection and to say that it is there: without another address to try, and with.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const CONNECT_WITHIN_OF_SEVERAL: Duration = Duration::from_secs(1);
/// How long the leader may take to say that it is there, when another address has answered already.
const LEADER_WITHIN: Duration = Duration::from_millis(300);
/// A connection shows that it is alive this often, and is given up if it does not within as long again.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// How long a stream may be silent while a command is to be answered soon: with another address to try, and without.
const SILENT_MAX: Duration = Duration::from_millis(200);
const SILENT_MAX_ALONE: Duration = Duration::from_secs(2);
/// How many notices wait for one who listens.
const NOTICES: usize = 16_384;

/// The way to a server.
#[derive(Debug)]
pub(super) struct Link {
    endpoints: Endpoints,
    namespace: String,
    /// The stream in use; the lock is held while one is opened, so that it is opened once.
    stream: tokio::sync::Mutex<Option<Arc<Stream>>>,
    /// The same, for those who must not wait.
    current: Mutex<Option<Arc<Stream>>>,
    /// Streams that were left while somebody waited for an answer: at most one to each address.
    left: Mutex<Vec<Arc<Stream>>>,
    /// Which address is in use, counted round and round.
    address: AtomicUsize,
    shared: Arc<Shared>,
    /// The lease time that the first attempt at each wish had seen.
    seen: Mutex<HashMap<LeaseId, u64>>,
}

/// What outlives a stream.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) notices: broadcast::Sender<Notice>,
    /// The leases that were granted and not given back, to attach them to the next stream.
    pub(super) attached: Mutex<BTreeSet<LeaseId>>,
    pub(super) told: Told,
    /// Whether there is another address to go to.
    pub(super) several: bool,
}

impl Shared {
    /// How long a stream may be silent while a command is to be answered soon.
    pub(super) fn silent_max(&self) -> Duration {
        if self.several { SILENT_MAX } else { SILENT_MAX_ALONE }
    }
}

impl Link {
    pub(super) fn new(endpoints: Endpoints, namespace: String) -> Link {
        let shared = Shared {
            notices: broadcast::Sender::new(NOTICES),
            attached: Mutex::default(),
            told: Told::default(),
            several: endpoints.count() > 1,
        };
        Link {
            endpoints,
            namespace,
            stream: tokio::sync::Mutex::default(),
            current: Mutex::default(),
            left: Mutex::default(),
            address: AtomicUsize::new(0),
            shared: Arc::new(shared),
            seen: Mutex::default(),
        }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.shared.notices.subscribe()
    }

    /// A stream that works as far as is known.
    pub(super) async fn open(&self) -> Result<Arc<Stream>, Error> {
        let fit = |stream: &&Arc<Stream>| !stream.is_left();
        if let Some(stream) = self.current.lock().as_ref().filter(fit) {
            return Ok(Arc::clone(stream));
        }
        let mut place = self.stream.lock().await;
        if let Some(stream) = place.as_ref().filter(fit) {
            return Ok(Arc::clone(stream));
        }
        *self.current.lock() = None;
        if let Some(stream) = place.take() {
            self.address.fetch_add(1, Ordering::AcqRel);
            self.left.lock().push(stream);
        }
        self.left.lock().retain(|stream| !stream.is_closed() && stream.is_awaited());
        let stream = self.connect().await?;
        *place = Some(Arc::clone(&stream));
        *self.current.lock() = Some(Arc::clone(&stream));
        // After it is the one in use: what is granted elsewhere from now on is attached by itself.
        let leases: Vec<u64> = self.shared.attached.lock().iter().map(|lease| lease.number()).collect();
        stream.attach(&leases);
        Ok(stream)
    }

    /// Tries each address once.
    async fn connect(&self) -> Result<Arc<Stream>, Error> {
        let mut failures: Vec<(String, String)> = Vec::new();
        let patience = if self.shared.several { CONNECT_WITHIN_OF_SEVERAL } else { CONNECT_WITHIN };
        for _ in 0..self.endpoints.count() {
            let address = self.endpoints.at(self.address.load(Ordering::Acquire)).to_owned();
            if let Some(stream) = self.left_to(&address) {
                return Ok(stream);
            }
            let attempt = self.connect_to(&address);
            match tokio::time::timeout(patience, attempt).await {
                Ok(Ok(stream)) => return Ok(Arc::new(self.or_leader(stream).await)),
                Ok(Err(cause)) => failures.push((address, cause)),
                Err(_) => failures.push((address, "it does not answer".to_owned())),
            }
            self.address.fetch_add(1, Ordering::AcqRel);
        }
        let addr = failures.first().map(|(address, _)| address.clone()).unwrap_or_default();
        let mut cause = failures.first().map(|(_, cause)| cause.clone()).unwrap_or_default();
        for (address, other) in failures.iter().skip(1) {
            cause = format!("{cause}; nor {address}: {other}");
        }
        Err(Error::Unreachable { addr, cause })
    }

    /// A stream to the leader, if it is at another address; otherwise this one, which is new.
    async fn or_leader(&self, stream: Stream) -> Stream {
        if !self.shared.several || stream.leads() != Some(false) {
            return stream;
        }
        let here = self.address.load(Ordering::Acquire);
        let others = (1..self.endpoints.count()).map(|step| async move {
            let stream = self.connect_to(self.endpoints.at(here + step)).await.ok()?;
            (stream.leads() == Some(true)).then_some((here + step, stream))
        });
        let mut leaders = others.collect::<FuturesUnordered<_>>().filter_map(std::future::ready);
        match tokio::time::timeout(LEADER_WITHIN, leaders.next()).await {
            Ok(Some((address, leader))) => {
                self.address.store(address, Ordering::Release);
                leader
            }
            Ok(None) | Err(_) => stream,
        }
    }

    /// The stream to this address that was left and is still open; its server may do better now.
    fn left_to(&self, address: &str) -> Option<Arc<Stream>> {
        let mut left = self.left.lock();
        let place = left.iter().position(|stream| stream.address() == address && !stream.is_closed())?;
        let stream = left.swap_remove(place);
        stream.take_up();
        Some(stream)
    }

    async fn connect_to(&self, address: &str) -> Result<Stream, String> {
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| error.to_string())?;
        let channel: Channel = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(ALIVE_EVERY)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(2 << 20)
            .connect()
            .await
            .map_err(|error| crate::http::cause_of(&error))?;
        Stream::open(channel, address.to_owned(), &self.namespace, Arc::clone(&self.shared)).await
    }

    /// The lease time that the first attempt at a wish had seen: its repetitions send the same.
    pub(super) fn seen_by(&self, wish: LeaseId) -> Option<u64> {
        let latest = self.shared.told.seen()?;
        Some(*self.seen.lock().entry(wish).or_insert(latest))
    }

    /// Notes a lease that was granted over a stream.
    pub(super) fn attach(&self, lease: LeaseId, over: &Arc<Stream>) {
        self.shared.attached.lock().insert(lease);
        let current = self.current.lock().clone();
        if let Some(current) = current.filter(|current| !Arc::ptr_eq(current, over)) {
            current.attach(&[lease.number()]);
        }
    }

    /// Forgets a lease that is given back, or a wish that was refused.
    pub(super) fn forget(&self, lease: LeaseId) {
        self.shared.attached.lock().remove(&lease);
        self.seen.lock().remove(&lease);
    }

    /// Cancels a grant that is unanswered and tells whether it was granted; none if there is no such, or if that was tried
    /// before.
    pub(super) async fn cancelled(&self, wish: LeaseId) -> Option<Result<bool, Error>> {
        let streams: Vec<Arc<Stream>> = self.current.lock().iter().chain(&*self.left.lock()).cloned().collect();
        let (stream, answer) = streams.iter().find_map(|stream| Some((stream, stream.cancel(wish)?)))?;
        Some(match answer.await {
            Ok(reply) if matches!(reply.outcome, Outcome::Granted(_)) => Ok(true),
            Ok(reply) => match wire::refused(stream.address(), reply.outcome) {
                // What became of it is not known.
                error if error.is_passing() && !is_left(&error) => Err(error),
                _ => Ok(false),
            },
            Err(error) => Err(error),
        })
    }
}

/// Whether a refusal tells that the queue was left.
fn is_left(error: &Error) -> bool {
    error.problem().and_then(Problem::known_code) == Some(Code::WaitLeft)
}
