//! One `Leases.Connect` stream: commands up, answers and notices down, each answer to the one who asked.
//!
//! A command is handed over with a number and waits for the answer of that number. Everything that is ready goes up in
//! one message. When the stream ends, for whatever reason, all that is unanswered is told so; nothing is repeated
//! here. A stream is *left* when its server says that it cannot serve now: what is unanswered on it stays, what comes next
//! goes elsewhere.

use std::collections::{BTreeSet, HashMap};
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
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::link::Shared;
use super::silence::Silence;
use super::wire;
use crate::store::{Incumbent, ProgressTo};
use crate::{Error, Moment};

/// The version of the protocol.
const PROTOCOL: u32 = 1;
/// How many commands go up in one message, and after how many bytes no further one joins them: the server takes 4 MiB.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;
/// How many leases one command attaches.
const ATTACH: usize = 4096;
/// How long what waits in a queue stays on a stream that was left.
const LAPSE: Duration = Duration::from_secs(2);
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
    cancelled: bool,
}

/// All that is unanswered.
#[derive(Debug, Default)]
struct Unanswered {
    all: HashMap<u64, Pending>,
    /// Those that are to be answered soon: all but those that are known to wait in a queue.
    prompt: BTreeSet<u64>,
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    address: String,
    channel: Channel,
    commands: mpsc::UnboundedSender<grpc::Command>,
    next: AtomicU64,
    state: Arc<State>,
    /// Whether its server led when it was opened; none if that knew of no leader.
    leads: Option<bool>,
}

/// What the stream and the one who reads from it share.
#[derive(Debug)]
struct State {
    unanswered: Mutex<Unanswered>,
    closed: AtomicBool,
    /// Whether what comes next goes elsewhere; a closed stream is left too.
    left: watch::Sender<bool>,
    silence: Silence,
    shared: Arc<Shared>,
}

impl Stream {
    /// Opens a stream and waits for the server's word.
    pub(super) async fn open(
        channel: Channel,
        address: String,
        namespace: &str,
        shared: Arc<Shared>,
    ) -> Result<Stream, String> {
        let (commands, queue) = mpsc::unbounded_channel();
        let mut client = LeasesClient::new(channel.clone()).max_decoding_message_size(MESSAGE_MAX);
        let state = Arc::new(State {
            unanswered: Mutex::default(),
            closed: AtomicBool::new(false),
            left: watch::Sender::new(false),
            silence: Silence::default(),
            shared,
        });
        let up = stream::unfold((queue, Arc::clone(&state)), async |(mut queue, state)| {
            Some((batch(&mut queue, &state).await?, (queue, state)))
        });
        let mut this = Stream { address, channel, commands, next: AtomicU64::new(1), state, leads: None };
        let welcome = this.hello(namespace);
        let down = client.connect(up).await.map_err(|status| words(&status))?.into_inner();
        tokio::spawn(read(down, Arc::clone(&this.state), this.address.clone()));
        let welcome = welcome.await.map_err(|error| error.to_string())?;
        let Outcome::Hello(welcome) = welcome.outcome else {
            return Err(wire::refused(&this.address, welcome.outcome).to_string());
        };
        this.leads = welcome.leads;
        Ok(this)
    }

    /// Says hello: the server answers at once if it is there.
    fn hello(&self, namespace: &str) -> impl Future<Output = Result<Reply, Error>> + Send + use<> {
        let hello = grpc::Hello { protocol_version: PROTOCOL, namespace: namespace.to_owned() };
        self.ask(Ask { command: Command::Hello(Box::new(hello)), waits: None })
    }

