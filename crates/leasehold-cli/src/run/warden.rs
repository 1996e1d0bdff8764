//! The warden: the process between the supervisor and the command, which ends the whole tree in time.
//!
//! It knows the deadline and keeps its own timers, so a supervisor that hangs, is stopped or dies makes no difference
//! to when the tree is dead. It is the subreaper of the tree, leaves only when nothing of it is left, and knows nothing
//! of leases. It runs in one thread: the command's parent-death signal is bound to the thread that started it.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait};

use super::bell::{self, Bell};
use super::plan::{Lengths, Plan, Step};
use super::wire::{self, FRAME, Inbox, Message as _, Order, Report};
use super::{EXEC, own_binary, tree};

/// How long what outlives the command may take to end unasked.
const LEFT_AFTER: u64 = 100_000_000;
/// How soon is looked again for what is to be killed.
const KILL_AGAIN: u64 = 5_000_000;
/// After how long a killed process that is still there is told.
const STUCK_AFTER: u64 = 2_000_000_000;

/// The warden's process: its arguments are the lost signal, the kill grace, the margin and the command.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
    let (Some(signal), Some(kill_grace), Some(margin)) = (number(), number(), number()) else {
        return ExitCode::FAILURE;
    };
    let Some(lost_signal) = named(signal) else { return ExitCode::FAILURE };
    match Warden::start(lost_signal, Lengths { kill_grace, margin }, args.collect()).and_then(Warden::watch) {
        Ok(()) => ExitCode::SUCCESS,
        // Our end kills the command; the supervisor sees it and kills the rest.
        Err(_) => ExitCode::FAILURE,
    }
}

struct Warden {
    bell: Bell,
    /// None once the supervisor is gone.
    channel: Option<UnixStream>,
    inbox: Inbox,
    plan: Plan,
    lost_signal: Signal,
    command: Pid,
    /// Standard input of the command, until it may start.
    stdin: Option<OwnedFd>,
    /// Tells of the exec step, until it is done.
    exec: Option<UnixStream>,
    /// When the command's process ended.
    ended: Option<u64>,
    asked_the_rest: bool,
    kill_since: Option<u64>,
    stuck_is_told: bool,
}

