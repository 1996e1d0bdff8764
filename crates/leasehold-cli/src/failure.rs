//! Why a command did not succeed: what is told, and the exit code.

use std::io;
use std::process::ExitCode;

use leasehold_client::http::Error;

use crate::output;
use crate::render::refusal;

/// The input or the answer could not be read or written.
const IO_FAILED: u8 = 74;

/// The end of a command that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Nothing is told if it is empty.
    message: String,
    hints: Vec<String>,
    /// Whether it is an error, or an outcome that was to be expected.
    is_error: bool,
    exit: u8,
}

impl Failure {
    /// Something went wrong.
    pub(crate) fn new(exit: u8, message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hints: Vec::new(), is_error: true, exit }
    }

    /// The settings make no sense.
    pub(crate) fn config(message: impl Into<String>) -> Failure {
        Failure::new(78, message)
    }

    /// It did not work out, as can be.
    pub(crate) fn outcome(exit: u8, message: impl Into<String>) -> Failure {
        Failure { is_error: false, ..Failure::new(exit, message) }
    }

    /// The exit code says it all.
    pub(crate) fn quiet(exit: u8) -> Failure {
        Failure::new(exit, "")
    }

    /// The same, with a line on what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> u8 {
        self.exit
    }

    /// What is told.
    pub(crate) fn text(&self) -> String {
        self.told("error")
    }

    /// Tells it, and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        if !self.message.is_empty() {
            output::message(self.told(&output::red("error")));
        }
        ExitCode::from(self.exit)
    }

    fn told(&self, error: &str) -> String {
        let prefix = if self.is_error { error } else { "lease" };
        let hints: String = self.hints.iter().map(|hint| format!("\n  {hint}")).collect();
        format!("{prefix}: {}{hints}", self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // Whoever read the data has enough of it.
            return Failure::quiet(0);
        }
        Failure::new(IO_FAILED, format!("cannot read or write: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let failure = Failure::new(error.exit(), error.to_string());
        match &error {
            Error::Unreachable { .. } => failure.hint("start one with `lease serve`, or set LEASE_ADDR"),
            Error::Protocol { addr, .. } => {
                failure.hint(format!("see what is there with `curl {addr}/healthz`, or set LEASE_ADDR"))
            }
            Error::Refused(problem) => refusal::failure(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::{Code, Problem};

    use super::*;

    #[test]
    fn an_unreachable_server_is_told_with_what_to_do() {
        let error = Error::Unreachable { addr: "http://127.0.0.1:7117".into(), cause: "connection refused".into() };
        let failure = Failure::from(error);
        let text = "error: cannot reach http://127.0.0.1:7117: connection refused\n  \
                    start one with `lease serve`, or set LEASE_ADDR";
        assert_eq!((failure.text().as_str(), failure.exit()), (text, 69));
    }

    #[test]
    fn every_code_ends_with_the_exit_code_of_the_table() {
        for code in Code::ALL {
            let failure = Failure::from(Error::Refused(Box::new(Problem::new(code, "because"))));
            assert_eq!(failure.exit(), code.exit(), "{code}");
            assert!(failure.text().contains("because"), "{}", failure.text());
        }
    }
}
