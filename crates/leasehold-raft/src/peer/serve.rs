//! The way in for other nodes: a listener whose connections feed openraft.
//!
//! A connection begins with a handshake that both sides check; garbage, a wrong length or a newer version closes it
//! and harms nothing else. Appends are handed over in order and answered in order, several at once; what comes on the control
//! connection is served side by side, so that a heartbeat waits for nothing. For one lease length after
//! the start, a member of a cluster of several refuses its vote: it may have promised it before, and has forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use leasehold_service::log::{Leadership, Machine, Parcel};
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::{AppendEntriesResponse, VoteResponse};
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout};

use super::Local;
use super::agree::Comparison;
use super::answer::answer_one;
use super::frame::{self, BODY_MAX, Frame, FrameError, SMALL_BODY_MAX};
use super::hello::{Hello, HelloError, Purpose};
use super::message;
use super::receive::Receiving;
use super::stream::{ReadHalf, Stream, WriteHalf};
use crate::barrier::Prover;
use crate::change::Changes;
use crate::heard::Heard;
use crate::machine::Applier;
use crate::room::Room;
use crate::snapshot::Snapshots;
use crate::task::AbortOnDrop;
use crate::types::Types;
use crate::world::{self, Arrived, Listener};

/// Connections at once, strangers included; four from each peer are enough.
const CONNECTIONS: usize = 128;
const HELLO_PATIENCE: Duration = Duration::from_secs(5);
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Requests of one control connection in work at once.
const IN_WORK: usize = 64;
/// Appends of one connection in work at once; they can be large.
const APPENDS_IN_WORK: usize = 16;
/// Different refusals that are logged; more would only fill the log.
const REFUSALS_LOGGED: usize = 64;

/// Says until when this node refuses its vote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoteGuard {
    until: Option<Instant>,
}

impl VoteGuard {
    /// `lease` is the length of a leader's lease; 2 % more, for clocks that differ.
    pub(crate) fn new(voters: usize, started: Instant, lease: Duration) -> VoteGuard {
        VoteGuard { until: (voters > 1).then(|| started + lease.mul_f64(1.02)) }
    }

    fn refuses(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// What connections feed.
pub(crate) struct Inside<M: Machine> {
    pub(crate) raft: Raft<Types, Applier<M>>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) prover: Prover<M>,
    /// Where parcels go.
    pub(crate) parcels: mpsc::Sender<Parcel>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) room: Arc<Room>,
    pub(crate) changes: Arc<Changes<M>>,
}

/// What a connection needs to be served.
pub(crate) struct Door<M: Machine> {
    local: Local,
    pub(super) inside: Arc<Inside<M>>,
    guard: VoteGuard,
    comparison: Arc<Comparison>,
    /// What was logged already.
    refusals: Mutex<BTreeSet<String>>,
    /// The newest connection of each peer for each purpose; told when it is replaced.
    connections: Mutex<BTreeMap<(u64, Purpose), Arc<Notify>>>,
}

impl<M: Machine> Door<M> {
    pub(crate) fn new(local: Local, inside: Inside<M>, guard: VoteGuard, comparison: Arc<Comparison>) -> Door<M> {
        let (inside, refusals, connections) = (Arc::new(inside), Mutex::default(), Mutex::default());
        Door { local, inside, guard, comparison, refusals, connections }
    }

