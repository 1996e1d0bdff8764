//! The signals that end a command in its own time.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, the wish to terminate, and the end of the terminal.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes the signals over from the system.
    pub(crate) fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The exit code of the next one: 128 and its number.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hangup.recv() => 129,
        }
    }
}
