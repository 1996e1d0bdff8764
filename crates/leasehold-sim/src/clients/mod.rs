//! Clients: each on a host of its own, with a clock that may be off and may stand still.
//!
//! A client asks a node, waits for as long as it likes, and asks again, another node too, with the same command. What it
//! saw goes into the history, in true time; how long it takes itself for valid is what the client library's own rule
//! says of its own clock.

mod crowd;
mod family;
mod locker;
mod reader;
mod watcher;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_client::{Moment as HostMoment, Validity};
use leasehold_core::{
    Ask, Asks, Class, Command, Grant, Holder, LeaseId, LeaseTime, LeaseView, Metadata, Mode, Outcome as Achieved,
    Patience, Rejection, Remaining, ResourceName, Span as LeaseSpan, Ttl,
};
use leasehold_service::{Done, Failure};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::history::{Ack, Answered, Attempt, End, History, Hold, Moment};
use crate::net::{HostId, Letter, Mail, Net};
use crate::plan::Plan;
use crate::talk::{Answer, Question};
use crate::time::TrueTime;
use crate::trace::Trace;

/// Hosts of nodes come first; there is room for those that join.
pub(crate) const CLIENTS_FROM: HostId = 100;

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) net: Net,
    pub(crate) time: TrueTime,
    pub(crate) trace: Trace,
    pub(crate) history: Arc<Mutex<History>>,
    /// Leases that somebody may want to revoke.
    pub(crate) known: Arc<Mutex<Vec<(LeaseId, String)>>>,
    /// Whether it is time to come to rest.
    pub(crate) resting: Arc<AtomicBool>,
    pub(crate) plan: Arc<Plan>,
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trade {
    Locker,
    Writer,
    Watcher(u16),
    Family,
    Crowd,
    Reader,
}

/// All trades of a plan, in order of their hosts.
pub(crate) fn trades(plan: &Plan) -> Vec<Trade> {
    let mut trades = Vec::new();
    trades.extend((0..plan.lockers).map(|_| Trade::Locker));
    trades.extend((0..plan.writers).map(|_| Trade::Writer));
    trades.extend((0..plan.watchers).map(Trade::Watcher));
    trades.extend((0..plan.families).map(|_| Trade::Family));
    trades.extend((0..plan.crowds).map(|_| Trade::Crowd));
    trades.extend((0..plan.readers).map(|_| Trade::Reader));
    trades
}

type Waiting = Arc<Mutex<BTreeMap<u64, mpsc::UnboundedSender<(u64, Answer)>>>>;

/// One client.
#[derive(Clone)]
pub(crate) struct Client {
    shared: Shared,
    host: HostId,
    name: String,
    /// The rate of its clock.
    rate: f64,
    chance: Arc<Mutex<StdRng>>,
    waiting: Waiting,
    asked: Arc<AtomicU64>,
    leases: Arc<AtomicU64>,
    began: Instant,
    /// The node it asks first.
    favourite: Arc<Mutex<HostId>>,
    /// The latest lease time it saw.
    seen: Arc<Mutex<LeaseTime>>,
}

/// An answer, and when its question was sent: by true time, and by the client's own clock.
pub(crate) struct Heard<T> {
    pub(crate) sent: Moment,
    pub(crate) sent_here: HostMoment,
    pub(crate) answer: T,
}

/// Runs a client until the simulation ends.
pub(crate) async fn run(shared: Shared, host: HostId, trade: Trade, rate: f64) {
    let letters = shared.net.letter_box(host);
    let chance = StdRng::seed_from_u64(shared.plan.seed.wrapping_mul(31) ^ u64::from(host));
    let client = Client {
        name: format!("c{host}"),
        host,
        rate,
        chance: Arc::new(Mutex::new(chance)),
        waiting: Arc::default(),
        asked: Arc::default(),
        leases: Arc::default(),
        began: Instant::now(),
        favourite: Arc::default(),
        seen: Arc::default(),
        shared,
    };
    *client.favourite.lock() = client.pick(client.shared.plan.nodes.into()) as HostId;
    tokio::spawn(read_letters(letters, client.waiting.clone()));
    match trade {
        Trade::Locker => locker::run(client).await,
        Trade::Writer => writer::run(client).await,
        Trade::Watcher(number) => watcher::run(client, number).await,
        Trade::Family => family::run(client).await,
        Trade::Crowd => crowd::run(client).await,
        Trade::Reader => reader::run(client).await,
    }
}