    /// Takes connections until its task is dropped.
    pub(crate) async fn serve(self: Arc<Self>, mut listener: Listener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, from)) => {
                    let door = self.clone();
                    tokio::spawn(async move {
                        door.welcome(stream, from).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Out of descriptors, for instance: it passes, and trying at once would only spin.
                    self.say(format!("a connection of another node was not taken: {error}"));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Logs a refusal the first time.
    fn say(&self, text: String) {
        let mut said = self.refusals.lock();
        if said.len() < REFUSALS_LOGGED && !said.contains(&text) {
            tracing::warn!("{text}");
            said.insert(text);
        }
    }

    async fn welcome(&self, arrived: Arrived, from: String) {
        if let Arrived::Tcp(stream) = &arrived
            && let Ok(Ok(0)) = timeout(HELLO_PATIENCE, stream.peek(&mut [0])).await
        {
            // Somebody only looked whether this address answers.
            return;
        }
        let mut stream = match timeout(HELLO_PATIENCE, Stream::accept(arrived, self.local.secure.as_ref())).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(reason)) => return self.say(format!("a connection from {} was closed: {reason}", from)),
            Err(_) => return self.say(format!("a connection from {} said nothing and was closed", from)),
        };
        let hello = match timeout(HELLO_PATIENCE, Hello::read(&mut stream)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(error)) => {
                self.say(format!("a connection from {} was closed: {error}", from));
                if let HelloError::Version { .. } = error {
                    self.answer(&mut stream, 0, Purpose::Refused, error.to_string()).await;
                }
                return;
            }
            Err(_) => return self.say(format!("a connection from {} said nothing and was closed", from)),
        };
        if let Err((verdict, reason)) = self.recognise(&stream, &hello).await {
            self.say(format!("node {} at {} was refused: {reason}", hello.from, from));
            return self.answer(&mut stream, hello.from, verdict, reason).await;
        }
        self.answer(&mut stream, hello.from, Purpose::Welcome, String::new()).await;
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::with_capacity(64 * 1024, read);
        if hello.purpose == Purpose::Question {
            let ended = answer_one(&self.inside.changes, &hello, &mut read, &mut write).await;
            return tracing::debug!(node = hello.from, %ended, "a question was answered");
        }
        let replaced = self.replace(hello.from, hello.purpose);
        let mut gone = self.local.roster.gone();
        let serve = async {
            match hello.purpose {
                Purpose::Appends => self.serve_appends(read, write).await,
                Purpose::Control => self.serve_control(read, write, hello.from).await,
                Purpose::Snapshots => self.serve_snapshots(read, write).await,
                Purpose::Forwards => self.serve_forwards(read, write).await,
                Purpose::Meeting | Purpose::Question | Purpose::Welcome | Purpose::Refused | Purpose::Gone => {
                    FrameError::Closed
                }
            }
        };
        let ended = tokio::select! {
            ended = serve => ended,
            () = replaced.notified() => FrameError::Closed,
            // It hears why when it connects again.
            _ = gone.wait_for(|gone| gone.contains(&hello.from)) => FrameError::Closed,
        };
        match ended {
            FrameError::Closed | FrameError::Io(_) => tracing::debug!(node = hello.from, %ended, "connection ended"),
            FrameError::Newer { .. } | FrameError::Damaged(_) => {
                self.say(format!("the connection of node {} was closed: {ended}", hello.from));
            }
        }
    }

    /// Says whether the other side may go on; otherwise what it is told.
    async fn recognise(&self, stream: &Stream, hello: &Hello) -> Result<(), (Purpose, String)> {
        let refused = |reason| (Purpose::Refused, reason);
        stream.is_of_node().map_err(refused)?;
        if hello.is_joiner() {
            return Ok(());
        }
        hello.check(&self.local, None).map_err(refused)?;
        if self.local.roster.is_gone(hello.from) {
            return Err((Purpose::Gone, format!("node {} was removed from the cluster", hello.from)));
        }
        self.local.remember(hello.from, hello.incarnation).await.map_err(refused)
    }

    /// A new connection ends the one before it with the same purpose: its peer has given it up, perhaps without a word.
    fn replace(&self, from: u64, purpose: Purpose) -> Arc<Notify> {
        let replaced = Arc::new(Notify::new());
        if let Some(before) = self.connections.lock().insert((from, purpose), replaced.clone()) {
            before.notify_one();
        }
        replaced
    }

    async fn answer(&self, stream: &mut Stream, to: u64, purpose: Purpose, words: String) {
        let hello = Hello { words, ..Hello::new(&self.local, to, purpose) };
        let _ = timeout(WRITE_PATIENCE, write(stream, &hello.to_bytes())).await;
    }

    /// Requests are handed to openraft in the order they came, without waiting for the answers before.
    async fn serve_appends(&self, mut read: BufReader<ReadHalf>, mut write: WriteHalf) -> FrameError {
        let (frames, mut arrived) = mpsc::channel(2);
        let reader = AbortOnDrop(tokio::spawn(async move {
            loop {
                let frame = frame::read(&mut read, BODY_MAX).await;
                let ended = frame.is_err();
                if frames.send(frame).await.is_err() || ended {
                    return;
                }
            }
        }));
        let mut working = FuturesOrdered::new();
        let ended = loop {
            tokio::select! {
                biased;
                Some(answer) = working.next(), if !working.is_empty() => {
                    let mut bytes: Vec<u8> = answer;
                    while let Some(Some(more)) = working.next().now_or_never() {
                        bytes.extend_from_slice(&more);
                    }
                    if let Err(error) = put(&mut write, &bytes).await {
                        break error;
                    }
                }
                frame = arrived.recv(), if working.len() < APPENDS_IN_WORK => match frame {
                    Some(Ok(frame)) => {
                        // Its first poll puts it into openraft's queue; unconstrained, so that it does so in any case.
                        let mut request = Box::pin(tokio::task::unconstrained(self.append(frame)));
                        match request.as_mut().now_or_never() {
                            Some(answer) => working.push_back(std::future::ready(answer).left_future()),
                            None => working.push_back(request.right_future()),
                        }
                    }
                    Some(Err(error)) => break self.refuse_newer(&mut write, error).await,
                    None => break FrameError::Closed,
                },
            }
        };
        drop(reader);
        ended
    }

    async fn append(&self, frame: Frame) -> Vec<u8> {
        let answer = match frame.kind {
            message::APPEND => self.inside.append(&frame.body).await,
            kind => Err(unexpected(kind)),
        };
        reply(frame.kind, frame.number, answer)
    }

    /// Every request is a task of its own; a vote that waits for the disk holds up no heartbeat.
    async fn serve_control(&self, mut read: BufReader<ReadHalf>, mut write: WriteHalf, from: u64) -> FrameError {
        let (answers, mut done) = mpsc::channel::<Vec<u8>>(IN_WORK);
        let places = Arc::new(Semaphore::new(IN_WORK));
        let writer = AbortOnDrop(tokio::spawn(async move {
            while let Some(mut bytes) = done.recv().await {
                while let Ok(more) = done.try_recv() {
                    bytes.extend_from_slice(&more);
                }
                if put(&mut write, &bytes).await.is_err() {
                    return;
                }
            }
        }));
        let mut tasks = tokio::task::JoinSet::new();
        let ended = loop {
            let frame = match frame::read(&mut read, SMALL_BODY_MAX).await {
                Ok(frame) => frame,
                Err(error) => {
                    if let FrameError::Newer { number, .. } = &error {
                        let _ = answers.send(failed(*number, &error.to_string())).await;
                    }
                    break error;
                }
            };
            let Ok(place) = places.clone().acquire_owned().await else { break FrameError::Closed };
            while tasks.try_join_next().is_some() {}
            let (inside, guard, answers) = (self.inside.clone(), self.guard, answers.clone());
            let comparison = self.comparison.clone();
            tasks.spawn(async move {
                let answer = match frame.kind {
                    message::CHECKPOINT => comparison.answer(from, &frame.body),
                    _ => control(&inside, guard, &frame).await,
                };
                let _ = answers.send(reply(frame.kind, frame.number, answer)).await;
                drop(place);
            });
        };
        tasks.abort_all();
        drop((answers, tasks));
        // What was answered already still goes out.
        let mut writer = writer;
        let _ = timeout(WRITE_PATIENCE, &mut writer.0).await;
        ended
    }

    async fn serve_snapshots(&self, mut read: BufReader<ReadHalf>, mut write: WriteHalf) -> FrameError {
        let mut receiving = None;
        loop {
            let frame = match frame::read(&mut read, SMALL_BODY_MAX).await {
                Ok(frame) => frame,
                Err(error) => return self.refuse_newer(&mut write, error).await,
            };
            let answer = self.take_snapshot(&mut receiving, &frame).await;
            if let Err(reason) = &answer {
                self.say(format!("a snapshot of another node was not taken: {reason}"));
            }
            if let Err(error) = put(&mut write, &reply(frame.kind, frame.number, answer)).await {
                return error;
            }
        }
    }

    async fn take_snapshot(&self, receiving: &mut Option<Receiving>, frame: &Frame) -> Result<Vec<u8>, String> {
        let (held, snapshots) = (receiving.take(), self.inside.snapshots.clone());
        let none = || "no snapshot was begun on this connection".to_string();
        match frame.kind {
            message::SNAPSHOT_BEGIN => {
                let begin = message::snapshot_begin(&frame.body).map_err(|error| error.to_string())?;
                // An older one that was not finished goes before its place is needed.
                drop(held);
                *receiving = Some(blocking(move || Receiving::begin(begin, &snapshots)).await?);
                Ok(Vec::new())
            }
            message::SNAPSHOT_PART => {
                let (mut held, part) = (held.ok_or_else(none)?, frame.body.clone());
                let taken = blocking(move || held.take(&part, &snapshots).map(|()| held)).await?;
                *receiving = Some(taken);
                Ok(Vec::new())
            }
            message::SNAPSHOT_END => {
                let (held, sum) = (held.ok_or_else(none)?, frame.body.clone());
                let received = blocking(move || held.finish(&sum, &snapshots)).await?;
                let snapshot =
                    openraft::alias::SnapshotOf::<Types, _> { meta: received.meta.clone(), snapshot: received.file() };
                let installed = self.inside.raft.install_full_snapshot(received.vote, snapshot).await;
                Ok(message::put_installed(&installed.map_err(|error| error.to_string())?.vote))
            }
            kind => Err(unexpected(kind)),
        }
    }

    async fn refuse_newer(&self, write: &mut WriteHalf, error: FrameError) -> FrameError {
        if let FrameError::Newer { number, .. } = &error {
            let _ = put(write, &failed(*number, &error.to_string())).await;
        }
        error
    }
}