    /// Attaches leases that were granted before or elsewhere: their losses are told here from now on.
    pub(super) fn attach(&self, leases: &[u64]) {
        for leases in leases.chunks(ATTACH).map(<[u64]>::to_vec) {
            // What became of those that ended meanwhile is told by their next renewal.
            let attach = grpc::Attach { namespace: String::new(), leases };
            drop(self.ask(Ask { command: Command::Attach(Box::new(attach)), waits: None }));
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether its server led when it was opened; none if that knew of no leader.
    pub(super) fn leads(&self) -> Option<bool> {
        self.leads
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Acquire)
    }

    /// Whether what comes next goes elsewhere.
    pub(super) fn is_left(&self) -> bool {
        *self.state.left.borrow()
    }

    /// Uses a stream again that was left.
    pub(super) fn take_up(&self) {
        self.state.left.send_replace(self.is_closed());
    }

    /// Whether somebody waits for an answer.
    pub(super) fn is_awaited(&self) -> bool {
        self.state.unanswered.lock().all.values().any(|pending| !pending.reply.is_closed())
    }

    /// Returns when the stream is left.
    async fn left(&self) {
        // The sender lives in this very stream.
        let _ = self.state.left.subscribe().wait_for(|left| *left).await;
    }

    /// Returns when the stream was left and not taken up for long.
    pub(super) async fn lapsed(&self) {
        let mut left = self.state.left.subscribe();
        loop {
            let _ = left.wait_for(|left| *left).await;
            if tokio::time::timeout(LAPSE, left.wait_for(|left| !left)).await.is_err() {
                return;
            }
        }
    }

    /// The error of one who waits no longer for an answer on this stream.
    pub(super) fn gone(&self, cause: &str) -> Error {
        closed(&self.address, cause)
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
        unanswered.prompt.insert(number);
        unanswered.all.insert(number, Pending { sent, reply, waits, wish, cancelled: false });
        drop(unanswered);
        self.state.silence.begins();
        let queued = self.commands.send(grpc::Command { number, command: Some(command) });
        if queued.is_err() || self.is_closed() {
            self.close("the connection was closed");
        }
        async move { answer.await.unwrap_or_else(|_| Err(closed("the service", "the connection was closed"))) }
    }

    /// Cancels the unanswered grant of a lease and takes its answer over; none if there is no such grant, or if it was
    /// cancelled before.
    pub(super) fn cancel(&self, wish: LeaseId) -> Option<impl Future<Output = Result<Reply, Error>> + Send + use<>> {
        let mut unanswered = self.state.unanswered.lock();
        let asked_for = |pending: &Pending| pending.wish == Some(wish) && !pending.cancelled;
        let (number, asked) = unanswered.all.iter_mut().find(|(_, pending)| asked_for(pending))?;
        let (reply, answer) = oneshot::channel();
        (asked.reply, asked.cancelled) = (reply, true);
        let number = *number;
        unanswered.prompt.insert(number);
        drop(unanswered);
        self.state.silence.begins();
        let cancel = Command::Cancel(grpc::Cancel { number });
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
        // The call has no other sign of life than its answer; what the server says to this one is.
        drop(self.hello(namespace));
        let mut client = ResourcesClient::new(self.channel.clone());
        let answer = tokio::select! {
            answer = client.get(request) => answer,
            () = self.left() => return Err(self.gone("it does not answer")),
        };
        match answer {
            Ok(answer) => {
                let revision = wire::revision(answer.metadata());
                Ok((wire::incumbent(answer.into_inner()), revision))
            }
            Err(status) if status.code() == tonic::Code::NotFound => Ok((None, wire::revision(status.metadata()))),
            Err(status) => Err(self.failed(&status)),
        }
    }

    /// Returns when the holder of a resource may have changed after a revision; also when the stream is left, because its
    /// server may not hear of a change.
    pub(super) async fn changed(&self, namespace: &str, resource: &str, since: Option<u64>) -> Result<(), Error> {
        tokio::select! {
            heard = self.heard_of_change(namespace, resource, since) => heard,
            () = self.left() => Ok(()),
        }
    }

    async fn heard_of_change(&self, namespace: &str, resource: &str, since: Option<u64>) -> Result<(), Error> {
        let request = grpc::WatchRequest { namespace: namespace.to_owned(), prefix: resource.to_owned(), since };
        let mut client = WatchClient::new(self.channel.clone());
        let mut events = match client.events(request).await {
            Ok(events) => events.into_inner(),
            // What is no longer kept may have been a change.
            Err(status) if status.code() == tonic::Code::OutOfRange => return Ok(()),
            // Another server told of that revision, this one has not reached it.
            Err(status) if status.code() == tonic::Code::InvalidArgument && since.is_some() => {
                return Err(self.gone(&words(&status)));
            }
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
            Some(error) => {
                if error.is_of_this_server() {
                    self.state.leave();
                }
                error
            }
            None => closed(&self.address, &words(status)),
        }
    }
}

impl State {
    fn close(&self, address: &str, cause: &str) {
        self.closed.store(true, Ordering::Release);
        self.left.send_replace(true);
        let unanswered = std::mem::take(&mut *self.unanswered.lock());
        for pending in unanswered.all.into_values() {
            // Whoever gave up needs no answer.
            let _ = pending.reply.send(Err(closed(address, cause)));
        }
    }

    /// What comes next goes elsewhere, if there is an elsewhere.
    fn leave(&self) {
        if self.shared.several {
            self.left.send_replace(true);
        }
    }

    /// Whether more than one command is unanswered.
    fn is_busy(&self) -> bool {
        self.unanswered.lock().all.len() > 1
    }

    /// Whether something is to be answered soon.
    fn owes(&self) -> bool {
        !self.unanswered.lock().prompt.is_empty()
    }

    fn take(&self, down: Down) {
        self.silence.broken();
        for progress in down.progress {
            let Some(to) = self.note_waiting(progress.number) else { continue };
            progress.places.into_iter().for_each(|place| to.tell(wire::progress(place)));
        }
        for answer in down.answers {
            let mut unanswered = self.unanswered.lock();
            unanswered.prompt.remove(&answer.number);
            let Some(pending) = unanswered.all.remove(&answer.number) else { continue };
            drop(unanswered);
            let Some(outcome) = answer.outcome else { continue };
            if wire::is_of_this_server(&outcome) {
                self.leave();
            }
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

impl State {
    /// Notes that a command waits in a queue; gives the one to tell how far it is.
    fn note_waiting(&self, number: u64) -> Option<ProgressTo> {
        let mut unanswered = self.unanswered.lock();
        let Unanswered { all, prompt } = &mut *unanswered;
        let pending = all.get(&number)?;
        if !pending.cancelled {
            prompt.remove(&number);
        }
        pending.waits.clone().filter(|_| !pending.reply.is_closed())
    }
}

/// Everything that is ready to go up. If others were answered by the same message as the first, they get a turn before it
/// is taken: they ask again now, and a fuller message costs less than an early one gains.
async fn batch(queue: &mut mpsc::UnboundedReceiver<grpc::Command>, state: &State) -> Option<Up> {
    let mut commands = vec![queue.recv().await?];
    if state.is_busy() {
        tokio::task::yield_now().await;
    }
    let mut bytes = commands[0].encoded_len();
    while commands.len() < BATCH && bytes < BATCH_BYTES {
        let Ok(command) = queue.try_recv() else { break };
        bytes += command.encoded_len();
        commands.push(command);
    }
    Some(Up { commands })
}

/// Takes what the server says, until it ends, breaks or falls silent.
async fn read(mut down: Streaming<Down>, state: Arc<State>, address: String) {
    let too_long = state.silence.is_too_long(state.shared.silent_max(), || state.owes());
    tokio::pin!(too_long);
    let cause = loop {
        let message = tokio::select! {
            biased;
            message = down.message() => message,
            () = &mut too_long => break "it does not answer".to_owned(),
        };
        match message {
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
