//! One connection to a peer, kept by a task of its own: requests go out in order, answers come back by number.
//!
//! It connects when there is something to say, and again after it broke: at once at first, then after pauses that
//! double and vary, unless another link reaches the same peer meanwhile. During a pause requests are refused with the reason
//! instead of queueing up. All buffers are bounded. A request whose caller has given up is not sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, interval, timeout};

use super::frame::{self, Frame, SMALL_BODY_MAX};
use super::hello::{Hello, HelloError, Purpose};
use super::secure::is_end;
use super::stream::{ReadHalf, Stream, WriteHalf};
use super::{Local, PARCELS_IN_FLIGHT};

/// Requests waiting to be written.
const QUEUE: usize = 64;
/// A connection must stand within this.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// A peer that does not take bytes for so long is given up.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// How often it is judged whether the peer is silent.
const LOOK: Duration = Duration::from_millis(500);
/// Requests that are ready together are written together, up to this.
const WRITE_TOGETHER: usize = 256 * 1024;
const READ_TOGETHER: usize = 16 * 1024;

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(crate) enum LinkError {
    /// The peer was not reached; the request was not sent.
    Unreachable(String),
    /// The connection broke; the peer may have got the request.
    Broken(String),
}

/// A request on its way.
#[derive(Debug)]
struct Call {
    kind: u8,
    body: Vec<u8>,
    patience: Duration,
    answer: oneshot::Sender<Result<Frame, LinkError>>,
}

/// When the links to one peer last reached it. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached(Arc<Mutex<Option<Instant>>>);

/// A handle to the task that keeps the connection; the task ends with the last handle.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) address: String,
    /// How long an answer may take, unless the request says otherwise.
    patience: Duration,
    calls: mpsc::Sender<Call>,
    parcels: Arc<Semaphore>,
}

impl Link {
    /// Starts the task; it connects with the first request.
    pub(crate) fn start(local: Local, target: u64, address: String, purpose: Purpose, reached: Reached) -> Link {
        let (calls, queue) = mpsc::channel(QUEUE);
        let keeper = Keeper { local, target, address: address.clone(), purpose, reached, queue, said: None };
        tokio::spawn(keeper.run());
        let parcels = Arc::new(Semaphore::new(PARCELS_IN_FLIGHT));
        Link { address, patience: silence(purpose), calls, parcels }
    }

    /// The places of parcels on their way.
    pub(crate) fn parcels(&self) -> Arc<Semaphore> {
        self.parcels.clone()
    }

    /// Queues a request at once, in order; the future is its answer.
    pub(crate) fn call(
        &self,
        kind: u8,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<Frame, LinkError>> + Send + use<> {
        self.call_within(self.patience, kind, body)
    }

    /// As [`Link::call`]. If the peer says nothing at all for so long while it owes the answer, the connection is
    /// given up.
    pub(crate) fn call_within(
        &self,
        patience: Duration,
        kind: u8,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<Frame, LinkError>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let refused = self.calls.try_send(Call { kind, body, patience, answer }).err();
        async move {
            if let Some(error) = refused {
                return Err(LinkError::Unreachable(match error {
                    mpsc::error::TrySendError::Full(_) => "too many requests wait for this peer".into(),
                    mpsc::error::TrySendError::Closed(_) => "the node is stopping".into(),
                }));
            }
            answered.await.unwrap_or_else(|_| Err(LinkError::Broken("the connection ended".into())))
        }
    }
}

/// A request that was written and not answered yet.
#[derive(Debug)]
struct Owed {
    answer: oneshot::Sender<Result<Frame, LinkError>>,
    since: Instant,
    patience: Duration,
}

type Pending = Arc<Mutex<BTreeMap<u64, Owed>>>;

struct Keeper {
    local: Local,
    target: u64,
    address: String,
    purpose: Purpose,
    reached: Reached,
    queue: mpsc::Receiver<Call>,
    /// The last failure that was logged: the same one is not logged again.
    said: Option<String>,
}

impl Keeper {
    async fn run(mut self) {
        let mut pause = Pause::default();
        let mut reason = String::new();
        while let Some(call) = self.queue.recv().await {
            if call.answer.is_closed() {
                continue;
            }
            if pause.holds(&self.reached) {
                let _ = call.answer.send(Err(LinkError::Unreachable(reason.clone())));
                continue;
            }
            match timeout(CONNECT_PATIENCE, self.connect()).await.unwrap_or_else(|_| Err("no answer in time".into())) {
                Ok(stream) => {
                    *self.reached.0.lock() = Some(Instant::now());
                    let (ended, useful) = self.converse(stream, call).await;
                    if useful {
                        pause = Pause::default();
                        self.said = None;
                    } else {
                        pause.begin();
                    }
                    reason = format!("the connection to node {} at {} ended: {ended}", self.name(), self.address);
                }
                Err(text) => {
                    pause.begin();
                    reason = format!("node {} at {} cannot be reached: {text}", self.name(), self.address);
                    self.say(&reason);
                    let _ = call.answer.send(Err(LinkError::Unreachable(reason.clone())));
                }
            }
        }
    }

