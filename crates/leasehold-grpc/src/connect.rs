//! The stream that carries everything: commands up, answers and what else happens down.
//!
//! One task reads and gives commands to the service, the stream of answers takes what is delivered: everything that is
//! ready goes into one message. What the dialect answers by itself, such as a command that makes no sense, joins it
//! there. A client that breaks the protocol is told so by the status that ends the stream.

use std::mem;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use leasehold_api::grpc::{
    Answer, Attach, AttachResponse, AttachResult, Command, Down, HandoverResponse, Hello, LeaveResponse,
    PROTOCOL_VERSION, ReleaseResponse, UnclaimResponse, Up, Welcome, answer, attach_result, command, revoke_request,
};
use leasehold_api::{Invalid, Problem, checked_reason};
use leasehold_core as core;
use leasehold_core::{Namespace, Outcome, Release, Revoke};
use leasehold_service::{Alive, Batch, Connection, Deliveries, Done, Failure};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tonic::{Status, Streaming};

use crate::call::{App, At, USUAL_NAMESPACE, namespace};
use crate::errors::Refusal;
use crate::wire::views::{self, For};
use crate::wire::{asked, entries, events, writes};

/// How many answers of the dialect itself may wait to be taken.
const OWN_MAX: usize = 1024;
/// How many leases are attached by one command.
const ATTACH_MAX: usize = 4096;
/// How many such commands of a stream are under way at a time.
const ATTACHING_MAX: usize = 16;

/// An answer of the dialect itself, or the end of the stream.
type Own = Result<Answer, Status>;

/// Opens a connection on a stream of commands.
pub(crate) fn open(app: App, up: Streaming<Up>) -> BoxStream<'static, Result<Down, Status>> {
    let (connection, deliveries) = app.service.connect(app.caller());
    let (own, taken) = mpsc::channel(OWN_MAX);
    let namespace = Namespace::new(USUAL_NAMESPACE).expect("it is a well-formed name");
    let attaching = Arc::new(Semaphore::new(ATTACHING_MAX));
    let reader = Reader { app: app.clone(), connection, own, namespace, attaching };
    let reading = tokio::spawn(reader.run(up)).abort_handle();
    let writer = Writer { app, deliveries, own: taken, reading, state: Writing::Both };
    stream::unfold(writer, |mut writer| async move { writer.next().await.map(|down| (down, writer)) }).boxed()
}

struct Reader {
    app: App,
    connection: Connection,
    own: mpsc::Sender<Own>,
    /// Of commands that name none.
    namespace: Namespace,
    /// Bounds how many commands that attach are under way.
    attaching: Arc<Semaphore>,
}

impl Reader {
    async fn run(mut self, mut up: Streaming<Up>) {
        loop {
            let commands = match up.message().await {
                Ok(Some(up)) => up.commands,
                Ok(None) => return,
                Err(status) => return self.end(Refusal::unreadable(&status)).await,
            };
            for command in commands {
                if !self.connection.room().await {
                    return;
                }
                if let Err(refusal) = self.take(command).await {
                    return self.end(refusal).await;
                }
            }
        }
    }

    /// Ends the stream: the client does not keep to the protocol.
    async fn end(&self, refusal: Refusal) {
        let status = refusal.status(self.app.service.present());
        // Nobody may listen any more.
        let _ = self.own.send(Err(status)).await;
    }

    /// Takes one command; an error is the end of the stream.
    async fn take(&mut self, command: Command) -> Result<(), Refusal> {
        let number = command.number;
        let answer = match command.command {
            Some(command::Command::Cancel(cancel)) => {
                self.connection.give_up(cancel.number);
                return Ok(());
            }
            Some(command::Command::Hello(hello)) => self.hello(&hello),
            Some(command::Command::Attach(attach)) => match self.attach(number, *attach).await {
                Ok(()) => return Ok(()),
                Err(refusal) => Err(refusal),
            },
            Some(command) => match self.command(command) {
                Ok((namespace, command)) => {
                    let given = self.connection.submit(number, &namespace, command);
                    return given.map_err(|in_use| Invalid::new("number", in_use.to_string()).into());
                }
                Err(invalid) => Err(invalid.into()),
            },
            None => Err(Invalid::new("command", "the command is missing, or this server does not know it").into()),
        };
        // Nobody may listen any more.
        let _ = self.own.send(Ok(answer_of(&self.app, number, answer))).await;
        Ok(())
    }

