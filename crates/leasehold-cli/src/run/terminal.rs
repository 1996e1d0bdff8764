//! The terminal, lent to the command.
//!
//! The command has a process group of its own, and only one group may read from a terminal: so it is made that one, as
//! a shell does it, and Ctrl-C and Ctrl-Z are the command's. Only where both standard input and output are the
//! terminal: in a pipeline the others of our group need it too.

use std::io::{self, IsTerminal as _};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of this process, or nothing if it has none to lend.
#[derive(Debug)]
pub(crate) struct Terminal {
    is_ours: bool,
    lent_to: Option<Pid>,
}

impl Terminal {
    /// The terminal on standard input.
    pub(crate) fn new() -> Terminal {
        Terminal { is_ours: io::stdin().is_terminal() && io::stdout().is_terminal(), lent_to: None }
    }

    /// Lends the terminal to this group, if it is in our hands now.
    pub(crate) fn lend(&mut self, group: Pid) {
        if self.is_ours && tcgetpgrp(io::stdin()).is_ok_and(|now| now == getpgrp()) {
            self.lent_to = tcsetpgrp(io::stdin(), group).is_ok().then_some(group);
        }
    }

    /// Takes it back, if it is still where it was lent to.
    pub(crate) fn take_back(&mut self) {
        let Some(group) = self.lent_to.take() else { return };
        if !tcgetpgrp(io::stdin()).is_ok_and(|now| now == group) {
            return;
        }
        // Who is in the background is stopped for this unless it blocks the signal.
        let signal: SigSet = Signal::SIGTTOU.into();
        if let Ok(before) = signal.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            let _ = tcsetpgrp(io::stdin(), getpgrp());
            let _ = before.thread_set_mask();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
