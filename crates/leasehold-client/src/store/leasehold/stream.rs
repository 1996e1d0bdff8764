//! One `Leases.Connect` stream: commands up, answers and notices down, each answer to the one who asked.
//!
//! A command is handed over with a number and waits for the answer of that number. Everything that is ready goes up in
//! one message. When the stream ends, for whatever reason, all that is unanswered is told so; nothing is repeated
//! here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream;
use leasehold_api::grpc::answer::Outcome;
use leasehold_api::grpc::command::Command;
use leasehold_api::grpc::leases_client::LeasesClient;
use leasehold_api::grpc::resources_client::ResourcesClient;
use leasehold_api::grpc::watch_client::WatchClient;
use leasehold_api::grpc::{self, Down, Up};
use leasehold_core::LeaseId;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::link::Shared;
use super::wire;
use crate::store::{Incumbent, ProgressTo};
use crate::{Error, Moment};

/// The version of the protocol.
const PROTOCOL: u32 = 1;
/// How many commands go up in one message, and after how many bytes no further one joins them: the server takes 4 MiB.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;
/// The largest message from the server.
const MESSAGE_MAX: usize = 64 << 20;

/// A moment of sending and the lease time at the entry that answered it.
pub(super) type Pair = (Moment, u64);

/// An answer, and when its command was sent.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) sent: Moment,
    /// Lease time at the entry that answered.
    pub(super) now: u64,
    pub(super) outcome: Outcome,
    /// The latest pair of a command that was answered by its own entry.
    pub(super) pair: Pair,
}

/// The latest times that servers told, over all streams.
#[derive(Debug, Default)]
pub(super) struct Told {
    seen: AtomicU64,
    pair: Mutex<Option<Pair>>,
}

impl Told {
    /// The latest lease time, once there was contact.
    pub(super) fn seen(&self) -> Option<u64> {
        Some(self.seen.load(Ordering::Acquire)).filter(|seen| *seen > 0)
    }

    fn note(&self, sent: Moment, now: u64, by_entry: bool) -> Pair {
        self.seen.fetch_max(now, Ordering::AcqRel);
        let mut pair = self.pair.lock();
        // Every pair is safe to count from; the one that was sent last loses the least to drift.
        if by_entry && pair.is_none_or(|(before, _)| !sent.since(before).is_zero()) {
            *pair = Some((sent, now));
        }
        pair.unwrap_or((sent, now))
    }
}

/// A command and what is known of it here.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) command: Command,
    /// Whom to tell how far it is, if it may wait; one that may not must be answered soon.
    pub(super) waits: Option<ProgressTo>,
}

/// Whom to answer.
#[derive(Debug)]
struct Pending {
    sent: Moment,
    reply: oneshot::Sender<Result<Reply, Error>>,
    waits: Option<ProgressTo>,
    /// The lease that the command asks for.
    wish: Option<LeaseId>,
}

/// All that is unanswered.
#[derive(Debug, Default)]
struct Unanswered {
    all: HashMap<u64, Pending>,
    /// When those that must be answered soon were sent, in order.
    prompt: BTreeMap<u64, Moment>,
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    address: String,
    channel: Channel,
    commands: mpsc::UnboundedSender<grpc::Command>,
    next: AtomicU64,
    state: Arc<State>,
}

/// What the stream and the one who reads from it share.
#[derive(Debug)]
struct State {
    unanswered: Mutex<Unanswered>,
    closed: AtomicBool,
    heard: Mutex<Moment>,
    shared: Arc<Shared>,
}

