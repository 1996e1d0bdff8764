//! `lease run`: a command that runs only while a lease is held.
//!
//! Here is what can be typed and what the exit code tells; how the command is supervised is in `run/`.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use leasehold_api::{Class, SpanText, TtlText, WaitText};
use leasehold_client::{Client, Lock, Renewal};
use leasehold_core::{Patience, Span, Ttl};
use leasehold_server::Notify;
use rustix::process::Signal;

use super::acquire::{ClassArg, ModeArg};
use crate::args::resource;
use crate::context::Context;
use crate::failure::Failure;
use crate::render::text::plain;
use crate::run::campaign::{self, Outcome};
use crate::run::signals::{self, Signals};
use crate::run::supervise::{End, Job, supervise};
use crate::run::timing::Timing;

/// The exit code of a wrong use.
const USAGE: u8 = 2;
/// The ttl where neither it nor a class is given.
const DEFAULT_TTL: Span = Span::seconds(10);

/// Run a command while resources are held: acquire, run, renew, stop on loss, release.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease run nightly -- ./backfill.sh --all
  lease run db/migrate --wait 5m --reason 'schema 41' -- make migrate
  lease run nightly --wait 0 -E 0 -- ./backfill.sh      skip it if another runs
  lease run a b --max-hold 1h --shell -- './dump a | ./load b'

The command finds LEASE_RESOURCE, LEASE_ID and LEASE_FENCING_TOKEN in its environment, and LEASE_RESOURCES and \
LEASE_FENCING_TOKENS with all of them. It is dead, with all it started, before the resource can be granted to \
another, also when the network is gone. The `--` may be left out after one resource.

Exit codes: the command's own; 75 not acquired, 79 lease lost, 80 handed over, 124 held for --max-hold, 126 and 127 \
command not executable or not found, 128+n died of signal n.")]
pub(crate) struct Run {
    /// The resources, like orders/7: all or none
    #[arg(required = true, value_name = "RES")]
    words: Vec<OsString>,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// How long to wait: a duration, `forever`, or 0
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "forever")]
    wait: WaitText,
    /// Stop the command when it was held for so long
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    max_hold: Option<SpanText>,
    /// What kind of use it is
    #[arg(long, value_enum)]
    class: Option<ClassArg>,
    /// Alone or with others
    #[arg(long, value_enum, default_value = "exclusive")]
    mode: ModeArg,
    /// The exit code if it is not acquired
    #[arg(short = 'E', value_name = "N", default_value_t = 75)]
    not_acquired: u8,
    /// Not available yet: pools come later
    #[arg(long, value_name = "NAME", hide = true)]
    pool: Option<String>,
    /// Not available yet: pools come later
    #[arg(long, value_name = "N", hide = true)]
    slots: Option<u32>,
    #[command(flatten)]
    how: How,
}

/// What `run` and `elect` have in common.
#[derive(Args, Debug)]
pub(crate) struct How {
    /// For how long at a time, renewed meanwhile; `auto` is that of the class [default: 10s]
    #[arg(long, value_name = "DURATION|auto", allow_hyphen_values = true, value_parser = ttl)]
    ttl: Option<Auto>,
    /// Higher goes first in the queue
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Why, for people who find it held
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Where to read more
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// How long the resources rest if the lease expires
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    cooldown: Option<SpanText>,
    /// Run this in a shell when the lease is lost; LEASE_LOST_CAUSE says why
    #[arg(long, value_name = "LINE")]
    on_lost: Option<String>,
    /// Run this in a shell when another asks for it; success hands it over. LEASE_HANDOVER_BY and
    /// LEASE_HANDOVER_REASON say who and why
    #[arg(long, value_name = "LINE")]
    on_handover: Option<String>,
    /// The signal that asks the command to end
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    lost_signal: Signal,
    /// How long the command may take to end before it is killed [default: a quarter of the ttl, at most 5s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    kill_grace: Option<SpanText>,
    /// Tell the service manager when the command runs and stops (sd_notify)
    #[arg(long)]
    notify: bool,
    /// Give the command to a shell
    #[arg(long)]
    shell: bool,
}

/// A ttl that was chosen, or that of the class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Auto {
    Chosen(Ttl),
    Class,
}

/// Acquires, runs the command, and gives back.
pub(crate) async fn run(args: Box<Run>, context: &Context) -> Result<(), Failure> {
    if args.pool.is_some() || args.slots.is_some() {
        return Err(Failure::new(USAGE, "--pool and --slots are not available yet; name resources instead"));
    }
    let (resources, command) = split(&args.words, &args.command)?;
    let ttl = args.how.ttl(args.class.map(Class::from));
    let max_hold = args.max_hold.map(|span| Duration::from_millis(span.0.0));
    let job = args.how.job(resources, command, max_hold)?;
    Timing::new(ttl, job.kill_grace)?;
    let mut signals = Signals::new()?;
    let client = campaign::client(context);
    let lock = args.lock(&client, &job.resources, ttl);
    if let Some(notify) = &job.notify {
        notify.status(&format!("waiting for {}", plain(&job.resources.join(", "))));
    }
    let outcome = campaign::acquire(lock, &mut signals).await;
    let ended = match outcome {
        Outcome::Acquired(guard) => {
            campaign::tell("acquired", &job.resources, &guard, &context.client).await;
            supervise(&job, guard, &mut signals).await.and_then(|end| result(end, &job))
        }
        Outcome::Refused(error) => Err(campaign::refused(&error, args.wait.0, args.not_acquired)),
        Outcome::Left(exit) => {
            Err(Failure::outcome(exit, format!("left the queue for {}", plain(&job.resources.join(", ")))))
        }
    };
    campaign::leave(client).await;
    ended
}

