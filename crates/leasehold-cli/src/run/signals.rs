//! Every signal that can be caught and passed on.
//!
//! Left out are those that tell of a fault of this process itself (SIGSEGV and its like), SIGPIPE, and SIGCHLD. What
//! was ignored when the process started stays ignored, here and in the command: `nohup lease run …` works.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is caught. Those that stop are passed on; the command's stop is then ours.
const CAUGHT: &[Number] = &[
    Number::HUP,
    Number::INT,
    Number::QUIT,
    Number::TRAP,
    Number::ABORT,
    Number::USR1,
    Number::USR2,
    Number::ALARM,
    Number::TERM,
    Number::CONT,
    Number::TSTP,
    Number::URG,
    Number::XCPU,
    Number::XFSZ,
    Number::VTALARM,
    Number::PROF,
    Number::WINCH,
    Number::IO,
    #[cfg(target_os = "linux")]
    Number::POWER,
    Number::SYS,
];

/// The signals of this process, taken over from the system.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: Vec<(Number, Signal)>,
    /// A caught signal is not ignored in what we execute: a warden needs to hear of its children.
    _child: Signal,
}

impl Signals {
    /// Takes them over.
    pub(crate) fn new() -> io::Result<Signals> {
        let ignored = ignored();
        let wanted = CAUGHT.iter().copied().filter(|number| ignored >> (number.as_raw() - 1) & 1 == 0);
        let caught = wanted.map(|number| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?)));
        Ok(Signals { caught: caught.collect::<io::Result<_>>()?, _child: signal(SignalKind::child())? })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Number {
        poll_fn(|context| {
            for (number, signal) in &mut self.caught {
                if let Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The exit code of the next one that would have ended the process; those that stop it, stop it.
    pub(crate) async fn ending(&mut self) -> u8 {
        loop {
            match self.next().await {
                Number::TSTP => stop(),
                Number::CONT | Number::URG | Number::WINCH => {}
                number => return exit_code(number.as_raw()),
            }
        }
    }
}

/// Stops this process, as the terminal would have.
pub(crate) fn stop() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Number::STOP);
}

/// The exit code that tells of a signal.
pub(crate) fn exit_code(number: i32) -> u8 {
    u8::try_from(number.clamp(0, 127) + 128).unwrap_or(u8::MAX)
}

/// The signals that are ignored, as bits; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

/// Reads a signal: `TERM`, `SIGTERM` or `15`.
pub(crate) fn parse(text: &str) -> Result<Number, String> {
    let name = text.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    let number = match text.parse::<i32>() {
        Ok(number) => Some(number),
        Err(_) => name.parse::<nix::sys::signal::Signal>().ok().map(|signal| signal as i32),
    };
    number.and_then(Number::from_named_raw).ok_or_else(|| "use a name like TERM or a number like 15".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_number() {
        for text in ["TERM", "term", "SIGTERM", "15"] {
            assert_eq!(parse(text), Ok(Number::TERM), "{text}");
        }
        assert!(parse("BOO").is_err() && parse("99").is_err() && parse("-1").is_err());
        assert_eq!(exit_code(15), 143);
    }
}