impl Stream {
    /// Opens a stream, waits for the server's word and attaches the leases that were granted before.
    pub(super) async fn open(
        channel: Channel,
        address: String,
        namespace: &str,
        shared: Arc<Shared>,
    ) -> Result<Stream, String> {
        let (commands, queue) = mpsc::unbounded_channel();
        let up = stream::unfold(queue, async |mut queue| Some((batch(&mut queue).await?, queue)));
        let mut client = LeasesClient::new(channel.clone()).max_decoding_message_size(MESSAGE_MAX);
        let state = Arc::new(State {
            unanswered: Mutex::default(),
            closed: AtomicBool::new(false),
            heard: Mutex::new(Moment::now()),
            shared,
        });
        let this = Stream { address, channel, commands, next: AtomicU64::new(1), state };
        let hello =
            Command::Hello(Box::new(grpc::Hello { protocol_version: PROTOCOL, namespace: namespace.to_owned() }));
        let welcome = this.ask(Ask { command: hello, waits: None });
        let down = client.connect(up).await.map_err(|status| words(&status))?.into_inner();
        tokio::spawn(read(down, Arc::clone(&this.state), this.address.clone()));
        let welcome = welcome.await.map_err(|error| error.to_string())?;
        if !matches!(welcome.outcome, Outcome::Hello(_)) {
            return Err(wire::refused(&this.address, welcome.outcome).to_string());
        }
        let leases: Vec<u64> = this.state.shared.attached.lock().iter().map(|lease| lease.number()).collect();
        for leases in leases.chunks(4096).map(<[u64]>::to_vec) {
            // What became of those that ended meanwhile is told by their next renewal.
            let attach = grpc::Attach { namespace: String::new(), leases };
            drop(this.ask(Ask { command: Command::Attach(Box::new(attach)), waits: None }));
        }
        Ok(this)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Acquire)
    }

    /// Whether a command that must be answered soon is not, for longer than `patience`, and nothing else was heard since.
    pub(super) fn is_suspect(&self, patience: Duration) -> bool {
        let oldest = self.state.unanswered.lock().prompt.first_key_value().map(|(_, sent)| *sent);
        oldest.is_some_and(|sent| sent.elapsed() > patience && self.state.heard.lock().since(sent).is_zero())
    }

    /// Gives the stream up; all that is unanswered is told.
    pub(super) fn close(&self, cause: &str) {
        self.state.close(&self.address, cause);
    }

    /// Sends a command; the future is its answer. Given up, it is still carried out.
    pub(super) fn ask(&self, ask: Ask) -> impl Future<Output = Result<Reply, Error>> + Send + use<> {
        let Ask { command, waits } = ask;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let wish = if let Command::Grant(grant) = &command { grant.id.and_then(LeaseId::new) } else { None };
        let (reply, answer) = oneshot::channel();
        let sent = Moment::now();
        let mut unanswered = self.state.unanswered.lock();
        if waits.is_none() {
            unanswered.prompt.insert(number, sent);
        }
        unanswered.all.insert(number, Pending { sent, reply, waits, wish });
        drop(unanswered);
        let queued = self.commands.send(grpc::Command { number, command: Some(command) });
        if queued.is_err() || self.is_closed() {
            self.close("the connection was closed");
        }
        async move { answer.await.unwrap_or_else(|_| Err(closed("the service", "the connection was closed"))) }
    }

    /// Cancels the unanswered grant of a lease and takes its answer over; none if there is no such grant.
    pub(super) fn cancel(&self, wish: LeaseId) -> Option<impl Future<Output = Result<Reply, Error>> + Send + use<>> {
        let mut unanswered = self.state.unanswered.lock();
        let (number, asked) = unanswered.all.iter_mut().find(|(_, pending)| pending.wish == Some(wish))?;
        let (reply, answer) = oneshot::channel();
        asked.reply = reply;
        let cancel = Command::Cancel(grpc::Cancel { number: *number });
        let unanswered = self.next.fetch_add(1, Ordering::Relaxed);
        drop(self.commands.send(grpc::Command { number: unanswered, command: Some(cancel) }));
        Some(async move { answer.await.unwrap_or_else(|_| Err(closed("the service", "the connection was closed"))) })
    }

    /// Who holds a resource, and at which revision that was so.
    pub(super) async fn holder(&self, namespace: &str, resource: &str) -> Result<(Option<Incumbent>, u64), Error> {
        let request = grpc::GetResourceRequest {
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            ..grpc::GetResourceRequest::default()
        };
        match ResourcesClient::new(self.channel.clone()).get(request).await {
            Ok(answer) => {
                let revision = wire::revision(answer.metadata());
                Ok((wire::incumbent(answer.into_inner()), revision))
            }
            Err(status) if status.code() == tonic::Code::NotFound => Ok((None, wire::revision(status.metadata()))),
            Err(status) => Err(self.failed(&status)),
        }
    }

    /// Returns when the holder of a resource may have changed after a revision.
    pub(super) async fn changed(&self, namespace: &str, resource: &str, since: Option<u64>) -> Result<(), Error> {
        let request = grpc::WatchRequest { namespace: namespace.to_owned(), prefix: resource.to_owned(), since };
        let mut client = WatchClient::new(self.channel.clone());
        let mut events = match client.events(request).await {
            Ok(events) => events.into_inner(),
            // What is no longer kept may have been a change.
            Err(status) if status.code() == tonic::Code::OutOfRange => return Ok(()),
            Err(status) => return Err(self.failed(&status)),
        };
        while let Some(delivery) = events.message().await.map_err(|status| self.failed(&status))? {
            if wire::concerns(&delivery, resource) {
                return Ok(());
            }
        }
        Err(closed(&self.address, "the watch was ended"))
    }

    fn failed(&self, status: &Status) -> Error {
        match wire::refusal(status) {
            Some(error) => error,
            None => closed(&self.address, &words(status)),
        }
    }
}