    fn hello(&mut self, hello: &Hello) -> Result<(At, answer::Outcome), Refusal> {
        if hello.protocol_version != PROTOCOL_VERSION {
            let detail = format!("this server speaks version {PROTOCOL_VERSION}");
            return Err(Invalid::new("protocol_version", detail).into());
        }
        self.namespace = namespace(&hello.namespace)?;
        let (now, revision) = self.app.service.present();
        let server_version = env!("CARGO_PKG_VERSION").to_owned();
        let leads = self.app.service.leads();
        let welcome = Welcome { protocol_version: PROTOCOL_VERSION, server_version, leads };
        Ok((At::new(now, revision), answer::Outcome::Hello(welcome)))
    }

    /// Attaches leases, which is answered later: while nobody leads that may take long, and what follows does not wait
    /// for it.
    async fn attach(&self, number: u64, attach: Attach) -> Result<(), Refusal> {
        let namespace = self.namespace(&attach.namespace)?;
        if attach.leases.is_empty() || attach.leases.len() > ATTACH_MAX {
            return Err(Invalid::new("leases", format!("name 1 to {ATTACH_MAX} leases")).into());
        }
        let leases = asked::leases(&attach.leases)?;
        let place = Arc::clone(&self.attaching).acquire_owned().await.expect("the semaphore is never closed");
        let looked = self.connection.attach(&namespace, &leases);
        let (own, app) = (self.own.clone(), self.app.clone());
        tokio::spawn(async move {
            let answer = looked.await.map(|looked| {
                let results =
                    leases.iter().zip(&looked.value).map(|(lease, alive)| attach_result(lease.number(), alive));
                let response = AttachResponse { results: results.collect() };
                (At::from(&looked), answer::Outcome::Attached(response))
            });
            let answer = answer_of(&app, number, answer.map_err(Refusal::from));
            // Nobody may listen any more.
            let _ = own.send(Ok(answer)).await;
            drop(place);
        });
        Ok(())
    }

    fn namespace(&self, text: &str) -> Result<Namespace, Invalid> {
        if text.is_empty() { Ok(self.namespace.clone()) } else { namespace(text) }
    }

    fn command(&self, command: command::Command) -> Result<(Namespace, core::Command), Invalid> {
        use command::Command as Asked;
        Ok(match command {
            Asked::Grant(grant) => {
                (self.namespace(&grant.namespace)?, core::Command::Grant(asked::grant(*grant, self.app.usual())?))
            }
            Asked::Renew(renew) => (self.namespace(&renew.namespace)?, core::Command::Renew(asked::renew(*renew)?)),
            Asked::Release(release) => {
                let lease = asked::lease("lease", release.lease)?;
                (self.namespace(&release.namespace)?, core::Command::Release(Release { lease }))
            }
            Asked::Revoke(revoke) => {
                let Some(revoke_request::Which::Lease(lease)) = revoke.which else {
                    return Err(Invalid::new("lease", "on a connection a lease is named by its id"));
                };
                let (lease, reason) = (asked::lease("lease", lease)?, checked_reason(&revoke.reason)?);
                let revoked = Revoke { lease, reason, now: revoke.now };
                (self.namespace(&revoke.namespace)?, core::Command::Revoke(revoked))
            }
            Asked::Claim(claim) => (self.namespace(&claim.namespace)?, core::Command::Claim(asked::claim(*claim)?)),
            Asked::Unclaim(unclaim) => {
                (self.namespace(&unclaim.namespace)?, core::Command::Unclaim(asked::unclaim(*unclaim)?))
            }
            Asked::Leave(leave) => (self.namespace(&leave.namespace)?, core::Command::Leave(asked::leave(*leave)?)),
            Asked::Txn(txn) => (self.namespace(&txn.namespace)?, core::Command::Write(writes::write(*txn)?)),
            Asked::Handover(ask) => {
                (self.namespace(&ask.namespace)?, core::Command::AskHandover(asked::handover(*ask)?))
            }
            Asked::Hello(_) | Asked::Attach(_) | Asked::Cancel(_) => {
                return Err(Invalid::new("command", "it is not one that changes anything"));
            }
        })
    }
}

/// Which sources may still have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Both,
    DeliveriesOnly,
    OwnOnly,
    Nothing,
}

