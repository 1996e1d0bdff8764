//! Refusals and failures as gRPC statuses.
//!
//! The status comes from the one table of codes, the message is the detail, and the whole problem travels in a trailer.

use bytes::Bytes;
use leasehold_api::grpc::{self, LEASE_REVISION, LEASE_TIME, PROBLEM_TRAILER};
use leasehold_api::{Code, Invalid, Problem};
use leasehold_core::{LeaseTime, Rejection, Revision};
use leasehold_service::Failure;
use prost::Message as _;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The largest problem that is sent in a trailer: many clients take no more than 16 KiB of headers, in base64.
const TRAILER_MAX: usize = 8 << 10;

/// An answer that says no.
#[derive(Clone, Debug)]
pub(crate) struct Refusal(pub(crate) Box<Problem>);

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Refusal {
        Problem::new(code, detail).into()
    }

    /// The service answered something that does not belong to the command: a bug.
    pub(crate) fn bug(what: &'static str) -> Refusal {
        tracing::error!(what, "the outcome does not belong to the command");
        let problem = Problem::new(Code::Internal, format!("the server has a bug: its outcome is not one of {what}"));
        Problem { may_have_happened: Some(true), ..problem }.into()
    }

    /// The transport could not make a message of what was sent.
    pub(crate) fn unreadable(status: &Status) -> Refusal {
        let too_large = status.code() == tonic::Code::OutOfRange;
        let code = if too_large { Code::TooLarge } else { Code::Malformed };
        Refusal::new(code, format!("the message cannot be taken: {}", status.message()))
    }

    /// The refusal as the status of a call, at the present of the server.
    pub(crate) fn status(&self, (now, revision): (LeaseTime, Revision)) -> Status {
        let code = self.0.known_code().map_or(tonic::Code::Unknown, |code| tonic::Code::from(i32::from(code.grpc())));
        let mut metadata = MetadataMap::new();
        let problem = Bytes::from(fitting(grpc::Problem::from(&*self.0)));
        metadata.insert_bin(PROBLEM_TRAILER, MetadataValue::from_bytes(&problem));
        metadata.insert(LEASE_REVISION, MetadataValue::from(revision.0));
        metadata.insert(LEASE_TIME, MetadataValue::from(now.0));
        Status::with_metadata(code, self.0.detail.clone(), metadata)
    }
}

/// The bytes of a problem, with less about its holders if they are too many.
fn fitting(mut problem: grpc::Problem) -> Vec<u8> {
    if problem.encoded_len() > TRAILER_MAX {
        for holder in &mut problem.holders {
            holder.metadata.retain(|name, text| matches!(name.as_str(), "reason" | "link") && text.len() <= 1024);
        }
    }
    while problem.encoded_len() > TRAILER_MAX && problem.holders.pop().is_some() {}
    problem.encode_to_vec()
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal(Box::new(problem))
    }
}

impl From<Box<Problem>> for Refusal {
    fn from(problem: Box<Problem>) -> Refusal {
        Refusal(problem)
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        Problem::from(&invalid).into()
    }
}

impl From<Box<Rejection>> for Refusal {
    fn from(rejection: Box<Rejection>) -> Refusal {
        leasehold_service::refused(&rejection).into()
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Problem::from(&failure).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(status: &Status) -> Problem {
        let bytes = status.metadata().get_bin(PROBLEM_TRAILER).unwrap().to_bytes().unwrap();
        grpc::Problem::decode(bytes).unwrap().try_into().unwrap()
    }

    #[test]
    fn every_code_has_its_status_and_its_problem() {
        for code in Code::ALL {
            let refusal = Refusal::new(code, format!("é: {code}"));
            let status = refusal.status((LeaseTime(5), Revision(7)));
            assert_eq!(status.code() as i32, i32::from(code.grpc()));
            assert_eq!(status.message(), format!("é: {code}"));
            assert_eq!(read_back(&status), *refusal.0);
            assert_eq!(status.metadata().get(LEASE_REVISION).unwrap(), "7");
            assert_eq!(status.metadata().get(LEASE_TIME).unwrap(), "5");
        }
    }

    #[test]
    fn a_problem_with_talkative_holders_fits_into_the_headers() {
        let holder = grpc::HolderInfo {
            holder: "x".repeat(256),
            lease: "~1a2b3c4d5e".into(),
            metadata: [("reason".into(), "r".repeat(900)), ("big".into(), "b".repeat(3000))].into(),
            ..grpc::HolderInfo::default()
        };
        let problem = grpc::Problem { holders: vec![holder; 8], holder_count: Some(8), ..grpc::Problem::default() };
        let bytes = fitting(problem);
        assert!(bytes.len() <= TRAILER_MAX);
        let found = grpc::Problem::decode(&bytes[..]).unwrap();
        assert_eq!(found.holder_count, Some(8));
        assert!(!found.holders.is_empty());
    }
}