impl Run {
    fn lock(&self, client: &Client, resources: &[String], ttl: Ttl) -> Lock {
        let lock = client.locks(resources).class(self.class.map_or(Class::Lock, Class::from));
        let lock = match self.wait.0 {
            Patience::None => lock.wait(Duration::ZERO),
            Patience::For(span) => lock.wait(Duration::from_millis(span.0)),
            Patience::Endless => lock.wait_forever(),
        };
        let lock = match self.mode {
            ModeArg::Exclusive => lock,
            ModeArg::Shared => lock.shared(),
        };
        self.how.finish(lock, ttl).renewal(Renewal::THIRD)
    }
}

impl How {
    /// The ttl to ask for.
    pub(crate) fn ttl(&self, class: Option<Class>) -> Ttl {
        match (self.ttl, class) {
            (Some(Auto::Chosen(ttl)), _) => ttl,
            (Some(Auto::Class), class) => class.unwrap_or(Class::Lock).default_ttl(),
            (None, Some(class)) => class.default_ttl(),
            (None, None) => Ttl::For(DEFAULT_TTL),
        }
    }

    /// The rest of what a lease should be like.
    pub(crate) fn finish(&self, lock: Lock, ttl: Ttl) -> Lock {
        let lock = match ttl {
            Ttl::For(span) => lock.ttl(Duration::from_millis(span.0)),
            Ttl::Endless => lock.endless(),
        };
        let lock = lock.priority(self.priority);
        let lock = self.reason.iter().fold(lock, |lock, reason| lock.reason(reason));
        let lock = self.link.iter().fold(lock, |lock, link| lock.link(link));
        self.cooldown.iter().fold(lock, |lock, span| lock.cooldown(Duration::from_millis(span.0.0)))
    }

    /// What is to be run.
    pub(crate) fn job(
        &self,
        resources: Vec<String>,
        command: Vec<OsString>,
        max_hold: Option<Duration>,
    ) -> Result<Job, Failure> {
        let command = if self.shell { in_shell(&command) } else { command };
        let notify = self.notify.then(Notify::from_env).transpose();
        Ok(Job {
            resources,
            command,
            lost_signal: self.lost_signal,
            kill_grace: self.kill_grace.map(|span| Duration::from_millis(span.0.0)),
            max_hold,
            on_lost: self.on_lost.clone(),
            on_handover: self.on_handover.clone(),
            notify: notify.map_err(|error| Failure::config(format!("NOTIFY_SOCKET cannot be used: {error}")))?,
        })
    }
}

/// The resources and the command. Without `--`, the first word is the resource and the rest the command.
pub(crate) fn split(words: &[OsString], command: &[OsString]) -> Result<(Vec<String>, Vec<OsString>), Failure> {
    let (names, command) = match (words, command) {
        ([name, command @ ..], []) => (std::slice::from_ref(name), command),
        (names, command) => (names, command),
    };
    if command.is_empty() {
        let failure = Failure::new(USAGE, "there is no command to run");
        return Err(failure.hint("write it after the resource, as in  lease run nightly -- ./backfill.sh"));
    }
    let name = |word: &OsString| {
        let text = word.to_string_lossy();
        resource(&text).map_err(|reason| Failure::new(USAGE, format!("{} is no resource: {reason}", plain(&text))))
    };
    Ok((names.iter().map(name).collect::<Result<_, _>>()?, command.to_vec()))
}

fn in_shell(command: &[OsString]) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command.join(" ".as_ref())]
}

fn ttl(text: &str) -> Result<Auto, leasehold_api::InvalidDuration> {
    match text {
        "auto" => Ok(Auto::Class),
        text => text.parse().map(|ttl: TtlText| Auto::Chosen(ttl.0)),
    }
}

/// What the exit code tells.
pub(crate) fn result(end: End, job: &Job) -> Result<(), Failure> {
    match end {
        End::Ended(status) => match exit_code(status) {
            0 => Ok(()),
            code => Err(Failure::quiet(code)),
        },
        End::NotExecuted(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            let name = plain(&job.command.first().map(|name| name.to_string_lossy()).unwrap_or_default());
            let (exit, cause) = if error.kind() == std::io::ErrorKind::NotFound {
                (127, "not found".to_owned())
            } else if error.kind() == std::io::ErrorKind::PermissionDenied {
                (126, "not executable".to_owned())
            } else {
                (126, error.to_string())
            };
            Err(Failure::new(exit, format!("cannot run {name}: {cause}")))
        }
        End::Lost => Err(Failure::quiet(79)),
        End::HandedOver => Err(Failure::quiet(80)),
        End::MaxHold => Err(Failure::quiet(124)),
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => signals::exit_code(signal),
        (None, None) => u8::MAX,
    }
}
