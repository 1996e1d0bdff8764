//! openraft's way to other nodes: translates its calls to requests over links.
//!
//! Links are shared by all clients of a peer: openraft makes a new client for every vote. Appends with entries are
//! pipelined on their own connection; heartbeats, votes and transfers have another, snapshots a third. A request
//! is given up after openraft's time for it, appends and snapshots after longer, since a slow disk is no dead peer.

use std::fs::File;
use std::future::{Future, ready};
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use leasehold_log::RecordError;
use openraft::alias::{SnapshotOf, VoteOf};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use parking_lot::Mutex;

use super::frame::Frame;
use super::hello::Purpose;
use super::link::{Link, LinkError};
use super::links::Links;
use super::message::{self, SnapshotBegin};
use crate::snapshot::SnapshotFile;
use crate::types::{LogId, Member, Types};

/// Appends in flight to one peer.
const APPENDS_IN_FLIGHT: usize = 8;
/// Parts of a snapshot in flight to one peer.
const PARTS_IN_FLIGHT: usize = 4;
const PART_BYTES: usize = 256 * 1024;
/// How long the answer to entries may take, at least: it needs a flush on the other side.
const APPEND_PATIENCE: Duration = Duration::from_secs(2);

type Failure = RPCError<Types>;

/// Makes clients that share links. Clones share them too.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    links: Arc<Links>,
}

impl Peers {
    pub(crate) fn new(links: Arc<Links>) -> Peers {
        Peers { links }
    }

    /// Asks something of a peer that is none of openraft's; gives the body of its answer.
    pub(crate) async fn ask_control(
        &self,
        target: u64,
        address: &str,
        kind: u8,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let answer = self.links.link(target, address, Purpose::Control).call(kind, body);
        let frame = answer.await.map_err(|error| match error {
            LinkError::Unreachable(text) | LinkError::Broken(text) => text,
        })?;
        let whole = |body: &[u8]| Ok(body.to_vec());
        read_answer(target, kind, &frame, whole).map_err(|error| error.to_string())
    }
}

/// A client for one peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    id: u64,
    target: u64,
    appends: Arc<Link>,
    control: Arc<Link>,
    snapshots: Arc<Link>,
    /// Whether appends go the way of heartbeats, because they are.
    heartbeats: bool,
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, member: &Member) -> Peer {
        let link = |purpose| self.links.link(target, &member.address, purpose);
        Peer {
            id: self.links.own_id(),
            target,
            appends: link(Purpose::Appends),
            control: link(Purpose::Control),
            snapshots: link(Purpose::Snapshots),
            heartbeats: false,
        }
    }

    async fn new_heartbeat_client(&mut self, target: u64, member: &Member) -> Peer {
        Peer { heartbeats: true, ..self.new_client(target, member).await }
    }
}

/// What reads the body of an answer.
type ReadAnswer<T> = fn(&[u8]) -> Result<T, RecordError>;