impl Warden {
    /// Places the exec step, which waits to be told to go on.
    fn start(lost_signal: Signal, lengths: Lengths, command: Vec<OsString>) -> io::Result<Warden> {
        name_and_adopt();
        let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdin = wire::take(&channel)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        channel.set_nonblocking(true)?;
        let (exec, theirs) = UnixStream::pair()?;
        let spawned = own_binary()
            .arg(EXEC)
            .arg(std::process::id().to_string())
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                send(&channel, Report::NotExecuted(error_number(&error)));
                return Err(error);
            }
        };
        exec.set_nonblocking(true)?;
        // Only now: the command inherits what is blocked here.
        let bell = Bell::new()?;
        let command = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        send(&channel, Report::Placed(u64::from(child.id())));
        Ok(Warden {
            bell,
            channel: Some(channel),
            inbox: Inbox::default(),
            plan: Plan::new(lengths),
            lost_signal,
            command,
            stdin: Some(stdin),
            exec: Some(exec),
            ended: None,
            asked_the_rest: false,
            kill_since: None,
            stuck_is_told: false,
        })
    }

    /// Watches over the tree until nothing is left of it.
    fn watch(mut self) -> io::Result<()> {
        loop {
            self.follow_orders();
            self.hear_exec();
            if !self.reap() {
                self.report(Report::Gone);
                return Ok(());
            }
            let now = bell::now();
            self.act(now);
            let channels: Vec<BorrowedFd<'_>> =
                self.channel.iter().chain(&self.exec).map(|channel| channel.as_fd()).collect();
            self.bell.wait(&channels, self.due(now))?;
        }
    }

    fn follow_orders(&mut self) {
        let mut piece = [0; 64 * FRAME];
        while let Some(channel) = &mut self.channel {
            match channel.read(&mut piece) {
                Ok(count @ 1..) => self.inbox.add(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The supervisor is gone, and with it whoever renews.
                Ok(_) | Err(_) => {
                    self.channel = None;
                    self.plan.kill();
                }
            }
        }
        while let Some(order) = self.inbox.next() {
            self.follow(order);
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Start => {
                if let (Some(exec), Some(stdin)) = (&self.exec, self.stdin.take()) {
                    let _ = wire::pass(exec, stdin);
                }
            }
            Order::Deadline(at) => self.plan.set_deadline(at),
            Order::Signal(number) => {
                if let Some(signal) = named(number) {
                    self.signal(signal);
                }
            }
            Order::Stop => self.ask(bell::now()),
            Order::Kill => self.plan.kill(),
        }
    }

    /// The exec step says nothing and closes its end if it worked.
    fn hear_exec(&mut self) {
        let Some(exec) = &mut self.exec else { return };
        let mut errno = [0; 4];
        match exec.read(&mut errno) {
            Ok(4) => self.report(Report::NotExecuted(u64::from(u32::from_le_bytes(errno)))),
            Ok(_) => self.report(Report::Running),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
            Err(_) => {}
        }
        self.exec = None;
    }

    /// Takes note of children that changed; tells whether any are left. Who has no children has nobody below.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.command => self.note(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn note(&mut self, status: WaitStatus) {
        if let Some(signal) = status.stopping_signal() {
            return self.report(Report::Suspended(u64::from(signal.unsigned_abs())));
        }
        self.hear_exec();
        self.ended = Some(bell::now());
        self.report(Report::Ended(u64::from(status.as_raw().cast_unsigned())));
    }

    fn act(&mut self, now: u64) {
        match self.plan.step(now) {
            Step::Wait => {}
            Step::Lapse => {
                self.report(Report::Lapsing);
                self.ask(now);
            }
            Step::Kill => {
                if !self.plan.is_ending() {
                    self.report(Report::Lapsing);
                }
                self.plan.kill();
                return self.kill(now);
            }
        }
        if !self.asked_the_rest && self.ended.is_some_and(|ended| ended + LEFT_AFTER <= now) {
            self.ask_the_rest(now);
        }
    }

    /// Asks the command to end, or what is left of it.
    fn ask(&mut self, now: u64) {
        self.plan.ask(now);
        self.signal(self.lost_signal);
        // Who is stopped cannot follow.
        self.signal(Signal::CONT);
    }

    /// What the command started may not outlive it: the resource is to be free of all of it.
    fn ask_the_rest(&mut self, now: u64) {
        self.asked_the_rest = true;
        let living = tree::below(getpid(), &[]).iter().filter(|process| !process.is_dead).count();
        if living > 0 {
            if !self.plan.is_ending() {
                self.report(Report::LeftBehind(u64::try_from(living).unwrap_or(u64::MAX)));
            }
            self.ask(now);
        }
    }

    fn kill(&mut self, now: u64) {
        if self.ended.is_none() {
            let _ = kill_process_group(self.command, Signal::KILL);
        }
        let found = tree::below(getpid(), &[]);
        tree::kill(&found);
        let since = *self.kill_since.get_or_insert(now);
        let stuck = found.iter().find(|process| !process.is_dead);
        if let (Some(stuck), false) = (stuck, self.stuck_is_told || now < since + STUCK_AFTER) {
            self.stuck_is_told = true;
            self.report(Report::Stuck(u64::from(stuck.pid.unsigned_abs())));
        }
    }

    /// Sends a signal to the command's group. Once its leader is reaped the number may be another's, so each is told.
    fn signal(&self, signal: Signal) {
        match self.ended {
            None => drop(kill_process_group(self.command, signal)),
            Some(_) => tree::signal(&tree::below(getpid(), &[]), signal),
        }
    }

    fn due(&self, now: u64) -> Option<u64> {
        if self.kill_since.is_some() {
            return Some(now + KILL_AGAIN);
        }
        let rest = self.ended.filter(|_| !self.asked_the_rest).map(|ended| ended + LEFT_AFTER);
        self.plan.due().into_iter().chain(rest).min()
    }

    fn report(&self, report: Report) {
        if let Some(channel) = &self.channel {
            send(channel, report);
        }
    }
}

/// A report that finds no room or no reader is not waited for: the tree matters more.
fn send(mut channel: &UnixStream, report: Report) {
    let _ = channel.write_all(&report.frame());
}

/// The signal of a number.
fn named(number: u64) -> Option<Signal> {
    i32::try_from(number).ok().and_then(Signal::from_named_raw)
}

fn error_number(error: &io::Error) -> u64 {
    u64::from(error.raw_os_error().unwrap_or(0).unsigned_abs())
}

#[cfg(target_os = "linux")]
fn name_and_adopt() {
    let _ = rustix::thread::set_name(c"lease-warden");
    adopt();
}

#[cfg(not(target_os = "linux"))]
fn name_and_adopt() {}

/// Makes this process the new parent of all below it that lose theirs.
#[cfg(target_os = "linux")]
pub(crate) fn adopt() {
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Makes this process the new parent of all below it that lose theirs, where the system can.
#[cfg(not(target_os = "linux"))]
pub(crate) fn adopt() {}

/// The exec step: binds its life to the warden's, waits for the command's standard input, and becomes the command.
pub(crate) fn exec(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let warden = args.next().and_then(|text| text.to_str()?.parse::<i32>().ok()).and_then(Pid::from_raw);
    let Some(program) = args.next() else { return ExitCode::FAILURE };
    if !dies_with(warden) {
        return ExitCode::FAILURE;
    }
    let Ok(channel) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let mut channel = UnixStream::from(channel);
    let Ok(Some(stdin)) = wire::take(&channel) else { return ExitCode::FAILURE };
    let error = Command::new(program).args(args).stdin(Stdio::from(stdin)).exec();
    let number = error.raw_os_error().unwrap_or(0);
    let _ = channel.write_all(&number.to_le_bytes());
    ExitCode::FAILURE
}

/// Makes the end of `parent` the end of this process; false if it is over already.
fn dies_with(parent: Option<Pid>) -> bool {
    #[cfg(target_os = "linux")]
    if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return false;
    }
    rustix::process::getppid() == parent
}
