//! The supervisor: one held lease, one command that runs while it is held.
//!
//! It decides when the command is to end and why; the warden carries it out, and does so by itself when the deadline
//! comes near. The lease is given back only when the warden says that nothing of the tree is left.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold_api::Id;
use leasehold_client::store::HandoverAsk;
use leasehold_client::{Events, Guard, HandoverAsks, LeaseEvent};
use leasehold_server::{NOTIFY_SOCKET, Notify};
use rustix::process::{Pid, Signal};
use tokio::time::{Instant, sleep_until, timeout};

use super::handle::{Warden, kill_all_below};
use super::hook::{Env, Hook};
use super::signals::{self, Signals};
use super::terminal::Terminal;
use super::timing::{Timing, shown};
use super::wire::{Order, Report};
use crate::failure::Failure;
use crate::output;
use crate::render::text::{plain, quoted};

/// How long the release may delay the exit.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// How long a hook that tells of the loss may delay the exit.
const HOOK_MAX: Duration = Duration::from_secs(30);

/// What is to be run, and how.
#[derive(Debug)]
pub(crate) struct Job {
    /// As they were typed.
    pub(crate) resources: Vec<String>,
    pub(crate) command: Vec<OsString>,
    pub(crate) lost_signal: Signal,
    pub(crate) kill_grace: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_lost: Option<String>,
    pub(crate) on_handover: Option<String>,
    /// None unless a service manager is to be told.
    pub(crate) notify: Option<Notify>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The command ended by itself.
    Ended(ExitStatus),
    /// The command could not be executed, for this error number.
    NotExecuted(i32),
    /// The lease was lost.
    Lost,
    /// The resources were handed over to one who asked.
    HandedOver,
    /// It was held for as long as was allowed.
    MaxHold,
}

/// Runs a command while `guard` holds, then gives the lease back.
pub(crate) async fn supervise(job: &Job, guard: Guard, signals: &mut Signals) -> Result<End, Failure> {
    let env = env(job, &guard);
    let started = Timing::new(guard.ttl(), job.kill_grace).and_then(|timing| {
        let warden = Warden::start(&job.command, &env, job.lost_signal, timing);
        let failed = |error| Failure::new(126, format!("cannot start a process: {error}"));
        warden.map(|warden| (timing, warden)).map_err(failed)
    });
    let (timing, warden) = match started {
        Ok(started) => started,
        Err(failure) => {
            let _ = timeout(RELEASE_MAX, guard.release()).await;
            return Err(failure);
        }
    };
    let mut supervisor = Supervisor {
        job,
        env,
        timing,
        events: guard.events(),
        asks: guard.handover_asks(),
        guard,
        warden,
        terminal: Terminal::new(),
        command: None,
        end: None,
        wishes_to_end: 0,
        lost_hook: None,
        handover: None,
        until: job.max_hold.and_then(|held| Instant::now().checked_add(held)),
        backstop: None,
    };
    supervisor.watch(signals).await;
    supervisor.finish().await
}

struct Supervisor<'a> {
    job: &'a Job,
    /// What the command and the hooks find in their environment.
    env: Env,
    timing: Timing,
    guard: Guard,
    events: Events,
    asks: HandoverAsks,
    warden: Warden,
    terminal: Terminal,
    command: Option<Pid>,
    end: Option<End>,
    /// How often we were told to end it, from outside.
    wishes_to_end: u32,
    lost_hook: Option<Hook>,
    handover: Option<(Hook, HandoverAsk)>,
    /// The end of `--max-hold`.
    until: Option<Instant>,
    /// When we kill the tree ourselves, because the warden should have.
    backstop: Option<Instant>,
}

