//! What can go wrong between a caller and the service.

use std::io;

use leasehold_api::{Code, Problem};

/// Why a call has no good answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No server could be reached, or none answered.
    #[error("cannot reach {addr}: {cause}")]
    Unreachable {
        /// Where a server was expected.
        addr: String,
        /// What happened instead of an answer.
        cause: String,
    },
    /// The service refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// Something answered that does not speak as the service does.
    #[error("{addr} does not answer like a lease server: {detail}")]
    Protocol {
        /// Who answered.
        addr: String,
        /// What was wrong with it.
        detail: String,
    },
}

impl Error {
    /// The refusal, if it is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Refused(problem) => Some(problem),
            Error::Unreachable { .. } | Error::Protocol { .. } => None,
        }
    }

    /// The code of the refusal, if it is one that this version knows.
    pub fn code(&self) -> Option<Code> {
        self.problem().and_then(Problem::known_code)
    }

    /// The exit code of `lease`.
    pub fn exit(&self) -> u8 {
        match self {
            Error::Refused(problem) => problem.exit(),
            Error::Unreachable { .. } | Error::Protocol { .. } => 69,
        }
    }
}

/// The root of a failed connection in plain words, without numbers of the operating system.
pub(crate) fn cause_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>()
            && let Some(words) = words_of(io)
        {
            return words.to_owned();
        }
        root = error;
        next = error.source();
    }
    root.to_string()
}

fn words_of(error: &io::Error) -> Option<&'static str> {
    [
        (io::ErrorKind::ConnectionRefused, "connection refused"),
        (io::ErrorKind::ConnectionReset, "connection reset"),
        (io::ErrorKind::ConnectionAborted, "connection aborted"),
        (io::ErrorKind::BrokenPipe, "connection closed"),
        (io::ErrorKind::UnexpectedEof, "connection closed"),
        (io::ErrorKind::HostUnreachable, "no route to host"),
        (io::ErrorKind::NetworkUnreachable, "network is unreachable"),
        (io::ErrorKind::TimedOut, "timed out"),
    ]
    .into_iter()
    .find_map(|(kind, words)| (kind == error.kind()).then_some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] io::Error);

    #[test]
    fn the_root_cause_is_told_in_words() {
        let refused = Outer(io::Error::from_raw_os_error(111));
        assert_eq!(cause_of(&refused), "connection refused");
        let unknown = Outer(io::Error::other("failed to look up address"));
        assert_eq!(cause_of(&unknown), "failed to look up address");
    }
}