impl Peer {
    /// Sends a request at once, in order; the future waits for its answer and reads it.
    fn ask<T: Send + 'static>(
        &self,
        link: &Link,
        kind: u8,
        body: Vec<u8>,
        patience: Duration,
        read: ReadAnswer<T>,
    ) -> BoxFuture<'static, Result<T, Failure>> {
        let (id, target) = (self.id, self.target);
        let answer = link.call(kind, body);
        Box::pin(async move {
            match tokio::time::timeout(patience, answer).await {
                Ok(Ok(frame)) => read_answer(target, kind, &frame, read),
                Ok(Err(LinkError::Unreachable(text))) => Err(Unreachable::from_string(text).into()),
                Ok(Err(LinkError::Broken(text))) => Err(broken(format!("to node {target}: {text}"))),
                Err(_) => Err(Timeout { action: action(kind), id, target, timeout: patience }.into()),
            }
        })
    }

    fn append(
        &self,
        request: AppendEntriesRequest<Types>,
        option: &RPCOption,
    ) -> BoxFuture<'static, Result<AppendEntriesResponse<Types>, Failure>> {
        let (link, patience) = match self.heartbeats {
            true => (&self.control, option.soft_ttl()),
            // Also without entries: in a stream of appends it must keep its place.
            false => (&self.appends, option.soft_ttl().max(APPEND_PATIENCE)),
        };
        self.ask(link, message::APPEND, message::put_append(request), patience, message::append_answer)
    }

    async fn send_snapshot(
        &self,
        vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        patience: Duration,
    ) -> Result<SnapshotResponse<Types>, Failure> {
        let opened = in_background(move || {
            let file = File::open(&snapshot.snapshot.path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        let (file, length) = opened.await.map_err(|error| broken(format!("in reading the snapshot: {error}")))?;
        let begin = message::put_snapshot_begin(&SnapshotBegin { vote, meta: snapshot.meta, length });
        self.ask(&self.snapshots, message::SNAPSHOT_BEGIN, begin, patience, nothing).await?;

        let sum = Arc::new(Mutex::new(crc32fast::Hasher::new()));
        let parts = parts(file, sum.clone());
        let sent = parts.map(|part| match part {
            Ok(bytes) => self.ask(&self.snapshots, message::SNAPSHOT_PART, bytes, patience, nothing),
            Err(error) => Box::pin(ready(Err(broken(format!("in reading the snapshot: {error}"))))),
        });
        sent.buffered(PARTS_IN_FLIGHT).try_for_each(|()| ready(Ok(()))).await?;

        let sum = sum.lock().clone().finalize().to_le_bytes().to_vec();
        let installed = self.ask(&self.snapshots, message::SNAPSHOT_END, sum, patience, message::installed);
        Ok(SnapshotResponse::new(installed.await?))
    }
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, Failure> {
        self.append(request, &option).await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types>, Failure>>, Failure>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
    {
        let peer = self.clone();
        let asked = input.map(move |request| {
            let previous = request.prev_log_id;
            let last = request.entries.last().map(|entry| entry.log_id).or(previous);
            let answer = peer.append(request, &option);
            async move { Ok(stream_result(answer.await?, previous, last)) }
        });
        // After a refusal or a failure nothing of this stream counts any more.
        let answers = asked.buffered(APPENDS_IN_FLIGHT).scan(false, |over, answer| {
            let before = std::mem::replace(over, !matches!(answer, Ok(Ok(_))));
            ready((!before).then_some(answer))
        });
        Box::pin(ready(Ok(Box::pin(answers) as BoxStream<'s, _>)))
    }

    async fn vote(&mut self, request: VoteRequest<Types>, option: RPCOption) -> Result<VoteResponse<Types>, Failure> {
        let body = message::put_vote_request(&request);
        self.ask(&self.control, message::VOTE, body, option.soft_ttl(), message::vote_answer).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, Failure> {
        let body = message::put_vote_request(&request);
        self.ask(&self.control, message::PRE_VOTE, body, option.soft_ttl(), message::vote_answer).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            sent = self.send_snapshot(vote, snapshot, option.soft_ttl()) => Ok(sent?),
            closed = cancel => Err(closed.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, Failure> {
        let body = message::put_transfer(&request);
        self.ask(&self.control, message::TRANSFER, body, option.soft_ttl(), message::transfer_answer).await
    }

    /// The link pauses by itself between attempts; asking more often costs nothing.
    fn backoff(&self) -> Option<Backoff> {
        let pauses = [10, 20, 40, 80].into_iter().chain(std::iter::repeat(100));
        Some(Backoff::new(pauses.map(|pause| Duration::from_millis(pause).mul_f64(rand::random_range(0.5..1.0)))))
    }
}

fn read_answer<T>(target: u64, kind: u8, frame: &Frame, read: ReadAnswer<T>) -> Result<T, Failure> {
    let says = |text: String| broken(format!("to node {target}: {text}"));
    if frame.kind == message::FAILED {
        let words = format!("it answers: {}", String::from_utf8_lossy(&frame.body));
        // It will not take the same entries a moment later either: openraft pauses only before one it cannot reach.
        let refused = kind == message::APPEND;
        return Err(if refused {
            Unreachable::from_string(format!("node {target}: {words}")).into()
        } else {
            says(words)
        });
    }
    if frame.kind != kind | message::ANSWER {
        return Err(says(format!("it answers a request of kind {kind} with kind {}", frame.kind)));
    }
    read(&frame.body).map_err(|error| says(error.to_string()))
}

fn stream_result(
    answer: AppendEntriesResponse<Types>,
    previous: Option<LogId>,
    last: Option<LogId>,
) -> StreamAppendResult<Types> {
    match (answer, previous) {
        (AppendEntriesResponse::Success, _) => Ok(last),
        (AppendEntriesResponse::PartialSuccess(matching), _) => Ok(matching),
        (AppendEntriesResponse::Conflict, Some(previous)) => Err(StreamAppendError::Conflict(previous)),
        // What follows nothing cannot conflict; a peer that says so has nothing.
        (AppendEntriesResponse::Conflict, None) => Ok(None),
        (AppendEntriesResponse::HigherVote(vote), _) => Err(StreamAppendError::HigherVote(vote)),
    }
}

fn action(kind: u8) -> RPCTypes {
    match kind {
        message::APPEND => RPCTypes::AppendEntries,
        message::VOTE | message::PRE_VOTE => RPCTypes::Vote,
        message::TRANSFER => RPCTypes::TransferLeader,
        _ => RPCTypes::InstallSnapshot,
    }
}

/// Reads an answer that says nothing but that the request was served.
fn nothing(body: &[u8]) -> Result<(), RecordError> {
    match body.len() {
        0 => Ok(()),
        found => Err(RecordError::Field { what: "answer", field: "trailing bytes", found: found as u64 }),
    }
}

fn broken(text: String) -> Failure {
    NetworkError::from_string(format!("the request failed {text}")).into()
}

async fn in_background<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    crate::world::blocking(work).await.map_err(io::Error::other)?
}

/// Reads a file in parts on a blocking thread, and sums it up.
fn parts(file: File, sum: Arc<Mutex<crc32fast::Hasher>>) -> impl Stream<Item = io::Result<Vec<u8>>> + Send {
    stream::try_unfold((file, sum), |(mut file, sum)| {
        in_background(move || {
            let mut part = Vec::with_capacity(PART_BYTES);
            file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part)?;
            sum.lock().update(&part);
            Ok((!part.is_empty()).then_some((part, (file, sum))))
        })
    })
}