impl State {
    fn close(&self, address: &str, cause: &str) {
        self.closed.store(true, Ordering::Release);
        let unanswered = std::mem::take(&mut *self.unanswered.lock());
        for pending in unanswered.all.into_values() {
            // Whoever gave up needs no answer.
            let _ = pending.reply.send(Err(closed(address, cause)));
        }
    }

    fn take(&self, down: Down) {
        *self.heard.lock() = Moment::now();
        for progress in down.progress {
            let waits = self.unanswered.lock().all.get(&progress.number).and_then(|pending| pending.waits.clone());
            let Some(to) = waits else { continue };
            progress.places.into_iter().for_each(|place| to.tell(wire::progress(place)));
        }
        for answer in down.answers {
            let mut unanswered = self.unanswered.lock();
            unanswered.prompt.remove(&answer.number);
            let Some(pending) = unanswered.all.remove(&answer.number) else { continue };
            drop(unanswered);
            let Some(outcome) = answer.outcome else { continue };
            let by_entry = wire::is_by_entry(&outcome);
            let pair = self.shared.told.note(pending.sent, answer.now, by_entry);
            let reply = Reply { sent: pending.sent, now: answer.now, outcome, pair };
            // Whoever gave up needs no answer.
            let _ = pending.reply.send(Ok(reply));
        }
        for notice in down.notices.into_iter().filter_map(wire::notice) {
            // Nobody may be listening.
            let _ = self.shared.notices.send(notice);
        }
    }
}

/// Everything that is ready to go up.
async fn batch(queue: &mut mpsc::UnboundedReceiver<grpc::Command>) -> Option<Up> {
    let mut commands = vec![queue.recv().await?];
    let mut bytes = commands[0].encoded_len();
    while commands.len() < BATCH && bytes < BATCH_BYTES {
        let Ok(command) = queue.try_recv() else { break };
        bytes += command.encoded_len();
        commands.push(command);
    }
    Some(Up { commands })
}

async fn read(mut down: Streaming<Down>, state: Arc<State>, address: String) {
    let cause = loop {
        match down.message().await {
            Ok(Some(message)) => state.take(message),
            Ok(None) => break "the connection was closed".to_owned(),
            Err(status) => break words(&status),
        }
    };
    state.close(&address, &cause);
}

fn closed(address: &str, cause: &str) -> Error {
    Error::Unreachable { addr: address.to_owned(), cause: cause.to_owned() }
}

/// What went wrong with a call, in words.
fn words(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => crate::http::cause_of(source),
        None => status.message().to_owned(),
    }
}