struct Writer {
    app: App,
    deliveries: Deliveries,
    own: mpsc::Receiver<Own>,
    reading: AbortHandle,
    state: Writing,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Writer {
    /// The next message: all that is ready.
    async fn next(&mut self) -> Option<Result<Down, Status>> {
        loop {
            let (delivers, own) = match self.state {
                Writing::Both => (true, true),
                Writing::DeliveriesOnly => (true, false),
                Writing::OwnOnly => (false, true),
                Writing::Nothing => return None,
            };
            tokio::select! {
                batch = self.deliveries.next(), if delivers => match batch {
                    Some(batch) => return Some(self.message(Some(batch), None)),
                    None => self.delivered_all(own),
                },
                first = self.own.recv(), if own => match first {
                    Some(first) => return Some(self.message(None, Some(first))),
                    None => self.state = if delivers { Writing::DeliveriesOnly } else { Writing::Nothing },
                },
            }
            if self.state == Writing::Nothing && self.app.service.is_stopping() {
                let stopping = Refusal::from(Failure::ShuttingDown { may_have_happened: false });
                return Some(Err(stopping.status(self.app.service.present())));
            }
        }
    }

    /// Nothing more is delivered: the client sends no more, or the server stops.
    fn delivered_all(&mut self, own: bool) {
        self.state = match own && !self.app.service.is_stopping() {
            true => Writing::OwnOnly,
            false => Writing::Nothing,
        };
    }

    fn message(&mut self, batch: Option<Batch>, first: Option<Own>) -> Result<Down, Status> {
        let Batch { answers, progress, notices } = batch.unwrap_or_default();
        let present = self.app.service.present();
        let mut down = Down {
            answers: answers.into_iter().map(|(number, result)| delivered(number, result, present)).collect(),
            progress: progress.iter().map(|(number, progress)| views::progress(*number, progress)).collect(),
            notices: notices.into_iter().map(events::notice).collect(),
        };
        let mut own = first;
        while let Some(answer) = mem::take(&mut own).or_else(|| self.own.try_recv().ok()) {
            match answer {
                Ok(answer) => down.answers.push(answer),
                Err(status) => {
                    self.state = Writing::Nothing;
                    return Err(status);
                }
            }
        }
        Ok(down)
    }
}

/// What the dialect answers by itself.
fn answer_of(app: &App, number: u64, answer: Result<(At, answer::Outcome), Refusal>) -> Answer {
    let (now, revision) = app.service.present();
    let (at, outcome) = answer.unwrap_or_else(|refusal| (At::new(now, revision), problem(&refusal.0)));
    answered(number, at, outcome)
}

fn answered(number: u64, at: At, outcome: answer::Outcome) -> Answer {
    Answer { number, now: at.now.0, revision: at.revision.0, outcome: Some(outcome) }
}

fn problem(problem: &Problem) -> answer::Outcome {
    answer::Outcome::Problem(problem.into())
}

/// What the service answered to a command.
fn delivered(number: u64, result: Result<Done, Failure>, (now, revision): (core::LeaseTime, core::Revision)) -> Answer {
    match result {
        Ok(done) => answered(number, At::from(&done), outcome(done.outcome)),
        Err(failure) => answered(number, At::new(now, revision), problem(&Problem::from(&failure))),
    }
}

fn outcome(outcome: Outcome) -> answer::Outcome {
    match outcome {
        Outcome::Granted(view) => answer::Outcome::Granted(views::lease(&view, For::Connection)),
        Outcome::Claimed(view) => answer::Outcome::Claimed(views::lease(&view, For::Connection)),
        Outcome::Renewed(results) => answer::Outcome::Renewed(views::renewed(&[], &results)),
        Outcome::Released { .. } => answer::Outcome::Released(ReleaseResponse {}),
        Outcome::Revoked { may_act } => answer::Outcome::Revoked(views::revoked(may_act)),
        Outcome::Unclaimed => answer::Outcome::Unclaimed(UnclaimResponse {}),
        Outcome::Left => answer::Outcome::Left(LeaveResponse {}),
        Outcome::HandoverAsked { holders } => answer::Outcome::Handover(HandoverResponse { holders }),
        Outcome::Written(written) => answer::Outcome::Txn(entries::written(&written)),
        Outcome::Configured => problem(&Refusal::bug("a command of a connection").0),
    }
}

fn attach_result(lease: u64, alive: &Alive) -> AttachResult {
    let result = match alive {
        Ok(view) => attach_result::Result::Alive(views::lease(view, For::Connection)),
        Err(rejection) => attach_result::Result::Problem((&Problem::from(&**rejection)).into()),
    };
    AttachResult { lease, result: Some(result) }
}