    fn name(&self) -> String {
        self.local.roster.name(self.target)
    }

    fn say(&mut self, reason: &str) {
        if self.said.as_deref() != Some(reason) {
            tracing::warn!("{reason}");
            self.said = Some(reason.to_owned());
        }
    }

    async fn connect(&self) -> Result<Stream, String> {
        // The peer may have moved since the link was started.
        let address = self.local.roster.address(self.target).unwrap_or_else(|| self.address.clone());
        introduce(&self.local, self.target, &address, self.purpose).await
    }

    /// Carries requests and answers until the connection ends; returns why, and whether anything was answered.
    async fn converse(&mut self, stream: Stream, first: Call) -> (String, bool) {
        let (read, mut write) = stream.into_split();
        let pending = Pending::default();
        let heard = Arc::new(Mutex::new(None));
        let mut reader = tokio::spawn(read_answers(read, pending.clone(), heard.clone()));
        let mut look = interval(LOOK);
        let mut number = 0;
        let mut next = Some(first);
        let ended = loop {
            if let Some(call) = next.take()
                && let Err(reason) = self.write(&mut write, call, &mut number, &pending).await
            {
                break reason;
            }
            tokio::select! {
                ended = &mut reader => break ended.unwrap_or_else(|error| error.to_string()),
                call = self.queue.recv() => match call {
                    Some(call) => next = Some(call),
                    None => break "the node is stopping".into(),
                },
                _ = look.tick() => {
                    if silent(&pending, *heard.lock()) {
                        break "it is silent".into();
                    }
                }
            }
        };
        reader.abort();
        for (_, owed) in std::mem::take(&mut *pending.lock()) {
            let _ = owed.answer.send(Err(LinkError::Broken(ended.clone())));
        }
        let useful = heard.lock().is_some();
        (ended, useful)
    }

    /// Writes a request and whatever else is ready.
    async fn write(
        &mut self,
        to: &mut WriteHalf,
        first: Call,
        number: &mut u64,
        pending: &Pending,
    ) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut next = Some(first);
        while let Some(call) = next {
            if !call.answer.is_closed() {
                *number += 1;
                frame::put(&mut bytes, call.kind, *number, &call.body);
                let owed = Owed { answer: call.answer, since: Instant::now(), patience: call.patience };
                pending.lock().insert(*number, owed);
            }
            next = if bytes.len() < WRITE_TOGETHER { self.queue.try_recv().ok() } else { None };
        }
        let writing = async {
            to.write_all(&bytes).await?;
            to.flush().await
        };
        let written = timeout(WRITE_PATIENCE, writing).await;
        written.map_err(|_| "it does not take bytes".to_string())?.map_err(|error| error.to_string())
    }
}

/// Connects to a node and introduces this one; both sides check, and a node met for the first time is remembered.
pub(crate) async fn introduce(local: &Local, target: u64, address: &str, purpose: Purpose) -> Result<Stream, String> {
    let mut stream = Stream::connect(address, local.secure.as_ref(), &local.world).await?;
    let hello = Hello::new(local, target, purpose).to_bytes();
    let _ = stream.write_all(&hello).await;
    let _ = stream.flush().await;
    // What the other side said before it closed tells more than that nothing could be written to it.
    let answer = Hello::read(&mut stream).await.map_err(unanswered)?;
    match answer.purpose {
        Purpose::Welcome => {}
        Purpose::Refused => return Err(format!("it refused: {}", answer.words)),
        Purpose::Gone => {
            answer.check(local, Some(target))?;
            local.roster.note_removed(&format!("{} says so", local.roster.name(target)));
            return Err(format!("it refused: {}", answer.words));
        }
        Purpose::Appends
        | Purpose::Control
        | Purpose::Snapshots
        | Purpose::Meeting
        | Purpose::Forwards
        | Purpose::Question => {
            return Err("it did not answer".into());
        }
    }
    answer.check(local, Some(target))?;
    local.remember(answer.from, answer.incarnation).await?;
    Ok(stream)
}

fn unanswered(error: HelloError) -> String {
    match error {
        HelloError::Io(error) if is_end(&error) => "it closed the connection without an answer; see its log".into(),
        HelloError::Io(error) => error.to_string(),
        HelloError::Foreign | HelloError::Secure | HelloError::Version { .. } | HelloError::Damaged => {
            error.to_string()
        }
    }
}

async fn read_answers(from: ReadHalf, pending: Pending, heard: Arc<Mutex<Option<Instant>>>) -> String {
    // Answers are small and come in bunches: one read takes many.
    let mut from = BufReader::with_capacity(READ_TOGETHER, from);
    loop {
        match frame::read(&mut from, SMALL_BODY_MAX).await {
            Ok(frame) => {
                *heard.lock() = Some(Instant::now());
                // One that nobody waits for any more is dropped.
                let owed = pending.lock().remove(&frame.number);
                if let Some(owed) = owed {
                    let _ = owed.answer.send(Ok(frame));
                }
            }
            Err(error) => return error.to_string(),
        }
    }
}