impl Supervisor<'_> {
    /// Returns when nothing of the tree is left.
    async fn watch(&mut self, signals: &mut Signals) {
        let far = Instant::now() + Duration::from_secs(1 << 30);
        loop {
            let is_free = self.end.is_none();
            let (until, backstop) = (self.until.unwrap_or(far), self.backstop.unwrap_or(far));
            tokio::select! {
                biased;
                report = self.warden.next() => match report {
                    Some(Report::Gone) => return self.warden.bury(),
                    Some(report) => self.hear(report),
                    None => return self.take_over("the warden of the command was killed").await,
                },
                Some(event) = self.events.next() => self.note(event),
                () = sleep_until(backstop) => return self.take_over("the warden of the command does not answer").await,
                signal = signals.next() => self.pass_on(signal),
                () = sleep_until(until), if is_free => {
                    let held = shown(self.job.max_hold.unwrap_or_default());
                    self.stop(End::MaxHold, &format!("held {} for {held} (--max-hold)", self.names()));
                }
                ended = answered(&mut self.handover), if self.handover.is_some() => self.hear_hook(ended),
                Some(ask) = self.asks.next(), if is_free && self.handover.is_none() => self.consider(ask),
            }
        }
    }

    fn names(&self) -> String {
        plain(&self.job.resources.join(", "))
    }

    fn hear(&mut self, report: Report) {
        match report {
            Report::Placed(pid) => {
                self.command = i32::try_from(pid).ok().and_then(Pid::from_raw);
                self.warden.tell_deadline(&self.guard.validity());
                self.lend_terminal();
                self.warden.tell(Order::Start);
            }
            Report::Running => self.notify(|notify, names| notify.ready(&format!("holding {names}"))),
            Report::NotExecuted(errno) => {
                self.end.get_or_insert(End::NotExecuted(i32::try_from(errno).unwrap_or(0)));
            }
            Report::Suspended(signal) => self.suspend(signal),
            Report::Lapsing => self.lose("it could not be renewed in time"),
            Report::Ended(status) => {
                self.terminal.take_back();
                let status = u32::try_from(status).unwrap_or(0).cast_signed();
                self.end.get_or_insert(End::Ended(ExitStatus::from_raw(status)));
            }
            Report::LeftBehind(count) => {
                let processes = if count == 1 { "a process" } else { &format!("{count} processes") };
                output::message(format!("lease: the command left {processes} behind; ending what is left"));
            }
            Report::Stuck(pid) => {
                let names = self.names();
                output::message(format!("lease: process {pid} was killed but does not die; {names} stays held"));
            }
            Report::Gone => {}
        }
    }

    fn note(&mut self, event: LeaseEvent) {
        match event {
            LeaseEvent::Safe { validity } => {
                self.warden.tell_deadline(&validity);
                let left = validity.left().map(|left| left.saturating_sub(self.timing.margin / 2));
                self.backstop = left.and_then(|left| Instant::now().checked_add(left));
            }
            LeaseEvent::Jeopardy => {}
            LeaseEvent::Lost(cause) => self.lose(&cause.to_string()),
        }
    }

    /// The lease is lost, or as good as lost.
    fn lose(&mut self, cause: &str) {
        if self.end.is_some() {
            return;
        }
        if let Some(line) = &self.job.on_lost {
            let mut env = self.env.clone();
            env.push(("LEASE_LOST_CAUSE".into(), Some(cause.into())));
            self.lost_hook = Some(Hook::start("--on-lost", line, &env));
        }
        self.stop(End::Lost, &format!("lost {}: {}", self.names(), plain(cause)));
    }

    fn stop(&mut self, end: End, why: &str) {
        if self.end.is_none() {
            output::message(format!("lease: {why}; stopping the command"));
            self.notify(|notify, _| notify.stopping(why));
            self.end = Some(end);
            self.warden.tell(Order::Stop);
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::CONT => self.lend_terminal(),
            Signal::INT | Signal::TERM => {
                self.wishes_to_end += 1;
                self.notify(|notify, names| notify.stopping(&format!("stopping, holding {names}")));
                if self.wishes_to_end > 1 {
                    output::message("lease: killing the command");
                    return self.warden.tell(Order::Kill);
                }
            }
            _ => {}
        }
        self.warden.tell(Order::Signal(u64::from(signal.as_raw().unsigned_abs())));
    }

    /// The command was stopped, as by Ctrl-Z: so are we, and whoever started us sees it. Nobody renews then.
    fn suspend(&mut self, signal: u64) {
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
        if by_terminal.iter().any(|stop| u64::from(stop.as_raw().unsigned_abs()) == signal) {
            self.terminal.take_back();
            if let Some(left) = self.guard.valid_for() {
                let left = left.saturating_sub(self.timing.margin + self.timing.kill_grace);
                let names = self.names();
                output::message(format!("lease: stopped; {names} is lost in {} unless continued", shown(left)));
            }
            signals::stop();
        }
    }

    fn lend_terminal(&mut self) {
        if let Some(command) = self.command {
            self.terminal.lend(command);
        }
    }

    /// Somebody asks for what we hold.
    fn consider(&mut self, ask: HandoverAsk) {
        let (by, resource) = (plain(&ask.by), plain(&ask.resource));
        let reason = quoted(ask.reason.as_deref());
        let Some(line) = &self.job.on_handover else {
            let text = format!("lease: {by} asks for {resource}{reason}; it goes on (see --on-handover)");
            return output::message(text);
        };
        output::message(format!("lease: {by} asks for {resource}{reason}; asking --on-handover"));
        let mut env = self.env.clone();
        env.push(("LEASE_HANDOVER_BY".into(), Some((&ask.by).into())));
        env.push(("LEASE_HANDOVER_RESOURCE".into(), Some((&ask.resource).into())));
        env.push(("LEASE_HANDOVER_REASON".into(), Some(ask.reason.as_deref().unwrap_or_default().into())));
        self.handover = Some((Hook::start("--on-handover", line, &env), ask));
    }

    /// The hook agreed, or it did not.
    fn hear_hook(&mut self, ended: Option<ExitStatus>) {
        let Some((_, ask)) = self.handover.take() else { return };
        let (by, resource) = (plain(&ask.by), plain(&ask.resource));
        match ended {
            Some(status) if status.success() => {
                self.stop(End::HandedOver, &format!("handing {} over to {by}", self.names()));
            }
            Some(status) => output::message(format!("lease: {resource} is not handed over to {by}: {status}")),
            None => output::message(format!("lease: {resource} is not handed over to {by}")),
        }
    }

    /// Ends the tree without the warden.
    async fn take_over(&mut self, why: &str) {
        self.end.get_or_insert(End::Lost);
        output::message(format!("lease: {why}; killing the command"));
        let hooks: Vec<i32> =
            self.lost_hook.iter().chain(self.handover.iter().map(|(hook, _)| hook)).filter_map(Hook::pid).collect();
        kill_all_below(&hooks).await;
        self.warden.bury();
    }

    fn notify(&self, tell: impl FnOnce(&Notify, &str)) {
        if let Some(notify) = &self.job.notify {
            tell(notify, &self.names());
        }
    }

    /// Gives the lease back: the tree is gone.
    async fn finish(mut self) -> Result<End, Failure> {
        self.terminal.take_back();
        let end = self.end.unwrap_or(End::Lost);
        let (names, validity, id) = (self.names(), self.guard.validity(), Id(self.guard.id()));
        let was_lost = self.guard.ensure_valid(Duration::ZERO).is_err();
        let given_back = async {
            match end {
                End::HandedOver => self.guard.hand_over().await,
                End::Ended(_) | End::NotExecuted(_) | End::Lost | End::MaxHold => self.guard.release().await,
            }
        };
        let cause = match timeout(RELEASE_MAX, given_back).await {
            Ok(Ok(())) => None,
            // It ended before, as was told, or as nobody needs to know any more.
            Ok(Err(_)) if was_lost => None,
            Ok(Err(error)) => Some(plain(&error.to_string())),
            Err(_) => Some("the server does not answer".to_owned()),
        };
        if let Some(cause) = cause {
            let ends = match validity.left() {
                Some(left) => format!("it expires by itself in {}", shown(left * 102 / 98)),
                None => format!("it does not end by itself: run  lease release {id}"),
            };
            output::message(format!("lease: cannot release {names}: {cause}; {ends}"));
        }
        if let Some(mut hook) = self.lost_hook.take()
            && timeout(HOOK_MAX, hook.ended()).await.is_err()
        {
            output::message(format!("lease: {} takes too long and is killed", hook.name()));
        }
        Ok(end)
    }
}

/// The end of the hook that decides about a hand-over.
async fn answered(handover: &mut Option<(Hook, HandoverAsk)>) -> Option<ExitStatus> {
    match handover {
        Some((hook, _)) => hook.ended().await,
        None => std::future::pending().await,
    }
}

fn env(job: &Job, guard: &Guard) -> Env {
    let token = |resource: &String| guard.token_of(resource).map(|token| token.to_string()).unwrap_or_default();
    let tokens: Vec<String> = job.resources.iter().map(token).collect();
    let values = [
        ("LEASE_RESOURCE", job.resources.first().cloned().unwrap_or_default()),
        ("LEASE_RESOURCES", job.resources.join(",")),
        ("LEASE_ID", Id(guard.id()).to_string()),
        ("LEASE_FENCING_TOKEN", tokens.first().cloned().unwrap_or_default()),
        ("LEASE_FENCING_TOKENS", tokens.join(",")),
        // Only a pool has slots.
        ("LEASE_SLOTS", String::new()),
    ];
    let mut env: Env = values.into_iter().map(|(name, value)| (name.into(), Some(value.into()))).collect();
    if job.notify.is_some() {
        // We speak for the command.
        env.push((NOTIFY_SOCKET.into(), None));
    }
    env
}
