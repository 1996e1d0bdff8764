//! Connections that carry many commands at once.
//!
//! The half that gives commands and the half that takes deliveries belong to different tasks of a dialect. Commands go
//! straight into the lanes and are answered into one mailbox; only a command that really waits gets a task. Dropping
//! the giving half lets what is under way finish; dropping the taking half is a broken connection. As long as something
//! is to be answered soon, something is delivered now and then, be it nothing: so a client tells a server that
//! needs long from one that is gone.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Caller, Command, LeaseId, LeaseView, Namespace, Rejection};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::attached::Place;
use crate::attachments::Role;
use crate::batch::Batch;
use crate::lanes::ReplyTo;
use crate::mailbox::{Asked, Mailbox, NumberInUse};
use crate::service::ANSWER_WITHIN;
use crate::waiting::Wish;
use crate::{Answered, Consistency, Failure, Service};

/// How often commands without an answer are looked through.
const SWEEP: Duration = Duration::from_secs(1);
/// How long nothing may be delivered while something is to be answered soon.
const ALIVE_EVERY: Duration = Duration::from_millis(80);
/// How often others get a turn before a batch is taken: fuller batches cost less than early ones gain.
const TURNS: usize = 2;

/// The half of a connection that gives commands.
#[derive(Debug)]
pub struct Connection {
    service: Service,
    caller: Caller,
    mailbox: Arc<Mailbox>,
}

/// The half of a connection that takes what is delivered.
#[derive(Debug)]
pub struct Deliveries {
    mailbox: Arc<Mailbox>,
    stop: watch::Receiver<bool>,
    /// When commands without an answer were last looked through.
    swept: Instant,
    /// Since when nothing was delivered while something was to be answered soon.
    quiet: Instant,
    /// Nothing is to be answered soon; the mailbox rings when something is.
    dozes: bool,
}

impl Service {
    /// Opens a connection for many commands of one caller.
    pub fn connect(&self, caller: Caller) -> (Connection, Deliveries) {
        let mailbox = Mailbox::new(self.clone());
        let (shared, now) = (Arc::clone(&mailbox), Instant::now());
        let deliveries = Deliveries { mailbox: shared, stop: self.stopping(), swept: now, quiet: now, dozes: false };
        (Connection { service: self.clone(), caller, mailbox }, deliveries)
    }
}

impl Connection {
    /// Returns when there is room for another command; false if nobody takes deliveries any more.
    pub async fn room(&self) -> bool {
        loop {
            match self.mailbox.has_room() {
                Some(true) => return true,
                Some(false) => self.mailbox.room.notified().await,
                None => return false,
            }
        }
    }

    /// Gives a command. It is answered once, under its number; a grant or claim that may wait when it is held.
    pub fn submit(&self, number: u64, namespace: &Namespace, command: Command) -> Result<(), NumberInUse> {
        let calls = self.service.calls();
        let asked = match Wish::of(&self.caller, namespace, &command) {
            Some(wish) => Some(Asked { wish, call: calls.enter(namespace, &command) }),
            None => {
                calls.note(namespace, &command);
                None
            }
        };
        let ticket = self.mailbox.begin(number, role_of(namespace, &command), asked)?;
        self.service.take_on(&self.caller, namespace, command, ReplyTo::Mailbox(ticket));
        Ok(())
    }

    /// Gives up the wait of a command: it is answered when it has left its queues, or with the grant if that came first.
    pub fn give_up(&self, number: u64) {
        self.mailbox.give_up(number);
    }

    /// Attaches leases that were granted elsewhere or before; the future tells of each how it stands.
    pub fn attach(
        &self,
        namespace: &Namespace,
        leases: &[LeaseId],
    ) -> impl Future<Output = Result<Answered<Vec<Alive>>, Failure>> + Send + use<> {
        let (service, caller, mailbox) = (self.service.clone(), self.caller.clone(), Arc::clone(&self.mailbox));
        let (namespace, leases) = (namespace.clone(), leases.to_vec());
        // Attached first and looked at afterwards: no end falls between.
        mailbox.attach(leases.iter().map(|lease| Place { lease: *lease, namespace: namespace.clone() }));
        let busy = mailbox.busy();
        async move {
            let look = |state: &leasehold_core::State| {
                leases.iter().map(|lease| state.lease(&namespace, *lease)).collect::<Vec<Alive>>()
            };
            let looked = service.read(&caller, &namespace, Consistency::Linearizable, look).await;
            for (i, lease) in leases.iter().enumerate() {
                let lives = looked.as_ref().is_ok_and(|looked| looked.value[i].is_ok());
                mailbox.attach_settled(Place { lease: *lease, namespace: namespace.clone() }, lives);
            }
            drop(busy);
            looked
        }
    }
}

/// A lease as it is, or why it is not.
pub type Alive = Result<LeaseView, Box<Rejection>>;

impl Drop for Connection {
    fn drop(&mut self) {
        self.mailbox.finish();
    }
}

impl Deliveries {
    /// Everything that is ready, as soon as something is; none when all is answered and nothing more will come. Nothing
    /// at all shows that the service is there while something is to be answered soon.
    pub async fn next(&mut self) -> Option<Batch> {
        loop {
            self.mailbox.look_through();
            // However much is delivered: one command without an answer must not be forgotten over the others.
            if self.swept.elapsed() >= SWEEP {
                self.swept = Instant::now();
                self.mailbox.sweep(ANSWER_WITHIN);
            }
            if let Some(batch) = self.mailbox.take() {
                (self.quiet, self.dozes) = (Instant::now(), false);
                return Some(batch);
            }
            if self.is_owed_a_word() {
                return Some(Batch::default());
            }
            let stopped = *self.stop.borrow_and_update();
            if self.mailbox.is_over(stopped) {
                return None;
            }
            tokio::select! {
                () = self.mailbox.ready.notified() => {
                    self.mailbox.look_through();
                    // Nobody else can have an answer if nothing else is asked.
                    let turns = if self.mailbox.expects_more() { TURNS } else { 0 };
                    for _ in 0..turns {
                        tokio::task::yield_now().await;
                    }
                }
                () = tokio::time::sleep_until(self.quiet + ALIVE_EVERY), if !self.dozes => {}
                changed = self.stop.changed(), if !stopped => if changed.is_err() { return None },
            }
        }
    }

    /// Whether something is to be answered soon and nothing was delivered for long.
    fn is_owed_a_word(&mut self) -> bool {
        if self.quiet.elapsed() < ALIVE_EVERY {
            return false;
        }
        let dozed = std::mem::replace(&mut self.dozes, self.mailbox.dozes_off());
        if self.dozes {
            return false;
        }
        self.quiet = Instant::now();
        // What rang has only just come.
        !dozed
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

fn role_of(namespace: &Namespace, command: &Command) -> Role {
    let place = |lease| Place { lease, namespace: namespace.clone() };
    match command {
        Command::Grant(grant) => Role::Holds(place(grant.id)),
        Command::Claim(claim) => Role::Holds(place(claim.lease)),
        Command::Release(release) => Role::Releases(place(release.lease)),
        Command::Renew(_)
        | Command::Revoke(_)
        | Command::Unclaim(_)
        | Command::Leave(_)
        | Command::AskHandover(_)
        | Command::GrantAnew(_)
        | Command::ClaimMarked(_)
        | Command::Write(_)
        | Command::Configure(_) => Role::Plain,
    }
}