/// A connection that owes an answer for so long without any sign of life is given up: after a cut, a new one is faster
/// than what TCP repeats. A slow disk may hold up appends, and a large state the answer to a snapshot.
fn silence(purpose: Purpose) -> Duration {
    Duration::from_secs(match purpose {
        Purpose::Control
        | Purpose::Meeting
        | Purpose::Question
        | Purpose::Welcome
        | Purpose::Refused
        | Purpose::Gone => 2,
        // As long as a commit may take.
        Purpose::Appends | Purpose::Forwards => 15,
        Purpose::Snapshots => 60,
    })
}

/// Says whether an answer is overdue and nothing else was heard meanwhile either.
fn silent(pending: &Pending, heard: Option<Instant>) -> bool {
    let overdue = |owed: &Owed| heard.map_or(owed.since, |heard| heard.max(owed.since)).elapsed() > owed.patience;
    pending.lock().values().any(overdue)
}

/// The pause before the next attempt.
#[derive(Debug, Default)]
struct Pause {
    length: Duration,
    /// When it began, and when it is over.
    during: Option<(Instant, Instant)>,
}

impl Pause {
    /// Not if the peer was reached since it began.
    fn holds(&self, reached: &Reached) -> bool {
        let reached = *reached.0.lock();
        self.during
            .is_some_and(|(since, until)| Instant::now() < until && reached.is_none_or(|reached| reached < since))
    }

    fn begin(&mut self) {
        self.length = (self.length * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        let jitter = rand::random_range(0.5..1.0);
        let now = Instant::now();
        self.during = Some((now, now + self.length.mul_f64(jitter)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Seen;
    use super::*;
    use crate::directory::Identity;
    use crate::roster::Roster;
    use tokio::net::{TcpListener, TcpStream};

    fn local(node: u64, dir: &std::path::Path) -> Local {
        let identity = Identity { cluster: 1, node };
        let (seen, roster) = (Arc::new(Seen::open(dir).unwrap()), Arc::new(Roster::new(node, Default::default())));
        Local { identity, group: 0, seen, secure: None, roster, world: None }
    }

    /// Lets a node in and says nothing more until `answers`.
    async fn welcome(listener: &TcpListener, local: &Local) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        let hello = Hello::read(&mut stream).await.unwrap();
        stream.write_all(&Hello::new(local, hello.from, Purpose::Welcome).to_bytes()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_peer_that_owes_an_answer_is_waited_for_as_long_as_the_request_allows() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (local(1, here.path()), local(2, there.path()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let link = Link::start(here, 2, address.clone(), Purpose::Forwards, Reached::default());

        // One may take long; the other tells within a moment that nobody is there any more.
        let patient = link.call(8, b"parcel".to_vec());
        let hasty = link.call_within(Duration::from_millis(300), 9, Vec::new());
        let first = welcome(&listener, &there).await;
        let asked = Instant::now();
        assert!(matches!(hasty.await.unwrap_err(), LinkError::Broken(words) if words == "it is silent"));
        assert!(matches!(patient.await.unwrap_err(), LinkError::Broken(_)), "it may have arrived");
        assert!(asked.elapsed() < silence(Purpose::Forwards));
        drop(first);

        // And the next request goes over a new connection, once the pause is over.
        let answered = async {
            loop {
                if let Ok(frame) = link.call(9, Vec::new()).await {
                    return frame;
                }
                tokio::time::sleep(PAUSE_MIN).await;
            }
        };
        let peer = async {
            let mut stream = welcome(&listener, &there).await;
            let request = frame::read(&mut stream, 100).await.unwrap();
            let mut answer = Vec::new();
            frame::put(&mut answer, request.kind | 0x80, request.number, b"yes");
            stream.write_all(&answer).await.unwrap();
            stream
        };
        let (frame, stream) = tokio::join!(answered, peer);
        assert_eq!((frame.kind, &frame.body[..]), (9 | 0x80, &b"yes"[..]));

        // A peer that is gone before anything is sent was certainly not asked.
        drop((stream, listener));
        let refused = async {
            loop {
                if let Err(LinkError::Unreachable(words)) = link.call(8, b"parcel".to_vec()).await {
                    return words;
                }
            }
        };
        assert!(refused.await.contains(&address));
    }

    #[tokio::test]
    async fn a_peer_that_one_link_reaches_is_tried_by_the_others_at_once() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (local(1, here.path()), local(2, there.path()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reached = Reached::default();
        let start = |purpose| Link::start(here.clone(), 2, address.to_string(), purpose, reached.clone());
        let (appends, control) = (start(Purpose::Appends), start(Purpose::Control));
        drop(listener);
        // Often enough that its pauses are long.
        for _ in 0..500 {
            assert!(control.call(9, Vec::new()).await.is_err());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let listener = TcpListener::bind(address).await.unwrap();
        let owed = appends.call(1, Vec::new());
        let first = welcome(&listener, &there).await;
        while reached.0.lock().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let asked = tokio::spawn(control.call(9, Vec::new()));
        let second = timeout(CONNECT_PATIENCE, welcome(&listener, &there)).await;
        assert!(second.is_ok(), "the other link did not try: {:?}", asked.await);
        drop((first, owed));
    }
}