impl<M: Machine> Inside<M> {
    /// Takes entries or a heartbeat; entries only while the disk has room for them.
    async fn append(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let request = message::append(body).map_err(|error| error.to_string())?;
        if !request.entries.is_empty() {
            self.room.check()?;
        }
        let (came, committed) = (Instant::now(), request.leader_commit.map(|last| last.index));
        let answer = self.raft.append_entries(request).await.map_err(|error| error.to_string())?;
        if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
            self.heard.note(came, committed);
        }
        Ok(message::put_append_answer(&answer))
    }
}

/// Serves heartbeats, votes and transfers.
async fn control<M: Machine>(inside: &Inside<M>, guard: VoteGuard, frame: &Frame) -> Result<Vec<u8>, String> {
    let words = |error: leasehold_log::RecordError| error.to_string();
    let raft = &inside.raft;
    match frame.kind {
        message::APPEND => inside.append(&frame.body).await,
        message::VOTE | message::PRE_VOTE => {
            let request = message::vote_request(&frame.body).map_err(words)?;
            let answer = if guard.refuses() && !request.leadership_transfer {
                tracing::info!(candidate = %request.vote, "refused a vote: this node has just started");
                Ok(VoteResponse::new(raft.server_metrics().borrow_watched().vote, None, false))
            } else if frame.kind == message::VOTE {
                raft.vote(request).await
            } else {
                raft.pre_vote(request).await
            };
            Ok(message::put_vote_answer(&answer.map_err(|error| error.to_string())?))
        }
        message::TRANSFER => {
            let request = message::transfer(&frame.body).map_err(words)?;
            let answer = raft.handle_transfer_leader(request).await.map_err(|error| error.to_string())?;
            Ok(message::put_transfer_answer(&answer))
        }
        kind => Err(unexpected(kind)),
    }
}

pub(super) fn unexpected(kind: u8) -> String {
    format!("a request of kind {kind} does not belong on this connection")
}

pub(super) fn reply(kind: u8, number: u64, answer: Result<Vec<u8>, String>) -> Vec<u8> {
    match answer {
        Ok(body) => {
            let mut out = Vec::new();
            frame::put(&mut out, kind | message::ANSWER, number, &body);
            out
        }
        Err(words) => failed(number, &words),
    }
}

pub(super) fn failed(number: u64, words: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, message::FAILED, number, words.as_bytes());
    out
}

pub(super) async fn put(write: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), FrameError> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    Ok(timeout(WRITE_PATIENCE, self::write(write, bytes)).await.map_err(late)??)
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, String> {
    let done = world::blocking(work).await.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}