async fn read_letters(mut letters: mpsc::UnboundedReceiver<Letter>, waiting: Waiting) {
    while let Some(letter) = letters.recv().await {
        if let Mail::Answers(number, count, answer) = letter.mail
            && let Some(to) = waiting.lock().get(&number)
        {
            // Whoever has gone meanwhile does not want it any more.
            let _ = to.send((count, *answer));
        }
    }
}

impl Client {
    fn pick(&self, below: u64) -> u64 {
        self.chance.lock().random_range(0..below.max(1))
    }

    /// Whether something happens that does so in so many of a hundred cases.
    fn chance(&self, percent: u64) -> bool {
        self.pick(100) < percent
    }

    async fn nap(&self, from: u64, to: u64) {
        let millis = from + self.pick(to - from);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn now(&self) -> Moment {
        Moment(self.shared.time.elapsed())
    }

    /// This moment by its own clock.
    fn here(&self) -> HostMoment {
        HostMoment::at(self.began.elapsed())
    }

    fn is_resting(&self) -> bool {
        self.shared.resting.load(Ordering::Relaxed)
    }

    fn resource(&self) -> String {
        format!("r{}", self.pick(self.shared.plan.resources.into()))
    }

    /// A new lease: its id, and the holder it is known by.
    fn new_lease(&self) -> (LeaseId, String) {
        let number = self.leases.fetch_add(1, Ordering::Relaxed) + 1;
        let id = LeaseId::new((self.chance.lock().random::<u64>() >> 1).max(1)).expect("it has 63 bits and is not 0");
        (id, format!("{}-{number}", self.name))
    }

    /// Asks a node once; the answers come in the order in which they arrive.
    fn ask(&self, question: Question) -> Asking {
        let favourite = *self.favourite.lock();
        self.ask_at(favourite, question)
    }

    fn ask_at(&self, to: HostId, question: Question) -> Asking {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (send, answers) = mpsc::unbounded_channel();
        self.waiting.lock().insert(number, send);
        let (sent, sent_here) = (self.now(), self.here());
        self.shared.net.send(self.host, to, Mail::Asks(number, Box::new(question)));
        Asking { waiting: self.waiting.clone(), number, answers, sent, sent_here }
    }

    fn try_another_node(&self) {
        let nodes = u64::from(self.shared.plan.nodes);
        *self.favourite.lock() = self.pick(nodes) as HostId;
    }

    /// Asks once and waits; nothing if no answer came in time.
    async fn ask_once(&self, question: Question, within: Duration) -> Option<Heard<Answer>> {
        let mut asking = self.ask(question);
        let answer = tokio::time::timeout(within, asking.answers.recv()).await;
        match answer {
            Ok(Some((_, answer))) => Some(Heard { sent: asking.sent, sent_here: asking.sent_here, answer }),
            Ok(None) | Err(_) => {
                self.try_another_node();
                None
            }
        }
    }

    /// Gives a command until it is answered for certain, at most so often. The first moment at which it was sent comes
    /// with the answer, or without one.
    async fn command(&self, command: Command, within: Duration, times: u32) -> (Moment, Option<Heard<Sure>>) {
        self.insist(Question::Command(command), within, times).await
    }

    /// The same for a question that is a command.
    async fn insist(&self, question: Question, within: Duration, times: u32) -> (Moment, Option<Heard<Sure>>) {
        let first = self.now();
        for _ in 0..times {
            let heard = self.ask_once(question.clone(), within).await;
            let Some(Heard { sent, sent_here, answer: Answer::Done(done) }) = heard else { continue };
            let done = match done {
                Ok(done) => Ok(done),
                Err(Failure::Rejected(rejection)) => Err(*rejection),
                Err(Failure::WaitElapsed { .. } | Failure::WaitLeft) => {
                    let answer = Sure::NotInTime;
                    return (first, Some(Heard { sent, sent_here, answer }));
                }
                Err(
                    Failure::Overloaded { .. }
                    | Failure::NoQuorum { .. }
                    | Failure::ShuttingDown { .. }
                    | Failure::DiskFull
                    | Failure::Denied(_)
                    | Failure::Compacted { .. }
                    | Failure::FutureRevision { .. }
                    | Failure::ChangeRefused(_)
                    | Failure::TooLarge { .. },
                ) => {
                    self.try_another_node();
                    self.nap(20, 200).await;
                    continue;
                }
            };
            if let Ok(done) = &done {
                self.note_state(sent, done);
            }
            return (first, Some(Heard { sent, sent_here, answer: Sure::Answered(done) }));
        }
        (first, None)
    }

    fn note_state(&self, sent: Moment, done: &Done) {
        let mut seen = self.seen.lock();
        *seen = (*seen).max(done.now);
        self.shared.history.lock().answers.push(Answered {
            client: self.name.clone(),
            sent,
            answered: self.now(),
            revision: done.revision.0,
            time: Some(done.now.0),
        });
    }

    /// A grant of this lease that asks for these resources.
    fn grant(&self, id: LeaseId, holder: &str, ttl: u64, resources: &[String], patience: Patience) -> Grant {
        let claims = resources.iter().map(|name| Ask { resource: resource(name), mode: Mode::Exclusive }).collect();
        Grant {
            id,
            holder: Holder::new(holder).expect("it is a well-formed name"),
            ttl: Ttl::For(LeaseSpan(ttl)),
            class: Class::Lock,
            parent: None,
            metadata: Metadata::default(),
            asks: Asks { claims, patience, ..Asks::default() },
            seen: *self.seen.lock(),
        }
    }

    /// Notes a grant or renewal that was acknowledged, and returns until when its holder may act, by its own clock.
    fn acknowledge(&self, lease: &str, ttl: u64, now: LeaseTime, remaining: Remaining, heard: &Heard<()>) -> Validity {
        let validity = Validity::of_answer(heard.sent_here, self.here(), remaining);
        let Remaining::For(span) = remaining else { return validity };
        let ack = Ack {
            lease: lease.to_owned(),
            sent: heard.sent,
            answered: self.now(),
            remaining: Duration::from_millis(span.0),
            ttl: Duration::from_millis(ttl),
            deadline: now.0 + span.0,
            valid_until: self.true_end(&validity),
        };
        self.shared.trace.say(format_args!("{lease} acked until {} (lease time {})", ack.valid_until, ack.deadline));
        self.shared.history.lock().acks.push(ack);
        validity
    }

    /// When a validity ends, or has ended, in true time.
    fn true_end(&self, validity: &Validity) -> Moment {
        let lasts = validity.left_at(validity.sent()).unwrap_or(Duration::MAX / 4).div_f64(self.rate);
        let age = self.here().since(validity.sent()).div_f64(self.rate);
        Moment((self.now().0 + lasts).saturating_sub(age))
    }

    /// Notes what a granted lease holds.
    fn note_holds(&self, lease: &str, view: &LeaseView, sent: Moment) {
        let mut history = self.shared.history.lock();
        for held in &view.held {
            history.holds.push(Hold {
                lease: lease.to_owned(),
                resource: held.resource.as_str().to_owned(),
                token: held.token.0,
                shared: held.mode == Mode::Shared,
                sent,
                answered: self.now(),
            });
        }
    }

    /// Notes a grant or renewal without an answer.
    fn note_attempt(&self, lease: &str, sent: Moment) {
        let attempt = Attempt { lease: lease.to_owned(), sent, over_by: None };
        self.shared.history.lock().attempts.push(attempt);
    }

    /// Notes a refusal, true at lease time `now`, if it tells that a lease is over.
    fn note_end(&self, lease: &str, now: LeaseTime, rejection: &Rejection) {
        let Rejection::Ended(end) = rejection else { return };
        self.shared.trace.say(format_args!("{lease} hears that it has ended: {}", end.cause.word()));
        self.shared.history.lock().ends.push(End {
            lease: lease.to_owned(),
            cause: end.cause.word().to_owned(),
            ended_by: now.0.saturating_sub(end.ago.0),
            answered: self.now(),
        });
    }
}

/// A command's answer that is certain.
pub(crate) enum Sure {
    /// It was carried out or refused.
    Answered(Result<Done, Rejection>),
    /// It waited in vain, and waits no longer.
    NotInTime,
}

/// A question under way.
struct Asking {
    waiting: Waiting,
    number: u64,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
    sent: Moment,
    sent_here: HostMoment,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.number);
    }
}

fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).expect("it is a well-formed name")
}

/// What a granted lease is like.
fn view_of(outcome: &Achieved) -> Option<&LeaseView> {
    match outcome {
        Achieved::Granted(view) | Achieved::Claimed(view) => Some(view),
        Achieved::Renewed(_)
        | Achieved::Released { .. }
        | Achieved::Revoked { .. }
        | Achieved::Unclaimed
        | Achieved::Left
        | Achieved::HandoverAsked { .. }
        | Achieved::Written(_)
        | Achieved::Configured => None,
    }
}
